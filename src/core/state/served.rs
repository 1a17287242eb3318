//! What became of predictions: served, settled by what came next, judged by whoever got them.

use super::State;
use crate::core::event::{Event, FeedbackGiven, NewRecord, Outcome, PredictionServed, StepFinished};
use crate::core::graph::transition::Symbol;
use crate::core::id::{ExecutionId, RecordId, Seq};
use crate::core::predict::candidates::Candidate;

impl State {
    /// One that was overtaken, because its execution went on before it was recorded, is settled at once.
    pub(super) fn serve(&mut self, served: &PredictionServed, cause: Option<RecordId>, seq: Seq) {
        let open = served.execution.as_ref().and_then(|execution| self.executions.get(execution));
        let (calls, next) = open.and_then(|open| open.since(cause)).unzip();
        let next = next.flatten().map(|fact| match &fact.event {
            Event::StepFinished(step) => self.find(&step.tool).map(Symbol::call),
            _ => Some(Symbol::END),
        });
        let mut scores = std::mem::take(&mut self.predictor.scores);
        scores.serve(served, calls, |outcome: &Outcome| Candidate::find(self, outcome).map(Candidate::symbol));
        self.predictor.scores = scores;
        if let Some((execution, outcome)) = served.execution.as_ref().zip(next) {
            self.settle(execution, outcome, seq);
        }
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
