//! The number type of the network: `f32` in use, `f64` where gradients are checked.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{AddAssign, MulAssign, Neg, SubAssign};

use ndarray::LinalgScalar;

/// A floating-point number with the functions the network needs. The functions come from `libm`, so that they give the same bits on
/// every machine.
pub trait Real:
    LinalgScalar + AddAssign + SubAssign + MulAssign + Neg<Output = Self> + PartialOrd + Sum + Debug + Default + Send + Sync
{
    const ZERO: Self;
    const ONE: Self;

    /// The number nearest to `value`.
    fn from_f64(value: f64) -> Self;

    /// The number nearest to `self`.
    fn to_f32(self) -> f32;

    #[must_use]
    fn exp(self) -> Self;

    /// The natural logarithm.
    #[must_use]
    fn ln(self) -> Self;

    #[must_use]
    fn sqrt(self) -> Self;

    /// Replaces every negative value by e^x - 1.
    fn elu(values: &mut [Self]) {
        for value in values {
            *value = if *value > Self::ZERO { *value } else { value.exp() - Self::ONE };
        }
    }

    /// Replaces every value, none of them above zero, by its exponential.
    fn exp_of_negatives(values: &mut [Self]) {
        for value in values {
            *value = value.exp();
        }
    }

    /// 1 / (1 + e^-x), without overflow.
    #[must_use]
    fn sigmoid(self) -> Self {
        if self >= Self::ZERO {
            Self::ONE / (Self::ONE + (-self).exp())
        } else {
            let grown = self.exp();
            grown / (Self::ONE + grown)
        }
    }
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn exp(self) -> Self {
        libm::expf(self)
    }

    fn ln(self) -> Self {
        libm::logf(self)
    }

    fn sqrt(self) -> Self {
        libm::sqrtf(self)
    }

    /// Without branches or calls, so that the compiler uses vector instructions: this is done for millions of values.
    fn elu(values: &mut [Self]) {
        for value in values {
            let below = exp_of_negative(value.min(0.0)) - 1.0;
            *value = if *value > 0.0 { *value } else { below };
        }
    }

    fn exp_of_negatives(values: &mut [Self]) {
        for value in values {
            *value = exp_of_negative(*value);
        }
    }
}

/// e^x for x <= 0, to two units in the last place: 2^n times a polynomial on the rest, which is at most half of ln 2. Plain sums and
/// products, so the bits are the same on every machine. Below -87 the result would be smaller than the smallest number of full precision;
/// it stays there.
#[inline]
fn exp_of_negative(x: f32) -> f32 {
    /// Adding it to a small number leaves the nearest whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.max(-87.0);
    let whole = x * std::f32::consts::LOG2_E + ROUND;
    let power = f32::from_bits((whole.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    let whole = whole - ROUND;
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let mut sum = 1.987_569_1e-4_f32;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = sum * rest + coefficient;
    }
    (sum * (rest * rest) + rest + 1.0) * power
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn from_f64(value: f64) -> Self {
        value
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
    fn to_f32(self) -> f32 {
        self as f32
    }

    fn exp(self) -> Self {
        libm::exp(self)
    }

    fn ln(self) -> Self {
        libm::log(self)
    }

    fn sqrt(self) -> Self {
        libm::sqrt(self)
    }
}

/// The sum of the products of the elements, in an order that does not depend on where the slices lie in memory. Sixteen sums run side by
/// side, so that no addition waits for the one before it.
#[inline(always)]
pub(crate) fn dot<R: Real>(left: &[R], right: &[R]) -> R {
    const LANES: usize = 16;
    let mut sums = [R::ZERO; LANES];
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    let rest: R = left_rest.iter().zip(right_rest).map(|(a, b)| *a * *b).sum();
    for (a, b) in left.iter().zip(right) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            let other = sums[lane + half];
            sums[lane] += other;
        }
    }
    sums[0] + rest
}

/// Adds `factor` times `values` to `to`.
pub(crate) fn add_scaled<R: Real>(to: &mut [R], factor: R, values: &[R]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += factor * *value;
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    #[test]
    fn the_fast_exponential_is_that_of_libm() {
        let mut worst = 0.0_f64;
        for step in 0..860_000_u32 {
            let x = f32::from_f64(f64::from(step) * -1e-4);
            let exact = libm::exp(f64::from(x));
            worst = worst.max((f64::from(exp_of_negative(x)) - exact).abs() / exact);
        }
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
        assert!(exp_of_negative(-1e30) < 1e-37 && exp_of_negative(0.0) == 1.0);
    }

    #[test]
    fn sigmoid_holds_at_the_ends() {
        assert_eq!((1e4_f32.sigmoid(), (-1e4_f32).sigmoid(), 0.0_f32.sigmoid()), (1.0, 0.0, 0.5));
    }
}
