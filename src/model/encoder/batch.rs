//! Batches of runs, laid out step by step.
//!
//! Rows are positions: first the first positions of all runs, then the second of those that have one, and so on. The runs are sorted
//! by length, the longest first, so the runs of a step are always the first ones.

use std::ops::Range;

use ndarray::Array2;

use super::train::EncoderSettings;
use crate::best_piece::pieces_of;
use crate::columns::Columns;
use crate::random::Random;
use crate::training_set::TrainingSet;

/// Of a longer run only the first calls are learned from.
const CALLS_MAX: usize = 64;

/// Some runs as matrices.
pub(super) struct Batch<F> {
    /// The vectors of the intents, one row per run.
    pub(super) intents: Array2<F>,
    /// The vectors of the clauses; the intent itself for a run without clauses.
    pub(super) pieces: Array2<F>,
    /// The piece rows of each run.
    pub(super) spans: Vec<Range<usize>>,
    /// The columns of the calls of each run.
    pub(super) calls: Vec<Vec<usize>>,
    /// For each step the first row and the number of rows, which is the number of runs that have as many positions.
    pub(super) steps: Vec<(usize, usize)>,
    /// For each row the column that comes next; END is the column after the tools.
    pub(super) targets: Vec<usize>,
    /// The weight of each row in the loss.
    pub(super) weights: Vec<F>,
    /// What the state joined with the intent is multiplied by: dropout.
    pub(super) mask: Option<Array2<F>>,
}

impl Batch<f32> {
    pub(super) fn new(set: &TrainingSet, runs: &[usize], columns: &Columns<f32>, settings: &EncoderSettings) -> Self {
        let positions = |run: &usize| {
            let run = &set.runs[*run];
            run.calls.len().min(CALLS_MAX) + usize::from(run.ended && run.calls.len() <= CALLS_MAX)
        };
        let mut runs = runs.to_vec();
        runs.sort_by_key(|run| std::cmp::Reverse(positions(run)));
        let lens: Vec<usize> = runs.iter().map(positions).collect();
        let end = columns.own.len();
        let calls: Vec<Vec<usize>> = runs
            .iter()
            .map(|run| set.runs[*run].calls.iter().take(CALLS_MAX).map(|call| columns.column(*call)).collect())
            .collect();
        let (mut steps, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..lens.first().copied().unwrap_or(0) {
            let active = lens.partition_point(|len| *len > step);
            steps.push((targets.len(), active));
            targets.extend(calls[..active].iter().map(|calls| calls.get(step).copied().unwrap_or(end)));
            let weight = |run: &usize| match (set.runs[*run].succeeded, step < set.runs[*run].calls.len()) {
                (true, _) => 1.0,
                (false, true) => settings.failed_weight,
                (false, false) => settings.failed_end_weight,
            };
            weights.extend(runs[..active].iter().map(weight));
        }
        let intents: Vec<usize> = runs.iter().map(|run| set.runs[*run].intent).collect();
        let (pieces, spans) = pieces_of(set, runs.iter().map(|run| &set.runs[*run]));
        let intents = set.texts.select(ndarray::Axis(0), &intents);
        Self { intents, pieces, spans, calls, steps, targets, weights, mask: None }
    }

    /// Sets a share of the numbers of the intents and of what is compared with the tools to zero and scales the others up.
    pub(super) fn drop_out(&mut self, share: f32, units: usize, random: &mut Random) {
        let keep = 1.0 / (1.0 - share);
        let mut factor = || if random.uniform() < share { 0.0 } else { keep };
        self.intents.mapv_inplace(|value| value * factor());
        self.pieces.mapv_inplace(|value| value * factor());
        self.mask = Some(Array2::from_shape_simple_fn((self.targets.len(), 2 * units), factor));
    }
}

#[cfg(test)]
impl Batch<f32> {
    pub(super) fn widen(&self) -> Batch<f64> {
        Batch {
            intents: self.intents.mapv(f64::from),
            pieces: self.pieces.mapv(f64::from),
            spans: self.spans.clone(),
            calls: self.calls.clone(),
            steps: self.steps.clone(),
            targets: self.targets.clone(),
            weights: self.weights.iter().map(|value| f64::from(*value)).collect(),
            mask: self.mask.as_ref().map(|mask| mask.mapv(f64::from)),
        }
    }
}
