//! The types of a prediction: the query, the ranked outcomes and what each signal added.

use super::signals::{SIGNALS, Signal, Values};
use super::threshold::{Decision, Mode};
use crate::event::Outcome;
use crate::id::{Callee, RecordId, Seq};

/// The calls so far, and how the next one is to be predicted.
#[derive(Clone, Copy, Debug)]
pub struct PredictionQuery<'a> {
    /// The calls made so far, in order; none at the start.
    pub context: &'a [Callee],
    /// Outcomes to return, at most.
    pub k: usize,
    pub mode: Mode,
    /// The record that caused the query; it seeds the sample of the threshold.
    pub seed: RecordId,
}

/// One outcome with its probability. Its score is the sum of its contributions; `p` is the softmax over the scores of all candidates.
/// What all candidates have in common changes no probability, so contributions are measured from the mean candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    pub outcome: Outcome,
    pub p: f64,
    /// In the order of [`Signal::ALL`], as are the weights.
    pub values: Values,
    pub weights: [f64; SIGNALS],
    /// The mean of the values over all candidates.
    pub typical: Values,
}

/// The part of a score that comes from one signal: weight times the difference from the typical value. Above zero it speaks for the
/// outcome, below against it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    pub signal: Signal,
    pub weight: f64,
    pub value: f64,
    pub typical: f64,
}

impl Contribution {
    pub fn amount(&self) -> f64 {
        self.weight * (self.value - self.typical)
    }
}

impl Ranked {
    /// The contributions of the signals, the largest absolute amount first, without those that add nothing.
    pub fn contributions(&self) -> Vec<Contribution> {
        let contribution = |signal: Signal| Contribution {
            signal,
            weight: self.weights[signal as usize],
            value: self.values[signal as usize],
            typical: self.typical[signal as usize],
        };
        let mut all: Vec<Contribution> =
            Signal::ALL.into_iter().map(contribution).filter(|part| part.amount() != 0.0).collect();
        all.sort_by(|a, b| b.amount().abs().total_cmp(&a.amount().abs()));
        all
    }
}

/// The answer to a [`PredictionQuery`].
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The most likely first, cut to `k`.
    pub ranked: Vec<Ranked>,
    /// The last record folded into the state that answered.
    pub based_on_seq: Seq,
    /// The name of the weights, [`Logit::version`](super::logit::Logit::version).
    pub model: String,
    /// The probability that the first outcome had to reach; `decision` says whether it did.
    pub threshold: f64,
    pub decision: Decision,
    /// Whether there was anything to choose from. Where the end is the only candidate, it says nothing.
    pub is_informed: bool,
}
