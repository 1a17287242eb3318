//! Spans that come by OTLP: gathered until the root of their trace has ended or a time-out, then recorded as the events of a run.
//!
//! What is held is bounded (`otlp.*`). A sender is told to try again when there is no room, and while the runs that were gathered cannot
//! be recorded.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Uptime};
use crate::config;
use crate::core::intake::Limits;
use crate::readers::events::events;
use crate::readers::otlp::{DecodeError, Decoded, decode_json, decode_protobuf};
use crate::readers::traces::Traces;
use crate::readers::{Options, Run};
use crate::recorder::Recorder;

/// How often traces are looked at, at least.
const EVERY_MS_MAX: u64 = 500;
/// Runs recorded at once.
const RUNS_MAX: usize = 64;
/// Attempts to record the last runs when the process stops.
const LAST_ATTEMPTS: usize = 20;

/// How a request is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

/// Why spans were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpanError {
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error(
        "too many spans are waiting (otlp.traces_max, otlp.bytes_max), or their runs cannot be recorded; try again in a moment"
    )]
    Busy,
}

/// Gathers spans. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SpanCollector(Arc<Inner>);

struct Inner {
    options: Arc<Options>,
    settings: config::Otlp,
    recorder: Recorder,
    clock: Clock,
    held: Mutex<Held>,
    /// Held while runs are recorded: the task goes on while the process stops, and the runs that one has recorded must not be counted
    /// twice.
    recording: tokio::sync::Mutex<()>,
    /// Set when there is no room, so that the task looks at the traces at once.
    full: Notify,
}

struct Held {
    traces: Traces,
    /// Runs that are gathered and not recorded yet. While there are any, no further traces are closed.
    unrecorded: Vec<Run>,
}

impl SpanCollector {
    pub(crate) fn new(settings: &config::Otlp, limits: &Limits, recorder: Recorder, clock: Clock) -> Self {
        let options = Options { redactor: limits.redactor.clone(), steps_max: limits.steps_max, ..Options::default() };
        let options = Arc::new(options);
        let traces = Traces::new(Arc::clone(&options), settings.limits());
        let held = Mutex::new(Held { traces, unrecorded: Vec::new() });
        let (recording, full) = (tokio::sync::Mutex::default(), Notify::new());
        Self(Arc::new(Inner { options, settings: settings.clone(), recorder, clock, held, recording, full }))
    }

    /// Takes the spans of a request. Those that cannot be read, or that are too many for their trace, are counted as rejected.
    pub(crate) fn take(&self, body: &[u8], encoding: Encoding) -> Result<Decoded, SpanError> {
        let Inner { options, settings, held, full, .. } = &*self.0;
        {
            let held = held.lock();
            if held.traces.is_full() || held.unrecorded.len() >= settings.traces_max {
                full.notify_one();
                return Err(SpanError::Busy);
            }
        }
        let mut spans = Vec::new();
        let mut each = |span| spans.push(span);
        let mut decoded = match encoding {
            Encoding::Protobuf => decode_protobuf(body, &options.redactor, &mut each)?,
            Encoding::Json => decode_json(body, &options.redactor, &mut each)?,
        };
        let now = self.now_ms();
        let mut held = held.lock();
        let before = held.traces.dropped();
        for span in spans {
            held.traces.add(span, now);
        }
        let dropped = held.traces.dropped() - before;
        decoded.accepted -= dropped;
        decoded.rejected += dropped;
        Ok(decoded)
    }

    /// Records the runs of traces that have ended, until it is dropped.
    pub(crate) async fn run(&self) {
        let settings = &self.0.settings;
        let pause = Duration::from_millis((settings.linger_ms.min(settings.timeout_ms) / 4).clamp(10, EVERY_MS_MAX));
        loop {
            // An error means that there was no room in time; the traces are looked at in any case.
            let _woken = tokio::time::timeout(pause, self.0.full.notified()).await.is_ok();
            let now = self.now_ms();
            {
                let mut held = self.0.held.lock();
                if held.unrecorded.is_empty() {
                    held.unrecorded = held.traces.take_due(now);
                }
            }
            self.record().await;
        }
    }

    /// Ends all traces and records their runs.
    pub(crate) async fn stop(&self) {
        {
            let mut held = self.0.held.lock();
            let last = held.traces.take_all();
            held.unrecorded.extend(last);
        }
        for attempt in 1..=LAST_ATTEMPTS {
            self.record().await;
            let left = self.0.held.lock().unrecorded.len();
            if left == 0 {
                return;
            }
            if attempt == LAST_ATTEMPTS {
                tracing::error!(runs = left, "runs of spans are lost: they cannot be recorded");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Records the runs that wait. Those that cannot be recorded now stay: the same ids twice are harmless.
    async fn record(&self) {
        let _alone = self.0.recording.lock().await;
        loop {
            let runs: Vec<Run> = self.0.held.lock().unrecorded.iter().take(RUNS_MAX).cloned().collect();
            if runs.is_empty() {
                return;
            }
            let facts = runs.iter().flat_map(|run| events(run, self.0.clock.now())).collect();
            if let Err(error) = self.0.recorder.record(facts).await {
                tracing::debug!(%error, "runs of spans cannot be recorded yet");
                return;
            }
            self.0.held.lock().unrecorded.drain(..runs.len());
        }
    }

    fn now_ms(&self) -> u64 {
        self.0.clock.uptime().millis_since(Uptime::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use actix::Actor as _;
    use tokio::sync::watch;

    use super::*;
    use crate::core::id::Seq;
    use crate::lease::LeaseState;
    use crate::metrics::Metrics;
    use crate::publisher::{Publish, Publisher, Verdict};

    /// Takes every event, after a moment in which others may run.
    struct Taker(Arc<Mutex<std::collections::BTreeSet<String>>>);

    impl actix::Actor for Taker {
        type Context = actix::Context<Self>;
    }

    impl actix::Handler<Publish> for Taker {
        type Result = actix::ResponseFuture<Result<Vec<Verdict>, crate::publisher::PublishError>>;

        fn handle(&mut self, publish: Publish, _: &mut Self::Context) -> Self::Result {
            let taken = Arc::clone(&self.0);
            Box::pin(async move {
                tokio::task::yield_now().await;
                let facts = publish.items.iter().filter_map(|item| item.content.as_ref().ok());
                taken.lock().extend(facts.filter_map(|fact| fact.event.execution()).map(ToString::to_string));
                Ok(publish.items.iter().map(|_| Verdict::Accepted { seq: Seq(1) }).collect())
            })
        }
    }

    #[actix::test]
    async fn every_run_is_recorded_when_the_task_and_the_end_of_the_process_record_at_the_same_time() {
        const TRACES: usize = RUNS_MAX + RUNS_MAX / 2;
        let config = config::Config::load(None, []).unwrap();
        let limits = Arc::new(Limits::from(&config));
        let taken = Arc::new(Mutex::default());
        let (_sender, address) = watch::channel(Some(Taker(Arc::clone(&taken)).start().recipient()));
        let lease = LeaseState::always();
        let publisher = Publisher::new(address, Arc::clone(&limits), lease, &config.execution, Arc::new(Metrics::new()));
        let spans = SpanCollector::new(&config.otlp, &limits, Recorder::new(publisher, true, None), Clock::system());
        let attribute = |key: &str, value: &str| serde_json::json!({"key": key, "value": {"stringValue": value}});
        let attributes = [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "read")];
        let span =
            |at: usize| serde_json::json!({"traceId": format!("{:032x}", at + 1), "spanId": "01", "attributes": attributes});
        let all: Vec<_> = (0..TRACES).map(span).collect();
        let body = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": all}]}]}).to_string();
        assert_eq!(spans.take(body.as_bytes(), Encoding::Json).unwrap().accepted, TRACES as u64);
        tokio::join!(spans.stop(), spans.stop());
        assert_eq!((taken.lock().len(), spans.0.held.lock().unrecorded.len()), (TRACES, 0));
    }
}
