//! A conditional logit: the probability of an outcome is the softmax of its score among the candidates.

use crate::core::digest::{Digestible, Writer};

use super::signals::{PRIOR, SIGNALS};

#[derive(Clone, Debug)]
pub struct Logit {
    weights: [f64; SIGNALS],
}

impl Default for Logit {
    fn default() -> Self {
        Self { weights: PRIOR }
    }
}

impl Logit {
    pub fn weights(&self) -> &[f64; SIGNALS] {
        &self.weights
    }

    /// Names the weights: the same weights, the same name.
    pub fn version(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for weight in &self.weights {
            hasher.update(&weight.to_bits().to_le_bytes());
        }
        format!("logit-{}", &hasher.finalize().to_hex()[..12])
    }

    /// They sum to 1.
    pub fn probabilities(&self, values: &[[f64; SIGNALS]]) -> Vec<f64> {
        let scores: Vec<f64> = values.iter().map(|values| score(&self.weights, values)).collect();
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let powers: Vec<f64> = scores.iter().map(|score| libm::exp(score - top)).collect();
        let total: f64 = powers.iter().sum();
        powers.iter().map(|power| power / total).collect()
    }
}

fn score(weights: &[f64; SIGNALS], values: &[f64; SIGNALS]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

impl Digestible for Logit {
    fn digest(&self, writer: &mut Writer) {
        for weight in &self.weights {
            writer.u64(weight.to_bits());
        }
    }
}
