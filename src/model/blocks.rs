//! Parts of matrices by ranges of rows or columns.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, Slice};

pub(crate) fn rows<F>(matrix: &Array2<F>, range: Range<usize>) -> ArrayView2<'_, F> {
    matrix.slice_axis(Axis(0), Slice::from(range))
}

pub(crate) fn rows_mut<F>(matrix: &mut Array2<F>, range: Range<usize>) -> ArrayViewMut2<'_, F> {
    matrix.slice_axis_mut(Axis(0), Slice::from(range))
}

pub(crate) fn columns<F>(matrix: ArrayView2<'_, F>, range: Range<usize>) -> ArrayView2<'_, F> {
    matrix.slice_axis_move(Axis(1), Slice::from(range))
}

pub(crate) fn columns_mut<F>(matrix: ArrayViewMut2<'_, F>, range: Range<usize>) -> ArrayViewMut2<'_, F> {
    matrix.slice_axis_move(Axis(1), Slice::from(range))
}
