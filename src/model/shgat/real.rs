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

    fn exp(self) -> Self;

    /// The natural logarithm.
    fn ln(self) -> Self;

    fn sqrt(self) -> Self;

    /// 1 / (1 + e^-x), without overflow.
    fn sigmoid(self) -> Self {
        if self >= Self::ZERO {
            Self::ONE / (Self::ONE + (-self).exp())
        } else {
            let grown = self.exp();
            grown / (Self::ONE + grown)
        }
    }

    /// ln(1 + e^x), without overflow.
    fn softplus(self) -> Self {
        let fallen = if self > Self::ZERO { -self } else { self };
        let rest = (Self::ONE + fallen.exp()).ln();
        if self > Self::ZERO { self + rest } else { rest }
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

/// The sum of the products of the elements, in an order that does not depend on where the slices lie in memory.
pub(crate) fn dot<R: Real>(left: &[R], right: &[R]) -> R {
    const LANES: usize = 8;
    let mut sums = [R::ZERO; LANES];
    let (left_chunks, right_chunks) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest: R = left_chunks.remainder().iter().zip(right_chunks.remainder()).map(|(a, b)| *a * *b).sum();
    for (a, b) in left_chunks.zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest
}

/// Adds `factor` times `values` to `to`.
pub(crate) fn add_scaled<R: Real>(to: &mut [R], factor: R, values: &[R]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += factor * *value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigmoid_and_softplus_hold_at_the_ends() {
        assert_eq!((1e4_f32.sigmoid(), (-1e4_f32).sigmoid()), (1.0, 0.0));
        assert_eq!((1e4_f32.softplus(), (-1e4_f32).softplus()), (1e4, 0.0));
        assert!((0.3_f64.softplus() - libm::log(1.0 + libm::exp(0.3))).abs() < 1e-15);
    }
}
