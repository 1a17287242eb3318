//! One number from the signals. How much each counts depends on how sure the memory is: two sets of weights, one for questions
//! unlike anything seen, one for questions the memory knows, and a mix in between.

/// The signals of one item, each 0..1.
pub const SIGNALS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cosine of the whole intent and the item's text.
    Dense,
    /// The same for the clause that fits best.
    Clause,
    /// Words in common, by BM25; the best item has 1.
    Words,
    /// How often it succeeded, on a logarithmic scale; the most used item has 1.
    Popularity,
    /// Share of the votes of the nearest past intents.
    Memory,
    /// The same, wider and smoother.
    MemoryWide,
    /// The same for single clauses.
    MemoryClause,
}

impl Signal {
    pub const ALL: [Self; SIGNALS] =
        [Self::Dense, Self::Clause, Self::Words, Self::Popularity, Self::Memory, Self::MemoryWide, Self::MemoryClause];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Clause => "clause",
            Self::Words => "bm25",
            Self::Popularity => "popularity",
            Self::Memory => "memory",
            Self::MemoryWide => "memory_wide",
            Self::MemoryClause => "memory_clause",
        }
    }
}

/// What is believed before anything was seen: texts decide about strangers, the memory about what it knows.
pub const PRIOR: Weights = Weights { fresh: [4.0, 4.0, 3.0, 0.5, 5.0, 2.0, 2.0], known: [1.0, 1.0, 1.0, 0.5, 8.0, 3.0, 2.0] };

/// The memory decides alone, the sharp and the smooth one alike; the rest only orders what the memory says nothing about.
pub const MEMORY_FIRST: Weights = {
    let weights = [0.02, 0.02, 0.02, 0.02, 1.0, 1.0, 0.0];
    Weights { fresh: weights, known: weights }
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// When the memory knows nothing like it.
    pub fresh: [f64; SIGNALS],
    /// When the nearest past intents agree.
    pub known: [f64; SIGNALS],
}

impl Default for Weights {
    fn default() -> Self {
        PRIOR
    }
}

impl Weights {
    /// The weights for a question the memory is this sure about (0..1), over the signals that say anything at all, summing to 1.
    pub fn at(&self, confidence: f64, speaks: [bool; SIGNALS]) -> [f64; SIGNALS] {
        let mut weights = [0.0; SIGNALS];
        for (signal, weight) in weights.iter_mut().enumerate() {
            if speaks[signal] {
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
    fn weights_sum_to_one_over_what_speaks() {
        let weights = Weights { fresh: [1.0; SIGNALS], known: [3.0; SIGNALS] };
        let mut speaks = [true; SIGNALS];
        speaks[0] = false;
        let at = weights.at(0.5, speaks);
        assert!((at.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(at[0].abs() < 1e-12 && (at[1] - 1.0 / 6.0).abs() < 1e-12);
        assert!(weights.at(0.5, [false; SIGNALS]).iter().all(|weight| weight.abs() < 1e-12));
    }
}
