//! Vectors of one length stored contiguously, for products of a vector with all of them. Clones share the chunks that do not change.

use std::sync::Arc;

/// Rows per chunk; a chunk is copied when one of its rows changes while a clone is held.
const CHUNK_ROWS: usize = 256;
/// Parallel sums: twice what the widest registers hold. The order of the additions is the same on every processor.
const LANES: usize = 16;

/// A growing matrix of `f32`, one vector per row.
#[derive(Clone, Debug, Default)]
pub struct VectorRows {
    dim: usize,
    len: usize,
    chunks: Vec<Arc<Vec<f32>>>,
}

impl VectorRows {
    pub fn new(dim: usize) -> Self {
        Self { dim, len: 0, chunks: Vec::new() }
    }

    /// Adds a row of zeros: its product with everything is 0.
    pub fn push_empty(&mut self) {
        if self.len.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK_ROWS * self.dim)));
        }
        let chunk = self.chunks.last_mut().expect("a chunk was just added if none had room");
        let values = Arc::make_mut(chunk);
        values.resize(values.len() + self.dim, 0.0);
        self.len += 1;
    }

    /// Overwrites a row; `vector` must have the length of the rows.
    pub fn set(&mut self, row: usize, vector: &[f32]) {
        let from = row % CHUNK_ROWS * self.dim;
        Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS])[from..from + self.dim].copy_from_slice(vector);
    }

    /// Sets a row to zeros.
    pub fn clear(&mut self, row: usize) {
        let from = row % CHUNK_ROWS * self.dim;
        Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS])[from..from + self.dim].fill(0.0);
    }

    pub fn row(&self, row: usize) -> &[f32] {
        let from = row % CHUNK_ROWS * self.dim;
        &self.chunks[row / CHUNK_ROWS][from..from + self.dim]
    }

    /// For each of `vectors`, its product with every row; 0 if its length is not that of the rows. Works chunk by chunk, because
    /// fetching rows takes longer than multiplying them. O(rows * dim * vectors).
    pub fn products(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        let mut products = vec![vec![0.0; self.len]; vectors.len()];
        if self.dim == 0 {
            return products;
        }
        for (number, chunk) in self.chunks.iter().enumerate() {
            let from = number * CHUNK_ROWS;
            for (vector, products) in vectors.iter().zip(&mut products).filter(|(vector, _)| vector.len() == self.dim) {
                multiply(chunk, vector, &mut products[from..(from + CHUNK_ROWS).min(self.len)]);
            }
        }
        products
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn dim(&self) -> usize {
        self.dim
    }
}

/// A number type that rows can consist of.
pub(crate) trait DotProduct: Sized {
    /// The product of a row with a vector of its length. Implementations are inlined into [`multiply`].
    fn dot(row: &[Self], vector: &[Self]) -> f32;
}

/// Writes the product of every row with one vector. Callers pass few enough rows to stay in the processor's cache for the next
/// vector.
pub(crate) fn multiply<T: DotProduct>(rows: &[T], vector: &[T], products: &mut [f32]) {
    pulp::Arch::new().dispatch(Multiply { rows, vector, products });
}

struct Multiply<'a, T> {
    rows: &'a [T],
    vector: &'a [T],
    products: &'a mut [f32],
}

impl<T: DotProduct> pulp::NullaryFnOnce for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    fn call(self) {
        let dim = self.vector.len();
        for (at, product) in self.products.iter_mut().enumerate() {
            *product = T::dot(&self.rows[at * dim..(at + 1) * dim], self.vector);
        }
    }
}

impl DotProduct for f32 {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    fn dot(row: &[Self], vector: &[Self]) -> f32 {
        let mut sums = [0.0_f32; LANES];
        let (wide_row, rest_row) = row.as_chunks::<LANES>();
        let (wide_vector, rest_vector) = vector.as_chunks::<LANES>();
        for (row, vector) in wide_row.iter().zip(wide_vector) {
            for lane in 0..LANES {
                sums[lane] += row[lane] * vector[lane];
            }
        }
        let rest: f32 = rest_row.iter().zip(rest_vector).map(|(a, b)| a * b).sum();
        sums.iter().sum::<f32>() + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_rows() {
        let dim = 37;
        let mut rows = VectorRows::new(dim);
        for (row, value) in (0_u16..).zip(0..CHUNK_ROWS + 3) {
            rows.push_empty();
            if value != 2 {
                rows.set(value, &vec![f32::from(row); dim]);
            }
        }
        let copy = rows.clone();
        rows.clear(1);
        let ones = vec![1.0; dim];
        let products = rows.products(&[&ones, &[1.0]]);
        let check = |product: f32, expected: f32| assert!((product - expected).abs() < 1e-3, "{product} {expected}");
        for (row, expected) in [(0, 0.0), (1, 0.0), (2, 0.0), (3, 111.0), (CHUNK_ROWS + 2, 258.0 * 37.0)] {
            check(products[0][row], expected);
            check(products[1][row], 0.0);
        }
        check(copy.products(&[&ones])[0][1], 37.0);
    }

    #[test]
    fn a_product_is_the_same_however_many_are_asked_for() {
        let dim = 35;
        let noise = |number: u32| f32::from(u16::try_from(number.wrapping_mul(2_654_435_761) >> 16).unwrap()) / 65_536.0 - 0.5;
        let vector = |from: u32| -> Vec<f32> { (from..).take(dim).map(noise).collect() };
        let mut rows = VectorRows::new(dim);
        for (row, seed) in (0..9).zip(1_000_u32..) {
            rows.push_empty();
            rows.set(row, &vector(seed * 50));
        }
        let vectors: Vec<Vec<f32>> = (0..7).map(|seed| vector(seed * 40)).collect();
        let vectors: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
        let together = rows.products(&vectors);
        for (vector, products) in vectors.iter().zip(&together) {
            let alone = rows.products(&[vector]).remove(0);
            assert!(alone.iter().zip(products).all(|(a, b)| a.to_bits() == b.to_bits()), "{alone:?} {products:?}");
            assert!(alone.iter().any(|product| *product != 0.0));
        }
    }
}
