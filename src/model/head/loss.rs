//! The loss of a batch and its gradient by every group of parameters.
//!
//! Per run: softmax cross entropy over all tools, the target spread evenly over the run's distinct tools, plus a share of the binary
//! cross entropy of every tool. Both are multiplied by the run's weight, whose sign is the outcome: a failed run repels.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayViewMut1, Zip};

use super::batch::Batch;
use super::forward::{IntentSide, Scored, intent_side, score, tool_side};
use super::parameters::Parameters;
use crate::best_piece::spread_to_pieces;
use crate::columns::Columns;
use crate::real::Real;
use crate::softmax::softmax_loss;
use crate::unit_rows::UnitRows;

/// Returns the mean loss of the batch; the gradient is written to `gradient`.
pub(super) fn loss<F: Real>(
    parameters: &Parameters<F>,
    batch: &Batch<F>,
    columns: &Columns<F>,
    binary_share: F,
    gradient: &mut Parameters<F>,
) -> F {
    let tools = tool_side(parameters, columns.tools.view(), &columns.own);
    let intents = intent_side(parameters, &batch.wholes, &batch.pieces);
    let mut scored = score(parameters, &intents, &batch.spans, &tools.rows, &columns.own);
    let (loss, offset_gradient) = by_logits(parameters, batch, columns, binary_share, &mut scored.logits);
    for group in gradient.groups_mut() {
        group.fill(F::zero());
    }
    gradient.scalars[2] = offset_gradient;
    backward(parameters, batch, columns, &scored, (&intents, &tools), gradient);
    loss
}

/// Replaces the logits by the gradient of the mean loss by them. Returns the loss and the gradient by the offset.
fn by_logits<F: Real>(
    parameters: &Parameters<F>,
    batch: &Batch<F>,
    columns: &Columns<F>,
    binary_share: F,
    logits: &mut Array2<F>,
) -> (F, F) {
    let runs = F::from(batch.len()).expect("a count is a number");
    let tools = columns.corrections.iter().filter(|correction| correction.is_finite());
    let per_tool = binary_share / tools.fold(F::zero(), |sum, correction| sum + correction.exponential());
    let (mut total, mut offset_gradient) = (F::zero(), F::zero());
    for ((mut row, targets), weight) in logits.rows_mut().into_iter().zip(&batch.targets).zip(&batch.weights) {
        let weight = *weight / runs;
        let (binary, by_offset, binary_gradient) =
            binary_loss(row.view_mut(), targets, &columns.corrections, parameters.offset());
        let softmax = softmax_loss(row.view_mut(), targets, &columns.corrections);
        for (value, binary) in row.iter_mut().zip(binary_gradient) {
            *value = (*value + per_tool * binary) * weight;
        }
        total += (softmax + per_tool * binary) * weight;
        offset_gradient += by_offset * per_tool * weight;
    }
    (total, offset_gradient)
}

/// The summed binary cross entropy of the tools, its gradient by the offset, and by each logit.
fn binary_loss<F: Real>(row: ArrayViewMut1<'_, F>, targets: &[usize], corrections: &[F], offset: F) -> (F, F, Vec<F>) {
    let (mut loss, mut by_offset) = (F::zero(), F::zero());
    let mut gradient: Vec<F> = Vec::with_capacity(row.len());
    for (column, (logit, correction)) in row.iter().zip(corrections).enumerate() {
        let shifted = *logit + offset;
        let (softplus, sigmoid) = shifted.softplus_and_slope();
        let (term, slope) = if targets.contains(&column) {
            (softplus - shifted, sigmoid - F::one())
        } else if correction.is_finite() {
            let stands_for = correction.exponential();
            (softplus * stands_for, sigmoid * stands_for)
        } else {
            (F::zero(), F::zero())
        };
        loss += term;
        by_offset += slope;
        gradient.push(slope);
    }
    (loss, by_offset, gradient)
}

/// Carries the gradient by the logits, which `scored.logits` holds, back to the parameters.
fn backward<F: Real>(
    parameters: &Parameters<F>,
    batch: &Batch<F>,
    columns: &Columns<F>,
    scored: &Scored<F>,
    (intents, tools): (&IntentSide<F>, &UnitRows<F>),
    gradient: &mut Parameters<F>,
) {
    let by_logits = &scored.logits;
    let (intent_scale, clause_scale) = (parameters.intent_scale(), parameters.clause_scale());
    let product = |left: &Array2<F>, right: &Array2<F>| {
        Zip::from(left).and(right).fold(F::zero(), |sum, left, right| sum + *left * *right)
    };
    gradient.scalars[0] = intent_scale * product(by_logits, &scored.wholes);
    gradient.scalars[1] = clause_scale * product(by_logits, &scored.pieces);
    let by_pieces = spread_to_pieces(by_logits.view(), &scored.best_pieces, batch.pieces.nrows());

    let mut by_wholes_rows = by_logits.dot(&tools.rows) * intent_scale;
    intents.wholes.backward(&mut by_wholes_rows);
    general_mat_mul(F::one(), &batch.wholes.t(), &by_wholes_rows, F::zero(), &mut gradient.intent);

    let mut by_piece_rows = by_pieces.dot(&tools.rows) * clause_scale;
    intents.pieces.backward(&mut by_piece_rows);
    general_mat_mul(F::one(), &batch.pieces.t(), &by_piece_rows, F::zero(), &mut gradient.clause);

    let mut by_tools = Array2::zeros(tools.rows.raw_dim());
    general_mat_mul(intent_scale, &by_logits.t(), &intents.wholes.rows, F::zero(), &mut by_tools);
    general_mat_mul(clause_scale, &by_pieces.t(), &intents.pieces.rows, F::one(), &mut by_tools);
    tools.backward(&mut by_tools);
    general_mat_mul(F::one(), &columns.tools.t(), &by_tools, F::zero(), &mut gradient.tool);

    let shared = gradient.bias.len() - 1;
    for ((column, by_tool), own) in by_logits.columns().into_iter().zip(by_tools.rows()).zip(&columns.own) {
        gradient.bias[own.unwrap_or(shared)] += column.sum();
        if let Some(own) = own {
            gradient.own.row_mut(*own).assign(&by_tool);
        }
    }
}
