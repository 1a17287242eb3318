//! Products of rows with several vectors in one pass: each part of a row is loaded once for all vectors, so that the processor fetches
//! the next rows from memory while it multiplies, and the sums of several products are added up together. Rows with one vector after
//! the other take twice as long: the first waits for memory, and nothing is fetched during the others. The compiler does not find this
//! by itself.

use pulp::x86::V3;
use pulp::{i16x16, i32x8};

use super::{Chunk, Column};

/// Numbers that one register holds.
const WIDTH: usize = 16;
/// Vectors per pass: their sums, a part of a row and what is being added stay in the sixteen registers.
const VECTORS_MAX: usize = 6;

/// Writes the product of every row of `chunk`, the first of which is row `from`, with every vector.
pub(super) fn multiply(simd: V3, chunk: &Chunk, columns: &mut [Column<'_>], from: usize) {
    // Passes over nearly as many vectors each.
    let passes = columns.len().div_ceil(VECTORS_MAX).max(1);
    for some in columns.chunks_mut(columns.len().div_ceil(passes).max(1)) {
        let done = pass::<1>(simd, chunk, some, from)
            || pass::<2>(simd, chunk, some, from)
            || pass::<3>(simd, chunk, some, from)
            || pass::<4>(simd, chunk, some, from)
            || pass::<5>(simd, chunk, some, from)
            || pass::<VECTORS_MAX>(simd, chunk, some, from);
        debug_assert!(done, "there are passes for up to VECTORS_MAX vectors");
    }
}

/// Does so for `N` vectors; returns false if there are more or fewer.
fn pass<const N: usize>(simd: V3, chunk: &Chunk, columns: &mut [Column<'_>], from: usize) -> bool {
    let Ok(columns) = <&mut [Column<'_>; N]>::try_from(columns) else { return false };
    simd.vectorize(Pass { simd, chunk, columns, from });
    true
}

struct Pass<'a, 'b, const N: usize> {
    simd: V3,
    chunk: &'a Chunk,
    columns: &'a mut [Column<'b>; N],
    from: usize,
}

impl<const N: usize> pulp::NullaryFnOnce for Pass<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    #[expect(clippy::cast_precision_loss, reason = "24 bits of a product are more than its factors have")]
    fn call(self) {
        let Self { simd, chunk, columns, from } = self;
        let dim = columns[0].vector.numbers.len();
        for (at, (row, unit)) in chunk.numbers.chunks_exact(dim).zip(&chunk.units).enumerate() {
            let sums = dots(simd, row, columns.each_ref().map(|column| column.vector.numbers.as_slice()));
            for (Column { vector, products }, sum) in columns.iter_mut().zip(sums) {
                products[from + at] = sum as f32 * unit * vector.unit;
            }
        }
    }
}

/// The products of a row with the vectors, which are as long. Whole numbers: in whatever order they are added, the sums are the same.
#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
fn dots<const N: usize>(simd: V3, row: &[i16], vectors: [&[i16]; N]) -> [i32; 8] {
    let (wide, narrow) = row.as_chunks::<WIDTH>();
    // Cut to the same length, so that it need not be checked at every step.
    let parts = vectors.map(|vector| &vector.as_chunks::<WIDTH>().0[..wide.len()]);
    let mut sums = [simd.splat_i32x8(0); 8];
    for (at, part) in wide.iter().enumerate() {
        let part: i16x16 = pulp::cast(*part);
        for vector in 0..N {
            let product = simd.multiply_wrapping_add_adjacent_i16x16(part, pulp::cast(parts[vector][at]));
            sums[vector] = simd.wrapping_add_i32x8(sums[vector], product);
        }
    }
    let [a, b, c, d, rest @ ..] = sums;
    let (low, high) = (totals(simd, [a, b, c, d]), if N > 4 { totals(simd, rest) } else { [0; 4] });
    let mut products: [i32; 8] = pulp::cast([low, high]);
    for vector in 0..N {
        for (number, other) in narrow.iter().zip(&vectors[vector][wide.len() * WIDTH..]) {
            products[vector] += i32::from(*number) * i32::from(*other);
        }
    }
    products
}

/// The total of each register's numbers.
#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
fn totals(simd: V3, [a, b, c, d]: [i32x8; 4]) -> [i32; 4] {
    let pairs =
        |one: i32x8, other: i32x8| -> i32x8 { pulp::cast(simd.avx2._mm256_hadd_epi32(pulp::cast(one), pulp::cast(other))) };
    // Each half of the register then holds one number per total.
    let halves: [i32; 8] = pulp::cast(pairs(pairs(a, b), pairs(c, d)));
    std::array::from_fn(|at| halves[at] + halves[at + 4])
}
