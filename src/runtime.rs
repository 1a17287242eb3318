//! The one place that builds adapters and actors and connects them, and the order in which they stop.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::actors::embedding::{self, EmbeddingParts};
use crate::actors::execution::{self, ExecutionParts};
use crate::actors::graph_sync::{self, GraphSyncParts, Views};
use crate::actors::index::{self, IndexParts, Indexed};
use crate::actors::measures::{self, Measured, MeasuresParts};
use crate::actors::supervisor::supervise;
use crate::actors::trace::{self, TraceParts};
use crate::ask::Asker;
use crate::bus::{MemoryBus, SharedBus, Subjects};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{Event, NewRecord, TemplateLoaded};
use crate::core::id::RecordId;
use crate::core::intake::Limits;
use crate::core::time::Timestamp;
use crate::dead::DeadLetters;
use crate::embed::{self, EmbedError};
use crate::log::{AppendError, OpenError, RedbLog, RedbOptions, SharedLog};
use crate::metrics::Metrics;
use crate::publisher::Publisher;
use crate::templates::{self, TemplateError};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] OpenError),
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
    #[error("the fold stopped while it was catching up with the log; the messages above say why")]
    Fold,
}

/// A running pml, embedded. Must be started and stopped inside an actix system.
pub struct Runtime {
    pub publisher: Publisher,
    pub views: Views,
    pub measures: Measured,
    pub indexed: Indexed,
    pub asker: Asker,
    pub log: SharedLog,
    pub dead: Arc<dyn DeadLetters>,
    pub bus: SharedBus,
    pub subjects: Subjects,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    stop: watch::Sender<bool>,
    arbiters: Vec<actix_rt::Arbiter>,
    ended: Vec<oneshot::Receiver<()>>,
}

impl Runtime {
    /// Opens the log in the configured directory, catches up with it and starts the actors.
    pub async fn start(config: &Config, clock: Clock) -> Result<Self, StartError> {
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
        let workspace = config.workspace.parse().map_err(|error| StartError::Workspace(format!("{error}")))?;
        let subjects = Subjects::new(workspace);
        let bus: SharedBus = Arc::new(MemoryBus::default());
        let metrics = Arc::new(Metrics::new());
        let limits = Arc::new(Limits::from(&config.limits));
        let (stop, stopping) = watch::channel(false);
        let (view_sender, views) = Views::channel();
        let (measures_sender, measures) = Measured::channel();
        let (index_sender, indexed) = Indexed::channel();
        let embedder = embed::open(&config.embedding)?;
        let asker = Asker::new(indexed.clone(), measures.clone(), Arc::clone(&embedder), config.limits.intent_bytes_max);
        let (address, publisher_address) = watch::channel(None);
        let publisher = Publisher::new(publisher_address, Arc::clone(&limits));
        let arbiters: Vec<actix_rt::Arbiter> = (0..3).map(|_| actix_rt::Arbiter::new()).collect();
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
            metrics,
            clock,
            stop,
            arbiters,
            ended: Vec::new(),
        };

        let folding = GraphSyncParts {
            log: Arc::clone(&runtime.log),
            views: view_sender,
            bus: Arc::clone(&runtime.bus),
            subjects: runtime.subjects.clone(),
            clock: runtime.clock.clone(),
            mailbox: config.graph_sync.mailbox,
            batch_records_max: config.graph_sync.batch_records_max,
            stop: stopping.clone(),
        };
        runtime.supervise("graph_sync", 0, stopping.clone(), move || graph_sync::run(folding.clone()));
        // Open executions are part of the state: whoever needs them starts from a view that has caught up.
        let tail = *runtime.log.tail().borrow();
        runtime.views.at_least(tail).await.ok_or(StartError::Fold)?;
        runtime.load_templates(&config.templates.path).await?;

        let admitting = ExecutionParts {
            log: Arc::clone(&runtime.log),
            dead: Arc::clone(&runtime.dead),
            views: runtime.views.clone(),
            clock: runtime.clock.clone(),
            limits,
            settings: config.execution.clone(),
            metrics: Arc::clone(&runtime.metrics),
            address,
            stop: stopping.clone(),
        };
        runtime.supervise("execution", 1, stopping.clone(), move || execution::run(admitting.clone()));
        let closing = TraceParts {
            log: Arc::clone(&runtime.log),
            views: runtime.views.clone(),
            clock: runtime.clock.clone(),
            settings: config.trace.clone(),
            stop: stopping.clone(),
        };
        runtime.supervise("trace", 2, stopping.clone(), move || trace::run(closing.clone()));
        let measuring = MeasuresParts {
            views: runtime.views.clone(),
            measures: measures_sender,
            clock: runtime.clock.clone(),
            settings: config.graph.clone(),
            stop: stopping.clone(),
        };
        runtime.supervise("measures", 2, stopping.clone(), move || measures::run(measuring.clone()));
        let embedding = EmbeddingParts {
            log: Arc::clone(&runtime.log),
            views: runtime.views.clone(),
            clock: runtime.clock.clone(),
            embedder,
            stop: stopping.clone(),
        };
        runtime.supervise("embedding", 2, stopping.clone(), move || embedding::run(embedding.clone()));
        let (views, clock) = (runtime.views.clone(), runtime.clock.clone());
        let indexing = IndexParts { views, index: index_sender, clock, stop: stopping.clone() };
        runtime.supervise("index", 2, stopping, move || index::run(indexing.clone()));
        Ok(runtime)
    }

    fn supervise<F, R>(&mut self, name: &'static str, arbiter: usize, stop: watch::Receiver<bool>, incarnation: F)
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = Result<(), crate::actors::Failure>> + 'static,
    {
        let handle = self.arbiters[arbiter].handle();
        self.ended.push(supervise(name, &handle, self.clock.clone(), Arc::clone(&self.metrics), stop, incarnation));
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
            self.views.at_least(last).await.ok_or(StartError::Fold)?;
        }
        Ok(())
    }

    /// Waits until everything published so far is folded, no finished execution is waiting to be closed and no text for its vector.
    pub async fn settled(&self) -> Arc<crate::core::state::State> {
        let mut view = self.views.current();
        loop {
            let tail = *self.log.tail().borrow();
            if let Some(newer) = self.views.at_least(tail).await {
                view = newer;
            }
            let (embedded, wanted) = view.vectors.coverage();
            if embedded == wanted && view.executions.iter().all(|(_, open)| !open.has_finished()) {
                return view;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Stops the actors, then lets the log write what it holds and close its file.
    pub async fn stop(mut self) {
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
    }
}

/// Opens the embedded log of `directory` with the configured sizes.
pub fn open_log(config: &Config, directory: &Path, clock: Clock) -> Result<RedbLog, OpenError> {
    let options = RedbOptions {
        group_records_max: config.log.group_records_max,
        queue_appends_max: config.log.queue_appends_max,
        dead_letters_max: config.dead.letters_max,
    };
    RedbLog::open(directory, options, clock)
}

fn template_record(template: TemplateLoaded, now: Timestamp) -> NewRecord {
    NewRecord {
        // With the time: a template that goes back to an earlier content is a new fact.
        id: RecordId::derived(now, &["template.loaded", &template.name, &template.checksum]),
        time: now,
        source: "pml/templates".into(),
        causation: None,
        event: Event::TemplateLoaded(template),
    }
}
