//! Predictions for live executions: what a subscriber is told, and the record that it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::predict::PredictAnswer;
use super::{AskError, Asker};
use crate::core::event::{Event, NewRecord, PredictionServed, RankedOutcome};
use crate::core::id::{ExecutionId, RecordId, SessionId};
use crate::core::live::Moment;
use crate::core::predict::evidence::Evidence;
use crate::core::predict::threshold::Mode;
use crate::core::predict::{Asked, Prediction, predict_with};
use crate::core::rank::Question;
use crate::core::state::State;

const SOURCE: &str = "pml/prediction";
/// Reasons for each outcome in a message; `explain` gives all.
const REASONS_MAX: usize = 3;
/// Intents whose vectors are kept: an execution has one for all its steps.
const QUESTIONS_MAX: usize = 1_024;
/// Intents whose comparison with all that is known is kept, until the next view. Each takes some bytes per tool.
const EVIDENCE_MAX: usize = 64;

/// Predicts one after the other, and keeps what the next ones need again.
pub struct Foresight {
    asker: Asker,
    state: Arc<State>,
    questions: BTreeMap<String, Question>,
    evidence: BTreeMap<String, Evidence>,
}

/// A prediction for a live execution.
pub struct Foreseen {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    /// What subscribers are told: JSON on one line.
    pub message: Arc<[u8]>,
    pub impression: NewRecord,
}

#[derive(Serialize)]
struct MessageDto<'a> {
    prediction: String,
    execution: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    /// The record it follows.
    cause: String,
    #[serde(flatten)]
    answer: PredictAnswer,
}

impl Foresight {
    pub fn new(asker: Asker) -> Self {
        Self { asker, state: Arc::default(), questions: BTreeMap::new(), evidence: BTreeMap::new() }
    }

    /// By everything the newest view knows.
    pub fn foresee(&mut self, moment: &Moment, ranked_max: usize) -> Result<Foreseen, AskError> {
        self.look();
        let prediction = self.predict(moment, ranked_max)?;
        let id = prediction_id(moment);
        let message = MessageDto {
            prediction: id.to_string(),
            execution: moment.execution.as_str(),
            session: moment.session.as_ref().map(SessionId::as_str),
            cause: moment.cause.to_string(),
            answer: PredictAnswer::new(&self.state, &prediction, REASONS_MAX),
        };
        let message = serde_json::to_vec(&message).expect("a prediction is JSON");
        Ok(Foreseen {
            execution: moment.execution.clone(),
            session: moment.session.clone(),
            message: message.into(),
            impression: impression(moment, id, &prediction),
        })
    }

    fn look(&mut self) {
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

    fn predict(&mut self, moment: &Moment, ranked_max: usize) -> Result<Prediction, AskError> {
        let intent = moment.intent.trim();
        if !self.evidence.contains_key(intent) {
            let state = Arc::clone(&self.state);
            let evidence = Evidence::of(&state, self.question(intent)?);
            if self.evidence.len() >= EVIDENCE_MAX {
                self.evidence.clear();
            }
            self.evidence.insert(intent.to_owned(), evidence);
        }
        let asked = Asked { context: &moment.calls, k: ranked_max, mode: Mode::Passive, seed: moment.cause };
        Ok(predict_with(&self.state, &self.evidence[intent], &asked))
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

/// The prediction after a record, whoever makes it: made twice, it is recorded once.
fn prediction_id(moment: &Moment) -> RecordId {
    RecordId::derived(moment.time, &["prediction.served", &moment.cause.to_string()])
}

fn impression(moment: &Moment, id: RecordId, prediction: &Prediction) -> NewRecord {
    let ranked = prediction.ranked.iter();
    let ranked = ranked.map(|ranked| RankedOutcome { outcome: ranked.outcome.clone(), probability: ranked.p });
    let served = PredictionServed {
        prediction: id,
        execution: Some(moment.execution.clone()),
        based_on_seq: prediction.based_on_seq,
        model: prediction.model.clone(),
        ranked: ranked.collect(),
        threshold: prediction.threshold,
    };
    // At the time of its cause: what follows from a record does not depend on when somebody computed it.
    let event = Event::PredictionServed(served);
    NewRecord { id, time: moment.time, source: SOURCE.into(), causation: Some(moment.cause), event }
}
