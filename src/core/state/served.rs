//! What became of predictions: served, settled by what came next, judged by whoever got them.

use super::State;
use crate::core::event::{FeedbackGiven, NewRecord, Outcome, PredictionServed, StepFinished};
use crate::core::graph::transition::Symbol;
use crate::core::id::{ExecutionId, RecordId, Seq};
use crate::core::predict::candidates::Candidate;

impl State {
    pub(super) fn serve(&mut self, served: &PredictionServed, cause: Option<RecordId>) {
        let open = served.execution.as_ref().and_then(|execution| self.executions.get(execution));
        let calls = open.map(|open| open.since(cause)).and_then(|(calls, went_on)| (!went_on).then_some(calls));
        let mut scores = std::mem::take(&mut self.predictor.scores);
        scores.serve(served, calls, |outcome: &Outcome| Candidate::find(self, outcome).map(Candidate::symbol));
        self.predictor.scores = scores;
    }

    pub(super) fn judge(&mut self, feedback: &FeedbackGiven) {
        let predictor = &mut self.predictor;
        predictor.scores.judge(feedback, &mut predictor.thresholds);
    }

    pub(super) fn settle_step(&mut self, step: &StepFinished, fact: &NewRecord, seq: Seq) {
        if !self.predictor.scores.is_waiting() {
            return;
        }
        let open = self.executions.get(&step.execution);
        if open.is_some_and(|open| open.is_finished_by(&step.step, fact.id)) {
            self.settle(&step.execution, self.find(&step.tool).map(Symbol::call), seq);
        }
    }

    pub(super) fn settle(&mut self, execution: &ExecutionId, outcome: Option<Symbol>, seq: Seq) {
        let predictor = &mut self.predictor;
        predictor.scores.settle(execution, outcome, seq, &mut predictor.thresholds);
    }
}
