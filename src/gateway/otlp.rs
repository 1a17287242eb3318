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
use crate::readers::span::Span;
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

    /// Takes the spans of a request, or none of them if there is no room for all. Those that cannot be read, that are too many for their
    /// trace, or that alone are more than may be held, are counted as rejected.
    pub(crate) fn take(&self, body: &[u8], encoding: Encoding) -> Result<Decoded, SpanError> {
        let Inner { options, settings, held, full, .. } = &*self.0;
        {
            let held = held.lock();
            if held.traces.is_full() || held.unrecorded.len() >= settings.traces_max {
                full.notify_one();
                return Err(SpanError::Busy);
            }
        }
        let (mut spans, mut bytes, mut too_many) = (Vec::new(), 0, 0);
        // What can never be held is not even gathered: the same request again would bring as much.
        let mut each = |span: Span| {
            let more = span.held_bytes();
            if bytes + more > settings.bytes_max {
                too_many += 1;
            } else {
                bytes += more;
                spans.push(span);
            }
        };
        let mut decoded = match encoding {
            Encoding::Protobuf => decode_protobuf(body, &options.redactor, &mut each)?,
            Encoding::Json => decode_json(body, &options.redactor, &mut each)?,
        };
        let now = self.now_ms();
        let mut held = held.lock();
        if !held.traces.has_room_for(bytes) {
            full.notify_one();
            return Err(SpanError::Busy);
        }
        let before = held.traces.dropped();
        for span in spans {
            held.traces.add(span, now);
        }
        let dropped = too_many + held.traces.dropped() - before;
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

    /// A collector whose runs go to `taken`; what keeps them flowing comes with it.
    fn collector(settings: config::Otlp, taken: Arc<Mutex<std::collections::BTreeSet<String>>>) -> (SpanCollector, impl Sized) {
        let config = config::Config::load(None, []).unwrap();
        let limits = Arc::new(Limits::from(&config));
        let (sender, address) = watch::channel(Some(Taker(taken).start().recipient()));
        let lease = LeaseState::always();
        let publisher = Publisher::new(address, Arc::clone(&limits), lease, &config.execution, Arc::new(Metrics::new()));
        (SpanCollector::new(&settings, &limits, Recorder::new(publisher, true, None), Clock::system()), sender)
    }

    /// A request with one span in each of so many traces, from `first` on, whose calls have arguments of so many bytes.
    fn request(first: usize, traces: usize, argument_bytes: usize) -> Vec<u8> {
        let attribute = |key: &str, value: &str| serde_json::json!({"key": key, "value": {"stringValue": value}});
        let attributes = [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", "read"),
            attribute("gen_ai.tool.call.arguments", &"x ".repeat(argument_bytes / 2)),
        ];
        let span = |at| serde_json::json!({"traceId": format!("{at:032x}"), "spanId": "01", "attributes": attributes});
        let all: Vec<_> = (first..first + traces).map(span).collect();
        serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": all}]}]}).to_string().into_bytes()
    }

    #[actix::test]
    async fn every_run_is_recorded_when_the_task_and_the_end_of_the_process_record_at_the_same_time() {
        const TRACES: usize = RUNS_MAX + RUNS_MAX / 2;
        let taken = Arc::new(Mutex::default());
        let (spans, _flowing) = collector(config::Config::load(None, []).unwrap().otlp, Arc::clone(&taken));
        assert_eq!(spans.take(&request(1, TRACES, 0), Encoding::Json).unwrap().accepted, TRACES as u64);
        tokio::join!(spans.stop(), spans.stop());
        assert_eq!((taken.lock().len(), spans.0.held.lock().unrecorded.len()), (TRACES, 0));
    }

    #[actix::test]
    async fn a_request_waits_for_room_and_what_is_more_than_may_be_held_is_rejected() {
        let taken = Arc::new(Mutex::default());
        let settings = config::Otlp { bytes_max: 10_000, ..config::Config::load(None, []).unwrap().otlp };
        let (spans, _flowing) = collector(settings, Arc::clone(&taken));
        let take = |first, traces| spans.take(&request(first, traces, 2_000), Encoding::Json);
        assert_eq!(take(1, 3).unwrap(), Decoded { accepted: 3, rejected: 0 });
        assert_eq!(take(11, 3), Err(SpanError::Busy), "three more would be more than the limit");
        spans.stop().await;
        let decoded = take(11, 50).unwrap();
        assert!(decoded.accepted == 4 && decoded.rejected == 46, "{decoded:?}");
        spans.stop().await;
        assert_eq!(taken.lock().len(), 7);
    }
}
