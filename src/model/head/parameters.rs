//! The parameters of the intent head.

use ndarray::{Array1, Array2};

use crate::bytes::round_rows;
use crate::real::Real;

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
