//! The scores of tools for intents: the one forward function of training and serving.

use std::ops::Range;

use ndarray::{Array2, ArrayView2};

use super::parameters::Parameters;
use crate::best_piece::{BestPieces, best_pieces};
use crate::product::rows_by_rows;
use crate::real::Real;
use crate::unit_rows::UnitRows;

/// The intents' side of the score.
pub(super) struct IntentSide<F> {
    /// `z`: one row per intent.
    pub(super) wholes: UnitRows<F>,
    /// `y`: one row per piece; the pieces of an intent are its clauses, or itself if it has none.
    pub(super) pieces: UnitRows<F>,
}

/// Scores of intents (rows) and tools (columns).
pub(super) struct Scored<F> {
    /// `z.t`.
    pub(super) wholes: Array2<F>,
    /// `max y.t`.
    pub(super) pieces: Array2<F>,
    /// The row of the piece that was the maximum, for each intent and tool; the first of equals.
    pub(super) best_pieces: Array2<usize>,
    pub(super) logits: Array2<F>,
}

/// `t`: one row per tool. `own` gives the own row of each, if it has one.
pub(super) fn tool_side<F: Real>(parameters: &Parameters<F>, tools: ArrayView2<'_, F>, own: &[Option<usize>]) -> UnitRows<F> {
    let mut rows = tools.dot(&parameters.tool);
    rows += &tools;
    for (mut row, own) in rows.rows_mut().into_iter().zip(own) {
        if let Some(own) = own {
            row += &parameters.own.row(*own);
        }
    }
    UnitRows::new(rows)
}

pub(super) fn intent_side<F: Real>(parameters: &Parameters<F>, wholes: &Array2<F>, pieces: &Array2<F>) -> IntentSide<F> {
    let corrected = |rows: &Array2<F>, correction: &Array2<F>| UnitRows::new(rows.dot(correction) + rows);
    IntentSide { wholes: corrected(wholes, &parameters.intent), pieces: corrected(pieces, &parameters.clause) }
}

/// Scores the tools whose rows are `tools`. `spans` holds the piece rows of each intent.
pub(super) fn score<F: Real>(
    parameters: &Parameters<F>,
    intents: &IntentSide<F>,
    spans: &[Range<usize>],
    tools: &Array2<F>,
    own: &[Option<usize>],
) -> Scored<F> {
    let wholes = rows_by_rows(&intents.wholes.rows, tools);
    let all_pieces = rows_by_rows(&intents.pieces.rows, tools);
    let BestPieces { scores: pieces, pieces: best_pieces } = best_pieces(&all_pieces, spans);
    let (intent_scale, clause_scale) = (parameters.intent_scale(), parameters.clause_scale());
    let shared = parameters.bias.len() - 1;
    let mut logits = Array2::zeros(wholes.raw_dim());
    for ((mut logits, wholes), pieces) in logits.rows_mut().into_iter().zip(wholes.rows()).zip(pieces.rows()) {
        for (((logit, whole), piece), own) in logits.iter_mut().zip(wholes).zip(pieces).zip(own) {
            *logit = intent_scale * *whole + clause_scale * *piece + parameters.bias[own.unwrap_or(shared)];
        }
    }
    Scored { wholes, pieces, best_pieces, logits }
}
