//! The fit of discover's weights with the scores of a head that has not seen the intents, and whether the head helps.

use std::sync::Arc;

use super::examples::Held;
use super::gate::Paired;
use crate::rank::Index;
use crate::rank::blend::{DiscoverSignal, Weights};
use crate::rank::calibrate::{FitExample, choose, example};
use crate::state::State;

/// Past intents used as examples, at most.
const EXAMPLES_MAX: usize = 400;
/// Parts into which the examples are divided to measure weights on intents that they were not fitted to.
const FOLDS: usize = 4;

/// The weights of discover with and without the head, and how the two compare.
pub(super) struct DiscoverFit {
    pub(super) with_head: Weights,
    pub(super) without_head: Weights,
    /// Quality with the head against quality without, on held-out intents.
    pub(super) head: Paired,
    /// The means of both.
    pub(super) quality: [f64; 2],
}

impl DiscoverFit {
    /// Fits both sets of weights. `None` if no past intent gives an example.
    pub(super) fn new(state: &State, held: &Held) -> Option<Self> {
        let index = Index::default().update(Arc::new(state.clone()));
        let with = examples(&index, held);
        if with.is_empty() {
            return None;
        }
        let without: Vec<FitExample> = with.iter().map(|example| example.without(DiscoverSignal::Head)).collect();
        let (challenger, champion) = (cross_validated(&with), cross_validated(&without));
        Some(Self {
            with_head: choose(&with),
            without_head: choose(&without),
            head: Paired::new(&challenger, &champion),
            quality: [mean(&challenger), mean(&champion)],
        })
    }
}

fn examples(index: &Index, held: &Held) -> Vec<FitExample> {
    let intents = index.intents();
    let memory = &index.state().memory;
    let scored = |entry: usize| {
        let number = memory.number(intents.entry(entry).hash)?;
        held.head(number).map(|scores| (entry, scores))
    };
    let chosen: Vec<(usize, &[f32])> = (0..intents.len()).filter_map(scored).collect();
    let step = chosen.len().div_ceil(EXAMPLES_MAX).max(1);
    chosen.into_iter().step_by(step).filter_map(|(entry, head)| example(index, entry, head)).collect()
}

/// The quality of every example under weights fitted to the other folds.
fn cross_validated(examples: &[FitExample]) -> Vec<f64> {
    let mut qualities = vec![0.0; examples.len()];
    for fold in 0..FOLDS {
        let others = examples.iter().enumerate().filter(|(at, _)| at % FOLDS != fold);
        let weights = choose(&others.map(|(_, example)| example.clone()).collect::<Vec<_>>());
        for (at, example) in examples.iter().enumerate().filter(|(at, _)| at % FOLDS == fold) {
            qualities[at] = example.quality(&weights);
        }
    }
    qualities
}

#[expect(clippy::cast_precision_loss, reason = "a count of intents")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
