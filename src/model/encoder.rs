//! The recurrent encoder: predicts the next call of a run from its intent and the calls so far, or its END.
//!
//! A gated recurrent unit reads the projected intent, then the projected text of each tool called, plus the tool's own vector. Its state
//! joined with the intent is compared with the tools and with END by cosine; the affinity of the intent's best
//! clause and the tool's text is added:
//!
//! ```text
//! logit_t = exp(s) unit(O [h, g]).unit(x_t) + 10 a max_i unit(c_i + c_i A).unit(v_t + e_t) + b_t + (used before) + (used last)
//! ```
//!
//! `O` is zero at the start, so an untrained encoder ranks by the cosine of the embeddings. Training and serving share their forward
//! functions; trained parameters are rounded to the stored form before they are validated.

mod batch;
mod forward;
mod gru;
mod loss;
mod parameters;
mod storage;
mod train;

use ndarray::{Array2, ArrayView2, Axis, concatenate};

pub use train::EncoderSettings;

use crate::best_piece::{best_pieces, pieces_of_intent};
use crate::bytes::DecodeError;
use crate::fitting;
use crate::own_rows::OwnRows;
use crate::product::rows_by_rows;
use crate::training::{Observer, Report, TrainError};
use crate::training_set::TrainingSet;
use forward::ToolSide;
use parameters::Parameters;
use train::Fitting;

/// A trained encoder. Its parameters are exactly representable in the stored form.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoder {
    parameters: Parameters<f32>,
    own: OwnRows,
}

/// The tools' side of the predictions, to be computed once and kept.
#[derive(Clone, Debug)]
pub struct ToolRows(ToolSide<f32>);

/// The state of one run: its intent and the calls so far.
#[derive(Clone, Debug)]
pub struct RunState {
    intent: Array2<f32>,
    corrected: Array2<f32>,
    hidden: Array2<f32>,
    calls: Vec<usize>,
}

/// What comes next, as logarithms of probabilities that sum to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// One per tool.
    pub tools: Vec<f32>,
    /// That the run ends here.
    pub end: f32,
}

impl Encoder {
    /// Trains an encoder: chooses the number of epochs on held-out runs of the set, then trains on all of it. With too few runs to
    /// choose, the result is the untrained encoder.
    pub fn train(
        set: &TrainingSet,
        settings: &EncoderSettings,
        seed: u64,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, Report), TrainError> {
        fitting::train::<Fitting<'_>>(set, settings, seed, observer)
    }

    /// Predicts every position of every usable run by an encoder that saw neither the run nor one with the same intent: the runs are
    /// divided into `parts`, and an encoder is trained for `epochs` epochs without each. `visit` gets the index of the run, the
    /// number of calls made before, from none to all, and the prediction. Returns the encoders, each with the runs it has not seen.
    pub fn cross_fit(
        set: &TrainingSet,
        settings: &EncoderSettings,
        (parts, epochs): (usize, usize),
        seed: u64,
        observer: &mut Observer<'_>,
        visit: &mut dyn FnMut(usize, usize, &Next),
    ) -> Result<Vec<(Self, Vec<usize>)>, TrainError> {
        let mut encoders = Vec::with_capacity(parts);
        let mut predict = |encoder: &Self, held_out: &[usize]| {
            train::predict_runs(encoder, set, held_out, visit);
            encoders.push((encoder.clone(), held_out.to_vec()));
        };
        fitting::cross_fit::<Fitting<'_>>(set, settings, (parts, epochs), seed, observer, &mut predict)?;
        Ok(encoders)
    }

    /// The number of dimensions of the vectors it was trained on.
    pub fn dim(&self) -> usize {
        self.parameters.sizes().dim
    }

    /// The tools' side of the predictions. `tools` are the vectors of the tools' texts in the order of the training set; tools
    /// registered since may follow.
    pub fn tool_rows(&self, tools: ArrayView2<'_, f32>) -> ToolRows {
        ToolRows(forward::tool_side(&self.parameters, tools, &self.own.of_first(tools.nrows())))
    }

    /// The state of a run before its first call. `whole` is the vector of its intent, `clauses` are those of its clauses;
    /// panics if one is shorter than [`Self::dim`].
    pub fn start(&self, whole: &[f32], clauses: &[&[f32]]) -> RunState {
        let vector = Array2::from_shape_fn((1, self.dim()), |(_, column)| whole[column]);
        let intent = vector.dot(&self.parameters.intent);
        let pieces = pieces_of_intent(whole, clauses, self.dim()).0;
        let corrected = forward::corrected(&self.parameters, &pieces).rows;
        let none = Array2::zeros((1, self.parameters.sizes().units));
        let hidden = self.step(&intent, &none);
        RunState { intent, corrected, hidden, calls: Vec::new() }
    }

    /// Adds a call of a tool, one of `rows`; the cost does not depend on the number of tools or of calls before.
    pub fn advance(&self, state: &mut RunState, tool: usize, rows: &ToolRows) {
        let input = rows.0.inputs.row(tool).insert_axis(Axis(0)).to_owned();
        state.hidden = self.step(&input, &state.hidden);
        state.calls.push(tool);
    }

    fn step(&self, input: &Array2<f32>, previous: &Array2<f32>) -> Array2<f32> {
        let parts = gru::input_parts(&self.parameters, input);
        gru::step(&self.parameters, parts.view(), previous.view()).0
    }

    /// Predicts what comes next.
    pub fn next(&self, state: &RunState, rows: &ToolRows) -> Next {
        let joined = concatenate(Axis(1), &[state.hidden.view(), state.intent.view()]).expect("both have one row");
        let output = forward::output(&self.parameters, &joined).rows;
        let mut logits = rows_by_rows(&output, &rows.0.outputs.rows);
        let span = 0..state.corrected.nrows();
        let affinities =
            best_pieces(&rows_by_rows(&state.corrected, &rows.0.affinity.rows), std::slice::from_ref(&span)).scores;
        forward::to_logits(&self.parameters, &rows.0, affinities.row(0), &state.calls, logits.row_mut(0));
        let largest = logits.fold(f32::NEG_INFINITY, |largest, logit| largest.max(*logit));
        let sum: f32 = logits.iter().map(|logit| libm::expf(logit - largest)).sum();
        let total = largest + libm::logf(sum);
        let mut tools: Vec<f32> = logits.iter().map(|logit| logit - total).collect();
        let end = tools.pop().expect("END follows the tools");
        Next { tools, end }
    }

    /// Predicts what comes next after `calls`, from the beginning.
    pub fn next_after(&self, whole: &[f32], clauses: &[&[f32]], calls: &[usize], rows: &ToolRows) -> Next {
        let mut state = self.start(whole, clauses);
        for call in calls {
            self.advance(&mut state, *call, rows);
        }
        self.next(&state, rows)
    }

    /// The stored form: a versioned header, then the parameters, the matrices as one byte per number with a scale per row.
    pub fn to_bytes(&self) -> Vec<u8> {
        storage::to_bytes(&self.parameters, &self.own)
    }

    /// Reads the stored form. Damaged bytes give an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (parameters, own) = storage::from_bytes(bytes)?;
        Ok(Self { parameters, own })
    }
}

#[cfg(test)]
mod tests;
