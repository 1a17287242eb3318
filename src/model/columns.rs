//! The tools that a batch is scored against: all of them, or a sample where they are too many.

use std::borrow::Cow;

use ndarray::Array2;

use crate::own_rows::{OwnRows, distinct};
use crate::random::Random;
use crate::training_set::TrainingSet;

/// Above as many tools the softmax runs over the tools of the batch and a sample of the others.
pub(crate) const ALL_TOOLS_MAX: usize = 20_000;
/// The size of that sample.
const SAMPLE_LEN: usize = 4096;

/// The columns of every batch of a fit: all tools, made once, or a sample for each batch where they are too many.
pub(crate) struct BatchColumns(Option<Columns<f32>>);

impl BatchColumns {
    pub(crate) fn new(set: &TrainingSet, own: &OwnRows) -> Self {
        Self((set.tools.nrows() <= ALL_TOOLS_MAX).then(|| Columns::all(set, own)))
    }

    pub(crate) fn for_runs(
        &self,
        set: &TrainingSet,
        runs: &[usize],
        own: &OwnRows,
        random: &mut Random,
    ) -> Cow<'_, Columns<f32>> {
        let sample = || Cow::Owned(Columns::sample(set, runs, own, SAMPLE_LEN, random));
        self.0.as_ref().map_or_else(sample, Cow::Borrowed)
    }
}

/// The tools of a batch: the columns of its scores.
#[derive(Clone)]
pub(crate) struct Columns<F> {
    /// The vectors of the tools' texts.
    pub(crate) tools: Array2<F>,
    /// Their own rows.
    pub(crate) own: Vec<Option<usize>>,
    /// For each column what is added to the logit in the softmax of a run that does not use the tool: minus the logarithm of the
    /// probability that the tool was sampled (logQ); minus infinity for a tool that is here only as another run's target.
    pub(crate) corrections: Vec<F>,
    /// The tool of each column, ascending; empty if the columns are all tools.
    sampled: Vec<usize>,
}

impl Columns<f32> {
    /// All tools of the set.
    pub(crate) fn all(set: &TrainingSet, own: &OwnRows) -> Self {
        let tools = set.tools.nrows();
        Self { tools: set.tools.clone(), own: own.of_first(tools), corrections: vec![0.0; tools], sampled: Vec::new() }
    }

    /// A uniform sample of the tools, and the tools of the runs.
    #[expect(clippy::cast_precision_loss, reason = "counts of tools")]
    pub(crate) fn sample(set: &TrainingSet, runs: &[usize], own: &OwnRows, sample_len: usize, random: &mut Random) -> Self {
        let total = set.tools.nrows();
        let mut sample = distinct(&(0..sample_len).map(|_| random.below(total)).collect::<Vec<_>>());
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

    pub(crate) fn column(&self, tool: usize) -> usize {
        if self.sampled.is_empty() { tool } else { self.sampled.binary_search(&tool).expect("a target is in the sample") }
    }
}

#[cfg(test)]
impl Columns<f32> {
    pub(crate) fn widen(&self) -> Columns<f64> {
        Columns {
            tools: self.tools.mapv(f64::from),
            own: self.own.clone(),
            corrections: self.corrections.iter().map(|value| f64::from(*value)).collect(),
            sampled: self.sampled.clone(),
        }
    }
}
