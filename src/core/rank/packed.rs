//! Vectors packed into two bytes per number, for dot products with all of them at once. The time goes into fetching memory, and this
//! halves it against `f32`. A product is off by about 1e-5, and is a sum of integers, so it does not depend on the order of
//! additions.

#[cfg(target_arch = "x86_64")]
mod one_pass;

use std::sync::Arc;

/// Rows per chunk: all of them are copied when one changes while a clone shares the chunk. Few enough to stay in the second cache
/// while they are multiplied with more vectors than one pass takes.
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
pub(crate) struct PackedRows {
    dim: usize,
    len: usize,
    chunks: Vec<Arc<Chunk>>,
}

impl PackedRows {
    pub(crate) fn new(dim: usize) -> Self {
        Self { dim, len: 0, chunks: Vec::new() }
    }

    /// Adds a row of zeros, whose product with everything is 0.
    pub(crate) fn push_empty(&mut self) {
        if self.len.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Arc::default());
        }
        let chunk = Arc::make_mut(self.chunks.last_mut().expect("a chunk was just added if none had room"));
        chunk.numbers.resize(chunk.numbers.len() + self.dim, 0);
        chunk.units.push(0.0);
        self.len += 1;
    }

    /// Sets a row. Without a vector of the right length it becomes zeros, and its product with everything is 0. Rows before it that
    /// were never set are zeros too.
    pub(crate) fn set(&mut self, row: usize, vector: Option<&[f32]>) {
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

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The dot product of every row with each of `vectors`; 0 for a vector of another length. O(rows * dim * vectors).
    pub(crate) fn products(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        let mut products = vec![vec![0.0; self.len]; vectors.len()];
        let vectors = vectors.iter().map(|vector| PackedVector::new(vector, self.dim)).zip(&mut products);
        let mut columns: Vec<Column<'_>> =
            vectors.filter_map(|(vector, products)| Some(Column { vector: vector?, products })).collect();
        for (chunk, from) in self.chunks.iter().zip((0..).step_by(CHUNK_ROWS)) {
            multiply(chunk, &mut columns, from);
        }
        products
    }
}

/// A vector and its products with all rows.
struct Column<'a> {
    vector: PackedVector,
    products: &'a mut [f32],
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

/// Writes the product of every row of a chunk, the first of which is row `from`, with every vector.
fn multiply(chunk: &Chunk, columns: &mut [Column<'_>], from: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return one_pass::multiply(simd, chunk, columns, from);
    }
    for Column { vector, products } in columns {
        let products = &mut products[from..from + chunk.units.len()];
        pulp::Arch::new().dispatch(Multiply { rows: &chunk.numbers, vector: &vector.numbers, products });
        for (product, unit) in products.iter_mut().zip(&chunk.units) {
            *product = *product * unit * vector.unit;
        }
    }
}

/// The products of rows with one vector.
struct Multiply<'a> {
    rows: &'a [i16],
    vector: &'a [i16],
    products: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    fn call(self) {
        let dim = self.vector.len();
        for (at, product) in self.products.iter_mut().enumerate() {
            *product = dot(&self.rows[at * dim..(at + 1) * dim], self.vector);
        }
    }
}

/// The product of a row with a vector of its length, in [`LANES`] partial sums: a single sum takes a third longer. It counts
/// positions, because the adapters of iterators are functions of their own in a build that does not optimise across the units of a
/// crate.
#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
#[expect(clippy::cast_precision_loss, reason = "24 bits of a product are more than its factors have")]
fn dot(row: &[i16], vector: &[i16]) -> f32 {
    let (mut sums, mut total) = ([0_i32; LANES], 0_i32);
    let (wide_row, rest_row) = row.as_chunks::<LANES>();
    let (wide_vector, rest_vector) = vector.as_chunks::<LANES>();
    for at in 0..wide_row.len().min(wide_vector.len()) {
        for lane in 0..LANES {
            sums[lane] += i32::from(wide_row[at][lane]) * i32::from(wide_vector[at][lane]);
        }
    }
    for at in 0..rest_row.len().min(rest_vector.len()) {
        total += i32::from(rest_row[at]) * i32::from(rest_vector[at]);
    }
    for sum in sums {
        total += sum;
    }
    total as f32
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let vectors: Vec<Vec<f32>> = (1..).take(CHUNK_ROWS + 3).map(|seed| unit_vector(seed, dim)).collect();
            let mut packed = PackedRows::new(dim);
            for (row, vector) in vectors.iter().enumerate() {
                packed.set(row, Some(vector));
            }
            let (near, far) = (unit_vector(3, dim), unit_vector(5_000, dim));
            let products = packed.products(&[&near, &far]);
            for (products, asked) in products.iter().zip([&near, &far]) {
                for (ours, vector) in products.iter().zip(&vectors) {
                    let exact: f32 = vector.iter().zip(asked).map(|(a, b)| a * b).sum();
                    assert!((ours - exact).abs() < 1e-4, "{ours} {exact}");
                }
            }
            assert!((products[0][2] - 1.0).abs() < 1e-4 && products[1].len() == CHUNK_ROWS + 3, "{}", products[0][2]);
        }
    }

    #[test]
    fn products_with_any_number_of_vectors_are_those_of_the_portable_code() {
        for dim in [37, 256] {
            let mut packed = PackedRows::new(dim);
            (0..CHUNK_ROWS + 3).zip(1..).for_each(|(row, seed)| packed.set(row, Some(&unit_vector(seed, dim))));
            let asked: Vec<Vec<f32>> = (1_000..1_009).map(|seed| unit_vector(seed, dim)).collect();
            let portable = |asked: &Vec<f32>| -> Vec<f32> {
                let vector = PackedVector::new(asked, dim).unwrap();
                let rows = packed.chunks.iter().flat_map(|chunk| chunk.numbers.chunks(dim).zip(&chunk.units));
                rows.map(|(row, unit)| dot(row, &vector.numbers) * unit * vector.unit).collect()
            };
            let expected: Vec<Vec<f32>> = asked.iter().map(portable).collect();
            for count in 0..=asked.len() {
                let some: Vec<&[f32]> = asked[..count].iter().map(Vec::as_slice).collect();
                assert_eq!(packed.products(&some), expected[..count], "{count} vectors of {dim} numbers");
            }
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
