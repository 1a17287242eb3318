//! The intent head: a learned correction of the embedding space that scores every tool for an intent.
//!
//! For the vector `q` of an intent, the vectors `c_i` of its clauses and the vector `v_t` of a tool's text:
//!
//! ```text
//! z = unit(q + q A)          y_i = unit(c_i + c_i C)          t = unit(v_t + v_t B + e_t)
//! logit_t = exp(s) z.t + exp(u) max_i y_i.t + b_t
//! ```
//!
//! An intent without clauses is its own only clause. `e_t` and `b_t` exist for tools that were called in at least two runs; all others
//! share one bias and have no vector, so a tool registered after training is scored like a rare one. Everything but the two scales
//! is zero at the start, so an untrained head is the cosine of the embeddings.
//!
//! Training and serving share one forward function. Trained parameters are rounded to the stored form before they are validated.

mod batch;
mod forward;
mod loss;
mod parameters;
mod storage;
mod train;

use ndarray::{Array2, ArrayView2};

pub use train::HeadSettings;

use crate::best_piece::pieces_of_intent;
use crate::bytes::DecodeError;
use crate::fitting;
use crate::own_rows::OwnRows;
use crate::training::{Observer, Report, TrainError};
use crate::training_set::TrainingSet;
use parameters::Parameters;
use train::Fitting;

/// A trained intent head. Its parameters are exactly representable in the stored form.
#[derive(Clone, Debug, PartialEq)]
pub struct IntentHead {
    parameters: Parameters<f32>,
    own: OwnRows,
}

/// The scores of all tools for one intent.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// One per tool.
    pub logits: Vec<f32>,
    /// For each tool the clause that fits it best, as an index into the clauses given; empty if none was given or none has a vector.
    pub best_clauses: Vec<usize>,
}

impl IntentHead {
    /// Trains a head: chooses the number of epochs on held-out runs of the set, then trains on all of it. With too few runs to choose,
    /// the result is the untrained head.
    pub fn train(
        set: &TrainingSet,
        settings: &HeadSettings,
        seed: u64,
        observer: &mut Observer<'_>,
    ) -> Result<(Self, Report), TrainError> {
        fitting::train::<Fitting<'_>>(set, settings, seed, observer)
    }

    /// Scores every usable run of the set by a head that saw neither the run nor one with the same intent: the runs are divided into
    /// `parts`, and a head is trained for `epochs` epochs without each. `visit` gets the index of the run and its scores, each run
    /// once, in no particular order.
    pub fn cross_fit(
        set: &TrainingSet,
        settings: &HeadSettings,
        (parts, epochs): (usize, usize),
        seed: u64,
        observer: &mut Observer<'_>,
        visit: &mut dyn FnMut(usize, &Scores),
    ) -> Result<(), TrainError> {
        let mut score = |head: &Self, held_out: &[usize]| train::score_runs(head, set, held_out, visit);
        fitting::cross_fit::<Fitting<'_>>(set, settings, (parts, epochs), seed, observer, &mut score)
    }

    /// The number of dimensions of the vectors it was trained on.
    pub fn dim(&self) -> usize {
        self.parameters.intent.nrows()
    }

    /// The tools' side of the score: one row per tool, to be computed once and kept. `tools` are the vectors of the tools' texts in the
    /// order of the training set; tools registered since may follow.
    pub fn tool_rows(&self, tools: ArrayView2<'_, f32>) -> Array2<f32> {
        let own = self.own.of_first(tools.nrows());
        forward::tool_side(&self.parameters, tools, &own).rows
    }

    /// Scores all tools for an intent. `whole` is its vector, `clauses` those of its clauses, `rows` comes from [`Self::tool_rows`].
    /// An intent without a vector is scored by the biases alone. Panics if a vector is shorter than [`Self::dim`].
    pub fn logits(&self, whole: &[f32], clauses: &[&[f32]], rows: &Array2<f32>) -> Scores {
        let intent = Array2::from_shape_fn((1, self.dim()), |(_, column)| whole[column]);
        let (pieces, with_vector) = pieces_of_intent(whole, clauses, self.dim());
        let own = self.own.of_first(rows.nrows());
        let intents = forward::intent_side(&self.parameters, &intent, &pieces);
        let span = 0..pieces.nrows();
        let scored = forward::score(&self.parameters, &intents, std::slice::from_ref(&span), rows, &own);
        let best = scored.best_pieces.into_iter().map(|piece| with_vector.get(piece).copied());
        Scores { logits: scored.logits.into_raw_vec_and_offset().0, best_clauses: best.flatten().collect() }
    }

    /// The stored form: a versioned header, then the parameters as one byte per number with a scale per row.
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
