//! Products of four rows at once: each part of the vector is loaded once for all four, and their sums are added up together. In rows that
//! are in the processor's cache it takes two thirds of the time of one row after the other; where memory must be read it takes longer,
//! because four places are read at once. The compiler does not find this by itself.

use pulp::x86::V3;
use pulp::{i16x16, i32x8};

/// Numbers that one register holds.
const WIDTH: usize = 16;

/// Writes the products of every four rows with one vector.
pub(super) struct Multiply<'a> {
    pub(super) simd: V3,
    pub(super) rows: &'a [i16],
    pub(super) vector: &'a [i16],
    pub(super) products: &'a mut [[f32; 4]],
}

impl pulp::NullaryFnOnce for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
    #[expect(clippy::cast_precision_loss, reason = "24 bits of a product are more than its factors have")]
    fn call(self) {
        let four = self.vector.len() * 4;
        for (at, products) in self.products.iter_mut().enumerate() {
            let rows = &self.rows[at * four..(at + 1) * four];
            *products = dots(self.simd, rows, self.vector).map(|product| product as f32);
        }
    }
}

/// The products of four neighbouring rows with a vector. Whole numbers: in whatever order they are added, the sums are those of one
/// row alone.
#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
fn dots(simd: V3, rows: &[i16], vector: &[i16]) -> [i32; 4] {
    let (wide, narrow) = vector.as_chunks::<WIDTH>();
    let (first, rest) = rows.split_at(vector.len());
    let (second, rest) = rest.split_at(vector.len());
    let (third, fourth) = rest.split_at(vector.len());
    let rows = [first, second, third, fourth];
    // Cut to the same length, so that it need not be checked at every step.
    let [a, b, c, d] = rows.map(|row| &row.as_chunks::<WIDTH>().0[..wide.len()]);
    let zero = simd.splat_i32x8(0);
    let (mut sum_a, mut sum_b, mut sum_c, mut sum_d) = (zero, zero, zero, zero);
    for (at, part) in wide.iter().enumerate() {
        let part: i16x16 = pulp::cast(*part);
        sum_a = add_product(simd, sum_a, &a[at], part);
        sum_b = add_product(simd, sum_b, &b[at], part);
        sum_c = add_product(simd, sum_c, &c[at], part);
        sum_d = add_product(simd, sum_d, &d[at], part);
    }
    // Each half of the register then holds one number per row.
    let pairs =
        |one: i32x8, other: i32x8| -> i32x8 { pulp::cast(simd.avx2._mm256_hadd_epi32(pulp::cast(one), pulp::cast(other))) };
    let halves: [i32; 8] = pulp::cast(pairs(pairs(sum_a, sum_b), pairs(sum_c, sum_d)));
    let mut products: [i32; 4] = std::array::from_fn(|row| halves[row] + halves[row + 4]);
    for (product, row) in products.iter_mut().zip(rows) {
        for (number, other) in row[wide.len() * WIDTH..].iter().zip(narrow) {
            *product += i32::from(*number) * i32::from(*other);
        }
    }
    products
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "only code inlined into the dispatch gets the wide registers")]
fn add_product(simd: V3, sum: i32x8, row: &[i16; WIDTH], part: i16x16) -> i32x8 {
    simd.wrapping_add_i32x8(sum, simd.multiply_wrapping_add_adjacent_i16x16(pulp::cast(*row), part))
}
