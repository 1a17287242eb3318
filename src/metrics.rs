//! Metrics of the running system in the Prometheus text format, with the prefix `pml_`.

mod training;
mod upstream;

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::core::predict::score::WINDOWS;
use crate::core::state::State;
use crate::log::ForeignMessages;
pub(crate) use training::{ByVerdict, TrainingMetrics};
pub(crate) use upstream::{ByTool, UpstreamMetrics};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByKind {
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByReason {
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByRoute {
    pub(crate) method: String,
    /// The pattern of the path, so that ids make no series of their own.
    pub(crate) route: String,
    /// `2xx`, `4xx` and so on.
    pub(crate) status: String,
}

/// Request durations by route, from half a millisecond to 16 s.
type RequestHistograms = Family<ByRoute, Histogram, fn() -> Histogram>;

fn request_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 16))
}

/// The number of most recent scored predictions that a gauge covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWindow {
    window: u64,
}

type WindowGauges = Family<ByWindow, Gauge<f64, AtomicU64>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByActor {
    pub(crate) actor: &'static str,
}

/// All metrics of a process. Counters are shared handles: clones of one count into the same number.
pub struct Metrics {
    registry: Registry,
    pub(crate) accepted: Family<ByKind, Counter>,
    pub(crate) duplicate: Counter,
    pub(crate) refused: Family<ByReason, Counter>,
    pub(crate) put_off: Counter,
    pub(crate) ignored_members: Counter,
    pub(crate) busy: Counter,
    pub(crate) requests: RequestHistograms,
    pub(crate) requests_under_way: Gauge,
    pub(crate) restarts: Family<ByActor, Counter>,
    pub(crate) streams: Gauge,
    pub(crate) predictions_served: Counter,
    pub(crate) predictions_dropped: Counter,
    pub(crate) impressions_dropped: Counter,
    pub(crate) training: TrainingMetrics,
    pub(crate) upstream: UpstreamMetrics,
    scored: Gauge<u64, AtomicU64>,
    hit1: WindowGauges,
    hit3: WindowGauges,
    log_loss: WindowGauges,
    calibration_error: WindowGauges,
    foreign: Gauge<u64, AtomicU64>,
    applied: Gauge<u64, AtomicU64>,
    tools: Gauge<u64, AtomicU64>,
    unregistered: Gauge<u64, AtomicU64>,
    capabilities: Gauge<u64, AtomicU64>,
    edges: Gauge<u64, AtomicU64>,
    open_executions: Gauge<u64, AtomicU64>,
    traces: Gauge<u64, AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("pml"),
            accepted: Family::default(),
            duplicate: Counter::default(),
            refused: Family::default(),
            put_off: Counter::default(),
            ignored_members: Counter::default(),
            busy: Counter::default(),
            requests: RequestHistograms::new_with_constructor(request_histogram),
            requests_under_way: Gauge::default(),
            restarts: Family::default(),
            streams: Gauge::default(),
            predictions_served: Counter::default(),
            predictions_dropped: Counter::default(),
            impressions_dropped: Counter::default(),
            training: TrainingMetrics::default(),
            upstream: UpstreamMetrics::default(),
            scored: Gauge::default(),
            hit1: WindowGauges::default(),
            hit3: WindowGauges::default(),
            log_loss: WindowGauges::default(),
            calibration_error: WindowGauges::default(),
            foreign: Gauge::default(),
            applied: Gauge::default(),
            tools: Gauge::default(),
            unregistered: Gauge::default(),
            capabilities: Gauge::default(),
            edges: Gauge::default(),
            open_executions: Gauge::default(),
            traces: Gauge::default(),
        };
        metrics.register_requests();
        metrics.register_predictions();
        metrics.register_state();
        metrics
    }

    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register("events_accepted", "Events appended to the log", self.accepted.clone());
        registry.register("events_duplicate", "Events whose id the log already held", self.duplicate.clone());
        registry.register("events_refused", "Events refused and kept as dead letters", self.refused.clone());
        registry.register(
            "events_put_off",
            "Events left on the work queue for a while, no room for their execution",
            self.put_off.clone(),
        );
        registry.register(
            "event_members_ignored",
            "Members of events that their kind does not have, and trace contexts that are none",
            self.ignored_members.clone(),
        );
        registry.register("requests_busy", "Requests answered with back-pressure", self.busy.clone());
        registry.register("http_requests_under_way", "Requests whose answer has not begun", self.requests_under_way.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time until an answer begins",
            Unit::Seconds,
            self.requests.clone(),
        );
        registry.register("actor_restarts", "Actors rebuilt from the log after a failure", self.restarts.clone());
        registry.register("event_streams", "Streamed answers under way", self.streams.clone());
    }

    fn register_predictions(&mut self) {
        let registry = &mut self.registry;
        registry.register("predictions_served", "Predictions pushed to subscribers", self.predictions_served.clone());
        registry.register(
            "predictions_dropped",
            "Steps without a prediction: a newer step or the end came first, or too many waited",
            self.predictions_dropped.clone(),
        );
        registry.register(
            "impressions_dropped",
            "Predictions pushed that are not in the log",
            self.impressions_dropped.clone(),
        );
        self.training.register(registry);
        self.upstream.register(registry);
        registry.register("predictions_scored", "Predictions settled by what came next", self.scored.clone());
        registry.register("prediction_hit1", "Share whose first outcome came next", self.hit1.clone());
        registry.register("prediction_hit3", "Share with what came next among the first three", self.hit3.clone());
        registry.register("prediction_log_loss", "Mean log-loss of what came next", self.log_loss.clone());
        registry.register(
            "prediction_calibration_error",
            "Expected calibration error of the first outcome, 10 bins",
            self.calibration_error.clone(),
        );
    }

    fn register_state(&mut self) {
        let registry = &mut self.registry;
        registry.register("log_foreign_messages", "Messages of others found in the log and skipped", self.foreign.clone());
        registry.register("applied_seq", "Last record folded into the view", self.applied.clone());
        registry.register("tools", "Tools registered", self.tools.clone());
        registry.register("tools_unregistered", "Tools called and never registered", self.unregistered.clone());
        registry.register("capabilities", "Capabilities known", self.capabilities.clone());
        registry.register("edges", "Typed edges of the tool graph", self.edges.clone());
        registry.register("open_executions", "Executions under way", self.open_executions.clone());
        registry.register("traces", "Traces kept in the state", self.traces.clone());
    }

    /// The metrics as text; gauges of the state are read from `view`, those of the log from `foreign`.
    pub fn render(&self, view: &State, foreign: &ForeignMessages) -> String {
        self.render_scores(view);
        self.foreign.set(foreign.count);
        self.applied.set(view.applied().0);
        let registered = view.tools.registered();
        self.tools.set(registered as u64);
        self.unregistered.set((view.tools.len() - registered) as u64);
        self.capabilities.set(view.capabilities.len() as u64);
        self.edges.set(view.graph.edge_count() as u64);
        self.open_executions.set(view.executions.len() as u64);
        self.traces.set(view.executions.traces_len() as u64);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }

    fn render_scores(&self, view: &State) {
        let scores = &view.predictor.scores;
        self.scored.set(scores.total());
        for last in WINDOWS {
            let (window, by) = (scores.window(last), ByWindow { window: last as u64 });
            self.hit1.get_or_create(&by).set(window.hit1);
            self.hit3.get_or_create(&by).set(window.hit3);
            self.log_loss.get_or_create(&by).set(window.log_loss);
            self.calibration_error.get_or_create(&by).set(window.calibration_error);
        }
    }
}
