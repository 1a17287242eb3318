//! The fold of impressions: recorded by `prediction.served`, scored by what the execution did next, adjusted by feedback.

use super::State;
use crate::event::{Event, FeedbackGiven, FeedbackTarget, NewRecord, Outcome, PredictionServed, StepFinished};
use crate::graph::NodeKind;
use crate::graph::transition::Symbol;
use crate::id::{ExecutionId, Seq};
use crate::predict::asked;
use crate::predict::candidates::Candidate;
use crate::time::Timestamp;

impl State {
    /// Adds an impression. If its execution went on before it was recorded, it is scored at once.
    pub(super) fn add_impression(&mut self, served: &PredictionServed, fact: &NewRecord, seq: Seq) {
        let open = served.execution.as_ref().and_then(|execution| self.executions.get(execution));
        let (calls, next) = open.and_then(|open| open.progress_at(fact.causation)).unzip();
        let next = next.flatten().map(|fact| match &fact.event {
            Event::StepFinished(step) => self.find(&step.tool).map(Symbol::call),
            _ => Some(Symbol::END),
        });
        let mut scores = std::mem::take(&mut self.predictor.scores);
        scores.add(served, calls, |outcome: &Outcome| Candidate::find(self, outcome).map(Candidate::symbol));
        self.predictor.scores = scores;
        if let Some((execution, outcome)) = served.execution.as_ref().zip(next) {
            self.score_impression(execution, outcome, (seq, fact.time));
        }
    }

    /// Applies feedback: on a prediction to the thresholds, on a suggested plan to what is remembered of it.
    pub(super) fn apply_feedback(&mut self, feedback: &FeedbackGiven, seq: Seq) {
        match feedback.target {
            FeedbackTarget::Prediction(prediction) => {
                let asked = asked::first_outcome(prediction).filter(|first| self.has_outcome(*first));
                let predictor = &mut self.predictor;
                let first = predictor.scores.first_outcome(prediction).or(asked);
                if let Some((first, is_right)) = first.zip(feedback.verdict.is_right()) {
                    predictor.thresholds.observe(first, is_right);
                }
            }
            FeedbackTarget::Suggestion(plan) => self.predictor.feedback.observe(plan, feedback.verdict, seq),
        }
    }

    /// Whether the end of a run, or a callee of this state.
    fn has_outcome(&self, outcome: Symbol) -> bool {
        outcome == Symbol::END
            || outcome.node().is_some_and(|node| match node.kind() {
                NodeKind::Tool(position) => (position as usize) < self.tools.len(),
                NodeKind::Capability(position) => (position as usize) < self.capabilities.len(),
            })
    }

    /// Scores the open impression of an execution by a step that ended.
    pub(super) fn score_step(&mut self, step: &StepFinished, fact: &NewRecord, seq: Seq) {
        if !self.predictor.scores.has_open() {
            return;
        }
        let open = self.executions.get(&step.execution);
        if open.is_some_and(|open| open.is_finished_by(&step.step, fact.id)) {
            self.score_impression(&step.execution, self.find(&step.tool).map(Symbol::call), (seq, fact.time));
        }
    }

    /// Scores the open impression of an execution by `outcome`, `None` if the state does not know it, of a record and its time.
    pub(super) fn score_impression(&mut self, execution: &ExecutionId, outcome: Option<Symbol>, by: (Seq, Timestamp)) {
        let predictor = &mut self.predictor;
        predictor.scores.score(execution, outcome, by, &mut predictor.thresholds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FeedbackVerdict;
    use crate::given::History;
    use crate::graph::Node;

    #[test]
    fn feedback_on_an_asked_prediction_moves_the_threshold_of_what_it_put_first() {
        let mut history = History::new("tool fs:read path");
        let first = Symbol::call(Node::tool(0));
        let mut give = |first: Symbol, verdict| {
            let target = FeedbackTarget::Prediction(asked::prediction_id(first, "read", &[]));
            history.apply(Event::FeedbackGiven(FeedbackGiven { target, verdict }));
            history.state.predictor.thresholds.posterior(first)
        };
        give(first, FeedbackVerdict::Accepted);
        give(first, FeedbackVerdict::Rejected);
        let posterior = give(first, FeedbackVerdict::Ignored);
        assert!((posterior.alpha - 1.99).abs() < 1e-12 && (posterior.beta - 2.0).abs() < 1e-12, "{posterior:?}");
        // A tool that the state does not have: nothing to move.
        let unknown = give(Symbol::call(Node::tool(7)), FeedbackVerdict::Accepted);
        assert!((unknown.alpha - 1.0).abs() < 1e-12, "{unknown:?}");
    }
}
