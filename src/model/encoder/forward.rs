//! The logits of what comes next: the one forward function of training and serving.

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, concatenate};

use super::batch::Batch;
use super::gru::{Gates, input_parts, step};
use super::parameters::Parameters;
use crate::best_piece::{BestPieces, best_pieces};
use crate::blocks::{columns_mut, rows, rows_mut};
use crate::product::rows_by_rows;
use crate::real::Real;
use crate::unit_rows::UnitRows;

/// The tools' side of the logits.
#[derive(Clone, Debug)]
pub(super) struct ToolSide<F> {
    /// What a call feeds into the recurrent unit; one row per tool.
    pub(super) inputs: Array2<F>,
    /// What the output is compared with: the inputs at length one, then END.
    pub(super) outputs: UnitRows<F>,
    /// What the intent is compared with.
    pub(super) affinity: UnitRows<F>,
    /// The bias of each tool, then that of END.
    pub(super) bias: Vec<F>,
}

/// What the forward pass leaves for its gradient; rows are positions unless they are said to be runs.
pub(super) struct Passed<F> {
    /// The intents as units, one row per run.
    pub(super) intents: Array2<F>,
    pub(super) inputs: Array2<F>,
    /// The state before and after each position.
    pub(super) previous: Array2<F>,
    pub(super) hidden: Array2<F>,
    /// One per step.
    pub(super) gates: Vec<Gates<F>>,
    /// State and intent, after dropout.
    pub(super) joined: Array2<F>,
    pub(super) output: UnitRows<F>,
    /// The output times the tools.
    pub(super) cosines: Array2<F>,
    /// The corrected pieces of the intents.
    pub(super) corrected: UnitRows<F>,
    /// The best of the corrected pieces times the tools, one row per run.
    pub(super) affinities: BestPieces<F>,
    pub(super) logits: Array2<F>,
}

pub(super) fn tool_side<F: Real>(parameters: &Parameters<F>, tools: ArrayView2<'_, F>, own: &[Option<usize>]) -> ToolSide<F> {
    let mut inputs = tools.dot(&parameters.tool);
    let mut affinity = tools.to_owned();
    let shared = parameters.own.nrows();
    let mut bias: Vec<F> = own.iter().map(|own| parameters.bias[[0, own.unwrap_or(shared)]]).collect();
    bias.push(parameters.bias[[0, shared + 1]]);
    for (tool, own) in own.iter().enumerate() {
        if let Some(own) = own {
            inputs.row_mut(tool).scaled_add(F::one(), &parameters.own.row(*own));
            affinity.row_mut(tool).scaled_add(F::one(), &parameters.affinity_own.row(*own));
        }
    }
    let with_end = concatenate(Axis(0), &[inputs.view(), parameters.end.view()]).expect("both have a column per unit");
    ToolSide { inputs, outputs: UnitRows::new(with_end), affinity: UnitRows::new(affinity), bias }
}

/// Pieces of intents corrected for the affinity.
pub(super) fn corrected<F: Real>(parameters: &Parameters<F>, pieces: &Array2<F>) -> UnitRows<F> {
    UnitRows::new(pieces.dot(&parameters.affinity) + pieces)
}

/// What is compared with the tools, from states joined with intents.
pub(super) fn output<F: Real>(parameters: &Parameters<F>, joined: &Array2<F>) -> UnitRows<F> {
    UnitRows::new(joined.dot(&parameters.output) + &parameters.output_bias)
}

/// Turns a row of cosines with tools and END into logits. `calls` are the columns called so far.
pub(super) fn to_logits<F: Real>(
    parameters: &Parameters<F>,
    tools: &ToolSide<F>,
    affinities: ArrayView1<'_, F>,
    calls: &[usize],
    mut row: ArrayViewMut1<'_, F>,
) {
    let (scale, affinity_scale) = (parameters.scale(), parameters.affinity_scale());
    for (logit, bias) in row.iter_mut().zip(&tools.bias) {
        *logit = *logit * scale + *bias;
    }
    for (logit, affinity) in row.iter_mut().zip(affinities) {
        *logit += affinity_scale * *affinity;
    }
    for (index, call) in calls.iter().enumerate() {
        if !calls[..index].contains(call) {
            row[*call] += parameters.scalars[[0, 2]];
        }
    }
    if let Some(last) = calls.last() {
        row[*last] += parameters.scalars[[0, 3]];
    }
}

pub(super) fn forward<F: Real>(parameters: &Parameters<F>, batch: &Batch<F>, tools: &ToolSide<F>) -> Passed<F> {
    let units = parameters.sizes().units;
    let positions = batch.targets.len();
    let intents = batch.intents.dot(&parameters.intent);
    let mut inputs = Array2::zeros((positions, units));
    let mut joined = Array2::zeros((positions, 2 * units));
    for (step, &(first, runs)) in batch.steps.iter().enumerate() {
        columns_mut(rows_mut(&mut joined, first..first + runs), units..2 * units).assign(&rows(&intents, 0..runs));
        for run in 0..runs {
            let input = if step == 0 { intents.row(run) } else { tools.inputs.row(batch.calls[run][step - 1]) };
            inputs.row_mut(first + run).assign(&input);
        }
    }
    let parts = input_parts(parameters, &inputs);
    let (mut previous, mut hidden) = (Array2::zeros((positions, units)), Array2::zeros((positions, units)));
    let mut gates = Vec::with_capacity(batch.steps.len());
    let mut before: Option<usize> = None;
    for &(first, runs) in &batch.steps {
        let at = first..first + runs;
        if let Some(before) = before {
            rows_mut(&mut previous, at.clone()).assign(&rows(&hidden, before..before + runs));
        }
        let (next, step_gates) = step(parameters, rows(&parts, at.clone()), rows(&previous, at.clone()));
        rows_mut(&mut hidden, at).assign(&next);
        gates.push(step_gates);
        before = Some(first);
    }
    columns_mut(joined.view_mut(), 0..units).assign(&hidden);
    if let Some(mask) = &batch.mask {
        joined *= mask;
    }
    let output = output(parameters, &joined);
    let cosines = rows_by_rows(&output.rows, &tools.outputs.rows);
    let corrected = corrected(parameters, &batch.pieces);
    let affinities = best_pieces(&rows_by_rows(&corrected.rows, &tools.affinity.rows), &batch.spans);
    let mut logits = cosines.clone();
    for (step, &(first, runs)) in batch.steps.iter().enumerate() {
        for run in 0..runs {
            to_logits(parameters, tools, affinities.scores.row(run), &batch.calls[run][..step], logits.row_mut(first + run));
        }
    }
    Passed { intents, inputs, previous, hidden, gates, joined, output, cosines, corrected, affinities, logits }
}
