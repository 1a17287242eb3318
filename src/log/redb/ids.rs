//! The dedupe index: the position of each record id, in sorted runs of some dozens of ids.
//!
//! ```text
//! key: first id of the range     value: checksum (u64) | last id of the range (u128) | id (u128) position (u64) | id position | ...
//! ```
//!
//! Entries are sorted by id, integers are little-endian. A run covers the ids from its key up to, but not including, the key of the next
//! one; the first begins at zero and the last ends with the largest possible id. Each run stores the end of its range, so that a lookup
//! in the wrong run is noticed. Producers create time-ordered ids, so the ids of a transaction mostly come after all others: they
//! fill the last run and begin new ones, which changes a few entries of the tree instead of hundreds. A run that gets an earlier id
//! is rewritten.

use redb::{ReadableTable, Table, TableDefinition};

use super::StoreError;
use super::checksum::SealedTable;
use crate::core::id::{RecordId, Seq};
use crate::log::Damage;

/// First id of a run's range -> run.
pub(in crate::log) const RUNS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("id_index");

const ID_LEN: usize = size_of::<u128>();
const ENTRY_LEN: usize = ID_LEN + size_of::<u64>();
/// Most ids in a run: with its key it fills a page.
const RUN_IDS_MAX: usize = 160;

type IdEntry = (u128, Seq);

/// What the index knows about an id that is to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum IdStatus {
    New,
    Known(Seq),
    /// The id is the same as the one at this index of the group.
    Repeats(usize),
}

/// A run, copied out of the table.
struct Run {
    key: u128,
    /// The last id of the range.
    until: u128,
    entries: Vec<u8>,
}

impl Run {
    /// Returns the run whose range contains `id`; `None` if the index is empty.
    fn containing(runs: &impl ReadableTable<u128, &'static [u8]>, id: u128) -> Result<Option<Self>, StoreError> {
        let run = match runs.range(..=id)?.next_back() {
            Some(found) => {
                let (key, value) = found?;
                Self::open(key.value(), value.value())?
            }
            None if runs.is_empty()? => return Ok(None),
            // The first run begins at zero, so it is missing.
            None => return Err(damaged(id).into()),
        };
        if run.covers(id) { Ok(Some(run)) } else { Err(damaged(id).into()) }
    }

    fn open(key: u128, value: &[u8]) -> Result<Self, Damage> {
        let body = SealedTable::IdRun.open(key, value).and_then(<[u8]>::split_first_chunk);
        let (until, entries) = body.ok_or(damaged(key))?;
        Ok(Self { key, until: u128::from_le_bytes(*until), entries: entries.to_vec() })
    }

    fn covers(&self, id: u128) -> bool {
        (self.key..=self.until).contains(&id)
    }

    fn entries(&self) -> &[[u8; ENTRY_LEN]] {
        self.entries.as_chunks().0
    }

    fn find(&self, id: u128) -> Option<Seq> {
        let entries = self.entries();
        let at = entries.binary_search_by_key(&id, |entry| read_entry(entry).0).ok()?;
        Some(read_entry(&entries[at]).1)
    }
}

fn damaged(near: u128) -> Damage {
    Damage::Ids { near: RecordId::from_bits(near) }
}

fn read_entry(entry: &[u8; ENTRY_LEN]) -> IdEntry {
    let (id, seq) = entry.split_at(ID_LEN);
    let id = u128::from_le_bytes(id.try_into().expect("an entry begins with an id"));
    (id, Seq(u64::from_le_bytes(seq.try_into().expect("and ends with a position"))))
}

fn write_entry((id, seq): IdEntry, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&seq.0.to_le_bytes());
}

/// Looks an id up in one stored run.
#[cfg(feature = "testing")]
pub(super) fn find_in_run(key: u128, value: &[u8], id: u128) -> Result<Option<Seq>, Damage> {
    Ok(Run::open(key, value)?.find(id))
}

/// Returns the position of the record with this id.
pub(super) fn find(runs: &impl ReadableTable<u128, &'static [u8]>, id: RecordId) -> Result<Option<Seq>, StoreError> {
    Ok(Run::containing(runs, id.to_bits())?.and_then(|run| run.find(id.to_bits())))
}

/// Returns the largest id of the index.
fn newest(runs: &impl ReadableTable<u128, &'static [u8]>) -> Result<Option<u128>, StoreError> {
    let Some((key, value)) = runs.last()? else { return Ok(None) };
    let run = Run::open(key.value(), value.value())?;
    if run.until != u128::MAX {
        return Err(damaged(run.until).into());
    }
    Ok(run.entries().last().map(|entry| read_entry(entry).0))
}

/// Reads the whole index. Returns the number of ids and the damage found.
pub(super) fn verify(runs: &impl ReadableTable<u128, &'static [u8]>) -> Result<(u64, Vec<Damage>), StoreError> {
    let (mut ids, mut problems) = (0, Vec::new());
    let mut expected = Some(0);
    for entry in runs.iter()? {
        let (key, value) = entry?;
        let key = key.value();
        if expected.is_some_and(|expected| expected != key) {
            problems.push(damaged(key));
        }
        match Run::open(key, value.value()) {
            Ok(run) => {
                ids += run.entries().len() as u64;
                // Nothing may follow the last run: its successor would have to begin at zero.
                expected = Some(run.until.checked_add(1).unwrap_or(0));
            }
            Err(damage) => {
                problems.push(damage);
                expected = None;
            }
        }
    }
    if expected.is_some_and(|expected| expected != 0) {
        problems.push(damaged(u128::MAX));
    }
    Ok((ids, problems))
}

/// The ids of a group of appends, with what the index knows about them.
pub(in crate::log) struct IdGroup {
    ids: Vec<u128>,
    /// Indices into `ids`, sorted by id.
    sorted: Vec<usize>,
    statuses: Vec<IdStatus>,
}

impl IdGroup {
    /// Looks the ids up.
    pub(in crate::log) fn new(
        runs: &impl ReadableTable<u128, &'static [u8]>,
        ids: impl Iterator<Item = RecordId>,
    ) -> Result<Self, StoreError> {
        let ids: Vec<u128> = ids.map(RecordId::to_bits).collect();
        let mut sorted: Vec<usize> = (0..ids.len()).collect();
        sorted.sort_by_key(|at| ids[*at]);
        let mut statuses = vec![IdStatus::New; ids.len()];
        let newest = newest(runs)?;
        let (mut run, mut before): (Option<Run>, Option<usize>) = (None, None);
        for &at in &sorted {
            let id = ids[at];
            if let Some(first) = before.filter(|first| ids[*first] == id) {
                statuses[at] = match statuses[first] {
                    IdStatus::New => IdStatus::Repeats(first),
                    known => known,
                };
                continue;
            }
            before = Some(at);
            if newest.is_none_or(|newest| id > newest) {
                continue;
            }
            if !run.as_ref().is_some_and(|run| run.covers(id)) {
                run = Run::containing(runs, id)?;
            }
            if let Some(seq) = run.as_ref().and_then(|run| run.find(id)) {
                statuses[at] = IdStatus::Known(seq);
            }
        }
        Ok(Self { ids, sorted, statuses })
    }

    pub(in crate::log) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the status of the id at this index of the group.
    pub(in crate::log) fn status(&self, at: usize) -> IdStatus {
        self.statuses[at]
    }

    /// Adds the new ids of the group; `positions` are the positions of all its ids.
    pub(in crate::log) fn add(&self, runs: &mut Table<'_, u128, &'static [u8]>, positions: &[Seq]) -> Result<(), StoreError> {
        let new = self.sorted.iter().filter(|at| self.statuses[**at] == IdStatus::New);
        add(runs, new.map(|at| (self.ids[*at], positions[*at])))
    }
}

/// Adds entries, sorted by id, whose ids are not in the index.
pub(super) fn add(runs: &mut Table<'_, u128, &'static [u8]>, entries: impl Iterator<Item = IdEntry>) -> Result<(), StoreError> {
    let mut entries = entries.peekable();
    while let Some(&(first, _)) = entries.peek() {
        let run = Run::containing(runs, first)?.unwrap_or(Run { key: 0, until: u128::MAX, entries: Vec::new() });
        let mut old = run.entries().iter().map(read_entry).peekable();
        let mut merged = Vec::new();
        while let Some(new) = entries.next_if(|(id, _)| run.covers(*id)) {
            while let Some(before) = old.next_if(|before| before.0 < new.0) {
                merged.push(before);
            }
            merged.push(new);
        }
        merged.extend(old);
        // Later ids mostly come after the last run, so its parts are left full; parts of other runs keep room for ids between.
        let parts = merged.len().div_ceil(RUN_IDS_MAX);
        let size = if run.until == u128::MAX { RUN_IDS_MAX } else { merged.len().div_ceil(parts) };
        let mut rest = merged.as_slice();
        let mut key = run.key;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(size.min(rest.len()));
            let until = after.first().map_or(run.until, |(next, _)| next - 1);
            let mut body = Vec::with_capacity(ID_LEN + part.len() * ENTRY_LEN);
            body.extend_from_slice(&until.to_le_bytes());
            for entry in part {
                write_entry(*entry, &mut body);
            }
            runs.insert(key, SealedTable::IdRun.seal(key, &body).as_slice())?;
            (key, rest) = (until.wrapping_add(1), after);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;
    use redb::{Database, ReadableDatabase};

    use super::super::checksum;
    use super::*;

    /// Appends the groups one after the other, and looks up every id after each.
    fn check(groups: &[Vec<u128>]) {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let mut expected: BTreeMap<u128, Seq> = BTreeMap::new();
        let mut last = Seq::ZERO;
        for ids in groups {
            let transaction = database.begin_write().unwrap();
            {
                let mut runs = transaction.open_table(RUNS).unwrap();
                let group = IdGroup::new(&runs, ids.iter().copied().map(RecordId::from_bits)).unwrap();
                let mut positions: Vec<Seq> = Vec::new();
                for (at, id) in ids.iter().enumerate() {
                    let seq = match group.status(at) {
                        IdStatus::New => {
                            last = last.next();
                            assert_eq!(expected.insert(*id, last), None);
                            last
                        }
                        IdStatus::Known(seq) => seq,
                        IdStatus::Repeats(first) => positions[first],
                    };
                    assert_eq!(expected.get(id), Some(&seq));
                    positions.push(seq);
                }
                group.add(&mut runs, &positions).unwrap();
            }
            transaction.commit().unwrap();
            let runs = database.begin_read().unwrap().open_table(RUNS).unwrap();
            for (id, seq) in &expected {
                assert_eq!(find(&runs, RecordId::from_bits(*id)).unwrap(), Some(*seq));
            }
            let largest = checksum::LEN + ID_LEN + RUN_IDS_MAX * ENTRY_LEN;
            assert!(runs.iter().unwrap().all(|run| run.unwrap().1.value().len() <= largest));
            assert_eq!(verify(&runs).unwrap(), (expected.len() as u64, vec![]));
        }
    }

    #[test]
    fn time_ordered_ids_fill_runs_one_after_the_other() {
        let ids: Vec<u128> = (1..=3 * RUN_IDS_MAX as u128 + 1).collect();
        check(&[ids.clone(), vec![ids.len() as u128 + 1], ids]);
    }

    #[test]
    fn an_empty_group_and_the_outermost_ids_are_fine() {
        check(&[vec![], vec![u128::MAX, 0], vec![0, u128::MAX, 7], vec![]]);
    }

    #[test]
    fn a_run_that_is_missing_or_changed_is_noticed_by_lookups_and_by_verify() {
        let ids: Vec<u128> = (1..=3 * RUN_IDS_MAX as u128).collect();
        let (first, second) = (1, RUN_IDS_MAX as u128 + 1);
        let damage_to = |change: fn(&mut Vec<u8>) -> bool, key: u128| {
            let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
            let transaction = database.begin_write().unwrap();
            let mut runs = transaction.open_table(RUNS).unwrap();
            add(&mut runs, ids.iter().map(|id| (*id, Seq(1)))).unwrap();
            let mut value = runs.remove(key).unwrap().expect("a run begins here").value().to_vec();
            if change(&mut value) {
                runs.insert(key, value.as_slice()).unwrap();
            }
            let lookup = |id: u128| matches!(find(&runs, RecordId::from_bits(id)), Err(StoreError::Damaged(_)));
            (lookup(first), lookup(second), newest(&runs).is_err(), verify(&runs).unwrap().1.is_empty())
        };
        let flip_bit = |value: &mut Vec<u8>| {
            value[40] ^= 1;
            true
        };
        let last = 2 * RUN_IDS_MAX as u128 + 1;
        assert_eq!(damage_to(|_| true, second), (false, false, false, true), "nothing changed");
        assert_eq!(damage_to(|_| false, second), (false, true, false, false));
        assert_eq!(damage_to(|_| false, 0), (true, false, false, false));
        assert_eq!(damage_to(|_| false, last), (false, false, true, false));
        assert_eq!(damage_to(flip_bit, second), (false, true, false, false));
    }

    proptest! {
        #[test]
        fn every_id_has_the_position_it_was_added_with_first(
            groups in prop::collection::vec(prop::collection::vec(0..2_000_u128, 0..600), 1..8)
        ) {
            check(&groups);
        }
    }
}
