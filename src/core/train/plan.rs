//! The fit of the weights of plans, with the scores of parts that have not seen the intents.

use std::collections::BTreeMap;
use std::sync::Arc;

use pml_model::TrainError;

use super::Tick;
use super::examples::Held;
use crate::event::ModelPart;
use crate::predict::Ranking;
use crate::predict::lesson::HeldOutScores;
use crate::predict::parts::HeadScores;
use crate::predict::ranker::NextWeights;
use crate::predict::shgat::TargetScores;
use crate::rank::Index;
use crate::state::State;
use crate::suggest::{HeldOut, PlanWeights, fit_held_out};

/// The weights of plans with only these parts, and with `next` as the weights of the next step if they were accepted.
pub(super) fn plan_weights(
    state: &State,
    held: &Held,
    parts: &[ModelPart],
    next: Option<&NextWeights>,
    tick: &mut Tick<'_>,
) -> Result<PlanWeights, TrainError> {
    let index = Index::default().update(Arc::new(state.clone()));
    let scores: BTreeMap<u64, HeldOutScores> =
        held.iter().map(|(number, scores)| (number, with_parts(scores, parts))).collect();
    let held_out = |number| {
        let encoder = held.encoder(number).filter(|_| parts.contains(&ModelPart::Encoder));
        Some(HeldOut { scores: scores.get(&number)?, ranking: Ranking::HeldOut { weights: next, encoder } })
    };
    fit_held_out(&index, &held_out, tick)
}

fn with_parts(scores: &HeldOutScores, parts: &[ModelPart]) -> HeldOutScores {
    HeldOutScores {
        head: if parts.contains(&ModelPart::Head) { scores.head.clone() } else { HeadScores::default() },
        target: if parts.contains(&ModelPart::Shgat) { scores.target.clone() } else { TargetScores::default() },
        with_hyperpaths: scores.with_hyperpaths,
        next: BTreeMap::new(),
    }
}
