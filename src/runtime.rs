//! The one place that builds adapters and actors and connects them, and the order in which they stop.

mod roles;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::actors::ActorFailure;
use crate::actors::burst::Burst;
use crate::actors::graph_sync::{self, GraphSyncParts};
use crate::actors::supervisor::{Reports, supervise};
use crate::ask::Asker;
use crate::bus::{MemoryBus, NatsBus, SharedBus};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::intake::Limits;
use crate::core::rank::Index;
use crate::core::state::State;
use crate::data_dir::open_log;
use crate::embed::{self, EmbedError};
use crate::gateway;
use crate::gateway::http::Gateway;
use crate::gateway::nats::IntakeParts;
use crate::lease::{LeaseState, while_leased};
use crate::log::{AppendError, DeadLetters, JetStreamLog, OpenError, SharedLog, StreamDeadLetters};
use crate::metrics::Metrics;
use crate::nats::{Lease, Nats, NatsError};
use crate::publisher::Publisher;
use crate::role::{Role, Roles};
use crate::snapshot::{self, Keeper, SnapshotError, Store};
use crate::subject::Subjects;
use crate::templates::{self, TemplateError, template_record};
use crate::views::{Latest, Views};

/// How long what runs on NATS may take to stop in good order. Nothing is lost by leaving it: what was not acknowledged comes again.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("cannot answer questions over NATS")]
    Service(#[source] async_nats::Error),
    #[error("workspace: {0}")]
    Workspace(String),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("workflow templates: the dependency {0} closes a cycle")]
    TemplateCycle(String),
    #[error("cannot record the workflow templates")]
    Append(#[from] AppendError),
    #[error("the configured embedder cannot be used")]
    Embed(#[from] EmbedError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Damaged(#[from] LogDamaged),
    #[error("the fold stopped while it was catching up with the log; the messages above say why")]
    Fold,
}

/// Stored records are not what was written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the log is damaged; `pml log verify` lists what is; restore a backup with `pml restore` into a new data directory")]
pub struct LogDamaged(#[source] Arc<ActorFailure>);

/// A running pml, embedded or on NATS. Must be started and stopped inside an actix system.
pub struct Runtime {
    pub publisher: Publisher,
    pub views: Views,
    pub measures: Latest<Measures>,
    pub indexed: Latest<Index>,
    pub asker: Asker,
    pub log: SharedLog,
    pub dead: Arc<dyn DeadLetters>,
    pub bus: SharedBus,
    pub subjects: Subjects,
    pub snapshots: Arc<Keeper>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub roles: Roles,
    nats: Option<OnNats>,
    burst: Burst,
    /// Set when an actor meets damage in the log.
    damaged: watch::Sender<Option<Arc<ActorFailure>>>,
    stop: watch::Sender<bool>,
    arbiters: Vec<actix_rt::Arbiter>,
    ended: Vec<oneshot::Receiver<()>>,
}

/// Takes events from the work queue.
type Taking = tokio::task::JoinHandle<Result<(), ActorFailure>>;

/// What a process on NATS runs besides the actors.
#[derive(Default)]
struct OnNats {
    /// With its own stop: it ends before the actors do.
    intake: Option<(watch::Sender<bool>, Taking)>,
    service: Option<gateway::nats::Service>,
    /// Given back last, when nothing is written any more.
    lease: Option<Lease>,
}

/// Where the actors read and write.
struct Places {
    log: SharedLog,
    dead: Arc<dyn DeadLetters>,
    bus: SharedBus,
    /// When this process takes events.
    lease: watch::Receiver<LeaseState>,
}

impl Runtime {
    /// Opens the configured log, catches up with it and starts the actors.
    pub async fn start(config: &Config, clock: Clock) -> Result<Self, StartError> {
        if !config.nats.servers.is_empty() {
            return Self::start_on_nats(config, clock, Roles::all()).await;
        }
        let store = Arc::new(open_log(config, &config.data_dir, clock.clone())?);
        let log: SharedLog = Arc::clone(&store) as SharedLog;
        let dead: Arc<dyn DeadLetters> = store;
        Self::start_on(config, clock, log, dead).await
    }

    /// Starts the actors on a log that is already open.
    pub async fn start_on(
        config: &Config,
        clock: Clock,
        log: SharedLog,
        dead: Arc<dyn DeadLetters>,
    ) -> Result<Self, StartError> {
        let places = Places { log, dead, bus: Arc::new(MemoryBus::default()), lease: LeaseState::always() };
        Self::start_actors(config, clock, subjects(config)?, places, Roles::all()).await
    }

    /// Connects to NATS, creates or checks the streams, and starts the actors of `roles` with their doors.
    pub async fn start_on_nats(config: &Config, clock: Clock, roles: Roles) -> Result<Self, StartError> {
        let nats = Nats::connect(&config.nats, subjects(config)?).await?;
        nats.provision(&config.dead).await?;
        let log = JetStreamLog::open(nats.clone(), config.log.queue_appends_max, clock.clone()).await?;
        let mut on_nats = OnNats::default();
        if roles.contains(Role::Execution) {
            let holder = format!("{}-{}", std::process::id(), clock.fresh_id());
            let length = Duration::from_millis(config.nats.lease_ms);
            on_nats.lease = Some(Lease::request(&nats, Role::Execution.name(), holder, length).await?);
        }
        let lease = on_nats.lease.as_ref().map_or_else(LeaseState::always, Lease::state);
        let places = Places {
            log: Arc::new(log),
            dead: Arc::new(StreamDeadLetters::new(nats.clone(), clock.clone())),
            bus: Arc::new(NatsBus::new(nats.clone())),
            lease: lease.clone(),
        };
        let mut runtime = Self::start_actors(config, clock, nats.subjects().clone(), places, roles).await?;
        if runtime.roles.contains(Role::Execution) {
            let (stop, stopping) = watch::channel(false);
            let parts = IntakeParts {
                nats: nats.clone(),
                publisher: runtime.publisher.clone(),
                clock: runtime.clock.clone(),
                stop: stopping.clone(),
            };
            let taking = while_leased(lease, stopping, move |end| {
                let parts = IntakeParts { stop: end, ..parts.clone() };
                async {
                    gateway::nats::run_intake(parts).await;
                    Ok(())
                }
            });
            on_nats.intake = Some((stop, nats.spawn(taking)));
        }
        if runtime.roles.contains(Role::Query) {
            let service =
                gateway::nats::Service::start(&nats, &runtime.views, &runtime.asker).await.map_err(StartError::Service)?;
            on_nats.service = Some(service);
        }
        runtime.nats = Some(on_nats);
        Ok(runtime)
    }

    /// Serves HTTP on the configured address until the returned server is stopped. The address is the one bound, also for port 0.
    pub fn serve_http(&self, settings: &config::Http) -> std::io::Result<(actix_web::dev::Server, SocketAddr)> {
        gateway::http::serve(Gateway {
            publisher: self.publisher.clone(),
            views: self.views.clone(),
            measures: self.measures.clone(),
            asker: self.asker.clone(),
            log: Arc::clone(&self.log),
            dead: Arc::clone(&self.dead),
            snapshots: Arc::clone(&self.snapshots),
            bus: Arc::clone(&self.bus),
            subjects: self.subjects.clone(),
            metrics: Arc::clone(&self.metrics),
            clock: self.clock.clone(),
            takes_events: self.roles.contains(Role::Execution),
            settings: settings.clone(),
        })
    }

    async fn start_actors(
        config: &Config,
        clock: Clock,
        subjects: Subjects,
        Places { log, dead, bus, lease }: Places,
        roles: Roles,
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new());
        let limits = Arc::new(Limits::from(config));
        let (stop, stopping) = watch::channel(false);
        let store = Store::configured(config)?;
        let begin = snapshot::to_start_from(&store, log.as_ref()).await;
        let last_snapshot = begin.applied();
        let (view_sender, views) = Views::channel(begin);
        let (measures_sender, measures) = Latest::channel(Measures::default());
        let (index_sender, indexed) = Latest::channel(Index::default());
        let embedder = embed::open(&config.embedding)?;
        let asker =
            Asker::new(views.clone(), indexed.clone(), measures.clone(), Arc::clone(&embedder), config.limits.intent_bytes_max);
        let (address, publisher_address) = watch::channel(None);
        let publisher =
            Publisher::new(publisher_address, Arc::clone(&limits), lease.clone(), &config.execution, Arc::clone(&metrics));
        let arbiters: Vec<actix_rt::Arbiter> = (0..4).map(|_| actix_rt::Arbiter::new()).collect();
        // Every process folds; only one with the role tells others what it learnt, and nobody listens to a bus of its own.
        let told: SharedBus = if roles.contains(Role::GraphSync) { Arc::clone(&bus) } else { Arc::new(MemoryBus::default()) };
        let snapshots = Arc::new(Keeper::new(config, store, (&log, &views), (&bus, &subjects), &clock));
        let mut runtime = Self {
            publisher,
            views,
            measures,
            indexed,
            asker,
            log,
            dead,
            bus,
            subjects,
            snapshots,
            metrics,
            clock,
            roles,
            nats: None,
            burst: Burst::new(),
            damaged: watch::Sender::new(None),
            stop,
            arbiters,
            ended: Vec::new(),
        };

        let folding = GraphSyncParts {
            log: Arc::clone(&runtime.log),
            views: view_sender,
            bus: told,
            subjects: runtime.subjects.clone(),
            clock: runtime.clock.clone(),
            mailbox: config.graph_sync.mailbox,
            batch_records_max: config.graph_sync.batch_records_max,
            burst: runtime.burst.clone(),
            stop: stopping.clone(),
        };
        runtime.supervise("graph_sync", 0, stopping.clone(), move || graph_sync::run(folding.clone()));
        // Open executions are part of the state: whoever needs them starts from a view that has caught up.
        let tail = *runtime.log.tail().borrow();
        runtime.caught_up(tail).await?;
        if runtime.roles.contains(Role::GraphSync) {
            runtime.load_templates(&config.templates.path).await?;
            runtime.start_snapshots(config, last_snapshot, stopping.clone());
        }
        runtime.start_roles(config, (limits, address, lease), embedder, stopping.clone());
        runtime.start_readers_side(config, measures_sender, index_sender, stopping);
        Ok(runtime)
    }

    fn supervise<F, R>(&mut self, name: &'static str, arbiter: usize, stop: watch::Receiver<bool>, incarnation: F)
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = Result<(), ActorFailure>> + 'static,
    {
        let handle = self.arbiters[arbiter].handle();
        let reports = Reports { metrics: Arc::clone(&self.metrics), damaged: self.damaged.clone() };
        self.ended.push(supervise(name, &handle, self.clock.clone(), reports, stop, incarnation));
    }

    /// Waits until the fold holds everything up to `seq`, or meets something that it can never get past.
    async fn caught_up(&self, seq: Seq) -> Result<(), StartError> {
        if self.views.at_least(seq).await.is_some() {
            return Ok(());
        }
        // Damage is told before the fold that met it is gone.
        match self.damaged.borrow().clone() {
            Some(failure) => Err(LogDamaged(failure).into()),
            None => Err(StartError::Fold),
        }
    }

    /// Resolves when an actor has met damage in the log. No restart helps: the process should end.
    pub async fn damaged(&self) -> LogDamaged {
        let mut damaged = self.damaged.subscribe();
        let found = damaged.wait_for(Option::is_some).await.map(|found| found.clone());
        // The sender is a part of this runtime.
        LogDamaged(found.ok().flatten().expect("waited for it"))
    }

    /// Records the configured templates that the state does not hold yet in this form.
    async fn load_templates(&self, path: &str) -> Result<(), StartError> {
        let view = self.views.current();
        let configured = templates::load(path)?;
        if let Some(cycle) = view.templates.cycle_with(&configured) {
            let path: Vec<&str> = cycle.into_iter().map(crate::core::id::ToolId::as_str).collect();
            return Err(StartError::TemplateCycle(path.join(" -> ")));
        }
        let new = configured.into_iter().filter(|template| !view.templates.is_current(template));
        let facts: Vec<_> = new.map(|template| Arc::new(template_record(template, self.clock.now()))).collect();
        if !facts.is_empty() {
            let appended = self.log.append(facts).await?;
            let last = appended.iter().map(|appended| appended.seq).max().expect("one answer per fact");
            self.caught_up(last).await?;
        }
        Ok(())
    }

    /// Waits until everything published so far is folded, no finished execution is waiting to be closed and no text for its vector. If
    /// the fold stops before, the answer is the view it stopped at.
    pub async fn settled(&self) -> Arc<State> {
        loop {
            let tail = *self.log.tail().borrow();
            let is_settled = |view: &State| {
                let (embedded, wanted) = view.vectors.coverage();
                view.applied() >= tail && embedded == wanted && view.executions.finished_len() == 0
            };
            let Some(view) = self.views.when(is_settled).await else { return self.views.current() };
            if view.applied() >= *self.log.tail().borrow() {
                return view;
            }
        }
    }

    /// Stops the actors, then lets the log write what it holds and close its file. On NATS within a few seconds, also when the
    /// servers are gone.
    pub async fn stop(mut self) {
        let Some(on_nats) = self.nats.take() else { return self.end(OnNats::default()).await };
        if tokio::time::timeout(STOP_PATIENCE, self.end(on_nats)).await.is_err() {
            tracing::warn!("NATS does not answer; stopping without it. What was not acknowledged comes again");
        }
    }

    async fn end(&mut self, OnNats { intake, service, lease }: OnNats) {
        if let Some(service) = service {
            service.stop().await;
        }
        if let Some((stop, intake)) = intake {
            // What it has handed over gets its verdict and its acknowledgement first.
            stop.send_replace(true);
            if intake.await.is_err() {
                tracing::error!("the task that takes events from the work queue had panicked");
            }
        }
        self.stop.send_replace(true);
        for ended in self.ended.drain(..) {
            // The sender is dropped, never used: an error is the signal.
            drop(ended.await);
        }
        for arbiter in self.arbiters.drain(..) {
            arbiter.stop();
            if arbiter.join().is_err() {
                tracing::error!("an actor's thread had panicked");
            }
        }
        if let Some(lease) = lease {
            lease.release().await;
        }
    }
}

fn subjects(config: &Config) -> Result<Subjects, StartError> {
    config.workspace.parse().map(Subjects::new).map_err(|error| StartError::Workspace(format!("{error}")))
}
