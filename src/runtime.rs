//! The runtime builds the adapters and the actors of a process, connects them, and stops them in order. No other module does.

mod actors;
mod calls;
mod leases;
mod on_nats;
mod serving;
mod waiting;

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::actors::ActorFailure;
use crate::actors::announce::Announcements;
use crate::actors::burst::Burst;
use crate::actors::supervisor::{Reports, supervise};
use crate::ask::Asker;
use crate::ask::past::Past;
use crate::bus::{MemoryBus, SharedBus};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::intake::Limits;
use crate::core::rank::Index;
use crate::core::state::State;
use crate::data_dir::open_log;
use crate::embed::{self, EmbedError, SharedEmbedder};
use crate::execute::Runner;
use crate::gateway::mcp::Mcp;
use crate::gateway::otlp::SpanCollector;
use crate::lease::while_leased;
use crate::log::{AppendError, DeadLetters, OpenError, SharedLog, TrimmedLog};
use crate::metrics::Metrics;
use crate::nats::{Nats, NatsError};
use crate::publisher::{AddressSender, Publisher};
use crate::recorder::Recorder;
use crate::role::{Role, Roles};
use crate::snapshot::{self, Keeper, SnapshotError, Store};
use crate::subject::Subjects;
use crate::templates::{self, TemplateError, template_record};
use crate::training::Trainer;
use crate::upstream::Upstreams;
use crate::views::{Latest, LatestSender, Views};
use actors::Thread;
pub(crate) use calls::{SANDBOX, sandbox};
use calls::{mcp, runner, upstreams};
use leases::Leases;
use on_nats::OnNats;

/// Why a process could not start.
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
    #[error("cannot start the threads for upstream servers and questions about the past")]
    Threads(#[source] std::io::Error),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Damaged(#[from] LogDamaged),
    #[error("the fold stopped while it was catching up with the log; the messages above say why")]
    Fold,
}

/// The log holds records that fail their check.
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
    /// The trainer of this process; `None` without the role, or if `trainer.enabled` is false.
    pub trainer: Option<Trainer>,
    pub recorder: Recorder,
    pub upstreams: Upstreams,
    pub runner: Runner,
    pub(crate) mcp: Mcp,
    spans: SpanCollector,
    past: Past,
    /// The settings in force, without secrets.
    settings: serde_json::Value,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub roles: Roles,
    /// Released last, when nothing is written any more.
    leases: Leases,
    nats: Option<OnNats>,
    burst: Burst,
    announcements: Announcements,
    /// Set when an actor meets damage in the log.
    damaged: watch::Sender<Option<Arc<ActorFailure>>>,
    stop: watch::Sender<bool>,
    /// Set when streamed answers have to end.
    closing: watch::Sender<bool>,
    /// The threads of the actors, indexed by [`Thread`].
    arbiters: Vec<actix_rt::Arbiter>,
    /// One receiver per supervised actor; it resolves when the actor has ended for good.
    ended: Vec<oneshot::Receiver<()>>,
}

/// What a runtime is built on: its adapters, and the roles of the process with their leases.
struct Environment {
    log: SharedLog,
    /// The same log, if its oldest records can be moved to an archive.
    hot: Option<Arc<dyn TrimmedLog>>,
    dead: Arc<dyn DeadLetters>,
    bus: SharedBus,
    subjects: Subjects,
    clock: Clock,
    roles: Roles,
    leases: Leases,
    /// The work queue, for a process on NATS.
    queue: Option<Nats>,
}

/// What the runtime hands to its actors and does not keep.
struct ActorInputs {
    views: LatestSender<State>,
    measures: LatestSender<Measures>,
    index: LatestSender<Index>,
    address: AddressSender,
    limits: Arc<Limits>,
    embedder: SharedEmbedder,
}

impl Runtime {
    /// Opens the configured log, catches up with it and starts the actors.
    pub async fn start(config: &Config, clock: Clock) -> Result<Self, StartError> {
        if !config.nats.servers.is_empty() {
            return Self::start_on_nats(config, clock, Roles::all()).await;
        }
        let store = Arc::new(open_log(config, &config.data_dir, clock.clone())?);
        let log: SharedLog = Arc::clone(&store) as SharedLog;
        let dead: Arc<dyn DeadLetters> = Arc::clone(&store) as Arc<dyn DeadLetters>;
        Self::start_embedded(config, clock, (log, dead), Some(store)).await
    }

    /// Starts the actors on a log that is already open.
    pub async fn start_on(
        config: &Config,
        clock: Clock,
        log: SharedLog,
        dead: Arc<dyn DeadLetters>,
    ) -> Result<Self, StartError> {
        Self::start_embedded(config, clock, (log, dead), None).await
    }

    async fn start_embedded(
        config: &Config,
        clock: Clock,
        (log, dead): (SharedLog, Arc<dyn DeadLetters>),
        hot: Option<Arc<dyn TrimmedLog>>,
    ) -> Result<Self, StartError> {
        let environment = Environment {
            log,
            hot,
            dead,
            bus: Arc::new(MemoryBus::default()),
            subjects: subjects(config)?,
            clock,
            roles: Roles::all(),
            leases: Leases::default(),
            queue: None,
        };
        let runtime = Self::start_actors(config, environment).await?;
        runtime.wait_indexed().await;
        Ok(runtime)
    }

    /// Builds the runtime and starts its actors: first the fold, then, on a view that has caught up, the others.
    async fn start_actors(config: &Config, mut environment: Environment) -> Result<Self, StartError> {
        let hot = environment.hot.take();
        let (mut runtime, inputs) = Self::build(config, environment).await?;
        let last_snapshot = runtime.views.current().applied();
        runtime.start_graph_sync(config, inputs.views);
        // Open executions are part of the state, so the actors that need them start from a view that has caught up.
        let tail = *runtime.log.tail().borrow();
        runtime.wait_caught_up(tail).await?;
        if runtime.roles.contains(Role::GraphSync) {
            runtime.load_templates(&config.templates.path).await?;
            runtime.start_snapshots(config, last_snapshot);
        }
        runtime.start_roles(config, inputs.limits, inputs.address, inputs.embedder);
        runtime.start_tiering(config, hot);
        runtime.start_measures(config, inputs.measures);
        runtime.start_index(inputs.index);
        runtime.start_upstream();
        runtime.start_mcp();
        runtime.start_spans();
        Ok(runtime)
    }

    /// Builds a runtime without actors, with the state of the newest usable snapshot.
    async fn build(config: &Config, environment: Environment) -> Result<(Self, ActorInputs), StartError> {
        let Environment { log, dead, bus, subjects, clock, roles, leases, queue, hot: _ } = environment;
        let (metrics, limits) = (Arc::new(Metrics::new()), Arc::new(Limits::from(config)));
        let store = Store::configured(config)?;
        let state = snapshot::to_start_from(&store, log.as_ref()).await;
        let (view_sender, views) = Views::channel(state);
        let (measures_sender, measures) = Latest::channel(Measures::default());
        let (index_sender, indexed) = Latest::channel(Index::default());
        let embedder = embed::open(&config.embedding)?;
        let asker =
            Asker::new(views.clone(), indexed.clone(), measures.clone(), Arc::clone(&embedder), config.limits.intent_bytes_max);
        let (address_sender, address) = watch::channel(None);
        let lease = leases.state(Role::Execution);
        let publisher = Publisher::new(address, Arc::clone(&limits), lease, &config.execution, Arc::clone(&metrics));
        let recorder = Recorder::new(publisher.clone(), roles.contains(Role::Execution), queue);
        let upstream_lease = roles.contains(Role::Upstream).then(|| leases.state(Role::Upstream));
        let upstreams = upstreams(config, (&views, &log), (&clock, &metrics, &limits), upstream_lease);
        let upstreams = upstreams.map_err(StartError::Threads)?;
        let runner = runner(config, (&upstreams, &asker), &recorder, (&views, &log), &clock);
        let mcp = mcp(config, (&asker, &views), (&upstreams, &runner, &recorder), &limits, &clock);
        let spans = SpanCollector::new(&config.otlp, &limits, recorder.clone(), clock.clone());
        let past = Past::start(config, store.clone(), (&log, &views), &embedder).map_err(StartError::Threads)?;
        let snapshots = Arc::new(Keeper::new(config, store, (&log, &views), (&bus, &subjects), &clock));
        let runtime = Self {
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
            trainer: trainer(config, &roles, &leases),
            recorder,
            upstreams,
            runner,
            mcp,
            spans,
            past,
            settings: config.shown(),
            metrics,
            clock,
            roles,
            leases,
            nats: None,
            burst: Burst::new(),
            announcements: Announcements::new(),
            damaged: watch::Sender::new(None),
            stop: watch::Sender::new(false),
            closing: watch::Sender::new(false),
            arbiters: Thread::ALL.map(|_| actix_rt::Arbiter::new()).into(),
            ended: Vec::new(),
        };
        let inputs = ActorInputs {
            views: view_sender,
            measures: measures_sender,
            index: index_sender,
            address: address_sender,
            limits,
            embedder,
        };
        Ok((runtime, inputs))
    }

    /// Runs an actor on one of the runtime's threads and restarts it when it fails.
    fn supervise<F, R>(&mut self, name: &'static str, thread: Thread, incarnation: F)
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = Result<(), ActorFailure>> + 'static,
    {
        let handle = self.arbiters[thread as usize].handle();
        let reports = Reports { metrics: Arc::clone(&self.metrics), damaged: self.damaged.clone() };
        self.ended.push(supervise(name, &handle, self.clock.clone(), reports, self.stop.subscribe(), incarnation));
    }

    /// Does the same with an actor that works only while this process holds the lease of a role. It gets the signal to end.
    fn supervise_leased<F, R>(&mut self, name: &'static str, thread: Thread, role: Role, work: F)
    where
        F: Fn(watch::Receiver<bool>) -> R + Clone + Send + 'static,
        R: Future<Output = Result<(), ActorFailure>> + 'static,
    {
        let (lease, stop) = (self.leases.state(role), self.stop.subscribe());
        self.supervise(name, thread, move || while_leased(lease.clone(), stop.clone(), work.clone()));
    }

    /// Waits until the fold has applied every record up to `seq`; an error if it ended before, for example on damage in the log.
    async fn wait_caught_up(&self, seq: Seq) -> Result<(), StartError> {
        if self.views.at_least(seq).await.is_some() {
            return Ok(());
        }
        // The supervisor reports damage before it drops the fold.
        match self.damaged.borrow().clone() {
            Some(failure) => Err(LogDamaged(failure).into()),
            None => Err(StartError::Fold),
        }
    }

    /// Resolves when an actor has met damage in the log. A restart does not help: the process should end.
    pub async fn damaged(&self) -> LogDamaged {
        let mut damaged = self.damaged.subscribe();
        let found = damaged.wait_for(Option::is_some).await.map(|found| found.clone());
        // The sender is a part of this runtime.
        LogDamaged(found.ok().flatten().expect("the value was waited for"))
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
            self.wait_caught_up(last).await?;
        }
        Ok(())
    }

    /// Stops the actors, then lets the log write what it holds and close its file. On NATS this ends within a few seconds, also when
    /// the servers do not answer.
    pub async fn stop(mut self) {
        match self.nats.take() {
            Some(on_nats) => on_nats::stop(&mut self, on_nats).await,
            None => self.stop_actors().await,
        }
    }

    async fn stop_actors(&mut self) {
        // What was called and run is recorded while events are still accepted.
        self.mcp.stop().await;
        self.spans.stop().await;
        self.runner.stop().await;
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
        self.upstreams.hub().stop().await;
        std::mem::take(&mut self.leases).release().await;
    }
}

/// The trainer, for a process that trains.
fn trainer(config: &Config, roles: &Roles, leases: &Leases) -> Option<Trainer> {
    let trains = config.trainer.enabled && roles.contains(Role::Trainer);
    trains.then(|| Trainer::new(leases.state(Role::Trainer)))
}

fn subjects(config: &Config) -> Result<Subjects, StartError> {
    config.workspace.parse().map(Subjects::new).map_err(|error| StartError::Workspace(format!("{error}")))
}
