//! The loss of a batch and its gradient by every group of parameters: softmax cross entropy of what comes next at every position, END
//! included. The outcome is in the weights of the positions: of a failed run the calls count less, and its END repels.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis, Zip};

use super::batch::Batch;
use super::forward::{Passed, ToolSide, forward, tool_side};
use super::gru::step_backward;
use super::parameters::Parameters;
use crate::best_piece::spread_to_pieces;
use crate::blocks::{columns, columns_mut, rows, rows_mut};
use crate::columns::Columns;
use crate::real::Real;
use crate::softmax::softmax_loss;

/// Returns the mean loss of the batch's positions; the gradient is written to `gradient`.
pub(super) fn loss<F: Real>(
    parameters: &Parameters<F>,
    batch: &Batch<F>,
    columns: &Columns<F>,
    gradient: &mut Parameters<F>,
) -> F {
    let tools = tool_side(parameters, columns.tools.view(), &columns.own);
    let mut passed = forward(parameters, batch, &tools);
    let positions = F::from(batch.targets.len().max(1)).expect("a count is a number");
    let corrections: Vec<F> = columns.corrections.iter().copied().chain([F::zero()]).collect();
    let mut total = F::zero();
    for ((mut row, target), weight) in passed.logits.rows_mut().into_iter().zip(&batch.targets).zip(&batch.weights) {
        let weight = *weight / positions;
        total += weight * softmax_loss(row.view_mut(), &[*target], &corrections);
        row.mapv_inplace(|value| value * weight);
    }
    gradient.groups_mut().into_iter().for_each(|group| group.fill(F::zero()));
    by_scalars(parameters, batch, &passed, gradient);
    let mut by_inputs = Array2::zeros(tools.inputs.raw_dim());
    let by_intents = by_output(parameters, &passed, (&tools, columns), batch, &mut by_inputs, gradient);
    by_affinity(parameters, &passed, (&tools, columns), batch, gradient);
    let by_intents = through_time(parameters, &passed, batch, by_intents, &mut by_inputs, gradient);
    general_mat_mul(F::one(), &batch.intents.t(), &by_intents, F::zero(), &mut gradient.intent);
    general_mat_mul(F::one(), &columns.tools.t(), &by_inputs, F::zero(), &mut gradient.tool);
    for (by_input, own) in by_inputs.rows().into_iter().zip(&columns.own) {
        if let Some(own) = own {
            gradient.own.row_mut(*own).assign(&by_input);
        }
    }
    total
}

fn sum_of_products<F: Real>(left: ArrayView2<'_, F>, right: &Array2<F>) -> F {
    Zip::from(&left).and(right).fold(F::zero(), |sum, left, right| sum + *left * *right)
}

/// The gradient by what a tool called before and the last tool gain, and by the scale of the cosine.
fn by_scalars<F: Real>(parameters: &Parameters<F>, batch: &Batch<F>, passed: &Passed<F>, gradient: &mut Parameters<F>) {
    gradient.scalars[[0, 0]] = parameters.scale() * sum_of_products(passed.logits.view(), &passed.cosines);
    for (step, &(first, runs)) in batch.steps.iter().enumerate() {
        for (run, calls) in batch.calls[..runs].iter().enumerate() {
            let calls = &calls[..step];
            for (index, call) in calls.iter().enumerate() {
                if !calls[..index].contains(call) {
                    gradient.scalars[[0, 2]] += passed.logits[[first + run, *call]];
                }
            }
            if let Some(last) = calls.last() {
                gradient.scalars[[0, 3]] += passed.logits[[first + run, *last]];
            }
        }
    }
}

/// Carries the gradient by the logits to the output and the tools compared with it. Returns the gradient by the joined rows.
fn by_output<F: Real>(
    parameters: &Parameters<F>,
    passed: &Passed<F>,
    (tools, scored): (&ToolSide<F>, &Columns<F>),
    batch: &Batch<F>,
    by_inputs: &mut Array2<F>,
    gradient: &mut Parameters<F>,
) -> Array2<F> {
    let (scale, end) = (parameters.scale(), scored.own.len());
    let mut by_tools = Array2::zeros(tools.outputs.rows.raw_dim());
    general_mat_mul(scale, &passed.logits.t(), &passed.output.rows, F::zero(), &mut by_tools);
    tools.outputs.backward(&mut by_tools);
    by_inputs.assign(&rows(&by_tools, 0..end));
    gradient.end.assign(&rows(&by_tools, end..end + 1));
    let shared = gradient.own.nrows();
    let sums = passed.logits.sum_axis(Axis(0));
    for (sum, own) in sums.iter().zip(&scored.own) {
        gradient.bias[[0, own.unwrap_or(shared)]] += *sum;
    }
    gradient.bias[[0, shared + 1]] = sums[end];

    let mut by_output = passed.logits.dot(&tools.outputs.rows) * scale;
    passed.output.backward(&mut by_output);
    general_mat_mul(F::one(), &passed.joined.t(), &by_output, F::zero(), &mut gradient.output);
    gradient.output_bias.row_mut(0).assign(&by_output.sum_axis(Axis(0)));
    let mut by_joined = by_output.dot(&parameters.output.t());
    if let Some(mask) = &batch.mask {
        by_joined *= mask;
    }
    by_joined
}

/// Carries the gradient by the logits to the affinity of intents and tools.
fn by_affinity<F: Real>(
    parameters: &Parameters<F>,
    passed: &Passed<F>,
    (tools, scored): (&ToolSide<F>, &Columns<F>),
    batch: &Batch<F>,
    gradient: &mut Parameters<F>,
) {
    let (scale, end) = (parameters.affinity_scale(), scored.own.len());
    let mut by_affinities = Array2::<F>::zeros(passed.affinities.scores.raw_dim());
    for &(first, runs) in &batch.steps {
        let mut sums = rows_mut(&mut by_affinities, 0..runs);
        sums += &columns(rows(&passed.logits, first..first + runs), 0..end);
    }
    let product = sum_of_products(by_affinities.view(), &passed.affinities.scores);
    gradient.scalars[[0, 1]] = Parameters::by_affinity_scale(product);
    let by_pieces = spread_to_pieces(by_affinities.view(), &passed.affinities.pieces, batch.pieces.nrows());
    let mut by_tools = Array2::zeros(tools.affinity.rows.raw_dim());
    general_mat_mul(scale, &by_pieces.t(), &passed.corrected.rows, F::zero(), &mut by_tools);
    tools.affinity.backward(&mut by_tools);
    for (by_tool, own) in by_tools.rows().into_iter().zip(&scored.own) {
        if let Some(own) = own {
            gradient.affinity_own.row_mut(*own).assign(&by_tool);
        }
    }
    let mut by_corrected = by_pieces.dot(&tools.affinity.rows) * scale;
    passed.corrected.backward(&mut by_corrected);
    general_mat_mul(F::one(), &batch.pieces.t(), &by_corrected, F::zero(), &mut gradient.affinity);
}

/// Carries the gradient by the joined rows back through the steps. Adds to the gradient by the tools' inputs, and returns that by the
/// intents as units.
fn through_time<F: Real>(
    parameters: &Parameters<F>,
    passed: &Passed<F>,
    batch: &Batch<F>,
    by_joined: Array2<F>,
    by_tool_inputs: &mut Array2<F>,
    gradient: &mut Parameters<F>,
) -> Array2<F> {
    let (positions, units) = passed.hidden.dim();
    let (mut by_parts, mut by_recurrent) = (Array2::zeros((positions, 3 * units)), Array2::zeros((positions, 3 * units)));
    let mut later: Option<Array2<F>> = None;
    for (&(first, runs), gates) in batch.steps.iter().zip(&passed.gates).rev() {
        let at = first..first + runs;
        let mut by_hidden = columns(rows(&by_joined, at.clone()), 0..units).to_owned();
        if let Some(later) = later {
            let mut continued = rows_mut(&mut by_hidden, 0..later.nrows());
            continued += &later;
        }
        let step = step_backward(parameters, gates, rows(&passed.previous, at.clone()), by_hidden.view());
        rows_mut(&mut by_parts, at.clone()).assign(&step.input);
        rows_mut(&mut by_recurrent, at).assign(&step.recurrent);
        later = Some(step.previous);
    }
    general_mat_mul(F::one(), &passed.inputs.t(), &by_parts, F::zero(), &mut gradient.input);
    general_mat_mul(F::one(), &passed.previous.t(), &by_recurrent, F::zero(), &mut gradient.recurrent);
    columns_mut(gradient.gate_bias.view_mut(), 0..3 * units).row_mut(0).assign(&by_parts.sum_axis(Axis(0)));
    let candidate = columns(by_recurrent.view(), 2 * units..3 * units).sum_axis(Axis(0));
    columns_mut(gradient.gate_bias.view_mut(), 3 * units..4 * units).row_mut(0).assign(&candidate);

    let by_inputs = by_parts.dot(&parameters.input.t());
    let mut by_intents = Array2::zeros(passed.intents.raw_dim());
    for (step, &(first, runs)) in batch.steps.iter().enumerate() {
        for run in 0..runs {
            let mut by_intent = by_intents.row_mut(run);
            by_intent += &columns(by_joined.view(), units..2 * units).row(first + run);
            if step == 0 {
                by_intent += &by_inputs.row(first + run);
            } else {
                let mut by_tool = by_tool_inputs.row_mut(batch.calls[run][step - 1]);
                by_tool += &by_inputs.row(first + run);
            }
        }
    }
    by_intents
}
