//! The counters and record ids of a state as plain values, which a snapshot writes and restores. The parts are public fields and have
//! their own conversions (`from_rows`).

use super::State;
use crate::event::Kind;
use crate::id::{RecordId, Seq};
use crate::seen::SeenIds;

/// The counters of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last record folded in.
    pub applied: Seq,
    /// Records by kind, in the order of [`Kind::ALL`].
    pub counts: [u64; Kind::ALL.len()],
    /// Records with an id already folded.
    pub duplicates: u64,
    /// Records that came after their execution was closed.
    pub late: u64,
}

impl State {
    /// The counters as plain values.
    pub fn counters(&self) -> Counters {
        Counters { applied: self.applied, counts: self.counts, duplicates: self.duplicates, late: self.late }
    }

    /// The ids of the latest records folded ([`SeenIds::generations`]).
    pub fn ids(&self) -> Vec<RecordId> {
        self.seen.generations()
    }

    /// Restores a state from its counters, its ids, and the parts of `parts`.
    pub fn from_rows(counters: Counters, seen: SeenIds, parts: Self) -> Self {
        let Counters { applied, counts, duplicates, late } = counters;
        Self { applied, seen, counts, duplicates, late, ..parts }
    }
}
