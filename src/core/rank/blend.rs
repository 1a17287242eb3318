//! The signals of an item and the weights that blend them into one score. There are two sets of weights, one for intents unlike
//! anything remembered and one for intents the memory knows; the confidence of the memory interpolates between them.

/// How many signals an item has; each is 0..1.
pub const SIGNALS: usize = 10;

/// One piece of evidence that an item fits a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoverSignal {
    /// Cosine of the whole intent and the item's text.
    Dense,
    /// Cosine of the clause that fits best and the item's text.
    Clause,
    /// BM25 score of the item's text, divided by the best one.
    Words,
    /// Logarithm of the runs in which the item succeeded, divided by the largest one.
    Popularity,
    /// Share of the votes of the nearest past intents ([`super::intent_index::NEAR`]).
    Memory,
    /// The same with smoother weights ([`super::intent_index::WIDE`]).
    MemoryWide,
    /// The best share over the single clauses ([`super::intent_index::CLAUSE`]).
    MemoryClause,
    /// Logarithm of the probability that the trained intent head gives it, scaled to 0..1; for a capability, the mean of its tools.
    Head,
    /// Logarithm of the target mass that SHGAT gives it, scaled to 0..1; for a capability, the mean of its tools.
    Mass,
    /// The same for the probability that SHGAT gives it.
    Shgat,
}

impl DiscoverSignal {
    pub const ALL: [Self; SIGNALS] = [
        Self::Dense,
        Self::Clause,
        Self::Words,
        Self::Popularity,
        Self::Memory,
        Self::MemoryWide,
        Self::MemoryClause,
        Self::Head,
        Self::Mass,
        Self::Shgat,
    ];

    /// Whether it comes from past intents.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Memory | Self::MemoryWide | Self::MemoryClause)
    }

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Clause => "clause",
            Self::Words => "bm25",
            Self::Popularity => "popularity",
            Self::Memory => "memory",
            Self::MemoryWide => "memory_wide",
            Self::MemoryClause => "memory_clause",
            Self::Head => "head",
            Self::Mass => "target_mass",
            Self::Shgat => "shgat",
        }
    }
}

/// The weights before calibration: texts dominate for unfamiliar intents, the memory for familiar ones.
pub const PRIOR: Weights = Weights {
    fresh: [4.0, 4.0, 3.0, 0.5, 5.0, 2.0, 2.0, 0.0, 0.0, 0.0],
    known: [1.0, 1.0, 1.0, 0.5, 8.0, 3.0, 2.0, 0.0, 0.0, 0.0],
};

/// Weights under which only the memory signals decide; the others break ties among items the memory says nothing about.
pub const MEMORY_FIRST: Weights = {
    let weights = [0.02, 0.02, 0.02, 0.02, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    Weights { fresh: weights, known: weights }
};

/// A weight per signal for both ends of the memory's confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// At confidence 0: the memory holds nothing similar.
    pub fresh: [f64; SIGNALS],
    /// At confidence 1: the nearest past intents agree.
    pub known: [f64; SIGNALS],
}

impl Default for Weights {
    fn default() -> Self {
        PRIOR
    }
}

impl Weights {
    /// The weights at a confidence of 0..1, summing to 1 over the `active` signals; the others get 0.
    pub fn interpolate(&self, confidence: f64, active: [bool; SIGNALS]) -> [f64; SIGNALS] {
        let mut weights = [0.0; SIGNALS];
        for (signal, weight) in weights.iter_mut().enumerate() {
            if active[signal] {
                *weight = (1.0 - confidence) * self.fresh[signal] + confidence * self.known[signal];
            }
        }
        let total: f64 = weights.iter().sum();
        if total > 0.0 {
            for weight in &mut weights {
                *weight /= total;
            }
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_over_the_active_signals() {
        let weights = Weights { fresh: [1.0; SIGNALS], known: [3.0; SIGNALS] };
        let mut active = [true; SIGNALS];
        active[0] = false;
        let mixed = weights.interpolate(0.5, active);
        assert!((mixed.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(mixed[0].abs() < 1e-12 && mixed[1..].iter().all(|weight| (weight - mixed[1]).abs() < 1e-12));
        assert!(weights.interpolate(0.5, [false; SIGNALS]).iter().all(|weight| weight.abs() < 1e-12));
    }
}
