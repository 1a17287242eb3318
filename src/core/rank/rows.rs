//! Vectors one after the other, for products with all of them at once. A copy shares what does not change.

use std::sync::Arc;

/// Rows that are copied together when one of them changes while a copy is held.
const CHUNK_ROWS: usize = 256;
/// Sums side by side: what the widest registers hold twice. The order of the additions is the same whatever the processor.
const LANES: usize = 16;
/// Vectors multiplied with a row while it is at hand; their sums still fit the registers.
const ABREAST: usize = 4;

#[derive(Clone, Debug, Default)]
pub struct Rows {
    dim: usize,
    len: usize,
    chunks: Vec<Arc<Vec<f32>>>,
}

impl Rows {
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

    /// `vector` must have the length of the rows.
    pub fn set(&mut self, row: usize, vector: &[f32]) {
        let from = row % CHUNK_ROWS * self.dim;
        Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS])[from..from + self.dim].copy_from_slice(vector);
    }

    pub fn clear(&mut self, row: usize) {
        let from = row % CHUNK_ROWS * self.dim;
        Arc::make_mut(&mut self.chunks[row / CHUNK_ROWS])[from..from + self.dim].fill(0.0);
    }

    pub fn row(&self, row: usize) -> &[f32] {
        let from = row % CHUNK_ROWS * self.dim;
        &self.chunks[row / CHUNK_ROWS][from..from + self.dim]
    }

    /// The product of every row with each of `vectors`; 0 with one whose length is not that of the rows. A row is fetched once for
    /// several vectors, because fetching takes longer than multiplying. O(rows * dim * vectors).
    pub fn products(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        let mut products = vec![vec![0.0; self.len]; vectors.len()];
        if self.dim == 0 {
            return products;
        }
        let pairs = vectors.iter().zip(&mut products).filter(|(vector, _)| vector.len() == self.dim);
        let mut pairs: Vec<Factor> = pairs.map(|(vector, products)| Factor { vector, products }).collect();
        for (number, chunk) in self.chunks.iter().enumerate() {
            for factors in pairs.chunks_mut(ABREAST) {
                pulp::Arch::new().dispatch(ChunkProducts { rows: chunk, from: number * CHUNK_ROWS, factors });
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

/// A vector and where its products with the rows go.
struct Factor<'a> {
    vector: &'a [f32],
    products: &'a mut [f32],
}

/// The products of the rows of one chunk, the first of which is row `from`, with a few vectors.
struct ChunkProducts<'a, 'b> {
    rows: &'a [f32],
    from: usize,
    factors: &'a mut [Factor<'b>],
}

impl pulp::NullaryFnOnce for ChunkProducts<'_, '_> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    fn call(self) {
        match self.factors {
            [a] => multiply(self.rows, self.from, [a]),
            [a, b] => multiply(self.rows, self.from, [a, b]),
            [a, b, c] => multiply(self.rows, self.from, [a, b, c]),
            [a, b, c, d] => multiply(self.rows, self.from, [a, b, c, d]),
            _ => unreachable!("one to ABREAST vectors"),
        }
    }
}

/// Inlined into the dispatched call, so that it is compiled for the processor at hand.
#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
fn multiply<const N: usize>(rows: &[f32], from: usize, mut factors: [&mut Factor; N]) {
    let dim = factors[0].vector.len();
    let vectors: [&[f32]; N] = std::array::from_fn(|at| factors[at].vector);
    for (row, values) in rows.chunks_exact(dim).enumerate() {
        let dots = dots(values, &vectors);
        for (factor, dot) in factors.iter_mut().zip(dots) {
            factor.products[from + row] = dot;
        }
    }
}

/// The product of a row with each of some vectors of its length. How many there are does not change a bit of any of them.
#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
fn dots<const N: usize>(row: &[f32], vectors: &[&[f32]; N]) -> [f32; N] {
    let mut sums = [[0.0_f32; LANES]; N];
    let (wide, rest) = row.as_chunks::<LANES>();
    let split = wide.len() * LANES;
    let others: [&[[f32; LANES]]; N] = std::array::from_fn(|at| &vectors[at].as_chunks::<LANES>().0[..wide.len()]);
    for (at, row) in wide.iter().enumerate() {
        for (sums, other) in sums.iter_mut().zip(&others) {
            for lane in 0..LANES {
                sums[lane] += row[lane] * other[at][lane];
            }
        }
    }
    std::array::from_fn(|at| {
        let rest: f32 = rest.iter().zip(&vectors[at][split..]).map(|(a, b)| a * b).sum();
        sums[at].iter().sum::<f32>() + rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_rows() {
        let dim = 37;
        let mut rows = Rows::new(dim);
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
        let mut rows = Rows::new(dim);
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
