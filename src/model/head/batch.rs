//! Batches: the vectors, targets and weights of some runs.

use std::ops::Range;

use ndarray::Array2;

use super::train::HeadSettings;
use crate::columns::Columns;
use crate::own_rows::distinct;
use crate::random::Random;
use crate::real::Real;
use crate::training::has_vector;
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
        let dim = set.dim();
        let rows: Vec<Vec<usize>> = runs.iter().map(|run| piece_rows(set, &set.runs[*run])).collect();
        let mut wholes = Array2::zeros((runs.len(), dim));
        let mut pieces = Array2::zeros((rows.iter().map(Vec::len).sum(), dim));
        let mut batch = (Vec::new(), Vec::new(), Vec::new());
        let mut next = 0;
        for ((run, rows), mut whole) in runs.iter().zip(&rows).zip(wholes.rows_mut()) {
            let run = &set.runs[*run];
            whole.assign(&set.texts.row(run.intent));
            for (offset, row) in rows.iter().enumerate() {
                pieces.row_mut(next + offset).assign(&set.texts.row(*row));
            }
            batch.0.push(next..next + rows.len());
            batch.1.push(distinct(&run.calls).into_iter().map(|tool| columns.column(tool)).collect());
            batch.2.push(if run.succeeded { 1.0 } else { settings.failed_weight });
            next += rows.len();
        }
        let (spans, targets, weights) = batch;
        Self { wholes, pieces, spans, targets, weights }
    }

    /// Sets a share of the numbers to zero and scales the others up.
    pub(super) fn drop_out(&mut self, share: f32, random: &mut Random) {
        let keep = 1.0 / (1.0 - share);
        let mut drop = |value: &mut f32| *value *= if random.uniform() < share { 0.0 } else { keep };
        self.wholes.iter_mut().for_each(&mut drop);
        self.pieces.iter_mut().for_each(&mut drop);
    }
}

/// The text rows of a run's clauses that have a vector; its intent if there are none.
fn piece_rows(set: &TrainingSet, run: &Run) -> Vec<usize> {
    let rows: Vec<usize> = run.clauses.iter().copied().filter(|row| has_vector(set.texts.row(*row))).collect();
    if rows.is_empty() { vec![run.intent] } else { rows }
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
