//! The model of suggestions: the past runs and the weights fitted to them. Derived from an index, never part of the digest.
//!
//! The trainer fits the weights together with the parts that it trains, and they serve while its ranker does. Otherwise they are
//! fitted beside the fold, and trained parts do not answer.

use pml_model::TrainError;

use super::fit::{HeldOutOf, fit};
use super::past_runs::PastRuns;
use super::weights::PlanWeights;
use crate::predict::Ranking;
use crate::rank::Index;
use crate::train::Tick;

/// The past runs, and the weights that are applied to them.
#[derive(Clone, Debug, Default)]
pub struct PlanModel {
    pub(super) runs: PastRuns,
    pub(super) weights: PlanWeights,
    /// Whether the trainer fitted the weights.
    is_trained: bool,
}

impl PlanModel {
    /// The model with the past runs of `index`. The weights are those of the trainer, or else as they were.
    #[must_use]
    pub fn update(&self, index: &Index) -> Self {
        let mut next = self.clone();
        next.runs.update(index.state());
        match trained(index) {
            Some(weights) => (next.weights, next.is_trained) = (weights, true),
            None if self.is_trained => (next.weights, next.is_trained) = (PlanWeights::default(), false),
            None => {}
        }
        next
    }

    /// The model with weights fitted to the past intents of `index`, unless the trainer's serve.
    #[must_use]
    pub fn fitted(&self, index: &Index) -> Self {
        let mut next = self.update(index);
        if !next.is_trained {
            next.weights = fit(index, &next.runs, None, &mut || Ok(())).expect("nobody stops it");
        }
        next
    }

    /// What ranks the next calls.
    pub(super) fn ranking(&self) -> Ranking<'static> {
        if self.is_trained { Ranking::Served } else { Ranking::Online }
    }
}

/// The weights that the trainer fitted, while they serve.
pub(super) fn trained(index: &Index) -> Option<PlanWeights> {
    index.state().predictor.parts.ranker().and_then(|(_, ranker)| ranker.plan)
}

/// Fits weights with trained parts that have not seen the past intents.
pub(crate) fn fit_held_out(index: &Index, held_out: &HeldOutOf<'_>, tick: &mut Tick<'_>) -> Result<PlanWeights, TrainError> {
    let mut runs = PastRuns::default();
    runs.update(index.state());
    fit(index, &runs, Some(held_out), tick)
}
