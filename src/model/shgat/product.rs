//! Matrix products whose rows do not depend on each other.
//!
//! Row `i` of a product has the same bits whatever other rows are computed with it. This is what makes a recomputation of a few rows
//! equal to that of all, and two threads equal to one: threads share out the rows of the result, never the terms of a sum.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};

use super::real::{Real, dot};

/// Below this many multiplications a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 22;

/// `left` times `right`, on at most `threads` threads.
pub(crate) fn times<R: Real>(left: ArrayView2<R>, right: ArrayView2<R>, threads: usize) -> Array2<R> {
    let mut product = Array2::from_elem((left.nrows(), right.ncols()), R::ZERO);
    multiply(left, right, product.view_mut(), threads);
    product
}

/// `left` times the transpose of `right`.
pub(crate) fn times_transposed<R: Real>(left: ArrayView2<R>, right: ArrayView2<R>, threads: usize) -> Array2<R> {
    times(left, right.reversed_axes(), threads)
}

/// The transpose of `left` times `right`.
pub(crate) fn transposed_times<R: Real>(left: ArrayView2<R>, right: ArrayView2<R>, threads: usize) -> Array2<R> {
    times(left.reversed_axes(), right, threads)
}

/// The product of every row with a vector, for one intent at a time: a matrix product would copy the rows into blocks first. Wide
/// registers change the speed and no bit, since the order of the additions is that of [`dot`].
pub fn rows_times(rows: &Array2<f32>, vector: &[f32]) -> Vec<f32> {
    pulp::Arch::new().dispatch(RowsTimes { rows: rows.as_slice().expect("a matrix in row order"), vector })
}

struct RowsTimes<'a> {
    rows: &'a [f32],
    vector: &'a [f32],
}

impl pulp::NullaryFnOnce for RowsTimes<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    fn call(self) -> Vec<f32> {
        self.rows.chunks_exact(self.vector.len()).map(|row| dot(row, self.vector)).collect()
    }
}

/// Writes `left` times `right` to `product`.
pub(crate) fn multiply<R: Real>(left: ArrayView2<R>, right: ArrayView2<R>, product: ArrayViewMut2<R>, threads: usize) {
    let work = left.nrows() * left.ncols() * right.ncols();
    if threads <= 1 || work < WORTH_A_THREAD || left.nrows() < 2 {
        return multiply_alone(left, right, product);
    }
    let middle = left.nrows() / 2;
    let (upper, lower) = left.split_at(Axis(0), middle);
    let (upper_product, lower_product) = product.split_at(Axis(0), middle);
    std::thread::scope(|scope| {
        scope.spawn(move || multiply(upper, right, upper_product, threads / 2));
        multiply(lower, right, lower_product, threads - threads / 2);
    });
}

fn multiply_alone<R: Real>(left: ArrayView2<R>, right: ArrayView2<R>, mut product: ArrayViewMut2<R>) {
    general_mat_mul(R::ONE, &left, &right, R::ZERO, &mut product);
}

#[cfg(test)]
mod tests {
    use ndarray::Slice;

    use super::*;
    use crate::random::Random;

    fn random(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
        let mut random = Random::new(seed);
        Array2::from_shape_simple_fn((rows, columns), || random.normal())
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        // 384 columns are more than one block of the kernel; 37 rows leave a part of a tile.
        let (left, right) = (random(37, 384, 1), random(40, 384, 2));
        let all = times_transposed(left.view(), right.view(), 1);
        for first in 0..37 {
            for end in [first + 1, (first + 5).min(37)] {
                let some = times_transposed(left.slice_axis(Axis(0), Slice::from(first..end)), right.view(), 1);
                assert_eq!(some, all.slice_axis(Axis(0), Slice::from(first..end)), "rows {first}..{end}");
            }
        }
    }

    #[test]
    fn a_vector_times_all_rows_has_the_bits_of_row_by_row() {
        let (rows, vector) = (random(37, 261, 1), random(1, 261, 2));
        let vector = vector.as_slice().unwrap();
        let alone: Vec<f32> = rows.rows().into_iter().map(|row| dot(row.to_slice().unwrap(), vector)).collect();
        assert_eq!(rows_times(&rows, vector), alone);
    }

    #[test]
    fn two_threads_give_the_bits_of_one() {
        let (left, right) = (random(501, 128, 3), random(128, 129, 4));
        assert_eq!(times(left.view(), right.view(), 1), times(left.view(), right.view(), 2));
        let (left, right) = (random(700, 100, 5), random(700, 96, 6));
        assert_eq!(transposed_times(left.view(), right.view(), 1), transposed_times(left.view(), right.view(), 3));
    }
}
