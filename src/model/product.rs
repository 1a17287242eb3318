//! The product of rows with rows: every dot product of a row of one matrix with a row of another.

use ndarray::Array2;

use crate::real::Real;

/// Up to as many rows on the left are multiplied one by one: a matrix product copies the right side into blocks first, which for one
/// intent and ten thousand tools costs many times the product.
const FEW_ROWS: usize = 16;

/// `left` times the transpose of `right`.
pub(crate) fn rows_by_rows<F: Real>(left: &Array2<F>, right: &Array2<F>) -> Array2<F> {
    if left.nrows() > FEW_ROWS {
        return left.dot(&right.t());
    }
    let mut products = Array2::zeros((left.nrows(), right.nrows()));
    for (right, mut column) in right.rows().into_iter().zip(products.columns_mut()) {
        for (left, product) in left.rows().into_iter().zip(&mut column) {
            *product = left.dot(&right);
        }
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn few_rows_and_many_rows_give_the_same_products() {
        let mut random = Random::new(5);
        let left = Array2::from_shape_fn((FEW_ROWS + 1, 37), |_| f64::from(random.normal()));
        let right = Array2::from_shape_fn((23, 37), |_| f64::from(random.normal()));
        let many = rows_by_rows(&left, &right);
        for (row, many) in left.rows().into_iter().zip(many.rows()) {
            let few = rows_by_rows(&row.to_owned().insert_axis(ndarray::Axis(0)), &right);
            assert!(few.iter().zip(many).all(|(few, many)| (few - many).abs() < 1e-12));
        }
    }
}
