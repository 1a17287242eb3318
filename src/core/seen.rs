//! The set of the ids of all records folded, by which the fold skips a record that the log holds twice.
//!
//! Producers make time-ordered ids, so nearly every id is the largest so far. The set is a few sorted runs, each at least twice as
//! long as the next, immutable and shared between clones, and a short sorted list of recent ids. An id costs 16 bytes and one merge
//! per doubling of the set; a clone copies the short list.

use std::sync::Arc;

use super::digest::{DigestWriter, Digestible};
use super::id::RecordId;

/// Ids in the short list: a clone copies all of them, and an id that arrives out of order moves half.
const RECENT_MAX: usize = 1_024;

/// A set of record ids with cheap clones.
#[derive(Clone, Debug, Default)]
pub struct SeenIds {
    /// Sorted, disjoint, the longest first.
    runs: Vec<Arc<[RecordId]>>,
    /// Sorted, and disjoint from the runs.
    recent: Vec<RecordId>,
}

impl SeenIds {
    /// The set of `ids`, which are sorted and distinct.
    pub fn from_sorted(ids: Vec<RecordId>) -> Self {
        debug_assert!(ids.is_sorted_by(|a, b| a < b));
        Self { runs: if ids.is_empty() { Vec::new() } else { vec![ids.into()] }, recent: Vec::new() }
    }

    /// Adds an id; `false` if it was in the set.
    pub fn insert(&mut self, id: RecordId) -> bool {
        let at = match self.recent.last() {
            Some(last) if *last < id => self.recent.len(),
            _ => match self.recent.binary_search(&id) {
                Ok(_) => return false,
                Err(at) => at,
            },
        };
        if self.runs.iter().any(|run| holds(run, id)) {
            return false;
        }
        self.recent.insert(at, id);
        if self.recent.len() == RECENT_MAX {
            self.merge_recent();
        }
        true
    }

    pub fn contains(&self, id: RecordId) -> bool {
        holds(&self.recent, id) || self.runs.iter().any(|run| holds(run, id))
    }

    pub fn len(&self) -> usize {
        self.recent.len() + self.runs.iter().map(|run| run.len()).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All ids in order. Close to O(n), since the runs are sorted already.
    pub fn sorted(&self) -> Vec<RecordId> {
        let mut ids: Vec<RecordId> = self.runs.iter().flat_map(|run| run.iter().copied()).chain(self.recent.clone()).collect();
        ids.sort();
        ids
    }

    /// Turns the short list into a run, merged with all runs shorter than twice its length.
    fn merge_recent(&mut self) {
        let mut run = std::mem::take(&mut self.recent);
        while let Some(last) = self.runs.pop_if(|last| last.len() < 2 * run.len()) {
            run.extend_from_slice(&last);
            run.sort();
        }
        self.recent.reserve_exact(RECENT_MAX);
        self.runs.push(run.into());
    }
}

/// Whether a run holds `id`. The bounds are checked first: runs cover spans of time, so most ids lie outside.
fn holds(run: &[RecordId], id: RecordId) -> bool {
    let spans = run.first().is_some_and(|first| *first <= id) && run.last().is_some_and(|last| id <= *last);
    spans && run.binary_search(&id).is_ok()
}

impl Digestible for SeenIds {
    fn digest(&self, writer: &mut DigestWriter) {
        let ids = self.sorted();
        writer.len(ids.len());
        for id in ids {
            writer.u128(id.to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn id(bits: u64) -> RecordId {
        RecordId::from_bits(bits.into())
    }

    /// Ids in an order of their own, most of them rising, some of them late, every fifth a repeat.
    fn arrivals(count: u64) -> impl Iterator<Item = RecordId> {
        (0..count).map(|n| match n % 5 {
            4 => id(3 * (n - 4)),
            3 => id((3 * n).saturating_sub(7_000) + 1),
            _ => id(3 * n),
        })
    }

    fn insert(seen: &mut SeenIds, count: u64) {
        for id in arrivals(count) {
            seen.insert(id);
        }
    }

    #[test]
    fn it_is_the_set_of_what_was_inserted() {
        let (mut seen, mut model) = (SeenIds::default(), BTreeSet::new());
        for id in arrivals(20 * RECENT_MAX as u64) {
            assert_eq!(seen.insert(id), model.insert(id));
        }
        assert_eq!(seen.len(), model.len());
        assert!(seen.sorted().into_iter().eq(model.iter().copied()));
        assert!(model.iter().all(|id| seen.contains(*id)) && !seen.contains(id(u64::MAX)));
        assert!(seen.runs.len() < 8, "{} runs", seen.runs.len());
    }

    #[test]
    fn a_clone_stays_as_it_was() {
        let mut seen = SeenIds::default();
        insert(&mut seen, RECENT_MAX as u64);
        let (then, len) = (seen.clone(), seen.len());
        insert(&mut seen, 9 * RECENT_MAX as u64);
        assert_eq!((then.len(), then.contains(id(3 * 8 * RECENT_MAX as u64))), (len, false));
    }

    #[test]
    fn the_digest_does_not_depend_on_how_the_set_was_built() {
        let digest = |seen: &SeenIds| {
            let mut writer = DigestWriter::new();
            seen.digest(&mut writer);
            writer.finish()
        };
        let mut grown = SeenIds::default();
        insert(&mut grown, 5_000);
        assert_eq!(digest(&grown), digest(&SeenIds::from_sorted(grown.sorted())));
    }
}
