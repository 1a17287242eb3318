//! Scores of impressions: each served prediction is scored once, by what its execution did next.
//!
//! An impression is open from its record until the next step of its execution ends, or the execution does. One whose execution had
//! gone on before it was recorded is scored at once, by what happened since. One whose execution was closed or abandoned is not
//! scored.

use imbl::{OrdMap, Vector};

use super::metrics::{P_MIN, StepMetrics, StepScore};
use super::quality::Quality;
use super::threshold::Thresholds;
use crate::digest::{DigestWriter, Digestible};
use crate::event::{Outcome, PredictionServed};
use crate::graph::transition::Symbol;
use crate::id::{ExecutionId, RecordId, Seq};
use crate::time::Timestamp;

/// Impressions kept, for scoring, feedback and explanations; and scores kept, for the means. The oldest are dropped.
pub const IMPRESSIONS_KEPT: usize = 10_000;
pub const SCORED_KEPT: usize = 10_000;
/// Outcomes kept per impression.
const RANKED_KEPT: usize = 10;

/// A prediction that was served, as recorded by `prediction.served`.
#[derive(Clone, Debug, PartialEq)]
pub struct Impression {
    pub execution: Option<ExecutionId>,
    pub based_on_seq: Seq,
    /// The number of calls that had ended when it was made.
    pub calls: usize,
    /// The first outcomes with their probabilities; `None` for an outcome that the state does not know.
    pub ranked: Vec<(Option<Symbol>, f64)>,
}

/// The score of one impression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredImpression {
    /// The record that it was scored by.
    pub seq: Seq,
    /// The probability of the first outcome.
    pub p: f64,
    /// The rank of what happened, from 1; 0 if it was not listed.
    pub rank: u32,
    /// The probability of what happened; if it was not listed, 1 minus the sum of the list.
    pub p_right: f64,
}

/// The sizes of the windows that quality is reported over, in scored predictions.
pub const WINDOWS: [usize; 3] = [100, 1_000, 10_000];

/// `ImpressionScores` holds the impressions kept, which of them are open, and the latest scores.
#[derive(Clone, Debug, Default)]
pub struct ImpressionScores {
    impressions: OrdMap<RecordId, Impression>,
    /// The keys of `impressions`, oldest first.
    order: Vector<RecordId>,
    /// By execution: the impression that its next step will score.
    open: OrdMap<ExecutionId, RecordId>,
    scored: Vector<ScoredImpression>,
    total: u64,
    quality: Quality,
}

impl ImpressionScores {
    /// Adds an impression. `symbol` finds the symbol of an outcome; `calls` is how many calls of its execution had ended, `None` if
    /// the execution is over.
    pub fn add(&mut self, event: &PredictionServed, calls: Option<usize>, symbol: impl Fn(&Outcome) -> Option<Symbol>) {
        let first = event.ranked.iter().take(RANKED_KEPT);
        let impression = Impression {
            execution: event.execution.clone(),
            based_on_seq: event.based_on_seq,
            calls: calls.unwrap_or(0),
            ranked: first.map(|ranked| (symbol(&ranked.outcome), ranked.probability)).collect(),
        };
        if let Some(execution) = event.execution.clone().filter(|_| calls.is_some()) {
            self.open.insert(execution, event.prediction);
        }
        if self.impressions.insert(event.prediction, impression).is_some() {
            return;
        }
        self.order.push_back(event.prediction);
        if self.order.len() > IMPRESSIONS_KEPT {
            let oldest = self.order.pop_front().expect("more than IMPRESSIONS_KEPT");
            let execution = self.impressions.remove(&oldest).and_then(|impression| impression.execution);
            if let Some(execution) = execution.filter(|execution| self.open.get(execution) == Some(&oldest)) {
                self.open.remove(&execution);
            }
        }
    }

    /// Whether any impression is open: mostly none is, and executions need not be looked up.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Scores the open impression of an execution that went on with `outcome`, by a record at `seq` whose event happened at `time`;
    /// the outcome is `None` if the state does not know it. Updates `thresholds` for the first outcome of the impression.
    pub fn score(
        &mut self,
        execution: &ExecutionId,
        outcome: Option<Symbol>,
        (seq, time): (Seq, Timestamp),
        thresholds: &mut Thresholds,
    ) {
        let Some(prediction) = self.open.remove(execution) else { return };
        let Some(impression) = self.impressions.get(&prediction) else { return };
        let Some((first, p)) = impression.ranked.first().copied() else { return };
        let at = outcome.and_then(|outcome| impression.ranked.iter().position(|(listed, _)| *listed == Some(outcome)));
        let left = 1.0 - impression.ranked.iter().map(|(_, p)| p).sum::<f64>();
        let scored = ScoredImpression {
            seq,
            p,
            rank: at.map_or(0, |at| u32::try_from(at + 1).expect("at most RANKED_KEPT")),
            p_right: at.map_or(left, |at| impression.ranked[at].1).max(P_MIN),
        };
        if let Some(first) = first {
            thresholds.observe(first, scored.rank == 1);
        }
        self.total += 1;
        self.quality.add(time, scored.step_score());
        self.scored.push_back(scored);
        if self.scored.len() > SCORED_KEPT {
            self.scored.pop_front();
        }
    }

    /// Drops the open impression of an execution that is over without being scored.
    pub fn discard_open(&mut self, execution: &ExecutionId) {
        self.open.remove(execution);
    }

    /// The outcome that came first in an impression, while it is kept and if the state knows it.
    pub fn first_outcome(&self, prediction: RecordId) -> Option<Symbol> {
        self.impressions.get(&prediction)?.ranked.first()?.0
    }

    /// The impression with this id, while it is kept.
    pub fn impression(&self, prediction: RecordId) -> Option<&Impression> {
        self.impressions.get(&prediction)
    }

    /// The impressions kept, the oldest first.
    pub fn impressions(&self) -> impl ExactSizeIterator<Item = (RecordId, &Impression)> {
        self.order.iter().map(|prediction| (*prediction, &self.impressions[prediction]))
    }

    /// By execution, the impression that its next step will score.
    pub fn open(&self) -> impl ExactSizeIterator<Item = (&ExecutionId, RecordId)> {
        self.open.iter().map(|(execution, prediction)| (execution, *prediction))
    }

    /// The scores kept, the oldest first.
    pub fn scored(&self) -> impl ExactSizeIterator<Item = &ScoredImpression> {
        self.scored.iter()
    }

    /// The quality of all scored predictions over time.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Restores what [`Self::impressions`], [`Self::open`], [`Self::scored`], [`Self::total`] and [`Self::quality`] gave.
    pub fn from_rows(
        impressions: Vec<(RecordId, Impression)>,
        open: impl IntoIterator<Item = (ExecutionId, RecordId)>,
        scored: impl IntoIterator<Item = ScoredImpression>,
        total: u64,
        quality: Quality,
    ) -> Self {
        let order = impressions.iter().map(|(prediction, _)| *prediction).collect();
        let (open, scored) = (open.into_iter().collect(), scored.into_iter().collect());
        Self { impressions: impressions.into_iter().collect(), order, open, scored, total, quality }
    }

    /// The number of impressions scored, ever.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Metrics over the `last` scores, or as many as are kept.
    pub fn window(&self, last: usize) -> StepMetrics {
        let skipped = self.scored.len().saturating_sub(last);
        StepMetrics::from_scores(self.scored.iter().skip(skipped).map(ScoredImpression::step_score))
    }
}

impl ScoredImpression {
    fn step_score(&self) -> StepScore {
        let rank = Some(self.rank as usize).filter(|rank| *rank > 0);
        StepScore { rank, p_first: self.p, p_right: self.p_right }
    }
}

impl Digestible for ImpressionScores {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.order.len());
        for prediction in &self.order {
            writer.u128(prediction.to_bits());
            let impression = &self.impressions[prediction];
            writer.optional(impression.execution.as_ref(), |writer, execution| {
                writer.text(execution.as_str());
            });
            writer.u64(impression.based_on_seq.0).len(impression.calls).len(impression.ranked.len());
            for (symbol, p) in &impression.ranked {
                writer.optional(*symbol, |writer, symbol| {
                    writer.u32(symbol.to_bits());
                });
                writer.u64(p.to_bits());
            }
        }
        writer.len(self.open.len());
        for (execution, prediction) in &self.open {
            writer.text(execution.as_str()).u128(prediction.to_bits());
        }
        writer.u64(self.total).len(self.scored.len());
        for scored in &self.scored {
            writer.u64(scored.seq.0).u64(scored.p.to_bits()).u32(scored.rank).u64(scored.p_right.to_bits());
        }
        self.quality.digest(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RankedOutcome;
    use crate::graph::Node;

    fn id(number: u128) -> RecordId {
        RecordId::from_parts(Timestamp::from_micros(1), number)
    }

    fn execution(name: &str) -> ExecutionId {
        name.parse().unwrap()
    }

    fn served(number: u128, execution_name: &str, ranked: &[(Option<&str>, f64)]) -> PredictionServed {
        let outcome = |tool: Option<&str>| tool.map_or(Outcome::Done, |tool| Outcome::Call(tool.parse().unwrap()));
        let ranked = ranked.iter().map(|(tool, p)| RankedOutcome { outcome: outcome(*tool), probability: *p });
        PredictionServed {
            prediction: id(number),
            execution: Some(execution(execution_name)),
            based_on_seq: Seq(1),
            model: "m".to_owned(),
            ranked: ranked.collect(),
            threshold: 0.5,
        }
    }

    /// `s:a` and `s:b` are known.
    fn symbol(outcome: &Outcome) -> Option<Symbol> {
        match outcome {
            Outcome::Done => Some(Symbol::END),
            Outcome::Call(callee) => match &*callee.text() {
                "s:a" => Some(Symbol::call(Node::tool(0))),
                "s:b" => Some(Symbol::call(Node::tool(1))),
                _ => None,
            },
        }
    }

    #[test]
    fn a_prediction_is_scored_once_by_what_came_next() {
        let (mut scores, mut thresholds) = (ImpressionScores::default(), Thresholds::default());
        let (a, b) = (Symbol::call(Node::tool(0)), Symbol::call(Node::tool(1)));
        let at = Timestamp::from_micros(60_000_000);
        let three = [(Some("s:a"), 0.6), (None, 0.25), (Some("s:x"), 0.05)];
        for (number, name, outcome) in [(1, "e1", Some(a)), (2, "e2", Some(Symbol::END)), (3, "e3", Some(b)), (4, "e4", None)] {
            scores.add(&served(number, name, &three), Some(1), symbol);
            scores.score(&execution(name), outcome, (Seq(7), at), &mut thresholds);
            scores.score(&execution(name), Some(a), (Seq(8), at), &mut thresholds);
        }
        assert_eq!(scores.total(), 4);
        let StepMetrics { n, hit1, hit3, log_loss, calibration_error, .. } = scores.window(100);
        assert_eq!((n, hit1, hit3), (4, 0.25, 0.5));
        let expected = -(0.6_f64.ln() + 0.25_f64.ln() + 2.0 * 0.1_f64.ln()) / 4.0;
        assert!((log_loss - expected).abs() < 1e-9 && (calibration_error - 0.35).abs() < 1e-9);
        assert!(scores.window(1).hit1.abs() < 1e-9, "the last one was missed");
        let posterior = thresholds.posterior(a);
        assert!(posterior.alpha > 1.9 && posterior.beta > 3.9, "{posterior:?}");
    }

    #[test]
    fn what_came_too_late_or_was_abandoned_is_not_scored() {
        let (mut scores, mut thresholds) = (ImpressionScores::default(), Thresholds::default());
        scores.add(&served(1, "e1", &[(Some("s:a"), 0.9)]), None, symbol);
        assert!(!scores.has_open());
        scores.add(&served(2, "e2", &[(Some("s:a"), 0.9)]), Some(0), symbol);
        scores.discard_open(&execution("e2"));
        for name in ["e1", "e2"] {
            scores.score(&execution(name), Some(Symbol::END), (Seq(7), Timestamp::from_micros(0)), &mut thresholds);
        }
        assert_eq!((scores.total(), scores.window(10)), (0, StepMetrics::default()));
    }

    #[test]
    fn feedback_is_about_the_first_outcome_of_what_is_kept() {
        let mut scores = ImpressionScores::default();
        scores.add(&served(1, "e1", &[(Some("s:a"), 0.9)]), Some(0), symbol);
        assert_eq!(scores.first_outcome(id(1)), Some(Symbol::call(Node::tool(0))));
        assert_eq!(scores.first_outcome(id(9)), None);
    }

    #[test]
    fn served_predictions_are_bounded_and_the_oldest_go_first() {
        let mut scores = ImpressionScores::default();
        for number in 0..=IMPRESSIONS_KEPT as u128 {
            scores.add(&served(number, &format!("e{number}"), &[(None, 1.0)]), Some(0), symbol);
        }
        assert!(scores.impression(id(0)).is_none() && scores.impression(id(1)).is_some());
        assert_eq!(scores.open.len(), IMPRESSIONS_KEPT);
    }
}
