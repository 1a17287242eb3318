//! Pairs of vectors with a large cosine, a few per vector, found without comparing every pair.
//!
//! Up to [`EXACT_MAX`] vectors every pair is compared. Beyond, a vector gets a sketch of [`TABLES`] * 16 bits, the signs of its products
//! with sparse random vectors; vectors at a small angle agree in most bits. Each 16 bits make one table, which is sorted by them. A
//! vector is compared with the [`WINDOW`] that follow it, first by sketch, which rules out distant ones without reading their vectors.
//! A pair of cosine 0.95 is missed about once in 1,000 times, one of 0.85 about once in 10; that is good enough for a guess.
//!
//! O(n^2 d) up to the limit, then O(n * TABLES * (16 * TAPS + WINDOW + log n)) and d for every pair that looks close; O(n * d) memory
//! besides the pairs.
//!
//! Charikar: Similarity estimation techniques from rounding algorithms (2002). Li, Hastie, Church: Very sparse random projections
//! (2006). Sorted hashes: Bawa, Condie, Ganesan: LSH forest (2005).

use crate::hash::mix;

/// Vectors up to which every pair is compared.
pub const EXACT_MAX: usize = 1_000;
/// Tables of 16 bits.
pub const TABLES: usize = 16;
/// Following entries of a table that a vector is compared with.
pub const WINDOW: usize = 12;
/// Coordinates that one bit of a sketch depends on.
pub const TAPS: u64 = 16;

/// Pairs of positions with a cosine of at least `cosine_min`, the most similar first, then by position. No position is in more than
/// `each_max` pairs; vectors that are missing, zero, or of another length than the first are in none.
pub fn similar_pairs(vectors: &[Option<&[f32]>], cosine_min: f32, each_max: usize) -> Vec<(u32, u32)> {
    let units = UnitVectors::new(vectors);
    let mut close =
        if units.positions.len() <= EXACT_MAX { units.all_pairs(cosine_min) } else { units.hashed_pairs(cosine_min) };
    // Several tables may find the same pair; after sorting, equal pairs are adjacent.
    close.sort_unstable_by(|a, b| b.cosine.total_cmp(&a.cosine).then(a.rows.cmp(&b.rows)));
    close.dedup_by_key(|pair| pair.rows);
    let mut taken = vec![0; units.positions.len()];
    let mut free = |(a, b): (u32, u32)| {
        let free = taken[a as usize] < each_max && taken[b as usize] < each_max;
        taken[a as usize] += usize::from(free);
        taken[b as usize] += usize::from(free);
        free
    };
    close.retain(|pair| free(pair.rows));
    let position = |row: u32| units.positions[row as usize];
    close.into_iter().map(|Pair { rows: (a, b), .. }| (position(a), position(b))).collect()
}

/// Two rows, the smaller first, and their cosine.
struct Pair {
    rows: (u32, u32),
    cosine: f32,
}

/// The usable vectors, scaled to length 1 and stored contiguously.
struct UnitVectors {
    positions: Vec<u32>,
    len: usize,
    values: Vec<f32>,
}

impl UnitVectors {
    fn new(vectors: &[Option<&[f32]>]) -> Self {
        let len = vectors.iter().flatten().map(|vector| vector.len()).next().unwrap_or(0);
        let mut units = Self { positions: Vec::new(), len, values: Vec::new() };
        for (position, vector) in (0..).zip(vectors) {
            let Some(vector) = vector.filter(|vector| vector.len() == len) else { continue };
            let norm = dot(vector, vector).sqrt();
            if norm.is_finite() && norm > 0.0 {
                units.positions.push(position);
                units.values.extend(vector.iter().map(|value| value / norm));
            }
        }
        units
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.len..][..self.len]
    }

    /// The pair, if its rows are close.
    fn pair(&self, a: u32, b: u32, cosine_min: f32) -> Option<Pair> {
        let rows = (a.min(b), a.max(b));
        let cosine = dot(self.row(rows.0), self.row(rows.1));
        (cosine >= cosine_min).then_some(Pair { rows, cosine })
    }

    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (0..).take(self.positions.len())
    }

    fn all_pairs(&self, cosine_min: f32) -> Vec<Pair> {
        let pairs = self.numbers().flat_map(|a| self.numbers().skip(a as usize + 1).map(move |b| (a, b)));
        pairs.filter_map(|(a, b)| self.pair(a, b, cosine_min)).collect()
    }

    fn hashed_pairs(&self, cosine_min: f32) -> Vec<Pair> {
        let planes: Vec<Planes> = (0..).take(TABLES).map(|table| planes(table, self.len)).collect();
        let sketch = |row| Sketch(std::array::from_fn(|table| hash(self.row(row), &planes[table])));
        let sketches: Vec<Sketch> = self.numbers().map(sketch).collect();
        let distance_max = distance_max(cosine_min);
        let mut close = Vec::new();
        for table in 0..TABLES {
            let mut sorted: Vec<(u16, u32)> = self.numbers().map(|row| (sketches[row as usize].0[table], row)).collect();
            sorted.sort_unstable();
            for (at, &(_, a)) in sorted.iter().enumerate() {
                let next = sorted[at + 1..].iter().take(WINDOW).map(|&(_, b)| b);
                let alike = next.filter(|b| sketches[a as usize].distance(&sketches[*b as usize]) <= distance_max);
                close.extend(alike.filter_map(|b| self.pair(a, b, cosine_min)));
            }
        }
        close
    }
}

/// The hashes of one vector in all tables.
struct Sketch([u16; TABLES]);

impl Sketch {
    /// The number of differing bits.
    fn distance(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a ^ b).count_ones()).sum()
    }
}

/// The largest sketch distance of a pair worth comparing. Vectors at the angle of `cosine_min` differ in a bit with probability
/// angle / pi; six standard deviations are added, so almost no close pair is lost. Unrelated vectors differ in half of the bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bits")]
fn distance_max(cosine_min: f32) -> u32 {
    let bits = f64::from(u32::try_from(TABLES * 16).expect("a few hundred"));
    let differs = f64::from(cosine_min).clamp(-1.0, 1.0).acos() / std::f64::consts::PI;
    (bits * differs + 6.0 * (bits * differs * (1.0 - differs)).sqrt()).ceil() as u32
}

/// By bit: the coordinates it depends on, each with its sign.
type Planes = Vec<Vec<(usize, f32)>>;

fn planes(table: u64, len: usize) -> Planes {
    let tap = |bit: u64, tap: u64| {
        let noise = mixed((table * 16 + bit) * TAPS + tap);
        let coordinate = usize::try_from(noise >> 33).expect("31 bits") % len;
        (coordinate, if noise & 1 == 0 { 1.0 } else { -1.0 })
    };
    (0..16).map(|bit| (0..TAPS).map(|at| tap(bit, at)).collect()).collect()
}

fn hash(vector: &[f32], planes: &Planes) -> u16 {
    planes.iter().fold(0, |hash, plane| {
        let product: f32 = plane.iter().map(|(coordinate, sign)| vector[*coordinate] * sign).sum();
        (hash << 1) | u16::from(product > 0.0)
    })
}

/// `SplitMix64`: the same pseudo-random numbers in every process (Steele, Lea, Flood 2014).
const fn mixed(number: u64) -> u64 {
    mix(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The dot product, as eight parallel sums that the compiler turns into vector instructions. The order of additions is fixed.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_come_first_and_what_cannot_be_compared_is_left_out() {
        let vectors: [&[f32]; 6] = [&[1.0, 0.0], &[2.0, 0.1], &[0.0, 0.0], &[1.0, 0.2], &[1.0], &[0.0, 1.0]];
        let vectors: Vec<_> = vectors.into_iter().map(Some).chain([None]).collect();
        assert_eq!(similar_pairs(&vectors, 0.9, 2), [(0, 1), (1, 3), (0, 3)]);
        assert_eq!(similar_pairs(&vectors, 0.9, 1), [(0, 1)]);
        assert_eq!(similar_pairs(&[], 0.9, 1), []);
    }

    /// 1,200 vectors in 600 pairs of cosine 0.95 or so, all else near 0.
    #[test]
    fn many_vectors_find_their_twins_without_being_compared_with_all() {
        let noise = |number: u64| f32::from(u16::try_from(mixed(number) >> 48).unwrap()) / 32_768.0 - 1.0;
        let twin = |number: u64| -> Vec<f32> {
            let own = |at| noise((number + 7) * 1_000_003 + at);
            let shared = |at| noise(number / 2 * 64 + at);
            (0..64).map(|at| shared(at) + 0.23 * own(at)).collect()
        };
        let vectors: Vec<Vec<f32>> = (0..1_200).map(twin).collect();
        let vectors: Vec<Option<&[f32]>> = vectors.iter().map(|vector| Some(vector.as_slice())).collect();
        let found = similar_pairs(&vectors, 0.85, 3);
        let twins = found.iter().filter(|(a, b)| a / 2 == b / 2).count();
        assert!(twins >= 594 && found.len() == twins, "{twins} of {}", found.len());
    }
}
