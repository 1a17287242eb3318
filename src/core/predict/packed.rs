//! Vectors packed into two bytes per number, for dot products with all of them at once. The time goes into fetching memory, and this
//! halves it against `f32`. A product is off by about 1e-5, and is a sum of integers, so it does not depend on the order of
//! additions.

use std::sync::Arc;

use crate::rank::rows::{DotProduct, multiply};

/// Rows per chunk: all of them are copied when one changes while a clone shares the chunk.
const CHUNK_ROWS: usize = 256;
/// Partial sums per product: as many as the widest registers hold.
const LANES: usize = 32;
/// The length every vector is scaled to. No component exceeds it, so all fit two bytes; no product, nor any part of one, exceeds its
/// square, which fits four.
const LENGTH: f32 = 32_000.0;

#[derive(Clone, Debug, Default)]
struct Chunk {
    numbers: Vec<i16>,
    /// By row: the factor from integers back to the vector's own scale.
    units: Vec<f32>,
}

/// A matrix of packed vectors; clones share its chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedRows {
    dim: usize,
    len: usize,
    chunks: Vec<Arc<Chunk>>,
}

impl PackedRows {
    pub(super) fn new(dim: usize) -> Self {
        Self { dim, len: 0, chunks: Vec::new() }
    }

    /// Sets a row. Without a vector of the right length it becomes zeros, and its product with everything is 0. Rows before it that
    /// were never set are zeros too.
    pub(super) fn set(&mut self, row: usize, vector: Option<&[f32]>) {
        while self.len <= row {
            self.push_empty();
        }
        let chunk = Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS]);
        let (at, from) = (row % CHUNK_ROWS, row % CHUNK_ROWS * self.dim);
        let numbers = &mut chunk.numbers[from..from + self.dim];
        if let Some(packed) = vector.and_then(|vector| PackedVector::new(vector, self.dim)) {
            numbers.copy_from_slice(&packed.numbers);
            chunk.units[at] = packed.unit;
        } else {
            numbers.fill(0);
            chunk.units[at] = 0.0;
        }
    }

    fn push_empty(&mut self) {
        if self.len.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Arc::default());
        }
        let chunk = Arc::make_mut(self.chunks.last_mut().expect("a chunk was just added if none had room"));
        chunk.numbers.resize(chunk.numbers.len() + self.dim, 0);
        chunk.units.push(0.0);
        self.len += 1;
    }

    /// The dot product of every row with each of `vectors`; 0 for a vector of another length. O(rows * dim * vectors).
    pub(super) fn products(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        let mut products = vec![vec![0.0; self.len]; vectors.len()];
        let vectors: Vec<Option<PackedVector>> = vectors.iter().map(|vector| PackedVector::new(vector, self.dim)).collect();
        for (number, chunk) in self.chunks.iter().enumerate() {
            let from = number * CHUNK_ROWS;
            for (vector, products) in vectors.iter().zip(&mut products) {
                let Some(vector) = vector else { continue };
                let products = &mut products[from..from + chunk.units.len()];
                multiply(&chunk.numbers, &vector.numbers, products);
                for (product, unit) in products.iter_mut().zip(&chunk.units) {
                    *product = *product * unit * vector.unit;
                }
            }
        }
        products
    }
}

struct PackedVector {
    numbers: Vec<i16>,
    /// The factor from integers back to the vector's own scale.
    unit: f32,
}

impl PackedVector {
    /// `None` for a vector of another length, or of zeros.
    fn new(vector: &[f32], dim: usize) -> Option<Self> {
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if vector.len() != dim || length == 0.0 {
            return None;
        }
        // Adds a half away from zero and truncates: rounding without a function call per number.
        let nearest = |number: f32| number + 0.5_f32.copysign(number);
        #[expect(clippy::cast_possible_truncation, reason = "at most LENGTH, and truncation is wanted")]
        let numbers = vector.iter().map(|number| nearest(number / length * LENGTH) as i16).collect();
        Some(Self { numbers, unit: length / LENGTH })
    }
}

impl DotProduct for i16 {
    /// [`LANES`] partial sums: a single sum takes a third longer.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    #[expect(clippy::cast_precision_loss, reason = "24 bits of a product are more than its factors have")]
    fn dot(row: &[Self], vector: &[Self]) -> f32 {
        let mut sums = [0_i32; LANES];
        let (wide_row, rest_row) = row.as_chunks::<LANES>();
        let (wide_vector, rest_vector) = vector.as_chunks::<LANES>();
        for (row, vector) in wide_row.iter().zip(wide_vector) {
            for lane in 0..LANES {
                sums[lane] += i32::from(row[lane]) * i32::from(vector[lane]);
            }
        }
        let rest: i32 = rest_row.iter().zip(rest_vector).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        (sums.iter().sum::<i32>() + rest) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::rows::VectorRows;

    fn noise(number: u32) -> f32 {
        f32::from(u16::try_from(number.wrapping_mul(2_654_435_761) >> 16).unwrap()) / 65_536.0 - 0.5
    }

    fn unit_vector(seed: u32, dim: usize) -> Vec<f32> {
        let vector: Vec<f32> = (seed * 1_000..).take(dim).map(noise).collect();
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        vector.iter().map(|number| number / length).collect()
    }

    #[test]
    fn products_are_nearly_those_of_the_vectors_themselves() {
        for dim in [37, 256, 1_024] {
            let (mut packed, mut exact) = (PackedRows::new(dim), VectorRows::new(dim));
            for (row, seed) in (0..CHUNK_ROWS + 3).zip(1..) {
                packed.set(row, Some(&unit_vector(seed, dim)));
                exact.push_empty();
                exact.set(row, &unit_vector(seed, dim));
            }
            let (near, far) = (unit_vector(3, dim), unit_vector(5_000, dim));
            let products = packed.products(&[&near, &far]);
            for (ours, exact) in products.iter().flatten().zip(exact.products(&[&near, &far]).iter().flatten()) {
                assert!((ours - exact).abs() < 1e-4, "{ours} {exact}");
            }
            assert!((products[0][2] - 1.0).abs() < 1e-4 && products[1].len() == CHUNK_ROWS + 3, "{}", products[0][2]);
        }
    }

    #[test]
    fn a_row_without_a_vector_has_product_zero() {
        let mut rows = PackedRows::new(3);
        rows.set(2, Some(&[0.0, 2.0, 0.0]));
        let copy = rows.clone();
        rows.set(2, None);
        rows.set(0, Some(&[1.0, 1.0]));
        assert_eq!(rows.products(&[&[0.0, 1.0, 0.0]]), [[0.0; 3]]);
        let products = copy.products(&[&[0.0, 1.0, 0.0], &[1.0], &[0.0; 3]]);
        assert!((products[0][2] - 2.0).abs() < 1e-3 && products[0][..2] == [0.0; 2], "{products:?}");
        assert_eq!(products[1..], [[0.0; 3], [0.0; 3]]);
    }
}
