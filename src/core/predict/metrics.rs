//! Metrics over scored next-step predictions: hit@1, hit@3, MRR, log-loss and calibration error.
//!
//! `score` computes them over the predictions that were served, `eval` over held-out traces: both by the same definitions.

/// Bins of the calibration error, of equal width.
pub const BINS: usize = 10;
/// The smallest probability in the log-loss: an unlisted outcome may have none of its own.
pub(crate) const P_MIN: f64 = 1e-6;

/// The rank of the right outcome in a prediction, from 1; `None` if it is not listed.
pub type Rank = Option<usize>;

/// The score of one prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepScore {
    pub rank: Rank,
    /// The probability of the first outcome.
    pub p_first: f64,
    /// The probability of the right outcome.
    pub p_right: f64,
}

/// Means over scored predictions; all 0 if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepMetrics {
    pub n: usize,
    pub hit1: f64,
    pub hit3: f64,
    pub mrr: f64,
    /// Mean negative natural logarithm of the probability of the right outcome, which counts as at least 1e-6.
    pub log_loss: f64,
    /// Expected calibration error of the first outcome, 10 bins.
    pub calibration_error: f64,
}

impl StepMetrics {
    /// Computes the metrics in one pass. The sums are taken in the order given, so equal input gives equal bits.
    #[expect(clippy::cast_precision_loss, reason = "counts of predictions are small")]
    pub fn from_scores(scores: impl IntoIterator<Item = StepScore>) -> Self {
        let mut metrics = Self::default();
        let mut bins = [0.0; BINS];
        for StepScore { rank, p_first, p_right } in scores {
            metrics.n += 1;
            metrics.hit1 += hit(rank, 1);
            metrics.hit3 += hit(rank, 3);
            metrics.mrr += reciprocal(rank);
            metrics.log_loss += log_loss(p_right);
            bins[bin(p_first)] += p_first - hit(rank, 1);
        }
        metrics.calibration_error = bins.iter().map(|difference: &f64| difference.abs()).sum();
        let n = metrics.n.max(1) as f64;
        let Self { hit1, hit3, mrr, log_loss, calibration_error, .. } = &mut metrics;
        for sum in [hit1, hit3, mrr, log_loss, calibration_error] {
            *sum /= n;
        }
        metrics
    }
}

/// The log-loss of one prediction, by the probability of the right outcome.
pub(crate) fn log_loss(p_right: f64) -> f64 {
    -libm::log(p_right.max(P_MIN))
}

/// The calibration bin of a probability.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "from 0 to BINS")]
pub(crate) fn bin(p: f64) -> usize {
    ((p * BINS as f64) as usize).min(BINS - 1)
}

/// Returns 1 if the right outcome is among the first `k`, else 0.
pub fn hit(rank: Rank, k: usize) -> f64 {
    f64::from(u8::from(rank.is_some_and(|rank| rank <= k)))
}

/// Returns the reciprocal of the rank; 0 if the right outcome is not listed.
#[expect(clippy::cast_precision_loss, reason = "ranks are small")]
pub fn reciprocal(rank: Rank) -> f64 {
    rank.map_or(0.0, |rank| 1.0 / rank as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    }

    #[test]
    fn metrics_follow_the_definitions() {
        let score = |rank, p_first, p_right| StepScore { rank, p_first, p_right };
        let scores = [score(Some(1), 0.6, 0.6), score(Some(2), 0.6, 0.25), score(Some(4), 0.6, 0.05), score(None, 1.0, 0.0)];
        let StepMetrics { n, hit1, hit3, mrr, log_loss, calibration_error } = StepMetrics::from_scores(scores);
        assert_eq!(n, 4);
        check(hit1, 0.25);
        check(hit3, 0.5);
        check(mrr, (1.0 + 0.5 + 0.25) / 4.0);
        check(log_loss, -(0.6_f64.ln() + 0.25_f64.ln() + 0.05_f64.ln() + 1e-6_f64.ln()) / 4.0);
        // One bin says 1.8 and has one hit, the last says 1 and has none.
        check(calibration_error, (0.8 + 1.0) / 4.0);
        assert_eq!(StepMetrics::from_scores([]), StepMetrics::default());
    }

    #[test]
    fn the_calibration_error_is_the_distance_between_stated_and_observed_frequency() {
        let score = |at: usize| StepScore { rank: Some(if at < 6 { 1 } else { 2 }), p_first: 0.85, p_right: 0.5 };
        let StepMetrics { calibration_error, log_loss, .. } = StepMetrics::from_scores((0..10).map(score));
        check(calibration_error, 0.25);
        check(log_loss, 2.0_f64.ln());
    }
}
