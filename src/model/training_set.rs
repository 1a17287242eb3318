//! The training set: what a state offers to learn from, as rows of vectors and indices of rows.

use ndarray::Array2;

/// The texts and runs that a trained part learns from. All vectors have the same length; a text without a vector is a row of zeros.
#[derive(Clone, Debug, Default)]
pub struct TrainingSet {
    /// One row per tool: the vector of its text.
    pub tools: Array2<f32>,
    /// One row per intent and per clause.
    pub texts: Array2<f32>,
    /// In the order in which they were recorded, the oldest first.
    pub runs: Vec<Run>,
}

/// One run: an intent and the calls made for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The row of the intent in [`TrainingSet::texts`].
    pub intent: usize,
    /// The rows of its clauses; empty if it is a single clause.
    pub clauses: Vec<usize>,
    /// The rows of the tools called, in order; a call of something that is not a tool is left out.
    pub calls: Vec<usize>,
    /// Whether the run ended after the last call: not if it was abandoned or cut.
    pub ended: bool,
    pub succeeded: bool,
}

impl TrainingSet {
    /// The number of dimensions of a vector.
    pub fn dim(&self) -> usize {
        self.tools.ncols()
    }

    /// The vectors of a run's intent and of its clauses.
    pub(crate) fn intent_of(&self, run: usize) -> (&[f32], Vec<&[f32]>) {
        let text = |row: usize| self.texts.row(row).to_slice().expect("texts are stored row by row");
        let run = &self.runs[run];
        (text(run.intent), run.clauses.iter().map(|clause| text(*clause)).collect())
    }
}
