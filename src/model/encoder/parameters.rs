//! The parameters of the recurrent encoder.

use ndarray::Array2;

use crate::bytes::round_rows;
use crate::random::Random;
use crate::real::Real;

/// The number of groups of parameters.
pub(super) const GROUPS: usize = 13;
/// Which groups have weight decay: the matrices, in the order of the fields.
pub(super) const DECAYS: [bool; GROUPS] = [true, true, true, true, true, true, false, true, false, false, true, true, false];
/// The logarithm of the scale of the cosine at the start (ALGORITHMS 14).
const SCALE_START: f32 = 2.0;
/// The affinity is ten times this (ALGORITHMS 14).
const AFFINITY_START: f32 = 1.0;
const AFFINITY_FACTOR: f32 = 10.0;
/// The size of the noise that tells tools with the same text apart (ALGORITHMS 14).
const OWN_NOISE: f32 = 0.02;

/// The sizes that give every group its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Dimensions of a text's vector.
    pub(super) dim: usize,
    /// Units of the recurrent state.
    pub(super) units: usize,
    /// Tools with a row of their own.
    pub(super) own: usize,
}

/// The groups of parameters, or their gradients. Vectors are matrices of one row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameters<F> {
    /// From the intent's vector to the units.
    pub(super) intent: Array2<F>,
    /// From the vector of a tool's text to the units.
    pub(super) tool: Array2<F>,
    /// Added to that for tools with a row of their own.
    pub(super) own: Array2<F>,
    /// The END of a run, in the place of a tool.
    pub(super) end: Array2<F>,
    /// From an input to the reset gate, the update gate and the candidate.
    pub(super) input: Array2<F>,
    /// The same from the previous state.
    pub(super) recurrent: Array2<F>,
    /// The biases of the three, and that of the candidate's recurrent part.
    pub(super) gate_bias: Array2<F>,
    /// From the state joined with the intent to what is compared with the tools.
    pub(super) output: Array2<F>,
    pub(super) output_bias: Array2<F>,
    /// One per own row, then the one shared by all other tools, then END.
    pub(super) bias: Array2<F>,
    /// The correction of the intent in its affinity to the tools.
    pub(super) affinity: Array2<F>,
    /// Added to a tool's text vector in the affinity.
    pub(super) affinity_own: Array2<F>,
    /// The logarithm of the cosine's scale, a tenth of the affinity's scale, what a tool called before gains, what the last one does.
    pub(super) scalars: Array2<F>,
}

impl<F: Real> Parameters<F> {
    pub(super) fn zeros(sizes: Sizes) -> Self {
        let [intent, tool, own, end, input, recurrent, gate_bias, output, output_bias, bias, affinity, affinity_own, scalars] =
            shapes(sizes).map(Array2::zeros);
        Self { intent, tool, own, end, input, recurrent, gate_bias, output, output_bias, bias, affinity, affinity_own, scalars }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes { dim: self.intent.nrows(), units: self.intent.ncols(), own: self.own.nrows() }
    }

    pub(super) fn scale(&self) -> F {
        self.scalars[[0, 0]].exponential()
    }

    pub(super) fn affinity_scale(&self) -> F {
        self.scalars[[0, 1]] * F::of(AFFINITY_FACTOR)
    }

    /// The gradient by the second scalar, from that by the scale of the affinity.
    pub(super) fn by_affinity_scale(gradient: F) -> F {
        gradient * F::of(AFFINITY_FACTOR)
    }

    /// All groups, in the order of the fields.
    pub(super) fn groups(&self) -> [&Array2<F>; GROUPS] {
        [
            &self.intent,
            &self.tool,
            &self.own,
            &self.end,
            &self.input,
            &self.recurrent,
            &self.gate_bias,
            &self.output,
            &self.output_bias,
            &self.bias,
            &self.affinity,
            &self.affinity_own,
            &self.scalars,
        ]
    }

    pub(super) fn groups_mut(&mut self) -> [&mut Array2<F>; GROUPS] {
        [
            &mut self.intent,
            &mut self.tool,
            &mut self.own,
            &mut self.end,
            &mut self.input,
            &mut self.recurrent,
            &mut self.gate_bias,
            &mut self.output,
            &mut self.output_bias,
            &mut self.bias,
            &mut self.affinity,
            &mut self.affinity_own,
            &mut self.scalars,
        ]
    }
}

impl Parameters<f32> {
    /// Random projections and gates. The output is zero, so that an untrained encoder ranks by the affinity alone: the cosine of
    /// the embeddings.
    pub(super) fn start(sizes: Sizes, random: &mut Random) -> Self {
        let mut parameters = Self::zeros(sizes);
        #[expect(clippy::cast_precision_loss, reason = "a count of units")]
        let spread = 1.0 / (sizes.units as f32).sqrt();
        let mut fill = |group: &mut Array2<f32>, size: f32| group.mapv_inplace(|_| random.normal() * size);
        fill(&mut parameters.intent, spread);
        fill(&mut parameters.tool, spread);
        fill(&mut parameters.own, OWN_NOISE);
        fill(&mut parameters.end, spread);
        fill(&mut parameters.input, spread);
        fill(&mut parameters.recurrent, spread);
        parameters.scalars[[0, 0]] = SCALE_START;
        parameters.scalars[[0, 1]] = AFFINITY_START;
        parameters
    }

    /// The parameters as they come back from the stored form.
    pub(super) fn rounded(&self) -> Self {
        let mut rounded = self.clone();
        for (group, decays) in rounded.groups_mut().into_iter().zip(DECAYS) {
            if decays {
                *group = round_rows(group);
            }
        }
        rounded
    }
}

/// Rows and columns of every group, in the order of the fields.
pub(super) fn shapes(Sizes { dim, units, own }: Sizes) -> [(usize, usize); GROUPS] {
    [
        (dim, units),
        (dim, units),
        (own, units),
        (1, units),
        (units, 3 * units),
        (units, 3 * units),
        (1, 4 * units),
        (2 * units, units),
        (1, units),
        (1, own + 2),
        (dim, dim),
        (own, dim),
        (1, 4),
    ]
}
