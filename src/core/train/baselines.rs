//! Plain rankers on the same examples: a trained ranker that is worse than one of them is not accepted.

use super::examples::IntentExamples;
use super::fit::rank_of_call;
use crate::predict::signals::{Signal, Values};

/// A ranker by fixed sums of signals.
pub(super) struct Baseline {
    pub(super) name: &'static str,
    signals: &'static [Signal],
}

pub(super) const BASELINES: [Baseline; 3] = [
    Baseline { name: "cosine", signals: &[Signal::Intent] },
    Baseline { name: "markov", signals: &[Signal::Transition, Signal::TransitionTwo] },
    // What near past intents called after the same calls, relative to what is usual, times what is usual.
    Baseline {
        name: "memory",
        signals: &[Signal::Transition, Signal::TransitionTwo, Signal::MemoryNext, Signal::MemoryNearest],
    },
];

impl Baseline {
    /// The mean reciprocal rank of the right call over the steps of one intent, as in [`super::fit::score`].
    #[expect(clippy::cast_precision_loss, reason = "an intent has few steps")]
    pub(super) fn reciprocal_rank(&self, intent: &IntentExamples) -> f64 {
        let sum = |values: &Values| self.signals.iter().map(|signal| values[*signal as usize]).sum::<f64>();
        let rank = |example: &crate::predict::logit::Example| {
            let scores: Vec<f64> = example.values.iter().map(sum).collect();
            rank_of_call(example, &scores)
        };
        let ranks: Vec<usize> = intent.steps.iter().filter_map(rank).collect();
        ranks.iter().map(|rank| 1.0 / *rank as f64).sum::<f64>() / ranks.len().max(1) as f64
    }
}
