//! The hub keeps one connection per server of the servers file, connects again after a failure, and records what the servers list.
//!
//! It has threads of its own: what servers send is parsed there, so a large answer delays no actor.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::Reloaded;
use super::catalogue::{Changes, Comparison};
use super::keeper::Keeper;
use super::server::Server;
use super::servers_file::{Entries, ServersFile, ServersFileError};
use crate::clock::Clock;
use crate::config;
use crate::core::intake::Limits;
use crate::lease::LeaseState;
use crate::log::{SharedLog, append_patiently};
use crate::metrics::Metrics;
use crate::views::Views;

/// How often the servers file is looked at.
const POLL: Duration = Duration::from_secs(1);
/// Threads that speak with servers and run workflows.
const THREADS: usize = 2;
/// How long a stop waits for the tasks of the servers.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Reloads that wait, at most.
const RELOADS_MAX: usize = 16;

/// What the hub is built on.
pub(crate) struct HubParts {
    pub(crate) settings: config::Upstream,
    pub(crate) views: Views,
    pub(crate) log: SharedLog,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// The lease of the role `upstream`; `None` for a process without the role.
    pub(crate) lease: Option<watch::Receiver<LeaseState>>,
}

/// A request to read the file again.
type Reload = oneshot::Sender<Result<Reloaded, ServersFileError>>;

/// The connections of this process.
pub(crate) struct Hub {
    pub(super) parts: HubParts,
    pub(super) servers: RwLock<BTreeMap<String, Arc<Server>>>,
    /// Counts the changes of servers and tools.
    pub(super) changes: watch::Sender<u64>,
    reloads: mpsc::Sender<Reload>,
    waiting_reloads: tokio::sync::Mutex<mpsc::Receiver<Reload>>,
    threads: Mutex<Option<tokio::runtime::Runtime>>,
    handle: Handle,
    /// Answers calls in the place of the servers.
    #[cfg(feature = "testing")]
    pub(super) simulated: std::sync::OnceLock<super::SimulatedTools>,
}

/// The task of one server.
struct Running {
    server: Arc<Server>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Hub {
    pub(super) fn new(parts: HubParts) -> std::io::Result<Self> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("pml-upstream")
            .enable_all()
            .build()?;
        Ok(Self::on(parts, threads.handle().clone(), Some(threads)))
    }

    /// A hub that works on these threads, which it owns or not.
    pub(super) fn on(parts: HubParts, handle: Handle, threads: Option<tokio::runtime::Runtime>) -> Self {
        let (reloads, waiting) = mpsc::channel(RELOADS_MAX);
        let hub = Self {
            servers: RwLock::default(),
            changes: watch::Sender::new(0),
            reloads,
            waiting_reloads: tokio::sync::Mutex::new(waiting),
            handle,
            threads: Mutex::new(threads),
            #[cfg(feature = "testing")]
            simulated: std::sync::OnceLock::new(),
            parts,
        };
        // The catalogue is served at once; the connections follow.
        match ServersFile::read(&hub.parts.settings.file) {
            Ok(file) => hub.servers.write().extend(hub.servers_of(file.entries())),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "no servers: the file cannot be used"),
        }
        hub
    }

    /// The threads of the hub.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Whether this process runs the servers; if not, who does, as far as is known.
    pub(super) fn lease(&self) -> Result<(), Option<String>> {
        match self.parts.lease.as_ref().map(|lease| lease.borrow().clone()) {
            Some(LeaseState::Held) => Ok(()),
            Some(LeaseState::Waiting(holder)) => Err(holder),
            None => Err(None),
        }
    }

    fn servers_of(&self, entries: Entries) -> impl Iterator<Item = (String, Arc<Server>)> {
        let settings = self.parts.settings.clone();
        let server = move |(name, entry): (String, _)| (name.clone(), Arc::new(Server::new(name, entry, &settings)));
        entries.into_iter().map(server)
    }

    /// Runs the servers until `stop`, on the threads of the hub.
    pub(crate) async fn run(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let running = self.handle.spawn(Arc::clone(&self).keep_servers(stop));
        if running.await.is_err() {
            tracing::error!("the task that keeps the servers has panicked");
        }
    }

    async fn keep_servers(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut reloads = self.waiting_reloads.lock().await;
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        let (mut seen, mut request) = (None, None::<Reload>);
        let mut poll = tokio::time::interval(POLL);
        loop {
            let stamp = file_stamp(&self.parts.settings.file);
            if seen != Some(stamp) || request.is_some() {
                seen = Some(stamp);
                let outcome = self.reload(&mut running).await;
                if let Err(error) = &outcome {
                    tracing::error!(error = error as &dyn std::error::Error, "the servers stay as they are");
                }
                if let Some(request) = request.take() {
                    // Whoever asked may have gone.
                    drop(request.send(outcome));
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                asked = reloads.recv() => request = asked,
                _ = poll.tick() => {}
            }
        }
        join_all(running.into_values().map(end)).await;
    }

    /// Reads the file and makes the connections agree with it.
    async fn reload(self: &Arc<Self>, running: &mut BTreeMap<String, Running>) -> Result<Reloaded, ServersFileError> {
        let entries = ServersFile::read(&self.parts.settings.file)?.entries();
        let mut reloaded = Reloaded::default();
        let names: Vec<String> = running.keys().cloned().collect();
        for name in names {
            let changed = entries.get(&name).is_none_or(|entry| *entry != running[&name].server.entry);
            if let Some(old) = changed.then(|| running.remove(&name)).flatten() {
                let list = if entries.contains_key(&name) { &mut reloaded.changed } else { &mut reloaded.removed };
                list.push(name);
                end(old).await;
            }
        }
        let mut servers: BTreeMap<String, Arc<Server>> =
            running.iter().map(|(name, running)| (name.clone(), Arc::clone(&running.server))).collect();
        let new = entries.into_iter().filter(|(name, _)| !running.contains_key(name)).collect();
        for (name, server) in self.servers_of(new) {
            if !reloaded.changed.contains(&name) {
                reloaded.added.push(name.clone());
            }
            // Calls may wait for the one that the start has made.
            let known = self.servers.read().get(&name).filter(|known| known.entry == server.entry).cloned();
            servers.insert(name, known.unwrap_or(server));
        }
        *self.servers.write() = servers.clone();
        self.remove_tools_of_others(&servers).await;
        for (name, server) in servers.into_iter().filter(|(_, server)| server.enabled().is_some()) {
            running.entry(name).or_insert_with(|| self.start(server));
        }
        self.changed();
        Ok(reloaded)
    }

    fn start(self: &Arc<Self>, server: Arc<Server>) -> Running {
        let (stop, stopping) = watch::channel(false);
        let keeper = Keeper { hub: Arc::clone(self), server: Arc::clone(&server), stop: stopping };
        Running { server, stop, task: self.handle.spawn(keeper.run()) }
    }

    /// Records that the tools of servers that are switched off, or no longer in the file, are gone.
    async fn remove_tools_of_others(&self, servers: &BTreeMap<String, Arc<Server>>) {
        let view = self.parts.views.current();
        let mut others: Vec<&str> = view
            .tools
            .iter()
            .filter(|tool| tool.upstream && !tool.removed)
            .map(|tool| tool.id.server())
            .filter(|name| servers.get(*name).is_none_or(|server| server.enabled().is_none()))
            .collect();
        others.dedup();
        for server in others {
            let comparison = Comparison {
                state: &view,
                server,
                disabled_tools: &std::collections::BTreeSet::new(),
                limits: &self.parts.limits,
                clock: &self.parts.clock,
            };
            self.record(comparison.all_removed()).await;
        }
    }

    /// Records changes of the catalogue and waits until the newest view has them.
    pub(super) async fn record(&self, changes: Changes) {
        if changes.events.is_empty() {
            return;
        }
        let facts = changes.events.into_iter().map(Arc::new).collect();
        match append_patiently(&self.parts.log, facts).await {
            Ok(appended) => {
                if let Some(last) = appended.iter().map(|appended| appended.seq).max() {
                    self.parts.views.at_least(last).await;
                }
            }
            Err(error) => tracing::error!(%error, "changes of tools were not recorded"),
        }
        self.changed();
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Asks the task that keeps the servers to read the file again.
    pub(super) async fn request_reload(&self) -> Option<Result<Reloaded, ServersFileError>> {
        let (answer, answered) = oneshot::channel();
        self.reloads.send(answer).await.ok()?;
        answered.await.ok()
    }

    /// Ends the threads; what still runs on them is cancelled, so children are killed.
    pub(crate) async fn stop(&self) {
        let Some(threads) = self.threads.lock().take() else { return };
        // Waited for: their tasks hold the log, and its file is closed with the last handle.
        let stopped = tokio::task::spawn_blocking(move || threads.shutdown_timeout(STOP_WAIT)).await;
        if stopped.is_err() {
            tracing::error!("the threads of the servers have panicked");
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.lock().take() {
            threads.shutdown_background();
        }
    }
}

/// Ends the task of a server and waits for it.
async fn end(running: Running) {
    running.stop.send_replace(true);
    if running.task.await.is_err() {
        tracing::error!(server = running.server.name, "the task of a server has panicked");
    }
}

/// What tells one version of the file from another; `None` while there is no file.
fn file_stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}
