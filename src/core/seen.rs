//! The set of the ids of the latest records folded, by which the fold skips a record that the log holds twice.
//!
//! The set forgets by generations: an id is kept until [`GENERATIONS_KEPT`] further generations of [`GENERATION_IDS`] ids are full, so at
//! least the latest [`IDS_KEPT`] ids are in it. This horizon is part of the fold. It does not limit what is recognised as sent twice:
//! every log knows all of its ids (`EventLog::find`) and takes none again, so a repetition after the horizon never reaches the fold.
//!
//! Producers make time-ordered ids, so nearly every id is the largest so far. The present generation is a few sorted runs, each at
//! least twice as long as the next, immutable and shared between clones, and a short sorted list of recent ids; a full generation is one
//! run. An id costs 16 bytes and, if it does not come in order, a copy per doubling of its generation; a clone copies the short list.

use std::sync::Arc;

use super::digest::{DigestWriter, Digestible};
use super::id::RecordId;

/// Ids of a full generation.
pub const GENERATION_IDS: usize = 1 << 18;
/// Full generations kept beside the present one.
pub const GENERATIONS_KEPT: usize = 4;
/// The latest ids that are always in the set.
pub const IDS_KEPT: usize = GENERATION_IDS * GENERATIONS_KEPT;
/// Ids in the short list: a clone copies all of them, and an id that arrives out of order moves half.
const RECENT_MAX: usize = 1_024;

/// How far back ids are kept. Only tests use another than the default.
#[derive(Clone, Copy, Debug)]
struct Horizon {
    generation_ids: usize,
    generations_kept: usize,
}

/// The latest record ids, with cheap clones.
#[derive(Clone, Debug)]
pub struct SeenIds {
    horizon: Horizon,
    /// The full generations, the oldest first.
    full: Vec<SortedRun>,
    /// The runs of the present generation: disjoint, the longest first.
    runs: Vec<SortedRun>,
    /// Sorted, and disjoint from the runs.
    recent: Vec<RecordId>,
    /// The number of ids in `runs`.
    run_ids: usize,
    /// No id that was ever added is larger, so a larger one is new without a search.
    largest: Option<RecordId>,
}

/// Sorted ids, at least one. The bounds are beside the pointer: runs cover spans of time, so most ids lie outside of most runs, and
/// looking at the ends of the ids would read memory that is in no cache.
#[derive(Clone, Debug)]
struct SortedRun {
    first: RecordId,
    last: RecordId,
    len: usize,
    /// In order; the ids of each are sorted and before those of the next.
    chunks: Arc<[Chunk]>,
}

/// A part of a run that came together, with its bounds for the same reason.
#[derive(Clone, Debug)]
struct Chunk {
    first: RecordId,
    last: RecordId,
    ids: Arc<[RecordId]>,
}

impl SortedRun {
    fn new(ids: impl Into<Arc<[RecordId]>>) -> Self {
        let ids = ids.into();
        let (first, last, len) = (ids[0], ids[ids.len() - 1], ids.len());
        Self { first, last, len, chunks: Arc::new([Chunk { first, last, ids }]) }
    }

    /// Ids come nearly in the order in which they were made, so only the chunks at the seam have ids to be sorted among each other.
    fn merge(self, later: Self) -> Self {
        let (before, from) = self.chunks.split_at(self.chunks.partition_point(|chunk| chunk.last < later.first));
        let (to, after) = later.chunks.split_at(later.chunks.partition_point(|chunk| chunk.first <= self.last));
        let mut seam: Vec<RecordId> = from.iter().chain(to).flat_map(|chunk| chunk.ids.iter().copied()).collect();
        seam.sort();
        let seam = seam.first().copied().zip(seam.last().copied()).map(|(first, last)| Chunk { first, last, ids: seam.into() });
        Self {
            first: self.first.min(later.first),
            last: self.last.max(later.last),
            len: self.len + later.len,
            chunks: before.iter().cloned().chain(seam).chain(after.iter().cloned()).collect(),
        }
    }

    fn ids(&self) -> impl Iterator<Item = RecordId> {
        self.chunks.iter().flat_map(|chunk| chunk.ids.iter().copied())
    }

    fn holds(&self, id: RecordId) -> bool {
        if id < self.first || self.last < id {
            return false;
        }
        let after = self.chunks.partition_point(|chunk| chunk.first <= id);
        self.chunks[after - 1].ids.binary_search(&id).is_ok()
    }
}

impl Default for SeenIds {
    fn default() -> Self {
        Self::with_horizon(GENERATION_IDS, GENERATIONS_KEPT)
    }
}

impl SeenIds {
    pub(crate) fn with_horizon(generation_ids: usize, generations_kept: usize) -> Self {
        let horizon = Horizon { generation_ids, generations_kept };
        Self { horizon, full: Vec::new(), runs: Vec::new(), recent: Vec::new(), run_ids: 0, largest: None }
    }

    /// Restores what [`Self::generations`] gave; `None` if it cannot have given that.
    pub fn from_generations(ids: &[RecordId]) -> Option<Self> {
        let mut seen = Self::default();
        for generation in ids.chunks(GENERATION_IDS) {
            if !generation.is_sorted_by(|a, b| a < b) {
                return None;
            }
            seen.largest = seen.largest.max(generation.last().copied());
            if generation.len() == GENERATION_IDS {
                seen.full.push(SortedRun::new(generation));
            } else {
                seen.run_ids += generation.len();
                seen.runs.push(SortedRun::new(generation));
            }
        }
        (seen.full.len() <= GENERATIONS_KEPT).then_some(seen)
    }

    /// Adds an id; `false` if it was in the set.
    pub fn insert(&mut self, id: RecordId) -> bool {
        if self.largest < Some(id) {
            self.largest = Some(id);
            self.recent.push(id);
        } else {
            let Err(at) = self.recent.binary_search(&id) else { return false };
            if self.runs.iter().chain(&self.full).any(|run| run.holds(id)) {
                return false;
            }
            self.recent.insert(at, id);
        }
        if self.recent.len() == RECENT_MAX || self.present_len() == self.horizon.generation_ids {
            self.merge_recent();
        }
        true
    }

    pub fn contains(&self, id: RecordId) -> bool {
        let in_runs = || self.runs.iter().chain(&self.full).any(|run| run.holds(id));
        self.largest >= Some(id) && (self.recent.binary_search(&id).is_ok() || in_runs())
    }

    /// The number of ids kept.
    pub fn len(&self) -> usize {
        self.present_len() + self.full.iter().map(|run| run.len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of ids of the present generation.
    fn present_len(&self) -> usize {
        self.recent.len() + self.run_ids
    }

    /// The ids by generation, the oldest first, those of each in order. Close to O(n), since the runs are sorted already.
    pub fn generations(&self) -> Vec<RecordId> {
        let mut ids: Vec<RecordId> = self.full.iter().flat_map(SortedRun::ids).collect();
        let present = ids.len();
        ids.extend(self.runs.iter().flat_map(SortedRun::ids).chain(self.recent.iter().copied()));
        ids[present..].sort();
        ids
    }

    /// Turns the short list into a run, merged with all runs shorter than twice its length; ends the generation if it is full.
    fn merge_recent(&mut self) {
        let is_full = self.present_len() >= self.horizon.generation_ids;
        let mut run = SortedRun::new(std::mem::replace(&mut self.recent, Vec::with_capacity(RECENT_MAX)));
        while let Some(before) = self.runs.pop_if(|before| is_full || before.len < 2 * run.len) {
            self.run_ids -= before.len;
            run = before.merge(run);
        }
        if !is_full {
            self.run_ids += run.len;
            return self.runs.push(run);
        }
        if self.full.len() == self.horizon.generations_kept {
            self.full.remove(0);
        }
        self.full.push(run);
    }
}

impl Digestible for SeenIds {
    fn digest(&self, writer: &mut DigestWriter) {
        let ids = self.generations();
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
    fn within_the_horizon_it_is_the_set_of_what_was_inserted() {
        let (mut seen, mut model) = (SeenIds::default(), BTreeSet::new());
        for id in arrivals(20 * RECENT_MAX as u64) {
            assert_eq!(seen.insert(id), model.insert(id));
        }
        assert_eq!(seen.len(), model.len());
        assert!(seen.generations().into_iter().eq(model.iter().copied()));
        assert!(model.iter().all(|id| seen.contains(*id)) && !seen.contains(id(u64::MAX)));
        assert!(seen.runs.len() < 8, "{} runs", seen.runs.len());
    }

    #[test]
    fn at_least_the_latest_ids_are_kept_and_never_more_than_one_generation_beyond() {
        let (generation, kept) = (300_u64, 3);
        let mut seen = SeenIds::with_horizon(300, 3);
        for n in 0..5_000_u64 {
            // Odd multipliers scatter the ids, so that no order helps.
            assert!(seen.insert(id(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))), "{n} is new");
            let horizon = (n + 1).saturating_sub(generation * kept);
            let all_kept = (horizon..=n).all(|n| seen.contains(id(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))));
            assert!(all_kept && seen.len() as u64 <= generation * (kept + 1), "after {n}");
        }
        assert!(!seen.contains(id(0)), "the first generation is forgotten");
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
    fn a_restored_set_is_the_same_and_goes_on_alike() {
        let digest = |seen: &SeenIds| {
            let mut writer = DigestWriter::new();
            seen.digest(&mut writer);
            writer.finish()
        };
        let mut grown = SeenIds::default();
        let mut next = 0_u64;
        for ids in [5_000, GENERATION_IDS, IDS_KEPT + 77] {
            for _ in 0..ids {
                next += 1;
                grown.insert(id(next));
            }
            let mut restored = SeenIds::from_generations(&grown.generations()).unwrap();
            assert_eq!(digest(&grown), digest(&restored));
            for n in (next + 1)..next + GENERATION_IDS as u64 {
                grown.insert(id(n));
                restored.insert(id(n));
            }
            next += GENERATION_IDS as u64;
            assert_eq!(digest(&grown), digest(&restored));
        }
        let unsorted: Vec<RecordId> = [2, 1].map(id).to_vec();
        assert!(SeenIds::from_generations(&unsorted).is_none());
    }
}
