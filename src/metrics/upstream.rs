//! Metrics of calls to upstream servers.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the latency histogram, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0, 60.0];

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

impl Default for UpstreamMetrics {
    fn default() -> Self {
        Self { calls: Family::default(), seconds: Family::new_with_constructor(|| Histogram::new(BOUNDS)) }
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
