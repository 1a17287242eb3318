//! Batches: the vectors, targets and weights of some runs, and the tools they are scored against.

use std::ops::Range;

use ndarray::Array2;

use super::parameters::{OwnRows, distinct};
use super::train::HeadSettings;
use crate::random::Random;
use crate::real::Real;
use crate::training::has_vector;
use crate::training_set::{Run, TrainingSet};

/// Above as many tools the softmax runs over the tools of the batch and a sample of the others.
pub(super) const ALL_TOOLS_MAX: usize = 20_000;
/// The size of that sample.
const SAMPLE_LEN: usize = 4096;

/// The tools of a batch: the columns of its scores.
pub(super) struct Columns<F> {
    /// The vectors of the tools' texts.
    pub(super) tools: Array2<F>,
    /// Their own rows.
    pub(super) own: Vec<Option<usize>>,
    /// For each column what is added to the logit in the softmax of a run that does not use the tool: minus the logarithm of the
    /// probability that the tool was sampled (logQ); minus infinity for a tool that is here only as another run's target.
    pub(super) corrections: Vec<F>,
    /// The tool of each column, ascending; empty if the columns are all tools.
    sampled: Vec<usize>,
}

impl Columns<f32> {
    /// All tools of the set.
    pub(super) fn all(set: &TrainingSet, own: &OwnRows) -> Self {
        let tools = set.tools.nrows();
        Self { tools: set.tools.clone(), own: own.of_first(tools), corrections: vec![0.0; tools], sampled: Vec::new() }
    }

    /// A uniform sample of the tools, and the tools of the runs.
    #[expect(clippy::cast_precision_loss, reason = "counts of tools")]
    pub(super) fn sample(set: &TrainingSet, runs: &[usize], own: &OwnRows, random: &mut Random) -> Self {
        let total = set.tools.nrows();
        let mut sample = distinct(&(0..SAMPLE_LEN).map(|_| random.below(total)).collect::<Vec<_>>());
        let correction = -libm::logf(sample.len() as f32 / total as f32);
        let targets: Vec<usize> = runs.iter().flat_map(|run| set.runs[*run].calls.iter().copied()).collect();
        let extra: Vec<usize> = distinct(&targets).into_iter().filter(|tool| sample.binary_search(tool).is_err()).collect();
        let mut columns: Vec<(usize, f32)> = sample.drain(..).map(|tool| (tool, correction)).collect();
        columns.extend(extra.into_iter().map(|tool| (tool, f32::NEG_INFINITY)));
        columns.sort_unstable_by_key(|(tool, _)| *tool);
        let sampled: Vec<usize> = columns.iter().map(|(tool, _)| *tool).collect();
        Self {
            tools: set.tools.select(ndarray::Axis(0), &sampled),
            own: sampled.iter().map(|tool| own.row(*tool)).collect(),
            corrections: columns.into_iter().map(|(_, correction)| correction).collect(),
            sampled,
        }
    }

    fn column(&self, tool: usize) -> usize {
        if self.sampled.is_empty() { tool } else { self.sampled.binary_search(&tool).expect("a target is in the sample") }
    }
}

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
impl Columns<f32> {
    pub(super) fn widen(&self) -> Columns<f64> {
        Columns {
            tools: self.tools.mapv(f64::from),
            own: self.own.clone(),
            corrections: self.corrections.iter().map(|value| f64::from(*value)).collect(),
            sampled: self.sampled.clone(),
        }
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
