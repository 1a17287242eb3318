//! The fit of discover's weights with the scores of parts that have not seen the intents, and whether each part helps.

use std::sync::Arc;

use pml_model::TrainError;

use super::Tick;
use super::examples::Held;
use super::folds::out_of_fold;
use super::gate::Paired;
use crate::rank::Index;
use crate::rank::blend::{DiscoverSignal, SIGNALS, Weights};
use crate::rank::calibrate::{FitExample, choose, example};
use crate::state::State;

/// Past intents used as examples, at most.
const EXAMPLES_MAX: usize = 400;
/// Signals of trained parts: each may have a weight only if its part helps.
const PART_SIGNALS: [DiscoverSignal; 3] = [DiscoverSignal::Head, DiscoverSignal::Mass, DiscoverSignal::Shgat];

/// The examples, and the parts that have been found to help.
pub(super) struct DiscoverFit {
    examples: Vec<FitExample>,
    allowed: [bool; SIGNALS],
    /// By example: the quality with the allowed signals, under weights that were not fitted to it.
    qualities: Vec<f64>,
}

/// How the answers with a part compare with those without.
pub(super) struct DiscoverVerdict {
    pub(super) comparison: Paired,
    /// The mean qualities with it and without it.
    pub(super) quality: [f64; 2],
}

impl DiscoverFit {
    /// Collects the examples. `None` if no past intent gives one.
    pub(super) fn new(state: &State, held: &Held, tick: &mut Tick<'_>) -> Result<Option<Self>, TrainError> {
        let index = Index::default().update(Arc::new(state.clone()));
        let examples = examples(&index, held, tick)?;
        if examples.is_empty() {
            return Ok(None);
        }
        let mut allowed = [true; SIGNALS];
        for signal in PART_SIGNALS {
            allowed[signal as usize] = false;
        }
        Ok(Some(Self { qualities: cross_validated(&examples, &allowed, tick)?, examples, allowed }))
    }

    /// Compares the answers with some more signals with those without. If they are better, the signals are allowed from now on.
    pub(super) fn judge(&mut self, signals: &[DiscoverSignal], tick: &mut Tick<'_>) -> Result<DiscoverVerdict, TrainError> {
        let mut allowed = self.allowed;
        for signal in signals {
            allowed[*signal as usize] = true;
        }
        let qualities = cross_validated(&self.examples, &allowed, tick)?;
        let comparison = Paired::new(&qualities, &self.qualities);
        let quality = [mean(&qualities), mean(&self.qualities)];
        if comparison.is_better() {
            (self.allowed, self.qualities) = (allowed, qualities);
        }
        Ok(DiscoverVerdict { comparison, quality })
    }

    /// The weights of the allowed signals; `None` if no part helps.
    pub(super) fn weights(&self) -> Option<Weights> {
        let helps = PART_SIGNALS.iter().any(|signal| self.allowed[*signal as usize]);
        helps.then(|| choose(&self.examples.iter().map(|example| example.with(&self.allowed)).collect::<Vec<_>>()))
    }
}

fn examples(index: &Index, held: &Held, tick: &mut Tick<'_>) -> Result<Vec<FitExample>, TrainError> {
    let intents = index.intents();
    let memory = &index.state().memory;
    let scored = |entry: usize| {
        let number = memory.number(intents.entry(entry).hash)?;
        held.get(number).map(|scores| (entry, scores))
    };
    let chosen: Vec<_> = (0..intents.len()).filter_map(scored).collect();
    let step = chosen.len().div_ceil(EXAMPLES_MAX).max(1);
    let mut found = Vec::new();
    for (entry, held) in chosen.into_iter().step_by(step) {
        tick()?;
        found.extend(example(index, entry, Some(held)));
    }
    Ok(found)
}

/// The quality of every example with only the allowed signals, under weights fitted to the other folds.
fn cross_validated(examples: &[FitExample], allowed: &[bool; SIGNALS], tick: &mut Tick<'_>) -> Result<Vec<f64>, TrainError> {
    let examples: Vec<FitExample> = examples.iter().map(|example| example.with(allowed)).collect();
    let fit = |others: Vec<&FitExample>| {
        tick()?;
        Ok(choose(&others.into_iter().cloned().collect::<Vec<_>>()))
    };
    out_of_fold(&examples, fit, |weights, example| example.quality(weights))
}

#[expect(clippy::cast_precision_loss, reason = "a count of intents")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
