//! The gate: whether a challenger is better than what serves, by a paired test on intents that neither was fitted to.

/// Standard errors by which the mean difference must exceed 0: one chance in a hundred that noise alone does. A run makes several
/// comparisons, so one in twenty would let noise in too often.
const SIGNIFICANT: f64 = 2.326;
/// Intents that a comparison needs, at least.
pub(super) const INTENTS_MIN: usize = 12;

/// The differences of two rankers over the same intents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Paired {
    pub(super) mean: f64,
    /// The standard error of the mean.
    pub(super) error: f64,
    pub(super) n: usize,
}

impl Paired {
    /// Compares values of a challenger with those of a champion, pair by pair; larger is better.
    #[expect(clippy::cast_precision_loss, reason = "a count of intents")]
    pub(super) fn new(challenger: &[f64], champion: &[f64]) -> Self {
        let differences: Vec<f64> =
            challenger.iter().zip(champion).map(|(challenger, champion)| challenger - champion).collect();
        let n = differences.len();
        if n < 2 {
            return Self { n, ..Self::default() };
        }
        let mean = differences.iter().sum::<f64>() / n as f64;
        let squares: f64 = differences.iter().map(|difference| (difference - mean) * (difference - mean)).sum();
        Self { mean, error: libm::sqrt(squares / (n as f64 * (n - 1) as f64)), n }
    }

    /// Whether the challenger is better, and not by chance.
    pub(super) fn is_better(&self) -> bool {
        self.n >= INTENTS_MIN && self.mean > 0.0 && self.mean > SIGNIFICANT * self.error
    }

    /// Whether the challenger is worse, and not by chance.
    pub(super) fn is_worse(&self) -> bool {
        self.n >= INTENTS_MIN && self.mean < 0.0 && -self.mean > SIGNIFICANT * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_not_better_and_a_steady_gain_is() {
        let champion: Vec<f64> = (0..40).map(|at| f64::from(at % 7)).collect();
        let noisy: Vec<f64> = (0..40).map(|at| f64::from(at % 7) + if at % 2 == 0 { 1.0 } else { -0.9 }).collect();
        let steady: Vec<f64> = champion.iter().map(|value| value + 0.1).collect();
        assert!(!Paired::new(&noisy, &champion).is_better() && !Paired::new(&noisy, &champion).is_worse());
        assert!(Paired::new(&steady, &champion).is_better() && Paired::new(&champion, &steady).is_worse());
        assert!(!Paired::new(&steady[..INTENTS_MIN - 1], &champion[..INTENTS_MIN - 1]).is_better(), "too few");
        assert!(!Paired::new(&champion, &champion).is_better());
    }
}
