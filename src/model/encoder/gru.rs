//! The gated recurrent unit, one step for several runs at once.
//!
//! ```text
//! r = sigmoid(x_r + h_r)    z = sigmoid(x_z + h_z)    n = tanh(x_n + r h_n)    h' = (1 - z) n + z h
//! ```
//!
//! where `x_*` are three parts of the input times a matrix plus a bias, and `h_*` the same of the previous state.

use ndarray::{Array2, ArrayView2};

use super::parameters::Parameters;
use crate::blocks::columns;
use crate::real::Real;

/// What a step leaves for its gradient; rows are runs.
pub(super) struct Gates<F> {
    reset: Array2<F>,
    update: Array2<F>,
    candidate: Array2<F>,
    /// `h_n`.
    recurrent_candidate: Array2<F>,
}

/// The gradient of a step.
pub(super) struct StepGradient<F> {
    /// By the previous states.
    pub(super) previous: Array2<F>,
    /// By the three parts of the input.
    pub(super) input: Array2<F>,
    /// By the three parts of the previous state.
    pub(super) recurrent: Array2<F>,
}

/// The three parts of the inputs, biases included.
pub(super) fn input_parts<F: Real>(parameters: &Parameters<F>, inputs: &Array2<F>) -> Array2<F> {
    let units = parameters.sizes().units;
    inputs.dot(&parameters.input) + columns(parameters.gate_bias.view(), 0..3 * units)
}

/// The next states.
pub(super) fn step<F: Real>(
    parameters: &Parameters<F>,
    inputs: ArrayView2<'_, F>,
    previous: ArrayView2<'_, F>,
) -> (Array2<F>, Gates<F>) {
    let units = previous.ncols();
    let recurrent = previous.dot(&parameters.recurrent);
    let mut hidden = Array2::zeros(previous.raw_dim());
    let empty = || Array2::zeros(previous.raw_dim());
    let mut gates = Gates { reset: empty(), update: empty(), candidate: empty(), recurrent_candidate: empty() };
    for row in 0..previous.nrows() {
        for unit in 0..units {
            let reset = (inputs[[row, unit]] + recurrent[[row, unit]]).sigmoid();
            let update = (inputs[[row, units + unit]] + recurrent[[row, units + unit]]).sigmoid();
            let from_state = recurrent[[row, 2 * units + unit]] + parameters.gate_bias[[0, 3 * units + unit]];
            let candidate = (inputs[[row, 2 * units + unit]] + reset * from_state).hyperbolic_tangent();
            hidden[[row, unit]] = candidate + update * (previous[[row, unit]] - candidate);
            gates.reset[[row, unit]] = reset;
            gates.update[[row, unit]] = update;
            gates.candidate[[row, unit]] = candidate;
            gates.recurrent_candidate[[row, unit]] = from_state;
        }
    }
    (hidden, gates)
}

/// Carries the gradient by the next states back.
pub(super) fn step_backward<F: Real>(
    parameters: &Parameters<F>,
    gates: &Gates<F>,
    previous: ArrayView2<'_, F>,
    by_hidden: ArrayView2<'_, F>,
) -> StepGradient<F> {
    let (rows, units) = previous.dim();
    let (mut by_input, mut by_recurrent) = (Array2::zeros((rows, 3 * units)), Array2::zeros((rows, 3 * units)));
    let mut by_previous = Array2::zeros((rows, units));
    for row in 0..rows {
        for unit in 0..units {
            let at = [row, unit];
            let (reset, update, candidate) = (gates.reset[at], gates.update[at], gates.candidate[at]);
            let by_candidate = by_hidden[at] * (F::one() - update) * (F::one() - candidate * candidate);
            let by_update = by_hidden[at] * (previous[at] - candidate) * update * (F::one() - update);
            let by_reset = by_candidate * gates.recurrent_candidate[at] * reset * (F::one() - reset);
            by_previous[at] = by_hidden[at] * update;
            by_input[[row, unit]] = by_reset;
            by_input[[row, units + unit]] = by_update;
            by_input[[row, 2 * units + unit]] = by_candidate;
            by_recurrent[[row, unit]] = by_reset;
            by_recurrent[[row, units + unit]] = by_update;
            by_recurrent[[row, 2 * units + unit]] = by_candidate * reset;
        }
    }
    by_previous += &by_recurrent.dot(&parameters.recurrent.t());
    StepGradient { previous: by_previous, input: by_input, recurrent: by_recurrent }
}
