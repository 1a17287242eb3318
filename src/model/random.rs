//! A generator of pseudo-random numbers with a seed: the same seed gives the same numbers everywhere.

/// `Random` is a `SplitMix64` generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        let product = u128::from(self.next_u64()) * end as u128;
        usize::try_from(product >> 64).expect("smaller than `end`")
    }

    /// A number from 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
    pub fn uniform(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// A number of the standard normal distribution.
    pub fn normal(&mut self) -> f32 {
        let (radius, angle) = (1.0 - self.uniform(), self.uniform());
        libm::sqrtf(-2.0 * libm::logf(radius)) * libm::cosf(std::f32::consts::TAU * angle)
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_and_repeatable() {
        let (mut random, mut again) = (Random::new(7), Random::new(7));
        let drawn: Vec<f32> = (0..4096).map(|_| random.normal()).collect();
        assert!(drawn.iter().all(|number| number.to_bits() == again.normal().to_bits()));
        let mean = drawn.iter().sum::<f32>() / 4096.0;
        let variance = drawn.iter().map(|number| (number - mean) * (number - mean)).sum::<f32>() / 4096.0;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.1, "{mean} {variance}");
        let mut order: Vec<usize> = (0..100).collect();
        random.shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
