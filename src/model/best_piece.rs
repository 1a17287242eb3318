//! The best piece of an intent for each tool: the maximum over its clauses, and the gradient through it.
//!
//! The pieces of an intent are its clauses, or the intent itself if it has none.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, Axis};

use crate::real::Real;
use crate::training::has_vector;
use crate::training_set::{Run, TrainingSet};

/// The best scores of intents (rows) and tools (columns).
pub(crate) struct BestPieces<F> {
    pub(crate) scores: Array2<F>,
    /// The row of the piece that was the maximum; the first of equals.
    pub(crate) pieces: Array2<usize>,
}

/// The maximum over the pieces of each intent. `spans` holds the piece rows of each; none is empty.
pub(crate) fn best_pieces<F: Real>(piece_scores: &Array2<F>, spans: &[Range<usize>]) -> BestPieces<F> {
    let shape = (spans.len(), piece_scores.ncols());
    let (mut scores, mut pieces) = (Array2::zeros(shape), Array2::zeros(shape));
    let rows = scores.axis_iter_mut(Axis(0)).zip(pieces.axis_iter_mut(Axis(0)));
    for ((mut best, mut best_piece), span) in rows.zip(spans) {
        best.assign(&piece_scores.row(span.start));
        best_piece.fill(span.start);
        for piece in span.start + 1..span.end {
            for ((best, best_piece), score) in best.iter_mut().zip(&mut best_piece).zip(piece_scores.row(piece)) {
                if *score > *best {
                    (*best, *best_piece) = (*score, piece);
                }
            }
        }
    }
    BestPieces { scores, pieces }
}

/// The gradient by the score of every piece: that of the maximum for the piece that was it, zero for the others.
pub(crate) fn spread_to_pieces<F: Real>(by_best: ArrayView2<'_, F>, best: &Array2<usize>, pieces: usize) -> Array2<F> {
    let mut spread = Array2::zeros((pieces, by_best.ncols()));
    for (by_best, best) in by_best.rows().into_iter().zip(best.rows()) {
        for (column, (value, piece)) in by_best.iter().zip(best).enumerate() {
            spread[[*piece, column]] = *value;
        }
    }
    spread
}

/// The vectors of the pieces of some runs, and the rows of each run. A clause without a vector is no piece.
pub(crate) fn pieces_of<'a>(set: &TrainingSet, runs: impl Iterator<Item = &'a Run>) -> (Array2<f32>, Vec<Range<usize>>) {
    let (mut rows, mut spans) = (Vec::new(), Vec::new());
    for run in runs {
        let first = rows.len();
        rows.extend(run.clauses.iter().copied().filter(|row| has_vector(set.texts.row(*row))));
        if rows.len() == first {
            rows.push(run.intent);
        }
        spans.push(first..rows.len());
    }
    (set.texts.select(Axis(0), &rows), spans)
}

/// The pieces of one intent as rows, and which of the clauses they are; the intent itself, which is none, if no clause has a vector.
pub(crate) fn pieces_of_intent(whole: &[f32], clauses: &[&[f32]], dim: usize) -> (Array2<f32>, Vec<usize>) {
    let with_vector: Vec<usize> = (0..clauses.len()).filter(|clause| has_vector(ndarray::aview1(clauses[*clause]))).collect();
    let pieces = match with_vector.as_slice() {
        [] => Array2::from_shape_fn((1, dim), |(_, column)| whole[column]),
        some => Array2::from_shape_fn((some.len(), dim), |(row, column)| clauses[some[row]][column]),
    };
    (pieces, with_vector)
}
