//! The positions of all record ids of the stream, in a file of this process. The server forgets ids after its duplicate window and the log
//! must not, and in memory they would grow with the log.
//!
//! The file is derived from the stream: it says of which stream it is and up to which position it is complete, so that a start reads only
//! what comes after. One that cannot be opened, of another stream or missing is begun anew. Damage is found when the run of ids that has
//! it is read, since reading the whole file would make every start slower: the file is removed then, and the next start begins it anew.
//! Ids are written beside the follower, some thousands at a time; a crash loses the latest of them, which are read from the stream again.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, TableDefinition};

use crate::core::id::{RecordId, Seq};
use crate::core::invariant::ids_are_unique;
use crate::log::ReadError;
use crate::log::redb::ids::{IdGroup, IdStatus, RUNS};
use crate::log::redb::{StoreError, guarded};
use crate::private;

/// What the file is about: the stream's identity as `stream` -> hash of its name and creation, and `complete_to`.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const STREAM: &str = "stream";
const COMPLETE_TO: &str = "complete_to";

/// Page cache of the file.
const CACHE_BYTES: usize = 16 << 20;
/// Every so many writes one is synced; the others become durable with it.
const SYNCED_EVERY: u64 = 16;
/// Processes that share a data directory have a file each, at most so many.
const FILES_MAX: u32 = 16;

/// The index of ids, safe to be used by several tasks.
pub(super) struct IdIndex {
    database: Database,
    /// The file; `None` for an index in memory.
    path: Option<PathBuf>,
    /// How often ids were added. Locked while they are.
    writes: Mutex<u64>,
}

impl IdIndex {
    /// Opens the index of the stream with this `identity` in `directory`, or begins one; without a directory, in memory.
    pub(super) fn open(directory: Option<&Path>, identity: u64, end: Seq) -> Result<Self, ReadError> {
        let Some(directory) = directory else {
            let database = Database::builder().create_with_backend(InMemoryBackend::new()).map_err(StoreError::from)?;
            return Self::begin(database, None, identity);
        };
        let io = |error: std::io::Error| ReadError::Storage(error.into());
        private::create_directory(directory).map_err(io)?;
        for number in 1..=FILES_MAX {
            let path = directory.join(format!("stream-ids-{number}.redb"));
            private::create_file_if_missing(&path).map_err(io)?;
            let opened = match guarded(|| open_file(&path)) {
                Ok(None) => continue,
                Ok(Some(database)) => Self::resume(database, &path, identity, end),
                Err(error) => Err(error),
            };
            let opened = opened.unwrap_or_else(|error| {
                tracing::warn!(%error, path = %path.display(), "the index of record ids cannot be used and is begun anew");
                None
            });
            return match opened {
                Some(index) => Ok(index),
                None => Self::replace(&path, identity),
            };
        }
        let problem = format!("{FILES_MAX} processes use the data directory {}; give each its own", directory.display());
        Err(ReadError::Storage(problem.into()))
    }

    /// The index in `database`, if it is of this stream and not ahead of it. Fails if that cannot be read. A file that was just made is of none.
    fn resume(database: Database, path: &Path, identity: u64, end: Seq) -> Result<Option<Self>, StoreError> {
        let index = Self { database, path: Some(path.to_owned()), writes: Mutex::new(0) };
        if !guarded(|| index.is_begun())? {
            return Ok(None);
        }
        let (stream, complete_to) = guarded(|| index.read_meta())?;
        Ok((stream == Some(identity) && complete_to <= end).then_some(index))
    }

    fn is_begun(&self) -> Result<bool, StoreError> {
        Ok(self.database.begin_read()?.list_tables()?.next().is_some())
    }

    /// Removes a file in which damage was found, so that the next start begins it anew.
    fn checked<T>(&self, result: Result<T, StoreError>) -> Result<T, ReadError> {
        if let (Err(error @ StoreError::Damaged(_)), Some(path)) = (&result, &self.path) {
            tracing::warn!(%error, path = %path.display(), "the index of record ids is damaged; the next start begins it anew");
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(%error, path = %path.display(), "the damaged index of record ids cannot be removed");
            }
        }
        Ok(result?)
    }

    fn replace(path: &Path, identity: u64) -> Result<Self, ReadError> {
        let io = |error: std::io::Error| ReadError::Storage(error.into());
        std::fs::remove_file(path).map_err(io)?;
        private::create_file_if_missing(path).map_err(io)?;
        match open_file(path)? {
            Some(database) => Self::begin(database, Some(path), identity),
            None => Err(ReadError::Storage(format!("{} is in use", path.display()).into())),
        }
    }

    fn begin(database: Database, path: Option<&Path>, identity: u64) -> Result<Self, ReadError> {
        let begun = || -> Result<(), StoreError> {
            let transaction = database.begin_write()?;
            transaction.open_table(RUNS)?;
            let mut meta = transaction.open_table(META)?;
            meta.insert(STREAM, identity)?;
            meta.insert(COMPLETE_TO, 0)?;
            drop(meta);
            Ok(transaction.commit()?)
        };
        begun()?;
        Ok(Self { database, path: path.map(Path::to_owned), writes: Mutex::new(0) })
    }

    fn read_meta(&self) -> Result<(Option<u64>, Seq), StoreError> {
        let transaction = self.database.begin_read()?;
        transaction.open_table(RUNS)?;
        let meta = transaction.open_table(META)?;
        let stream = meta.get(STREAM)?.map(|stream| stream.value());
        Ok((stream, Seq(meta.get(COMPLETE_TO)?.map_or(0, |position| position.value()))))
    }

    /// The position up to which all ids are in the index.
    pub(super) fn complete_to(&self) -> Result<Seq, ReadError> {
        Ok(self.checked(guarded(|| self.read_meta()))?.1)
    }

    /// The positions of the ids that are in the index.
    pub(super) fn find(&self, ids: impl Iterator<Item = RecordId>) -> Result<Vec<Option<Seq>>, ReadError> {
        let find = || -> Result<Vec<Option<Seq>>, StoreError> {
            let runs = self.database.begin_read()?.open_table(RUNS)?;
            // As a group: an id that is newer than all others, as most are, costs nothing.
            let group = IdGroup::new(&runs, ids)?;
            let position = |at: usize| match group.status(at) {
                IdStatus::Known(seq) => Some(seq),
                IdStatus::New | IdStatus::Repeats(_) => None,
            };
            Ok((0..group.len()).map(position).collect())
        };
        self.checked(guarded(find))
    }

    /// Adds ids with their positions; afterwards the index is complete up to `complete_to`. Ids that it has keep their positions.
    pub(super) fn add(&self, entries: &[(RecordId, Seq)], complete_to: Seq) -> Result<(), ReadError> {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_synced = writes.is_multiple_of(SYNCED_EVERY);
        *writes += 1;
        self.checked(guarded(|| self.write(entries, complete_to, is_synced)))
    }

    fn write(&self, entries: &[(RecordId, Seq)], complete_to: Seq, is_synced: bool) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write()?;
        if is_synced {
            // After a crash the file is opened without being read as a whole.
            transaction.set_quick_repair(true);
        } else {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut runs = transaction.open_table(RUNS)?;
            let group = IdGroup::new(&runs, entries.iter().map(|(id, _)| *id))?;
            debug_assert_eq!(ids_are_unique(entries.iter().map(|(id, _)| *id)), Ok(()));
            let positions: Vec<Seq> = entries.iter().map(|(_, seq)| *seq).collect();
            group.add(&mut runs, &positions)?;
            transaction.open_table(META)?.insert(COMPLETE_TO, complete_to.0)?;
        }
        Ok(transaction.commit()?)
    }

    /// Makes all that was added durable.
    pub(super) fn sync(&self) -> Result<(), ReadError> {
        let complete_to = self.complete_to()?;
        self.checked(guarded(|| self.write(&[], complete_to, true)))
    }
}

/// Opens or creates the file; `None` if another process has it open.
fn open_file(path: &Path) -> Result<Option<Database>, StoreError> {
    match Database::builder().set_cache_size(CACHE_BYTES).create(path) {
        Ok(database) => Ok(Some(database)),
        Err(DatabaseError::DatabaseAlreadyOpen) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(bits: u128) -> RecordId {
        RecordId::from_bits(bits)
    }

    fn find(index: &IdIndex, ids: [u128; 3]) -> Vec<Option<u64>> {
        index.find(ids.into_iter().map(id)).unwrap().into_iter().map(|seq| seq.map(|seq| seq.0)).collect()
    }

    #[test]
    fn a_reopened_index_knows_what_was_added_and_up_to_where() {
        let home = tempfile::TempDir::new().unwrap();
        let index = IdIndex::open(Some(home.path()), 7, Seq(0)).unwrap();
        assert_eq!(index.complete_to().unwrap(), Seq::ZERO);
        index.add(&[(id(5), Seq(1)), (id(3), Seq(2))], Seq(2)).unwrap();
        // The second comes again, as after a crash, with a position that is not its first.
        index.add(&[(id(9), Seq(4)), (id(3), Seq(3))], Seq(4)).unwrap();
        index.sync().unwrap();
        drop(index);
        let index = IdIndex::open(Some(home.path()), 7, Seq(4)).unwrap();
        assert_eq!((index.complete_to().unwrap(), find(&index, [3, 9, 4])), (Seq(4), vec![Some(2), Some(4), None]));
    }

    #[test]
    fn an_index_of_another_stream_or_ahead_or_damaged_is_begun_anew() {
        let home = tempfile::TempDir::new().unwrap();
        let path = home.path().join("stream-ids-1.redb");
        let fill = |identity: u64| {
            let index = IdIndex::open(Some(home.path()), identity, Seq(9)).unwrap();
            index.add(&[(id(5), Seq(9))], Seq(9)).unwrap();
            index.sync().unwrap();
        };
        let is_empty = |identity: u64, end: u64| {
            let index = IdIndex::open(Some(home.path()), identity, Seq(end)).unwrap();
            (index.complete_to().unwrap(), find(&index, [5, 5, 5])) == (Seq::ZERO, vec![None; 3])
        };
        fill(7);
        assert!(!is_empty(7, 9));
        assert!(is_empty(8, 9), "another stream");
        fill(8);
        assert!(is_empty(8, 8), "the stream ends before it");
        fill(8);
        std::fs::write(&path, b"no database").unwrap();
        assert!(is_empty(8, 9), "damaged");
    }

    #[test]
    fn an_index_with_a_changed_id_is_removed_when_it_is_met_and_begun_anew() {
        let home = tempfile::TempDir::new().unwrap();
        let path = home.path().join("stream-ids-1.redb");
        let marked = 0x6d61_726b_6564_2069_6421_6d61_726b_6564_u128;
        let open = || IdIndex::open(Some(home.path()), 7, Seq(9)).unwrap();
        let index = open();
        index.add(&[(id(5), Seq(1)), (id(marked), Seq(9))], Seq(9)).unwrap();
        index.sync().unwrap();
        drop(index);
        let mut bytes = std::fs::read(&path).unwrap();
        let places: Vec<usize> = (0..bytes.len() - 16).filter(|at| bytes[*at..*at + 16] == marked.to_le_bytes()).collect();
        assert!(!places.is_empty(), "the id is in the file");
        for at in places {
            bytes[at] ^= 1;
        }
        std::fs::write(&path, bytes).unwrap();
        let index = open();
        assert!(index.find([id(5)].into_iter()).is_err() && !path.exists());
        drop(index);
        let index = open();
        assert_eq!((index.complete_to().unwrap(), find(&index, [5, 5, 5])), (Seq::ZERO, vec![None; 3]), "begun anew");
    }

    #[test]
    fn a_second_process_has_a_file_of_its_own() {
        let home = tempfile::TempDir::new().unwrap();
        let first = IdIndex::open(Some(home.path()), 7, Seq(9)).unwrap();
        first.add(&[(id(5), Seq(9))], Seq(9)).unwrap();
        let second = IdIndex::open(Some(home.path()), 7, Seq(9)).unwrap();
        assert_eq!((find(&first, [5, 5, 5])[0], find(&second, [5, 5, 5])[0]), (Some(9), None));
    }
}
