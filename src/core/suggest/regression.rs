//! Linear models with few features: logistic regression for probabilities and least squares for expected values, both pulled towards
//! given weights, so that few examples change little. Deterministic: a fixed number of steps in a fixed order.

use crate::cholesky;

/// Newton steps of the logistic fit; it converges in fewer.
const STEPS: usize = 12;
/// Largest change of a weight in one step.
const STEP_MAX: f64 = 2.0;

/// One weight per feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Linear<const N: usize>(pub(super) [f64; N]);

/// The features of one case and its outcome, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<const N: usize> {
    pub(super) features: [f64; N],
    pub(super) outcome: f64,
}

impl<const N: usize> Linear<N> {
    /// The weighted sum of the features.
    pub(super) fn value(&self, features: &[f64; N]) -> f64 {
        self.0.iter().zip(features).map(|(weight, feature)| weight * feature).sum()
    }

    /// The logistic function of the weighted sum.
    pub(super) fn probability(&self, features: &[f64; N]) -> f64 {
        1.0 / (1.0 + libm::exp(-self.value(features)))
    }

    /// The weights that make the outcomes most likely, pulled towards these with a strength in units of cases.
    pub(super) fn fit_logistic(&self, cases: &[Case<N>], pull: f64) -> Self {
        let mut fitted = *self;
        for _ in 0..STEPS {
            let (mut gradient, mut curvature) = self.pulled(&fitted, pull);
            for case in cases {
                let p = fitted.probability(&case.features);
                add(&mut gradient, &mut curvature, &case.features, p - case.outcome, p * (1.0 - p));
            }
            cholesky::solve(&mut curvature, &mut gradient);
            for (weight, step) in fitted.0.iter_mut().zip(gradient) {
                *weight -= step.clamp(-STEP_MAX, STEP_MAX);
            }
        }
        fitted
    }

    /// The weights with the smallest squared error, pulled towards these with a strength in units of cases.
    pub(super) fn fit_squares(&self, cases: &[Case<N>], pull: f64) -> Self {
        let (mut gradient, mut curvature) = self.pulled(self, pull);
        for case in cases {
            add(&mut gradient, &mut curvature, &case.features, self.value(&case.features) - case.outcome, 1.0);
        }
        cholesky::solve(&mut curvature, &mut gradient);
        Self(std::array::from_fn(|at| self.0[at] - gradient[at]))
    }

    fn pulled(&self, fitted: &Self, pull: f64) -> ([f64; N], [[f64; N]; N]) {
        let mut curvature = [[0.0; N]; N];
        for (at, row) in curvature.iter_mut().enumerate() {
            row[at] = pull;
        }
        (std::array::from_fn(|at| pull * (fitted.0[at] - self.0[at])), curvature)
    }
}

fn add<const N: usize>(gradient: &mut [f64; N], curvature: &mut [[f64; N]; N], features: &[f64; N], slope: f64, bend: f64) {
    for row in 0..N {
        gradient[row] += slope * features[row];
        for column in 0..N {
            curvature[row][column] += bend * features[row] * features[column];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_squares_finds_the_line_and_the_pull_holds_without_cases() {
        let cases: Vec<Case<2>> =
            (0..10).map(f64::from).map(|x| Case { features: [1.0, x], outcome: 0.1 + 0.05 * x }).collect();
        let fitted = Linear([0.0, 0.0]).fit_squares(&cases, 1e-9);
        assert!((fitted.0[0] - 0.1).abs() < 1e-6 && (fitted.0[1] - 0.05).abs() < 1e-6, "{fitted:?}");
        assert_eq!(Linear([0.3, 0.7]).fit_squares(&[], 1.0), Linear([0.3, 0.7]));
    }

    #[test]
    fn the_logistic_fit_has_the_frequencies_of_the_cases() {
        // 3 of 4 where the feature is 1, 1 of 4 where it is 0.
        let case = |x: f64, outcome: f64| Case { features: [1.0, x], outcome };
        let of = |x: f64, ones: i32| (0..4).map(move |at| case(x, f64::from(u8::from(at < ones))));
        let cases: Vec<Case<2>> = of(1.0, 3).chain(of(0.0, 1)).collect();
        let fitted = Linear([0.0, 0.0]).fit_logistic(&cases, 1e-9);
        assert!((fitted.probability(&[1.0, 1.0]) - 0.75).abs() < 1e-6);
        assert!((fitted.probability(&[1.0, 0.0]) - 0.25).abs() < 1e-6);
        let held = Linear([0.0, 0.0]).fit_logistic(&cases, 100.0);
        assert!((held.probability(&[1.0, 1.0]) - 0.5).abs() < 0.02);
    }
}
