//! Metrics of calls to upstream servers.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::core::tool::latency::BOUNDS_MS;

/// A tool by server and name. There are as many as are offered: other calls are not counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByTool {
    pub(crate) server: String,
    pub(crate) tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    server: String,
    tool: String,
    outcome: &'static str,
}

/// Calls by outcome, and how long they took.
pub(crate) struct UpstreamMetrics {
    calls: Family<ByOutcome, Counter>,
    seconds: Family<ByTool, Histogram, fn() -> Histogram>,
}

/// The histogram that the fold keeps too, in seconds.
#[expect(clippy::cast_precision_loss, reason = "bounds are small")]
fn histogram() -> Histogram {
    Histogram::new(BOUNDS_MS.map(|bound_ms| bound_ms as f64 / 1_000.0))
}

impl Default for UpstreamMetrics {
    fn default() -> Self {
        Self { calls: Family::default(), seconds: Family::new_with_constructor(histogram) }
    }
}

impl UpstreamMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("upstream_calls", "Calls of upstream tools by outcome", self.calls.clone());
        registry.register("upstream_call_seconds", "How long calls of upstream tools took", self.seconds.clone());
    }

    /// Counts one call.
    pub(crate) fn count(&self, by: &ByTool, outcome: &'static str, duration: Duration) {
        let ByTool { server, tool } = by.clone();
        self.calls.get_or_create(&ByOutcome { server, tool, outcome }).inc();
        self.seconds.get_or_create(by).observe(duration.as_secs_f64());
    }
}
