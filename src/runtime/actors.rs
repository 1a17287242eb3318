//! The start of each actor: its parts, its thread and its supervision.

use std::sync::Arc;
use std::time::Duration;

use super::Runtime;
use crate::actors::embedding::{self, EmbeddingParts};
use crate::actors::execution::{self, ExecutionParts};
use crate::actors::graph_sync::{self, GraphSyncParts};
use crate::actors::index::{self, IndexParts};
use crate::actors::measures::{self, MeasuresParts};
use crate::actors::prediction::{self, PredictionParts};
use crate::actors::snapshots::{self, SnapshotsParts};
use crate::actors::tiering::{self, TieringParts};
use crate::actors::trace::{self, TraceParts};
use crate::actors::trainer::{self, TrainerParts};
use crate::actors::upstream::{self, UpstreamParts};
use crate::archive::HotLimits;
use crate::bus::{MemoryBus, SharedBus};
use crate::config::{Config, Serve};
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::intake::Limits;
use crate::core::rank::Index;
use crate::core::state::State;
use crate::data_dir::archive_store;
use crate::embed::SharedEmbedder;
use crate::log::TrimmedLog;
use crate::publisher::AddressSender;
use crate::role::Role;
use crate::views::LatestSender;

/// The threads of the actors. The fold, the admission of events and the predictions have one each, so that none of them waits for
/// other work.
#[derive(Clone, Copy)]
pub(super) enum Thread {
    GraphSync,
    Execution,
    Prediction,
    /// All other actors. They wait most of the time, or compute on blocking threads.
    Shared,
}

impl Thread {
    pub(super) const ALL: [Self; 4] = [Self::GraphSync, Self::Execution, Self::Prediction, Self::Shared];
}

impl Runtime {
    /// Starts the fold. Every process folds, but only one with the role publishes notices of what was learnt: the others get a bus
    /// without subscribers.
    pub(super) fn start_graph_sync(&mut self, config: &Config, views: LatestSender<State>) {
        let has_role = self.roles.contains(Role::GraphSync);
        let bus: SharedBus = if has_role { Arc::clone(&self.bus) } else { Arc::new(MemoryBus::default()) };
        let parts = GraphSyncParts {
            log: Arc::clone(&self.log),
            views,
            bus,
            subjects: self.subjects.clone(),
            clock: self.clock.clone(),
            mailbox: config.graph_sync.mailbox,
            batch_records_max: config.graph_sync.batch_records_max,
            burst: self.burst.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise("graph_sync", Thread::GraphSync, move || graph_sync::run(parts.clone()));
    }

    /// Starts the actors of this process's roles. The newest view must have caught up with the log.
    pub(super) fn start_roles(
        &mut self,
        config: &Config,
        limits: Arc<Limits>,
        address: AddressSender,
        embedder: SharedEmbedder,
    ) {
        if self.roles.contains(Role::Execution) {
            self.start_execution(config, limits, address);
        }
        if self.roles.contains(Role::Trace) {
            self.start_trace(config);
        }
        if self.roles.contains(Role::Embedding) {
            self.start_embedding(embedder);
        }
        if self.roles.contains(Role::Prediction) && config.prediction.serve != Serve::None {
            self.start_prediction(config);
        }
        self.start_trainer(config);
    }

    fn start_execution(&mut self, config: &Config, limits: Arc<Limits>, address: AddressSender) {
        let parts = ExecutionParts {
            log: Arc::clone(&self.log),
            dead: Arc::clone(&self.dead),
            views: self.views.clone(),
            clock: self.clock.clone(),
            limits,
            settings: config.execution.clone(),
            letter_bytes_max: config.dead.letter_bytes_max,
            metrics: Arc::clone(&self.metrics),
            address,
            announcements: self.announcements.clone(),
            burst: self.burst.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise_leased("execution", Thread::Execution, Role::Execution, move |end| {
            execution::run(ExecutionParts { stop: end, ..parts.clone() })
        });
    }

    fn start_trace(&mut self, config: &Config) {
        let parts = TraceParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            clock: self.clock.clone(),
            settings: config.trace.clone(),
            burst: self.burst.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise("trace", Thread::Shared, move || trace::run(parts.clone()));
    }

    fn start_embedding(&mut self, embedder: SharedEmbedder) {
        let parts = EmbeddingParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            clock: self.clock.clone(),
            embedder,
            stop: self.stop.subscribe(),
        };
        self.supervise("embedding", Thread::Shared, move || embedding::run(parts.clone()));
    }

    fn start_prediction(&mut self, config: &Config) {
        let parts = PredictionParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            asker: self.asker.clone(),
            bus: Arc::clone(&self.bus),
            subjects: self.subjects.clone(),
            clock: self.clock.clone(),
            metrics: Arc::clone(&self.metrics),
            settings: config.prediction.clone(),
            settle: Duration::from_millis(config.trace.settle_ms),
            announcements: self.announcements.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise("prediction", Thread::Prediction, move || prediction::run(parts.clone()));
    }

    /// Starts the trainer, if this process has one. Only the holder of the lease trains.
    fn start_trainer(&mut self, config: &Config) {
        let Some(trainer) = self.trainer.clone() else { return };
        let parts = TrainerParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            clock: self.clock.clone(),
            metrics: Arc::clone(&self.metrics),
            trainer,
            settings: config.trainer.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise_leased("trainer", Thread::Shared, Role::Trainer, move |end| {
            trainer::run(TrainerParts { stop: end, ..parts.clone() })
        });
    }

    /// Starts to record events of this process and, with the role, the upstream servers while this process holds the lease.
    pub(super) fn start_upstream(&mut self) {
        self.upstreams.hub().handle().spawn(self.recorder.clone().run());
        if !self.roles.contains(Role::Upstream) {
            return;
        }
        let parts = UpstreamParts { hub: Arc::clone(self.upstreams.hub()), stop: self.stop.subscribe() };
        self.supervise_leased("upstream", Thread::Shared, Role::Upstream, move |end| {
            upstream::run(UpstreamParts { stop: end, ..parts.clone() })
        });
    }

    /// Starts tiering, if it is configured. On NATS, the process that has the lease of the role `execution` does it.
    pub(super) fn start_tiering(&mut self, config: &Config, hot: Option<Arc<dyn TrimmedLog>>) {
        let limits = HotLimits { records: config.log.hot_records, days: config.log.hot_days };
        let Some(log) = hot.filter(|_| !limits.is_off() && self.roles.contains(Role::Execution)) else { return };
        let archive = archive_store(config, &config.data_dir);
        let (views, clock) = (self.views.clone(), self.clock.clone());
        let parts = TieringParts { log, views, archive, limits, clock, stop: self.stop.subscribe() };
        self.supervise_leased("tiering", Thread::Shared, Role::Execution, move |end| {
            tiering::run(TieringParts { stop: end, ..parts.clone() })
        });
    }

    pub(super) fn start_snapshots(&mut self, config: &Config, last: Seq) {
        let parts = SnapshotsParts {
            keeper: Arc::clone(&self.snapshots),
            views: self.views.clone(),
            settings: config.snapshots.clone(),
            last,
            burst: self.burst.clone(),
            stop: self.stop.subscribe(),
        };
        self.supervise("snapshots", Thread::Shared, move || snapshots::run(parts.clone()));
    }

    /// Starts the graph measures, in every process: each answers questions, over HTTP if not over NATS.
    pub(super) fn start_measures(&mut self, config: &Config, measures: LatestSender<Measures>) {
        let (views, settings) = (self.views.clone(), config.graph.clone());
        let parts = MeasuresParts { views, measures, settings, stop: self.stop.subscribe() };
        self.supervise("measures", Thread::Shared, move || measures::run(parts.clone()));
    }

    /// Starts the search index, in every process, for the same reason.
    pub(super) fn start_index(&mut self, index: LatestSender<Index>) {
        let parts = IndexParts { views: self.views.clone(), index, stop: self.stop.subscribe() };
        self.supervise("index", Thread::Shared, move || index::run(parts.clone()));
    }
}
