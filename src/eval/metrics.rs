//! Metrics of a ranking of tools: hit@1, recall, MRR and NDCG, as means over questions. The README's section on measuring defines them.

use serde::Serialize;

/// Running means over the questions added so far.
#[derive(Clone, Debug, Default)]
pub struct Means {
    sums: [f64; 5],
    n: usize,
}

/// The means over all questions that one ranker was asked.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DiscoverScores {
    pub hit1: f64,
    pub recall5: f64,
    pub recall10: f64,
    pub mrr: f64,
    pub ndcg5: f64,
    pub n: usize,
}

impl DiscoverScores {
    /// Averages the parts with equal weight and adds up their `n`.
    #[expect(clippy::cast_precision_loss, reason = "a handful of parts")]
    pub fn mean(parts: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| parts.iter().map(value).sum::<f64>() / parts.len().max(1) as f64;
        Self {
            hit1: mean(|part| part.hit1),
            recall5: mean(|part| part.recall5),
            recall10: mean(|part| part.recall10),
            mrr: mean(|part| part.mrr),
            ndcg5: mean(|part| part.ndcg5),
            n: parts.iter().map(|part| part.n).sum(),
        }
    }
}

impl Means {
    /// Adds one question, given the ranks (from 1) of its right answers; at least one.
    #[expect(clippy::cast_precision_loss, reason = "ranks and counts are small")]
    pub fn add(&mut self, ranks: &[usize]) {
        let within = |k: usize| ranks.iter().filter(|rank| **rank <= k).count() as f64;
        let right = ranks.len() as f64;
        let first = ranks.iter().min().copied().unwrap_or(usize::MAX) as f64;
        let gain = |rank: usize| 1.0 / (rank as f64 + 1.0).log2();
        let gained: f64 = ranks.iter().filter(|rank| **rank <= 5).map(|rank| gain(*rank)).sum();
        let ideal: f64 = (1..=ranks.len().min(5)).map(gain).sum();
        let values = [within(1).min(1.0), within(5) / right, within(10) / right, 1.0 / first, gained / ideal];
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum += value;
        }
        self.n += 1;
    }

    /// Returns the means; all 0 if no question was added.
    #[expect(clippy::cast_precision_loss, reason = "counts of questions are small")]
    pub fn scores(&self) -> DiscoverScores {
        let [hit1, recall5, recall10, mrr, ndcg5] = self.sums.map(|sum| sum / self.n.max(1) as f64);
        DiscoverScores { hit1, recall5, recall10, mrr, ndcg5, n: self.n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_follow_the_definitions() {
        let mut means = Means::default();
        means.add(&[1, 7]);
        means.add(&[2]);
        let DiscoverScores { hit1, recall5, recall10, mrr, ndcg5, n } = means.scores();
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        close(hit1, 0.5);
        close(recall5, 0.75);
        close(recall10, 1.0);
        close(mrr, 0.75);
        let log3 = 3.0_f64.log2();
        close(ndcg5, f64::midpoint(1.0 / (1.0 + 1.0 / log3), 1.0 / log3));
        assert_eq!(n, 2);
    }
}
