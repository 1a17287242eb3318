//! Solves `matrix * x = vector` for a symmetric positive definite matrix (Cholesky). The order of all sums is fixed, so the same
//! numbers give the same bits.

/// The solution in place of `vector`. Only the lower half of `matrix` is read; it is overwritten. O(size^3).
pub(crate) fn solve<Row: AsRef<[f64]> + AsMut<[f64]>>(matrix: &mut [Row], vector: &mut [f64]) {
    let size = vector.len();
    for row in 0..size {
        for column in 0..=row {
            let (above, own) = matrix.split_at_mut(row);
            let own = own[0].as_mut();
            let other = above.get(column).map_or(&*own, |above| above.as_ref());
            let known: f64 = own[..column].iter().zip(&other[..column]).map(|(a, b)| a * b).sum();
            let rest = own[column] - known;
            // Rounding may leave nothing of a direction that the examples say nothing about.
            own[column] = if row == column { rest.max(f64::EPSILON).sqrt() } else { rest / other[column] };
        }
    }
    for row in 0..size {
        let own = matrix[row].as_ref();
        let known: f64 = own[..row].iter().zip(&vector[..row]).map(|(a, b)| a * b).sum();
        vector[row] = (vector[row] - known) / own[row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|at| matrix[at].as_ref()[row] * vector[at]).sum();
        vector[row] = (vector[row] - known) / matrix[row].as_ref()[row];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_solution_gives_the_vector_back(values in proptest::collection::vec(-3.0_f64..3.0, 16), right in proptest::array::uniform4(-5.0_f64..5.0)) {
            // A * A^T + 1 is positive definite.
            let dot = |a: usize, b: usize| (0..4).map(|at| values[4 * a + at] * values[4 * b + at]).sum::<f64>();
            let matrix: [[f64; 4]; 4] =
                std::array::from_fn(|row| std::array::from_fn(|column| dot(row, column) + f64::from(u8::from(row == column))));
            let (mut lower, mut found) = (matrix, right);
            for (row, values) in lower.iter_mut().enumerate() {
                values[row + 1..].fill(f64::NAN);
            }
            solve(&mut lower, &mut found);
            for (row, right) in matrix.iter().zip(right) {
                let back: f64 = row.iter().zip(found).map(|(a, x)| a * x).sum();
                prop_assert!((back - right).abs() < 1e-7, "{} {}", back, right);
            }
        }
    }

    #[test]
    fn a_direction_without_curvature_stays_finite() {
        let (mut matrix, mut vector) = ([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]);
        solve(&mut matrix, &mut vector);
        assert!(vector.iter().all(|value| value.is_finite()), "{vector:?}");
    }
}
