//! Which tools have parameters of their own.

use crate::bytes::{DecodeError, Reader, Writer};
use crate::training_set::TrainingSet;

/// A tool needs as many runs to have its own vector and bias: one run says no more than its text.
const OWN_RUNS_MIN: usize = 2;

/// The tools that have a row of their own, in ascending order; the position is the number of the row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnRows(pub(crate) Vec<usize>);

impl OwnRows {
    /// The tools called in enough of the runs.
    pub(crate) fn count(set: &TrainingSet, runs: &[usize]) -> Self {
        let mut counts = vec![0_usize; set.tools.nrows()];
        for run in runs {
            for tool in distinct(&set.runs[*run].calls) {
                counts[tool] += 1;
            }
        }
        Self((0..counts.len()).filter(|tool| counts[*tool] >= OWN_RUNS_MIN).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn row(&self, tool: usize) -> Option<usize> {
        self.0.binary_search(&tool).ok()
    }

    /// The own rows of the first `tools` tools.
    pub(crate) fn of_first(&self, tools: usize) -> Vec<Option<usize>> {
        let mut rows = vec![None; tools];
        for (row, tool) in self.0.iter().enumerate().take_while(|(_, tool)| **tool < tools) {
            rows[*tool] = Some(row);
        }
        rows
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count(self.len());
        self.0.iter().for_each(|tool| writer.count(*tool));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = reader.count()?;
        let tools = reader.counts(len)?;
        let ascending = tools.is_sorted_by(|left, right| left < right);
        if ascending { Ok(Self(tools)) } else { Err(DecodeError::InvalidValue) }
    }
}

/// The tools of a run, each once, in ascending order.
pub(crate) fn distinct(calls: &[usize]) -> Vec<usize> {
    let mut tools = calls.to_vec();
    tools.sort_unstable();
    tools.dedup();
    tools
}
