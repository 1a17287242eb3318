//! What is asked and what is answered.

use super::signals::{SIGNALS, Signal, Values};
use super::threshold::{Decision, Mode};
use crate::core::event::Outcome;
use crate::core::id::{Callee, RecordId, Seq};

/// Where somebody stands, and how they ask.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The calls made so far, in order; none at the start.
    pub context: &'a [Callee],
    /// Outcomes wanted.
    pub k: usize,
    pub mode: Mode,
    /// The record that made somebody ask: the threshold's sample is drawn from it.
    pub seed: RecordId,
}

/// One outcome. Its score is the sum of its contributions, its probability the softmax of the scores of all candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    pub outcome: Outcome,
    pub p: f64,
    /// By signal, in the order of [`Signal::ALL`].
    pub values: Values,
    pub weights: [f64; SIGNALS],
}

/// What one signal added to a score: weight times value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    pub signal: Signal,
    pub weight: f64,
    pub value: f64,
}

impl Contribution {
    pub fn amount(&self) -> f64 {
        self.weight * self.value
    }
}

impl Ranked {
    /// Largest first, by amount, without those that add nothing.
    pub fn contributions(&self) -> Vec<Contribution> {
        let of = |signal: Signal| Contribution {
            signal,
            weight: self.weights[signal as usize],
            value: self.values[signal as usize],
        };
        let mut all: Vec<Contribution> = Signal::ALL.into_iter().map(of).filter(|part| part.amount() != 0.0).collect();
        all.sort_by(|a, b| b.amount().abs().total_cmp(&a.amount().abs()));
        all
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The most likely first, cut to `k`.
    pub ranked: Vec<Ranked>,
    /// The last record the answer rests on.
    pub based_on_seq: Seq,
    /// Which weights answered.
    pub model: String,
    /// What the first outcome had to reach, and whether it did.
    pub threshold: f64,
    pub decision: Decision,
}
