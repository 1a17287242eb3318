//! Typed edges: kinds, sources, counters and weights (ALGORITHMS 4, S3 2.3).

use crate::digest::{DigestWriter, Digestible};
use crate::id::Seq;

/// Successful observations after which an inferred or declared edge counts as observed (S3, ADR-041).
pub const PROMOTION_SUCCESSES: u32 = 3;

/// The meaning of an edge. A pair of nodes has at most one edge of each kind, and kinds do not overwrite each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdgeKind {
    /// The first must run before the second.
    Dependency,
    /// The first, a capability, calls the second.
    Contains,
    /// The second used the output of the first: data flow.
    Provides,
    /// The first may replace the second.
    Alternative,
    /// The first came before the second, without data flow.
    Sequence,
    /// The first came before the second under a condition.
    Conditional,
}

impl EdgeKind {
    pub const ALL: [Self; 6] =
        [Self::Dependency, Self::Contains, Self::Provides, Self::Alternative, Self::Sequence, Self::Conditional];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Dependency => "dependency",
            Self::Contains => "contains",
            Self::Provides => "provides",
            Self::Alternative => "alternative",
            Self::Sequence => "sequence",
            Self::Conditional => "conditional",
        }
    }

    /// The weight of the kind: S3 2.3 and S2; provides, alternative and conditional by ALGORITHMS 4.
    pub const fn weight(self) -> f64 {
        match self {
            Self::Dependency => 1.0,
            Self::Contains => 0.8,
            Self::Provides => 0.7,
            Self::Alternative => 0.6,
            Self::Sequence | Self::Conditional => 0.5,
        }
    }
}

/// The evidence for an edge, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeSource {
    /// Only declared, by a template or a capability's structure.
    Template,
    /// Observed, but with fewer than [`PROMOTION_SUCCESSES`] successes.
    Inferred,
    /// Observed in at least [`PROMOTION_SUCCESSES`] successful runs.
    Observed,
}

impl EdgeSource {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Inferred => "inferred",
            Self::Observed => "observed",
        }
    }

    /// The weight of the source (S3 2.3).
    pub const fn weight(self) -> f64 {
        match self {
            Self::Template => 0.5,
            Self::Inferred => 0.7,
            Self::Observed => 1.0,
        }
    }
}

/// The counts of one typed edge. Its source is derived from them, so the two cannot disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCounter {
    /// How many templates and declared capabilities name this edge.
    pub declared: u32,
    pub observations: u32,
    pub successes: u32,
    pub last_seq: Seq,
}

impl EdgeCounter {
    /// The source that follows from the counts. Failed runs are observations, but do not lift a declared edge above `Template`.
    pub const fn source(&self) -> EdgeSource {
        if self.successes >= PROMOTION_SUCCESSES {
            EdgeSource::Observed
        } else if self.successes == 0 && self.declared > 0 {
            EdgeSource::Template
        } else {
            EdgeSource::Inferred
        }
    }

    pub const fn weight(&self, kind: EdgeKind) -> f64 {
        kind.weight() * self.source().weight()
    }
}

impl Digestible for EdgeCounter {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.u32(self.declared).u32(self.observations).u32(self.successes).u64(self.last_seq.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(declared: u32, observations: u32, successes: u32, source: EdgeSource, provides_weight: f64) {
        let counter = EdgeCounter { declared, observations, successes, last_seq: Seq::ZERO };
        assert_eq!(counter.source(), source);
        assert!((counter.weight(EdgeKind::Provides) - provides_weight).abs() < 1e-12);
    }

    #[test]
    fn source_and_weight_follow_from_the_counts() {
        check(1, 0, 0, EdgeSource::Template, 0.35);
        check(1, 5, 0, EdgeSource::Template, 0.35);
        check(0, 1, 0, EdgeSource::Inferred, 0.49);
        check(1, 1, 1, EdgeSource::Inferred, 0.49);
        check(0, 9, 2, EdgeSource::Inferred, 0.49);
        check(0, 3, 3, EdgeSource::Observed, 0.7);
    }
}
