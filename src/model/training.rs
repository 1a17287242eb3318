//! What the training loops share: progress, the report, and the division of runs into parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;

use ndarray::ArrayView1;

use crate::random::Random;
use crate::training_set::TrainingSet;

/// The share of the runs on which the number of epochs is chosen.
const VALIDATION_SHARE: f32 = 0.15;
/// A small set is divided several times, until this many runs were measured: a dozen runs alone choose by luck.
const VALIDATION_RUNS: usize = 150;
const SPLITS_MAX: usize = 5;
/// With fewer distinct intents nothing can be chosen, so nothing is trained.
const INTENTS_MIN: usize = 12;

/// What a training loop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Choosing the number of epochs on runs that are held out.
    Validation,
    /// Training on all runs.
    Fit,
    /// Training without one part of the runs, to score that part.
    CrossFit { part: usize },
}

/// The state of a training loop after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub stage: Stage,
    /// Epochs done in this stage.
    pub epoch: usize,
    /// The most epochs this stage may take.
    pub epochs_max: usize,
    /// The mean loss of the epoch.
    pub loss: f32,
    /// The measure on the held-out runs; only in [`Stage::Validation`].
    pub validation: Option<f32>,
}

/// Is told the progress after every epoch and may end the training.
pub type Observer<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// What a training used and reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Runs that were learned from.
    pub examples: usize,
    /// Runs without calls, or whose intent has no vector.
    pub skipped: usize,
    /// The number of epochs chosen; 0 leaves the part as it starts.
    pub epochs: usize,
    /// The measure on held-out runs before training; `None` if there were too few runs to hold any out.
    pub validation_before: Option<f32>,
    /// The same after the chosen number of epochs.
    pub validation: Option<f32>,
    /// The mean loss of the last epoch on all runs.
    pub loss: f32,
}

/// Why a training ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainError {
    /// The observer asked to stop.
    Stopped,
    /// A run names a row that the set does not have, or the vectors differ in length.
    InconsistentSet,
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "training was stopped",
            Self::InconsistentSet => "a run of the training set names a row that does not exist",
        })
    }
}

impl std::error::Error for TrainError {}

pub(crate) fn observe(observer: &mut Observer<'_>, progress: Progress) -> Result<(), TrainError> {
    match observer(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(TrainError::Stopped),
    }
}

/// Whether a text has a vector: one that the embedder cannot read is a row of zeros.
pub(crate) fn has_vector(row: ArrayView1<'_, f32>) -> bool {
    row.iter().any(|value| *value != 0.0)
}

/// The runs that can be learned from, in order.
pub(crate) fn usable_runs(set: &TrainingSet) -> Result<Vec<usize>, TrainError> {
    let in_range = |run: &crate::Run| {
        let texts = set.texts.nrows();
        run.intent < texts
            && run.clauses.iter().all(|clause| *clause < texts)
            && run.calls.iter().all(|call| *call < set.tools.nrows())
    };
    if !set.runs.iter().all(in_range) || (!set.runs.is_empty() && set.texts.ncols() != set.dim()) {
        return Err(TrainError::InconsistentSet);
    }
    let usable = |run: &crate::Run| !run.calls.is_empty() && has_vector(set.texts.row(run.intent));
    Ok((0..set.runs.len()).filter(|run| usable(&set.runs[*run])).collect())
}

/// A division of runs in two: what is learned from, and what is held out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Split {
    pub(crate) learned: Vec<usize>,
    pub(crate) held_out: Vec<usize>,
}

/// The divisions on which the number of epochs is chosen; none if there are too few distinct intents.
pub(crate) fn validation_splits(set: &TrainingSet, runs: &[usize], seed: u64) -> Vec<Split> {
    let (groups, group_count) = intent_groups(set, runs);
    if group_count < INTENTS_MIN {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..group_count).collect();
    Random::new(seed).shuffle(&mut order);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    let held = ((group_count as f32 * VALIDATION_SHARE) as usize).max(1);
    let splits = VALIDATION_RUNS.div_ceil(held).clamp(1, SPLITS_MAX).min(group_count / held);
    let divide = |split: usize| split_by(runs, &groups, &order[split * held..(split + 1) * held]);
    (0..splits).map(divide).collect()
}

/// Divides the runs into parts, each held out once. Runs with the same intent are in the same part.
pub(crate) fn cross_fit_splits(set: &TrainingSet, runs: &[usize], parts: usize, seed: u64) -> Vec<Split> {
    let (groups, group_count) = intent_groups(set, runs);
    let mut order: Vec<usize> = (0..group_count).collect();
    Random::new(seed).shuffle(&mut order);
    let parts = parts.clamp(1, group_count.max(1));
    let bounds = |part: usize| part * group_count / parts..(part + 1) * group_count / parts;
    (0..parts).map(|part| split_by(runs, &groups, &order[bounds(part)])).collect()
}

fn split_by(runs: &[usize], groups: &[usize], held_groups: &[usize]) -> Split {
    let held_groups: BTreeSet<usize> = held_groups.iter().copied().collect();
    let (mut learned, mut held_out) = (Vec::new(), Vec::new());
    for (run, group) in runs.iter().zip(groups) {
        if held_groups.contains(group) { held_out.push(*run) } else { learned.push(*run) }
    }
    Split { learned, held_out }
}

/// For each run the number of its intent, equal if the vectors are equal, and how many there are.
fn intent_groups(set: &TrainingSet, runs: &[usize]) -> (Vec<usize>, usize) {
    let mut numbers: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
    let mut number_of = |run: &usize| {
        let vector = set.texts.row(set.runs[*run].intent).iter().map(|value| value.to_bits()).collect();
        let next = numbers.len();
        *numbers.entry(vector).or_insert(next)
    };
    let groups = runs.iter().map(&mut number_of).collect();
    (groups, numbers.len())
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::Run;

    fn set_of(intents: usize, runs: usize) -> TrainingSet {
        let numbers: Vec<f32> = (1_u16..).take(intents).map(f32::from).collect();
        let texts = Array2::from_shape_fn((intents, 2), |(row, column)| if column == 0 { numbers[row] } else { 0.5 });
        let runs = (0..runs).map(|run| Run { intent: run % intents, calls: vec![0], ..Run::default() }).collect();
        TrainingSet { tools: Array2::ones((1, 2)), texts, runs }
    }

    #[test]
    fn runs_with_the_same_intent_are_never_on_both_sides() {
        let set = set_of(40, 120);
        let runs = usable_runs(&set).unwrap();
        let mut held: Vec<usize> = Vec::new();
        for split in cross_fit_splits(&set, &runs, 4, 1) {
            assert_eq!(split.learned.len() + split.held_out.len(), 120);
            let apart = |run: &usize| split.learned.iter().all(|other| set.runs[*other].intent != set.runs[*run].intent);
            assert!(split.held_out.iter().all(apart));
            held.extend(split.held_out);
        }
        held.sort_unstable();
        assert_eq!(held, runs);
        assert_eq!(validation_splits(&set, &runs, 1).len(), SPLITS_MAX);
        assert!(validation_splits(&set_of(5, 50), &runs[..50], 1).is_empty());
    }

    #[test]
    fn runs_without_calls_or_vector_are_left_out_and_wrong_rows_are_refused() {
        let mut set = set_of(4, 8);
        set.runs[1].calls.clear();
        set.texts.row_mut(2).fill(0.0);
        assert_eq!(usable_runs(&set).unwrap(), [0, 3, 4, 5, 7]);
        set.runs[0].calls.push(9);
        assert_eq!(usable_runs(&set), Err(TrainError::InconsistentSet));
    }
}
