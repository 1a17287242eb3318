//! The parameters of the intent head, and which tools have a vector of their own.

use ndarray::{Array1, Array2};

use crate::bytes::round_rows;
use crate::real::Real;
use crate::training_set::TrainingSet;

/// A tool needs as many runs to have its own vector and bias: one run says no more than its text.
const OWN_RUNS_MIN: usize = 2;
/// The logarithms of both scales at the start (ALGORITHMS 14).
const SCALE_START: f32 = 2.3;
/// The offset of the binary loss at the start: most tools are not used (ALGORITHMS 14).
const OFFSET_START: f32 = -3.0;

/// The groups of parameters, or their gradients.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameters<F> {
    /// `A`: the correction of whole intents.
    pub(super) intent: Array2<F>,
    /// `C`: the correction of clauses.
    pub(super) clause: Array2<F>,
    /// `B`: the correction of tools' texts.
    pub(super) tool: Array2<F>,
    /// `e`: one row per tool with a vector of its own.
    pub(super) own: Array2<F>,
    /// `b`: one per own row, then the one shared by all other tools.
    pub(super) bias: Array1<F>,
    /// The logarithms of the scales of intent and clause, and the offset of the binary loss.
    pub(super) scalars: Array1<F>,
}

impl<F: Real> Parameters<F> {
    pub(super) fn zeros(dim: usize, own: usize) -> Self {
        let square = Array2::zeros((dim, dim));
        Self {
            intent: square.clone(),
            clause: square.clone(),
            tool: square,
            own: Array2::zeros((own, dim)),
            bias: Array1::zeros(own + 1),
            scalars: Array1::zeros(3),
        }
    }

    pub(super) fn start(dim: usize, own: usize) -> Self {
        let mut parameters = Self::zeros(dim, own);
        parameters.scalars.assign(&ndarray::arr1(&[SCALE_START, SCALE_START, OFFSET_START].map(F::of)));
        parameters
    }

    pub(super) fn intent_scale(&self) -> F {
        self.scalars[0].exponential()
    }

    pub(super) fn clause_scale(&self) -> F {
        self.scalars[1].exponential()
    }

    pub(super) fn offset(&self) -> F {
        self.scalars[2]
    }

    /// All groups, in the order of the fields.
    pub(super) fn groups(&self) -> [&[F]; 6] {
        let whole = "parameters are stored row by row";
        [
            self.intent.as_slice().expect(whole),
            self.clause.as_slice().expect(whole),
            self.tool.as_slice().expect(whole),
            self.own.as_slice().expect(whole),
            self.bias.as_slice().expect(whole),
            self.scalars.as_slice().expect(whole),
        ]
    }

    pub(super) fn groups_mut(&mut self) -> [&mut [F]; 6] {
        let whole = "parameters are stored row by row";
        [
            self.intent.as_slice_mut().expect(whole),
            self.clause.as_slice_mut().expect(whole),
            self.tool.as_slice_mut().expect(whole),
            self.own.as_slice_mut().expect(whole),
            self.bias.as_slice_mut().expect(whole),
            self.scalars.as_slice_mut().expect(whole),
        ]
    }
}

impl Parameters<f32> {
    /// The parameters as they come back from the stored form.
    pub(super) fn rounded(&self) -> Self {
        Self {
            intent: round_rows(&self.intent),
            clause: round_rows(&self.clause),
            tool: round_rows(&self.tool),
            own: round_rows(&self.own),
            bias: self.bias.clone(),
            scalars: self.scalars.clone(),
        }
    }
}

/// The tools that have a row of their own, in ascending order; the position is the number of the row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnRows(pub(super) Vec<usize>);

impl OwnRows {
    /// The tools called in enough of the runs.
    pub(super) fn count(set: &TrainingSet, runs: &[usize]) -> Self {
        let mut counts = vec![0_usize; set.tools.nrows()];
        for run in runs {
            for tool in distinct(&set.runs[*run].calls) {
                counts[tool] += 1;
            }
        }
        Self((0..counts.len()).filter(|tool| counts[*tool] >= OWN_RUNS_MIN).collect())
    }

    pub(super) fn row(&self, tool: usize) -> Option<usize> {
        self.0.binary_search(&tool).ok()
    }

    /// The own rows of the first `tools` tools.
    pub(super) fn of_first(&self, tools: usize) -> Vec<Option<usize>> {
        let mut rows = vec![None; tools];
        for (row, tool) in self.0.iter().enumerate().take_while(|(_, tool)| **tool < tools) {
            rows[*tool] = Some(row);
        }
        rows
    }
}

/// The tools of a run, each once, in ascending order.
pub(super) fn distinct(calls: &[usize]) -> Vec<usize> {
    let mut tools = calls.to_vec();
    tools.sort_unstable();
    tools.dedup();
    tools
}
