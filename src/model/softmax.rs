//! Softmax cross entropy with its gradient.

use ndarray::ArrayViewMut1;

use crate::real::Real;

/// The cross entropy of a softmax whose target is spread evenly over `targets`; the logits are replaced by its gradient. The
/// corrections are added to the logits of all other columns (see [`crate::columns::Columns`]).
pub(crate) fn softmax_loss<F: Real>(mut row: ArrayViewMut1<'_, F>, targets: &[usize], corrections: &[F]) -> F {
    let share = F::one() / F::from(targets.len()).expect("a count is a number");
    let mean_target = targets.iter().fold(F::zero(), |sum, column| sum + row[*column]) * share;
    for (column, (logit, correction)) in row.iter_mut().zip(corrections).enumerate() {
        if !targets.contains(&column) {
            *logit += *correction;
        }
    }
    let largest = row.fold(F::neg_infinity(), |largest, logit| largest.max(*logit));
    row.mapv_inplace(|logit| (logit - largest).exponential());
    let sum = row.sum();
    row.mapv_inplace(|power| power / sum);
    for column in targets {
        row[*column] -= share;
    }
    largest + sum.logarithm() - mean_target
}
