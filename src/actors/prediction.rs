//! prediction: tells live executions what comes next, after their start and after each step, and records that it did.
//!
//! It follows the log for what happens in each execution and takes what was learnt from the newest index, so a prediction never waits
//! for the fold. Predictions are computed on a thread that may block, a few at a time; whoever cannot be served in time waits for its
//! newest step only (`core::live`). The impression (`prediction.served`) is appended after the prediction was published: a crash in
//! between loses the impression and nothing else. Its id follows from the record that caused it, so two of these in different
//! processes record it once.

use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::sync::watch;

use super::follow::follow;
use super::{ActorFailure, Records};
use crate::ask::{Asker, StreamPredictor, StreamedPrediction};
use crate::bus::SharedBus;
use crate::clock::Clock;
use crate::config::{self, Serve};
use crate::core::event::{NewRecord, Record};
use crate::core::id::ExecutionId;
use crate::core::live::Live;
use crate::core::time::Timestamp;
use crate::core::trace::OpenExecution;
use crate::failpoint;
use crate::log::{SharedLog, append_patiently};
use crate::metrics::Metrics;
use crate::subject::{Pattern, Subjects};
use crate::views::Views;

const BATCH_RECORDS_MAX: usize = 2_048;
/// Predictions computed between two looks at what is published: the first of them waits for the last.
const AT_ONCE_MAX: usize = 8;
/// Impressions that wait for the log; more are dropped.
const IMPRESSIONS_MAX: usize = 8_192;

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
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life of the actor: knows the open executions of the newest view and follows the log from there.
pub(crate) async fn run(parts: PredictionParts) -> Result<(), ActorFailure> {
    let view = parts.views.current();
    let (log, stop) = (Arc::clone(&parts.log), parts.stop.clone());
    let actor = Prediction::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let live = Live::new(&view.executions, parts.settings.waiting_max);
        let predictor = Some(StreamPredictor::new(parts.asker.clone()));
        Prediction { live, predictor, impressions: Vec::new(), appending: false, parts }
    });
    follow(log, view.applied(), BATCH_RECORDS_MAX, actor, None, stop).await
}

struct Prediction {
    live: Live,
    /// Away while some predictions are computed; the next ones are taken when it is back.
    predictor: Option<StreamPredictor>,
    /// What the log has yet to take.
    impressions: Vec<Arc<NewRecord>>,
    appending: bool,
    parts: PredictionParts,
}

impl Actor for Prediction {
    type Context = Context<Self>;
}

impl Handler<Records> for Prediction {
    type Result = Result<(), ActorFailure>;

    fn handle(&mut self, Records(records): Records, context: &mut Context<Self>) -> Self::Result {
        let served = Served::now(&self.parts);
        let mut dropped = 0;
        for record in &records {
            failpoint::pass("prediction.record");
            dropped += self.live.note(record, |execution, open| served.includes(record, execution, open));
        }
        self.parts.metrics.predictions_dropped.inc_by(dropped);
        self.serve_some(context);
        Ok(())
    }
}

impl Prediction {
    /// Predicts for those who have waited longest, unless that is under way.
    fn serve_some(&mut self, context: &mut Context<Self>) {
        if self.live.waiting() == 0 {
            return;
        }
        let Some(mut predictor) = self.predictor.take() else { return };
        let (contexts, ranked_max) = (self.live.next_contexts(AT_ONCE_MAX), self.parts.settings.ranked_max);
        let predict = move || {
            let predicted: Vec<_> = contexts.iter().map(|live| predictor.predict(live, ranked_max)).collect();
            (predictor, predicted)
        };
        let (bus, subjects) = (Arc::clone(&self.parts.bus), self.parts.subjects.clone());
        let serving = async move {
            let (predictor, predicted) = tokio::task::spawn_blocking(predict).await?;
            let mut impressions = Vec::with_capacity(predicted.len());
            for outcome in predicted {
                match outcome {
                    Ok(prediction) => {
                        publish(&bus, &subjects, &prediction).await;
                        impressions.push(Arc::new(prediction.impression));
                    }
                    Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "no prediction was made"),
                }
            }
            Ok::<_, tokio::task::JoinError>((predictor, impressions))
        };
        context.spawn(serving.into_actor(self).map(|outcome, actor, context| {
            let Ok((predictor, impressions)) = outcome else {
                // It panicked. Whoever feeds this actor finds it gone, and it is built anew.
                context.stop();
                return;
            };
            actor.predictor = Some(predictor);
            actor.parts.metrics.predictions_served.inc_by(impressions.len() as u64);
            actor.remember(impressions, context);
            actor.serve_some(context);
        }));
    }

    fn remember(&mut self, impressions: Vec<Arc<NewRecord>>, context: &mut Context<Self>) {
        let room = IMPRESSIONS_MAX - self.impressions.len();
        self.parts.metrics.impressions_dropped.inc_by(impressions.len().saturating_sub(room) as u64);
        self.impressions.extend(impressions.into_iter().take(room));
        if self.appending || self.impressions.is_empty() {
            return;
        }
        self.appending = true;
        let (log, facts) = (Arc::clone(&self.parts.log), std::mem::take(&mut self.impressions));
        let appending = async move { append_patiently(&log, facts).await };
        context.spawn(appending.into_actor(self).map(|outcome, actor, context| {
            actor.appending = false;
            match outcome {
                Ok(_) => actor.remember(Vec::new(), context),
                Err(failure) => {
                    tracing::error!(error = &failure as &dyn std::error::Error, "impressions were not recorded");
                    // Whoever feeds this actor finds it gone, and it is built anew.
                    context.stop();
                }
            }
        }));
    }
}

async fn publish(bus: &SharedBus, subjects: &Subjects, prediction: &StreamedPrediction) {
    let subject = match &prediction.session {
        Some(session) => subjects.predict(session),
        None => subjects.predict_execution(&prediction.execution),
    };
    // At most once, as the bus promises: whoever missed one hears the next, or asks.
    if let Err(error) = bus.publish(subject, Arc::clone(&prediction.message)).await {
        tracing::debug!(%error, "prediction not published");
    }
}

/// Who is served, at one moment.
struct Served<'a> {
    serve: Serve,
    now: Timestamp,
    /// Steps that the log took longer ago are history.
    fresh_ms: u64,
    /// What is listened to in this process.
    listeners: Vec<Pattern>,
    subjects: &'a Subjects,
}

impl<'a> Served<'a> {
    fn now(parts: &'a PredictionParts) -> Self {
        let config::Prediction { serve, fresh_ms, .. } = parts.settings;
        let listeners = if serve == Serve::Asked { parts.bus.listeners() } else { Vec::new() };
        Self { serve, now: parts.clock.now(), fresh_ms, listeners, subjects: &parts.subjects }
    }

    fn includes(&self, record: &Record, execution: &ExecutionId, open: &OpenExecution) -> bool {
        if self.now.millis_since(record.recorded_at) > self.fresh_ms {
            return false;
        }
        match self.serve {
            Serve::All => true,
            Serve::None => false,
            Serve::Asked => open.session().is_some() || self.is_heard(execution),
        }
    }

    fn is_heard(&self, execution: &ExecutionId) -> bool {
        if self.listeners.is_empty() {
            return false; // Most of the time, and without making a subject.
        }
        let subject = self.subjects.predict_execution(execution);
        self.listeners.iter().any(|pattern| pattern.matches(&subject))
    }
}
