//! The metrics of the trainer.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByVerdict {
    pub(crate) verdict: &'static str,
}

/// Training runs of a process.
#[derive(Default)]
pub(crate) struct TrainingMetrics {
    pub(crate) runs: Family<ByVerdict, Counter>,
    pub(crate) last_seconds: Gauge<f64, AtomicU64>,
    pub(crate) running: Gauge,
}

impl TrainingMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "training_runs",
            "Training runs by verdict: accepted, refused, stopped, failed, over_memory",
            self.runs.clone(),
        );
        registry.register("training_last_seconds", "How long the last training run took", self.last_seconds.clone());
        registry.register("training_running", "Training runs under way: 0 or 1", self.running.clone());
    }
}
