//! Predictions for live executions: the message for subscribers, and the impression to record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::handles::{Handles, Mentions};
use super::predict::PredictAnswer;
use super::{AskError, Asker};
use crate::clock::monotonic;
use crate::core::event::{Event, NewRecord, PredictionServed, RankedOutcome};
use crate::core::graph::Node;
use crate::core::id::{ExecutionId, RecordId, SessionId};
use crate::core::live::LiveContext;
use crate::core::paths::PathIndex;
use crate::core::predict::evidence::Evidence;
use crate::core::predict::hyperpath::{Aim, way_to_target};
use crate::core::predict::threshold::Mode;
use crate::core::predict::{Prediction, PredictionQuery, predict_with};
use crate::core::rank::Question;
use crate::core::state::State;

const SOURCE: &str = "pml/prediction";
/// Reasons for each outcome in a message; `explain` gives all.
const REASONS_MAX: usize = 3;
/// Intents whose vectors are kept: an execution has one intent for all its steps.
const INTENTS_MAX: usize = 4_096;
/// How long a view is held while newer ones appear, at least and at most. Predictions of one view share the paths, and under load every
/// step makes a new view. What was computed for an intent is used as long again.
const VIEW_HELD_MIN: Duration = Duration::from_millis(50);
const VIEW_HELD_MAX: Duration = Duration::from_millis(500);
/// A view is held longer while predicting takes more than one part in this many of the time.
const IDLE_SHARE: u32 = 16;
/// Tools in the kept evidence of all intents together; the evidence of an intent takes some bytes per tool.
const EVIDENCE_TOOLS_MAX: usize = 1 << 20;

/// Predictions made ahead that wait for their steps, at most, and how long each is used. A step is stored within milliseconds.
const AHEAD_MAX: usize = 64;
const AHEAD_HELD_MAX: Duration = Duration::from_millis(100);

/// `StreamPredictor` predicts for one live context after the other and keeps vectors and evidence by intent.
pub struct StreamPredictor {
    asker: Asker,
    state: Arc<State>,
    /// When `state` was the newest view, and how long was spent on predictions since.
    taken_over: Option<Instant>,
    spent: Duration,
    /// The path index of `state`, with the distances from the current calls of live executions.
    paths: PathIndex,
    intents: BTreeMap<String, LiveIntent>,
    /// The oldest first.
    ahead: VecDeque<MadeAhead>,
}

/// A prediction made before its step was stored.
struct MadeAhead {
    context: LiveContext,
    prediction: StreamedPrediction,
    made: Instant,
}

/// The intent of a live execution.
struct LiveIntent {
    question: Question,
    /// `None` after a while: the next prediction is made from a newer view.
    basis: Option<Arc<Basis>>,
}

/// What predictions for an intent are made from.
struct Basis {
    state: Arc<State>,
    evidence: Evidence,
    computed: Instant,
}

/// A prediction for a live execution.
pub struct StreamedPrediction {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    /// The message for subscribers: JSON on one line.
    pub message: Arc<[u8]>,
    /// The `prediction.served` fact to record.
    pub impression: NewRecord,
}

#[derive(Serialize)]
struct MessageDto<'a> {
    prediction: String,
    execution: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    /// The record that caused it.
    cause: String,
    /// The capability that the execution likely aims at.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<TargetDto>,
    #[serde(flatten)]
    answer: PredictAnswer,
}

#[derive(Serialize)]
struct TargetDto {
    /// `capability:<id>`.
    item: String,
    /// `shgat` or `memory`, as in an explanation.
    by: &'static str,
    share: f64,
    /// Its calls that were not made and wait for no other.
    next: Vec<String>,
    /// The shortest hyperpath to it from the last call, both included.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<String>>,
    /// The handles of these capabilities.
    handles: Handles,
}

impl StreamPredictor {
    pub fn new(asker: Asker) -> Self {
        Self {
            asker,
            state: Arc::default(),
            taken_over: None,
            spent: Duration::ZERO,
            paths: PathIndex::default(),
            intents: BTreeMap::new(),
            ahead: VecDeque::new(),
        }
    }

    /// Predicts for each context, with at most `ranked_max` outcomes, from the newest view or one that was until twice [`VIEW_HELD_MAX`]
    /// ago, and hands over each prediction as soon as it is made. One that was made ahead is not made again.
    pub fn predict_all(
        &mut self,
        contexts: &[LiveContext],
        ranked_max: usize,
        mut hand_over: impl FnMut(Result<StreamedPrediction, AskError>),
    ) {
        let began = monotonic();
        for context in contexts {
            if let Some(prediction) = self.take_made_ahead(context, began) {
                hand_over(Ok(prediction));
            } else {
                self.refresh_view(began);
                hand_over(self.predict(context, ranked_max, began));
            }
        }
        self.spent += began.elapsed();
    }

    /// Predicts for a context that will likely come soon: [`predict_all`](Self::predict_all) then hands over this prediction.
    pub fn predict_ahead(&mut self, context: LiveContext, ranked_max: usize) {
        let began = monotonic();
        self.refresh_view(began);
        // An error is met again, and reported, when the prediction is due.
        if let Ok(prediction) = self.predict(&context, ranked_max, began) {
            if self.ahead.len() == AHEAD_MAX {
                self.ahead.pop_front();
            }
            self.ahead.push_back(MadeAhead { context, prediction, made: began });
        }
        self.spent += began.elapsed();
    }

    /// Removes the prediction made ahead for the cause of `context`; `None` if there is none, or if it is old or the context is another.
    fn take_made_ahead(&mut self, context: &LiveContext, now: Instant) -> Option<StreamedPrediction> {
        let at = self.ahead.iter().position(|ahead| ahead.context.cause == context.cause)?;
        let MadeAhead { context: expected, prediction, made } = self.ahead.remove(at)?;
        (expected == *context && now - made < AHEAD_HELD_MAX).then_some(prediction)
    }

    fn predict(&mut self, context: &LiveContext, ranked_max: usize, now: Instant) -> Result<StreamedPrediction, AskError> {
        let basis = self.basis(context.intent.trim(), now)?;
        let Basis { state, evidence, .. } = &*basis;
        let query = PredictionQuery { context: &context.calls, k: ranked_max, mode: Mode::Passive, seed: context.cause };
        let prediction = predict_with(state, evidence, &query);
        let way = way_to_target(state, evidence, &context.calls, &mut self.paths);
        let id = prediction_id(context);
        let message = MessageDto {
            prediction: id.to_string(),
            execution: context.execution.as_str(),
            session: context.session.as_ref().map(SessionId::as_str),
            cause: context.cause.to_string(),
            // Named by the state of the paths, which is the newer one if they differ.
            target: way.map(|(aim, path)| TargetDto::new(&self.state, &aim, path)),
            answer: PredictAnswer::new(state, &prediction, REASONS_MAX),
        };
        let message = serde_json::to_vec(&message).expect("a prediction is JSON");
        Ok(StreamedPrediction {
            execution: context.execution.clone(),
            session: context.session.clone(),
            message: message.into(),
            impression: impression(context, id, &prediction),
        })
    }

    /// Takes over the newest view and drops what was computed from others, unless it is to be held.
    fn refresh_view(&mut self, now: Instant) {
        let held = self.taken_over.map(|taken_over| now - taken_over);
        let is_busy = held.is_some_and(|held| self.spent * IDLE_SHARE > held);
        let period = if is_busy { VIEW_HELD_MAX } else { VIEW_HELD_MIN };
        if held.is_some_and(|held| held < period) {
            return;
        }
        (self.taken_over, self.spent) = (Some(now), Duration::ZERO);
        let newest = self.asker.views.current();
        if newest.applied() == self.state.applied() {
            return;
        }
        if newest.vectors.model() != self.state.vectors.model() {
            self.intents.clear();
        }
        // Not all at once, or every execution under way would have to wait for the evidence of all others.
        for intent in self.intents.values_mut() {
            intent.basis = intent.basis.take().filter(|basis| now - basis.computed < period);
        }
        self.paths.update(&newest);
        self.state = newest;
    }

    /// What predictions for an intent are made from.
    fn basis(&mut self, intent: &str, now: Instant) -> Result<Arc<Basis>, AskError> {
        if !self.intents.contains_key(intent) {
            let question = self.asker.question(&self.state.vectors, intent.to_owned())?;
            if self.intents.len() >= INTENTS_MAX.min(EVIDENCE_TOOLS_MAX / self.state.tools.len().max(1)) {
                self.intents.clear();
            }
            self.intents.insert(intent.to_owned(), LiveIntent { question, basis: None });
        }
        let known = self.intents.get_mut(intent).expect("it was just added");
        let basis = known.basis.get_or_insert_with(|| {
            let evidence = Evidence::for_question(&self.state, &known.question);
            Arc::new(Basis { state: Arc::clone(&self.state), evidence, computed: now })
        });
        Ok(Arc::clone(basis))
    }
}

impl TargetDto {
    fn new(state: &State, aim: &Aim, path: Option<Vec<Node>>) -> Self {
        let mentions = Mentions::new(state);
        let item = mentions.node(aim.capability);
        let (next, path) = (mentions.nodes(&aim.next), path.map(|path| mentions.nodes(&path)));
        let by = if aim.is_by_shgat { "shgat" } else { "memory" };
        Self { item, by, share: aim.share, next, path, handles: mentions.handles() }
    }
}

/// The id of the prediction after a record. It follows from the cause: made twice, the prediction is recorded once.
fn prediction_id(context: &LiveContext) -> RecordId {
    RecordId::derived(context.time, &["prediction.served", &context.cause.to_string()])
}

fn impression(context: &LiveContext, id: RecordId, prediction: &Prediction) -> NewRecord {
    let ranked = prediction.ranked.iter();
    let ranked = ranked.map(|ranked| RankedOutcome { outcome: ranked.outcome.clone(), probability: ranked.p });
    let served = PredictionServed {
        prediction: id,
        execution: Some(context.execution.clone()),
        based_on_seq: prediction.based_on_seq,
        model: prediction.model.clone(),
        ranked: ranked.collect(),
        threshold: prediction.threshold,
    };
    // At the time of its cause: the fact must not depend on when it was computed.
    let event = Event::PredictionServed(served);
    NewRecord { id, time: context.time, source: SOURCE.into(), causation: Some(context.cause), envelope: None, event }
}
