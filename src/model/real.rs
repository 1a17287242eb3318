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
        if self >= Self::zero() {
            Self::one() / (Self::one() + (-self).exponential())
        } else {
            let power = self.exponential();
            power / (Self::one() + power)
        }
    }

    /// `ln(1 + exp(self))`, without overflow.
    fn softplus(self) -> Self {
        self.max(Self::zero()) + (Self::one() + (-self.abs()).exponential()).logarithm()
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
