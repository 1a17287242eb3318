//! Predictions for live executions: the message for subscribers, and the impression to record.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::predict::PredictAnswer;
use super::{AskError, Asker};
use crate::core::event::{Event, NewRecord, PredictionServed, RankedOutcome};
use crate::core::id::{ExecutionId, RecordId, SessionId};
use crate::core::live::LiveContext;
use crate::core::predict::evidence::Evidence;
use crate::core::predict::threshold::Mode;
use crate::core::predict::{Prediction, PredictionQuery, predict_with};
use crate::core::rank::Question;
use crate::core::state::State;

const SOURCE: &str = "pml/prediction";
/// Reasons for each outcome in a message; `explain` gives all.
const REASONS_MAX: usize = 3;
/// Intents whose vectors are cached: an execution has one intent for all its steps.
const QUESTIONS_MAX: usize = 1_024;
/// Intents whose evidence is cached, until the next view. Each takes some bytes per tool.
const EVIDENCE_MAX: usize = 64;

/// `StreamPredictor` predicts for one live context after the other and caches vectors and evidence by intent.
pub struct StreamPredictor {
    asker: Asker,
    state: Arc<State>,
    questions: BTreeMap<String, Question>,
    evidence: BTreeMap<String, Evidence>,
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
    #[serde(flatten)]
    answer: PredictAnswer,
}

impl StreamPredictor {
    pub fn new(asker: Asker) -> Self {
        Self { asker, state: Arc::default(), questions: BTreeMap::new(), evidence: BTreeMap::new() }
    }

    /// Predicts from the newest view, with at most `ranked_max` outcomes.
    pub fn predict(&mut self, context: &LiveContext, ranked_max: usize) -> Result<StreamedPrediction, AskError> {
        self.refresh_view();
        let prediction = self.rank(context, ranked_max)?;
        let id = prediction_id(context);
        let message = MessageDto {
            prediction: id.to_string(),
            execution: context.execution.as_str(),
            session: context.session.as_ref().map(SessionId::as_str),
            cause: context.cause.to_string(),
            answer: PredictAnswer::new(&self.state, &prediction, REASONS_MAX),
        };
        let message = serde_json::to_vec(&message).expect("a prediction is JSON");
        Ok(StreamedPrediction {
            execution: context.execution.clone(),
            session: context.session.clone(),
            message: message.into(),
            impression: impression(context, id, &prediction),
        })
    }

    /// Takes over the newest view and drops what was cached from an older one.
    fn refresh_view(&mut self) {
        let newest = self.asker.views.current();
        if newest.applied() == self.state.applied() {
            return;
        }
        if newest.vectors.model() != self.state.vectors.model() {
            self.questions.clear();
        }
        self.evidence.clear();
        self.state = newest;
    }

    fn rank(&mut self, context: &LiveContext, ranked_max: usize) -> Result<Prediction, AskError> {
        let intent = context.intent.trim();
        if !self.evidence.contains_key(intent) {
            let state = Arc::clone(&self.state);
            let evidence = Evidence::for_question(&state, self.question(intent)?);
            if self.evidence.len() >= EVIDENCE_MAX {
                self.evidence.clear();
            }
            self.evidence.insert(intent.to_owned(), evidence);
        }
        let query = PredictionQuery { context: &context.calls, k: ranked_max, mode: Mode::Passive, seed: context.cause };
        Ok(predict_with(&self.state, &self.evidence[intent], &query))
    }

    fn question(&mut self, intent: &str) -> Result<&Question, AskError> {
        if !self.questions.contains_key(intent) {
            let question = self.asker.question(self.state.vectors.model(), intent.to_owned())?;
            if self.questions.len() >= QUESTIONS_MAX {
                self.questions.clear();
            }
            self.questions.insert(intent.to_owned(), question);
        }
        Ok(&self.questions[intent])
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
