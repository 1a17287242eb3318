//! What of a state belongs to none of its parts, as plain values: a snapshot writes it and gives it back. The parts have ways in and
//! out of their own (`rows`, `from_rows`), and are public fields.

use super::State;
use crate::core::event::Kind;
use crate::core::id::{RecordId, Seq};
use crate::core::seen::Seen;

/// The numbers of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last record folded in.
    pub applied: Seq,
    /// Records by kind, in the order of [`Kind::ALL`].
    pub counts: [u64; Kind::ALL.len()],
    pub duplicates: u64,
    pub late: u64,
}

impl State {
    pub fn counters(&self) -> Counters {
        Counters { applied: self.applied, counts: self.counts, duplicates: self.duplicates, late: self.late }
    }

    /// Ids of all records folded, sorted.
    pub fn ids(&self) -> Vec<RecordId> {
        self.seen.sorted()
    }

    /// A state with these numbers and ids (sorted, each once), and with the parts of `parts`.
    pub fn from_rows(counters: Counters, ids: Vec<RecordId>, parts: Self) -> Self {
        let Counters { applied, counts, duplicates, late } = counters;
        Self { applied, counts, duplicates, late, seen: Seen::from_sorted(ids), ..parts }
    }
}
