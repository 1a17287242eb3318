//! Batches: the vectors, targets and weights of some runs.

use std::ops::Range;

use ndarray::{Array2, Axis};

use super::train::HeadSettings;
use crate::best_piece::pieces_of;
use crate::columns::Columns;
use crate::own_rows::distinct;
use crate::random::Random;
use crate::real::Real;
use crate::training_set::{Run, TrainingSet};

/// Some runs as matrices.
pub(super) struct Batch<F> {
    /// One row per run.
    pub(super) wholes: Array2<F>,
    /// One row per clause; the intent itself for a run without clauses.
    pub(super) pieces: Array2<F>,
    /// The piece rows of each run.
    pub(super) spans: Vec<Range<usize>>,
    /// The columns of the tools of each run, distinct.
    pub(super) targets: Vec<Vec<usize>>,
    /// The weight of each run in the loss; negative for a failed one.
    pub(super) weights: Vec<F>,
}

impl Batch<f32> {
    pub(super) fn new(set: &TrainingSet, runs: &[usize], columns: &Columns<f32>, settings: &HeadSettings) -> Self {
        let list = || runs.iter().map(|run| &set.runs[*run]);
        let intents: Vec<usize> = list().map(|run| run.intent).collect();
        let (pieces, spans) = pieces_of(set, list());
        let columns_of = |run: &Run| distinct(&run.calls).into_iter().map(|tool| columns.column(tool)).collect();
        let weight_of = |run: &Run| if run.succeeded { 1.0 } else { settings.failed_weight };
        Self {
            wholes: set.texts.select(Axis(0), &intents),
            pieces,
            spans,
            targets: list().map(columns_of).collect(),
            weights: list().map(weight_of).collect(),
        }
    }

    /// Sets a share of the numbers to zero and scales the others up.
    pub(super) fn drop_out(&mut self, share: f32, random: &mut Random) {
        let keep = 1.0 / (1.0 - share);
        let mut drop = |value: &mut f32| *value *= if random.uniform() < share { 0.0 } else { keep };
        self.wholes.iter_mut().for_each(&mut drop);
        self.pieces.iter_mut().for_each(&mut drop);
    }
}

#[cfg(test)]
impl Batch<f32> {
    pub(super) fn widen(&self) -> Batch<f64> {
        Batch {
            wholes: self.wholes.mapv(f64::from),
            pieces: self.pieces.mapv(f64::from),
            spans: self.spans.clone(),
            targets: self.targets.clone(),
            weights: self.weights.iter().map(|value| f64::from(*value)).collect(),
        }
    }
}

impl<F: Real> Batch<F> {
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }
}
