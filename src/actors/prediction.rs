//! The prediction actor predicts the next call of each live execution, after its start and after each step, publishes the prediction
//! on the bus and records it as an impression.
//!
//! The log says what happened in each execution; what was learnt comes from the newest view (`core::predict`), so a prediction never
//! waits for the fold. Predictions are computed on the actor's own thread, some at a time: the way to another thread and back takes
//! as long as a prediction. Where the execution actor is in the same process, it announces steps on their way into the log (`announce`):
//! their predictions are computed while the log stores them, and published when the log delivers them. An execution that takes further
//! steps while it waits gets one prediction, for its newest step (`core::live`). The impression (`prediction.served`) is appended after the
//! prediction was published: a crash in between loses only the impression. Its id is derived from the record that caused it, so two
//! processes with this role record it once.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture};
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio::time::Instant;

use super::announce::{Announced, Announcements};
use super::follow::{Pace, follow};
use super::{ActorFailure, Records};
use crate::ask::{Asker, StreamPredictor, StreamedPrediction};
use crate::bus::{BusError, SharedBus};
use crate::clock::{Clock, monotonic};
use crate::config::{self, Serve};
use crate::core::event::NewRecord;
use crate::core::id::ExecutionId;
use crate::core::live::Live;
use crate::core::time::Timestamp;
use crate::core::trace::OpenExecution;
use crate::failpoint;
use crate::log::{SharedLog, append_patiently};
use crate::metrics::Metrics;
use crate::subject::{Pattern, Subjects};
use crate::views::Views;

/// Records handled at once.
const BATCH_RECORDS_MAX: usize = 2_048;
/// Predictions computed before the next records are looked at, each published at once.
const PREDICTIONS_AT_ONCE_MAX: usize = 16;
/// An event that happened longer ago is history that somebody imports: nobody waits for what came next. The clocks of agents differ by
/// less.
const HAPPENED_MS_MAX: u64 = 3_600_000;
/// Impressions that wait to be appended; more are dropped.
const IMPRESSIONS_MAX: usize = 8_192;
/// How long impressions wait after the last append of some, at most: each append is a commit that the next steps wait for.
const IMPRESSIONS_EVERY_MAX: Duration = Duration::from_millis(100);
/// As many do not wait: a commit of hundreds takes milliseconds.
const IMPRESSIONS_AT_ONCE: usize = 64;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct PredictionParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) asker: Asker,
    pub(crate) bus: SharedBus,
    pub(crate) subjects: Subjects,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: config::Prediction,
    /// How long after its last record an execution is closed. An impression that is recorded later is not scored.
    pub(crate) settle: Duration,
    pub(crate) announcements: Announcements,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`, from the open executions of the newest view and its position in the log.
pub(crate) async fn run(parts: PredictionParts) -> Result<(), ActorFailure> {
    let view = parts.views.current();
    let (log, announcements, stop) = (Arc::clone(&parts.log), parts.announcements.clone(), parts.stop.clone());
    let actor = Prediction::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let live = Live::new(&view.executions, parts.settings.waiting_max);
        let predictor = StreamPredictor::new(parts.asker.clone());
        Prediction {
            live,
            predictor,
            goes_on: false,
            impressions: Vec::new(),
            appending: false,
            due: None,
            last_append: None,
            parts,
        }
    });
    let pace = Pace { batch_max: BATCH_RECORDS_MAX, gather: Duration::ZERO, burst: None };
    tokio::select! {
        biased;
        ended = follow(log, view.applied(), pace, actor.clone(), stop) => ended,
        never = announcements.forward(actor) => match never {},
    }
}

struct Prediction {
    live: Live,
    predictor: StreamPredictor,
    /// Whether further predictions follow without new records.
    goes_on: bool,
    /// Impressions that wait to be appended.
    impressions: Vec<Arc<NewRecord>>,
    /// Whether an append is under way, and the next one, if its time is set.
    appending: bool,
    due: Option<SpawnHandle>,
    last_append: Option<Instant>,
    parts: PredictionParts,
}

impl Actor for Prediction {
    type Context = Context<Self>;
}

impl Handler<Records> for Prediction {
    type Result = Result<(), ActorFailure>;

    fn handle(&mut self, Records(records): Records, context: &mut Context<Self>) -> Self::Result {
        let audience = Audience::current(&self.parts);
        let mut dropped = 0;
        for record in &records {
            failpoint::pass("prediction.record");
            dropped +=
                self.live.note(record, |execution, open| audience.includes(&record.fact, record.recorded_at, execution, open));
        }
        self.parts.metrics.predictions_dropped.inc_by(dropped);
        if !self.goes_on {
            self.predict_some(context);
        }
        Ok(())
    }
}

impl Handler<Announced> for Prediction {
    type Result = ();

    /// Computes the prediction after a fact on its way into the log, unless predictions after records wait.
    fn handle(&mut self, Announced(fact): Announced, _: &mut Context<Self>) {
        if self.goes_on {
            return;
        }
        let audience = Audience::current(&self.parts);
        let includes = |execution: &ExecutionId, open: &OpenExecution| audience.includes(&fact, audience.now, execution, open);
        if let Some(context) = self.live.context_after(&fact, includes) {
            self.predictor.predict_ahead(context, self.parts.settings.ranked_max);
        }
    }
}

impl Prediction {
    /// Computes and publishes the predictions of the executions that have waited longest, then those of the others; between them the
    /// records that have come are noted.
    fn predict_some(&mut self, context: &mut Context<Self>) {
        self.goes_on = false;
        if self.live.waiting() == 0 {
            return;
        }
        let contexts = self.live.next_contexts(PREDICTIONS_AT_ONCE_MAX);
        let (parts, mut publishing, mut impressions) = (&self.parts, Vec::new(), Vec::new());
        self.predictor.predict_all(&contexts, parts.settings.ranked_max, |outcome| match outcome {
            Ok(prediction) => {
                publishing.push(publish(&parts.bus, &parts.subjects, &prediction));
                impressions.push(Arc::new(prediction.impression));
            }
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "no prediction was made"),
        });
        parts.metrics.predictions_served.inc_by(impressions.len() as u64);
        context.spawn(join_all(publishing).into_actor(self).map(|outcomes, actor, context| {
            // The bus delivers at most once. A subscriber that missed a prediction gets the next one, or asks.
            for error in outcomes.into_iter().filter_map(Result::err) {
                tracing::debug!(%error, "prediction not published");
            }
            actor.append_impressions(impressions, context);
        }));
        if self.live.waiting() > 0 {
            self.goes_on = true;
            let turn_of_others = tokio::task::yield_now().into_actor(self);
            context.spawn(turn_of_others.map(|(), actor, context| actor.predict_some(context)));
        }
    }

    /// Queues impressions. What is queued is appended at once if it is much, else some time after the last append began.
    fn append_impressions(&mut self, impressions: Vec<Arc<NewRecord>>, context: &mut Context<Self>) {
        let room = IMPRESSIONS_MAX - self.impressions.len();
        self.parts.metrics.impressions_dropped.inc_by(impressions.len().saturating_sub(room) as u64);
        self.impressions.extend(impressions.into_iter().take(room));
        if self.appending || self.impressions.is_empty() {
            return;
        }
        let every = IMPRESSIONS_EVERY_MAX.min(self.parts.settle / 2);
        let wait = self.last_append.map_or(Duration::ZERO, |last| every.saturating_sub(last.elapsed()));
        if wait.is_zero() || self.impressions.len() >= IMPRESSIONS_AT_ONCE {
            self.append_queued(context);
        } else if self.due.is_none() {
            self.due = Some(context.run_later(wait, |actor, context| {
                actor.due = None;
                actor.append_queued(context);
            }));
        }
    }

    fn append_queued(&mut self, context: &mut Context<Self>) {
        if let Some(due) = self.due.take() {
            context.cancel_future(due);
        }
        (self.appending, self.last_append) = (true, Some(monotonic()));
        let (log, facts) = (Arc::clone(&self.parts.log), std::mem::take(&mut self.impressions));
        let appending = async move { append_patiently(&log, facts).await };
        context.spawn(appending.into_actor(self).map(|outcome, actor, context| {
            actor.appending = false;
            match outcome {
                Ok(_) => actor.append_impressions(Vec::new(), context),
                Err(failure) => {
                    tracing::error!(error = &failure as &dyn std::error::Error, "impressions were not recorded");
                    // `follow` finds the actor stopped, and the supervisor rebuilds it.
                    context.stop();
                }
            }
        }));
    }
}

/// Publishes a prediction. The future only tells whether the bus took it.
fn publish(bus: &SharedBus, subjects: &Subjects, prediction: &StreamedPrediction) -> BoxFuture<'static, Result<(), BusError>> {
    let subject = match &prediction.session {
        Some(session) => subjects.predict(session),
        None => subjects.predict_execution(&prediction.execution),
    };
    bus.publish(subject, Arc::clone(&prediction.message))
}

/// `Audience` decides which executions get a prediction, at one point in time.
struct Audience<'a> {
    serve: Serve,
    now: Timestamp,
    /// Records that were appended longer ago get no prediction.
    fresh_ms: u64,
    /// The subscriptions in this process.
    listeners: Vec<Pattern>,
    subjects: &'a Subjects,
}

impl<'a> Audience<'a> {
    fn current(parts: &'a PredictionParts) -> Self {
        let config::Prediction { serve, fresh_ms, .. } = parts.settings;
        let listeners = if serve == Serve::Asked { parts.bus.listeners() } else { Vec::new() };
        Self { serve, now: parts.clock.now(), fresh_ms, listeners, subjects: &parts.subjects }
    }

    fn includes(&self, fact: &NewRecord, recorded_at: Timestamp, execution: &ExecutionId, open: &OpenExecution) -> bool {
        let is_past = self.now.millis_since(fact.time) > HAPPENED_MS_MAX;
        if is_past || self.now.millis_since(recorded_at) > self.fresh_ms {
            return false;
        }
        match self.serve {
            Serve::All => true,
            Serve::None => false,
            Serve::Asked => open.session().is_some() || self.has_listener(execution),
        }
    }

    fn has_listener(&self, execution: &ExecutionId) -> bool {
        if self.listeners.is_empty() {
            return false; // The common case; it builds no subject.
        }
        let subject = self.subjects.predict_execution(execution);
        self.listeners.iter().any(|pattern| pattern.matches(&subject))
    }
}
