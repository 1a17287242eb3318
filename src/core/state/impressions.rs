//! The fold of impressions: recorded by `prediction.served`, scored by what the execution did next, adjusted by feedback.

use super::State;
use crate::event::{Event, FeedbackGiven, FeedbackTarget, NewRecord, Outcome, PredictionServed, StepFinished};
use crate::graph::transition::Symbol;
use crate::id::{ExecutionId, RecordId, Seq};
use crate::predict::candidates::Candidate;

impl State {
    /// Adds an impression. If its execution went on before it was recorded, it is scored at once.
    pub(super) fn add_impression(&mut self, served: &PredictionServed, cause: Option<RecordId>, seq: Seq) {
        let open = served.execution.as_ref().and_then(|execution| self.executions.get(execution));
        let (calls, next) = open.and_then(|open| open.progress_at(cause)).unzip();
        let next = next.flatten().map(|fact| match &fact.event {
            Event::StepFinished(step) => self.find(&step.tool).map(Symbol::call),
            _ => Some(Symbol::END),
        });
        let mut scores = std::mem::take(&mut self.predictor.scores);
        scores.add(served, calls, |outcome: &Outcome| Candidate::find(self, outcome).map(Candidate::symbol));
        self.predictor.scores = scores;
        if let Some((execution, outcome)) = served.execution.as_ref().zip(next) {
            self.score_impression(execution, outcome, seq);
        }
    }

    /// Applies feedback: on an impression to the thresholds, on a suggested plan to what is remembered of it.
    pub(super) fn apply_feedback(&mut self, feedback: &FeedbackGiven, seq: Seq) {
        let predictor = &mut self.predictor;
        match feedback.target {
            FeedbackTarget::Prediction(prediction) => {
                predictor.scores.apply_feedback(prediction, feedback.verdict, &mut predictor.thresholds);
            }
            FeedbackTarget::Suggestion(plan) => predictor.feedback.observe(plan, feedback.verdict, seq),
        }
    }

    /// Scores the open impression of an execution by a step that ended.
    pub(super) fn score_step(&mut self, step: &StepFinished, fact: &NewRecord, seq: Seq) {
        if !self.predictor.scores.has_open() {
            return;
        }
        let open = self.executions.get(&step.execution);
        if open.is_some_and(|open| open.is_finished_by(&step.step, fact.id)) {
            self.score_impression(&step.execution, self.find(&step.tool).map(Symbol::call), seq);
        }
    }

    /// Scores the open impression of an execution by `outcome`; `None` if the state does not know it.
    pub(super) fn score_impression(&mut self, execution: &ExecutionId, outcome: Option<Symbol>, seq: Seq) {
        let predictor = &mut self.predictor;
        predictor.scores.score(execution, outcome, seq, &mut predictor.thresholds);
    }
}
