//! Rows scaled to length one, and the gradient through the scaling.

use ndarray::{Array1, Array2, ArrayView1, Axis, Zip};

use crate::real::Real;

/// Added to the squared length. A row of zeros stays zeros and has a finite gradient, so that the vector of a tool whose text the
/// embedder cannot read can still be learned; a row of length one shrinks by one part in two thousand.
const SQUARE_FLOOR: f32 = 1e-3;

/// Rows `x / sqrt(x.x + floor)` with the lengths they were divided by.
#[derive(Clone, Debug)]
pub(crate) struct UnitRows<F> {
    pub(crate) rows: Array2<F>,
    lengths: Array1<F>,
}

impl<F: Real> UnitRows<F> {
    pub(crate) fn new(mut rows: Array2<F>) -> Self {
        let mut lengths = Array1::zeros(rows.nrows());
        Zip::from(&mut lengths).and(rows.rows_mut()).for_each(|length, mut row| {
            *length = (dot(row.view(), row.view()) + F::of(SQUARE_FLOOR)).sqrt();
            let scale = F::one() / *length;
            row.map_inplace(|value| *value *= scale);
        });
        Self { rows, lengths }
    }

    /// Turns the gradient by the scaled rows into the gradient by the rows before scaling, in place.
    pub(crate) fn backward(&self, gradient: &mut Array2<F>) {
        for ((mut gradient, unit), length) in gradient.axis_iter_mut(Axis(0)).zip(self.rows.rows()).zip(&self.lengths) {
            let along = dot(gradient.view(), unit);
            let scale = F::one() / *length;
            Zip::from(&mut gradient).and(unit).for_each(|gradient, unit| *gradient = (*gradient - along * *unit) * scale);
        }
    }
}

fn dot<F: Real>(left: ArrayView1<'_, F>, right: ArrayView1<'_, F>) -> F {
    left.dot(&right)
}
