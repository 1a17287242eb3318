//! The number type of the loss functions: `f32` in training, `f64` where a test compares gradients with finite differences.

use ndarray::NdFloat;

/// A floating-point number whose exponentials have the same digits on every machine.
pub(crate) trait Real: NdFloat {
    fn of(value: f32) -> Self;
    fn exponential(self) -> Self;
    fn logarithm(self) -> Self;
    fn hyperbolic_tangent(self) -> Self;

    /// `1 / (1 + exp(-self))`, without overflow.
    fn sigmoid(self) -> Self {
        let power = (-self.abs()).exponential();
        let numerator = if self >= Self::zero() { Self::one() } else { power };
        numerator / (Self::one() + power)
    }

    /// `ln(1 + exp(self))` and its derivative, the sigmoid, from one exponential and without overflow.
    fn softplus_and_slope(self) -> (Self, Self) {
        let power = (-self.abs()).exponential();
        let numerator = if self >= Self::zero() { Self::one() } else { power };
        (self.max(Self::zero()) + (Self::one() + power).logarithm(), numerator / (Self::one() + power))
    }
}

impl Real for f32 {
    fn of(value: f32) -> Self {
        value
    }

    fn exponential(self) -> Self {
        libm::expf(self)
    }

    fn logarithm(self) -> Self {
        libm::logf(self)
    }

    fn hyperbolic_tangent(self) -> Self {
        libm::tanhf(self)
    }
}

impl Real for f64 {
    fn of(value: f32) -> Self {
        Self::from(value)
    }

    fn exponential(self) -> Self {
        libm::exp(self)
    }

    fn logarithm(self) -> Self {
        libm::log(self)
    }

    fn hyperbolic_tangent(self) -> Self {
        libm::tanh(self)
    }
}
