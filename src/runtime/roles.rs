//! What each actor is built from.

use std::sync::Arc;

use tokio::sync::watch;

use super::Runtime;
use crate::actors::embedding::{self, EmbeddingParts};
use crate::actors::execution::{self, ExecutionParts};
use crate::actors::index::{self, IndexParts};
use crate::actors::measures::{self, MeasuresParts};
use crate::actors::prediction::{self, PredictionParts};
use crate::actors::snapshots::{self, SnapshotsParts};
use crate::actors::trace::{self, TraceParts};
use crate::config::{Config, Serve};
use crate::core::graph::measures::Measures;
use crate::core::id::Seq;
use crate::core::intake::Limits;
use crate::core::rank::Index;
use crate::embed::SharedEmbedder;
use crate::lease::{LeaseState, while_leased};
use crate::publisher::Announce;
use crate::role::Role;
use crate::views::Publish;

impl Runtime {
    /// The actors of this process's roles, on a view that has caught up.
    pub(super) fn start_roles(
        &mut self,
        config: &Config,
        (limits, address, lease): (Arc<Limits>, Announce, watch::Receiver<LeaseState>),
        embedder: SharedEmbedder,
        stopping: watch::Receiver<bool>,
    ) {
        if self.roles.contains(Role::Execution) {
            self.start_execution(config, limits, address, (lease, stopping.clone()));
        }
        if self.roles.contains(Role::Trace) {
            self.start_trace(config, stopping.clone());
        }
        if self.roles.contains(Role::Embedding) {
            self.start_embedding(embedder, stopping.clone());
        }
        if self.roles.contains(Role::Prediction) && config.prediction.serve != Serve::None {
            self.start_prediction(config, stopping);
        }
    }

    fn start_execution(
        &mut self,
        config: &Config,
        limits: Arc<Limits>,
        address: Announce,
        (lease, stopping): (watch::Receiver<LeaseState>, watch::Receiver<bool>),
    ) {
        let admitting = ExecutionParts {
            log: Arc::clone(&self.log),
            dead: Arc::clone(&self.dead),
            views: self.views.clone(),
            clock: self.clock.clone(),
            limits,
            settings: config.execution.clone(),
            letter_bytes_max: config.dead.letter_bytes_max,
            metrics: Arc::clone(&self.metrics),
            address,
            burst: self.burst.clone(),
            stop: stopping.clone(),
        };
        self.supervise("execution", 1, stopping.clone(), move || {
            let admitting = admitting.clone();
            while_leased(lease.clone(), stopping.clone(), move |end| {
                execution::run(ExecutionParts { stop: end, ..admitting.clone() })
            })
        });
    }

    fn start_trace(&mut self, config: &Config, stopping: watch::Receiver<bool>) {
        let closing = TraceParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            clock: self.clock.clone(),
            settings: config.trace.clone(),
            burst: self.burst.clone(),
            stop: stopping.clone(),
        };
        self.supervise("trace", 2, stopping, move || trace::run(closing.clone()));
    }

    fn start_embedding(&mut self, embedder: SharedEmbedder, stopping: watch::Receiver<bool>) {
        let embedding = EmbeddingParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            clock: self.clock.clone(),
            embedder,
            stop: stopping.clone(),
        };
        self.supervise("embedding", 2, stopping, move || embedding::run(embedding.clone()));
    }

    pub(super) fn start_snapshots(&mut self, config: &Config, last: Seq, stopping: watch::Receiver<bool>) {
        let parts = SnapshotsParts {
            keeper: Arc::clone(&self.snapshots),
            views: self.views.clone(),
            settings: config.snapshots.clone(),
            last,
            stop: stopping.clone(),
        };
        self.supervise("snapshots", 2, stopping, move || snapshots::run(parts.clone()));
    }

    fn start_prediction(&mut self, config: &Config, stopping: watch::Receiver<bool>) {
        let predicting = PredictionParts {
            log: Arc::clone(&self.log),
            views: self.views.clone(),
            asker: self.asker.clone(),
            bus: Arc::clone(&self.bus),
            subjects: self.subjects.clone(),
            clock: self.clock.clone(),
            metrics: Arc::clone(&self.metrics),
            settings: config.prediction.clone(),
            stop: stopping.clone(),
        };
        self.supervise("prediction", 3, stopping, move || prediction::run(predicting.clone()));
    }

    /// What answers rest on besides the view. Every process may be asked, over HTTP if not over NATS.
    pub(super) fn start_readers_side(
        &mut self,
        config: &Config,
        measures: Publish<Measures>,
        index: Publish<Index>,
        stopping: watch::Receiver<bool>,
    ) {
        let measuring =
            MeasuresParts { views: self.views.clone(), measures, settings: config.graph.clone(), stop: stopping.clone() };
        self.supervise("measures", 2, stopping.clone(), move || measures::run(measuring.clone()));
        let indexing = IndexParts { views: self.views.clone(), index, stop: stopping.clone() };
        self.supervise("index", 2, stopping, move || index::run(indexing.clone()));
    }
}
