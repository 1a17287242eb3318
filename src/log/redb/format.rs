//! The format of the file, and the conversion of older formats.
//!
//! | format | tables |
//! |---|---|
//! | 1 | `ids`: an entry of the tree for every id; `events`, `dead`: values without checksums |
//! | 2 | `id_runs`: ids in runs; `events`, `dead` as before |
//! | 3 | `blocks`, `id_index`, `letters`: every value has a checksum |
//! | 4 | the same; the oldest records were removed, because an archive holds them, and `meta` says up to where |
//!
//! Tables that changed between formats have different names, so that none is read in the wrong format. A file is converted in one
//! transaction: after a crash it is unchanged.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};

use super::block::{self, BlockRecords, PendingRecords};
use super::checksum::SealedTable;
use super::error::guarded;
use super::ids::{self, RUNS};
use super::{DEAD, EVENTS, StoreError, letters};
use crate::core::event::stored;
use crate::core::id::Seq;
use crate::log::{Damage, OpenError};

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const FORMAT: u64 = 3;
/// The format of a file from which records were removed: older versions of pml would take it for damaged.
const FORMAT_TRIMMED: u64 = 4;
const TRIMMED_TO: &str = "trimmed_to";
const TRIMMED_BLOCKS: &str = "trimmed_blocks";
const TRIMMED_RECORDS: &str = "trimmed_records";

const EVENTS_BEFORE_3: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
const DEAD_BEFORE_3: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("dead");
const IDS_OF_2: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("id_runs");
const IDS_OF_1: TableDefinition<'_, u128, u64> = TableDefinition::new("ids");
/// Records converted at once, which bounds the memory used.
const CONVERT_RECORDS: usize = 8_192;

/// What was removed from the beginning of the table of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trimmed {
    pub(super) to: Seq,
    pub(super) blocks: u64,
    pub(super) records: u64,
}

impl Trimmed {
    pub(super) fn from_meta(meta: &impl ReadableTable<&'static str, u64>) -> Result<Self, StoreError> {
        let number = |key: &str| -> Result<u64, StoreError> { Ok(meta.get(key)?.map_or(0, |value| value.value())) };
        Ok(Self { to: Seq(number(TRIMMED_TO)?), blocks: number(TRIMMED_BLOCKS)?, records: number(TRIMMED_RECORDS)? })
    }

    pub(super) fn read(transaction: &WriteTransaction) -> Result<Self, StoreError> {
        Self::from_meta(&transaction.open_table(META)?)
    }

    pub(super) fn of(database: &Database) -> Result<Self, StoreError> {
        Self::from_meta(&database.begin_read()?.open_table(META)?)
    }

    pub(super) fn write(self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT_KEY, FORMAT_TRIMMED)?;
        meta.insert(TRIMMED_TO, self.to.0)?;
        meta.insert(TRIMMED_BLOCKS, self.blocks)?;
        meta.insert(TRIMMED_RECORDS, self.records)?;
        Ok(())
    }
}

/// Creates the tables of a new file.
pub(super) fn create(database: &Database) -> Result<(), StoreError> {
    let transaction = database.begin_write()?;
    create_tables(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Converts the tables of an older format and returns the last position.
pub(super) fn prepare(database: &Database, path: &Path) -> Result<Seq, OpenError> {
    let failed = |error: StoreError| open_error(path, error);
    match guarded(|| read_format(database)).map_err(failed)? {
        FORMAT | FORMAT_TRIMMED => {}
        older @ (1 | 2) => {
            tracing::info!(path = %path.display(), from = older, to = FORMAT, "converting the log to the present format");
            guarded(|| convert(database)).map_err(failed)?;
        }
        0 => return Err(failed(Damage::File { problem: "its format is 0, which does not exist".to_owned() }.into())),
        newer => return Err(OpenError::NewerFormat { path: path.to_owned(), found: newer, known: FORMAT_TRIMMED }),
    }
    guarded(|| tail(database)).map_err(failed)
}

/// Converts an error met while opening `path`.
pub(super) fn open_error(path: &Path, error: StoreError) -> OpenError {
    let path = path.to_owned();
    match error {
        StoreError::Damaged(source) => OpenError::Damaged { path, source },
        other => OpenError::Storage { path, source: other.to_string().into() },
    }
}

/// Returns the format stored in the file.
fn read_format(database: &Database) -> Result<u64, StoreError> {
    let meta = database.begin_read()?.open_table(META)?;
    let format = meta.get(FORMAT_KEY)?.map(|format| format.value());
    format.ok_or_else(|| Damage::File { problem: "it does not say which format it has".to_owned() }.into())
}

/// Returns the last position. Fails if a table is missing.
pub(super) fn tail(database: &Database) -> Result<Seq, StoreError> {
    let transaction = database.begin_read()?;
    let (events, runs) = (transaction.open_table(EVENTS)?, transaction.open_table(RUNS)?);
    transaction.open_table(DEAD)?;
    if events.is_empty()? != runs.is_empty()? {
        return Err(Damage::File { problem: "either the records or the index of their ids is gone".to_owned() }.into());
    }
    block::tail(&events, Trimmed::from_meta(&transaction.open_table(META)?)?)
}

fn create_tables(transaction: &WriteTransaction) -> Result<(), StoreError> {
    transaction.open_table(RUNS)?;
    transaction.open_table(DEAD)?;
    transaction.open_table(EVENTS)?;
    transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    Ok(())
}

fn convert(database: &Database) -> Result<(), StoreError> {
    let transaction = database.begin_write()?;
    create_tables(&transaction)?;
    convert_records(&transaction)?;
    {
        let mut letters = transaction.open_table(DEAD)?;
        for entry in transaction.open_table(DEAD_BEFORE_3)?.iter()? {
            let (number, bytes) = entry?;
            letters.insert(number.value(), SealedTable::Letter.seal(number.value(), bytes.value()).as_slice())?;
        }
    }
    letters::store_count(&transaction)?;
    transaction.delete_table(EVENTS_BEFORE_3)?;
    transaction.delete_table(DEAD_BEFORE_3)?;
    transaction.delete_table(IDS_OF_2)?;
    transaction.delete_table(IDS_OF_1)?;
    transaction.commit()?;
    Ok(())
}

/// Writes the blocks and, from the records themselves, the index of ids.
fn convert_records(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let old = transaction.open_table(EVENTS_BEFORE_3)?;
    let mut pending = PendingRecords::default();
    let mut before = Seq::ZERO;
    for entry in old.iter()? {
        let (last, block) = entry?;
        let last = Seq(last.value());
        for (seq, bytes) in BlockRecords::new(last, block.value()).ok_or(Damage::Block { last })? {
            // A record that cannot be decoded must not get a valid checksum.
            let decoded = stored::decode(seq, bytes);
            let problem = |corrupt| Damage::File { problem: format!("record {seq}: {corrupt}") };
            pending.push(decoded.map_err(problem)?, bytes);
            if pending.records.len() == CONVERT_RECORDS {
                before = flush(transaction, &mut pending, before)?;
            }
        }
    }
    flush(transaction, &mut pending, before)?;
    Ok(())
}

/// Writes the pending records and their ids. Returns the last position.
fn flush(transaction: &WriteTransaction, pending: &mut PendingRecords, before: Seq) -> Result<Seq, StoreError> {
    pending.write(transaction, before)?;
    let mut entries: Vec<(u128, Seq)> =
        pending.records.iter().map(|(record, _)| (record.fact.id.to_bits(), record.seq)).collect();
    entries.sort_unstable();
    ids::add(&mut transaction.open_table(RUNS)?, entries.into_iter())?;
    let last = pending.records.last().map_or(before, |(record, _)| record.seq);
    pending.clear();
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{RedbLog, RedbOptions};
    use super::*;
    use crate::clock::Clock;
    use crate::core::event::{Event, NewRecord, Record, ToolRemoved};
    use crate::core::id::RecordId;
    use crate::core::redact::Redactor;
    use crate::core::refusal::Refusal;
    use crate::core::time::Timestamp;
    use crate::log::EventLog;
    use crate::log::{DeadLetters, NewDeadLetter};

    fn record(seq: u64) -> Record {
        let time = Timestamp::from_micros(seq.cast_signed());
        let event = Event::ToolRemoved(ToolRemoved { tool: format!("fs:t{seq}").parse().unwrap() });
        // Ids in an order that is neither that of the positions nor its reverse.
        let id = RecordId::from_parts(time, u128::from(seq * 7_919 % 1_009));
        let fact = NewRecord { id, time, source: "s".into(), causation: None, envelope: None, event };
        Record { seq: Seq(seq), recorded_at: time, fact: Arc::new(fact) }
    }

    fn records() -> Vec<Record> {
        // With a hole, as in a restored log.
        (1..=300).chain(400..=700).map(record).collect()
    }

    fn letter() -> NewDeadLetter {
        NewDeadLetter::new(&Refusal::Missing { field: "data".to_owned() }, "http", b"{}", &Redactor::builtin(), 100)
    }

    /// A file of an older format, with blocks of at most 7 records.
    fn write_old(path: &Path, format: u64, spoil: impl Fn(&mut Vec<u8>)) {
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert(FORMAT_KEY, format).unwrap();
        let records = records();
        let mut events = transaction.open_table(EVENTS_BEFORE_3).unwrap();
        let together = |one: &Record, next: &Record| one.seq.next() == next.seq;
        for block in records.chunk_by(together).flat_map(|contiguous| contiguous.chunks(7)) {
            let mut value = u16::try_from(block.len()).unwrap().to_le_bytes().to_vec();
            for record in block {
                let mut stored = stored::encode_after(&record.fact, record.recorded_at, Vec::new());
                spoil(&mut stored);
                value.extend(u32::try_from(stored.len()).unwrap().to_le_bytes());
                value.extend(stored);
            }
            events.insert(block.last().unwrap().seq.0, value.as_slice()).unwrap();
        }
        drop(events);
        let letter = letter().encode(Timestamp::from_micros(5));
        transaction.open_table(DEAD_BEFORE_3).unwrap().insert(3, letter.as_slice()).unwrap();
        if format == 1 {
            let mut ids = transaction.open_table(IDS_OF_1).unwrap();
            for record in &records {
                ids.insert(record.fact.id.to_bits(), record.seq.0).unwrap();
            }
        } else {
            transaction.open_table(IDS_OF_2).unwrap().insert(0, &[][..]).unwrap();
        }
        transaction.commit().unwrap();
    }

    fn open(directory: &Path) -> Result<RedbLog, OpenError> {
        let options = RedbOptions {
            group_records_max: 10,
            queue_appends_max: 10,
            dead_letters_max: 10,
            dead_bytes_max: 1_000,
            older: None,
            free_bytes_min: 0,
        };
        RedbLog::open(directory, options, Clock::system())
    }

    #[tokio::test]
    async fn files_of_older_formats_are_converted_once_and_hold_the_same() {
        for format in [1, 2] {
            let home = tempfile::TempDir::new().unwrap();
            let path = home.path().join(RedbLog::FILE_NAME);
            write_old(&path, format, |_| ());
            for _ in 0..2 {
                let log = open(home.path()).unwrap();
                assert_eq!(log.read(Seq::ZERO, usize::MAX).await.unwrap(), records());
                assert_eq!(log.verify().await.unwrap(), Vec::<String>::new());
                let letters = log.list(0, 10).await.unwrap().letters;
                assert_eq!((letters.len(), letters[0].number, &letters[0].letter), (1, 3, &letter()));
                assert_eq!(log.append(vec![record(17).fact]).await.unwrap()[0].seq, Seq(17), "ids are known");
            }
            let tables = Database::open(&path).unwrap().begin_read().unwrap().list_tables().unwrap().count();
            assert_eq!(tables, 4, "the old ones are gone");
        }
    }

    #[test]
    fn an_old_file_with_a_record_that_cannot_be_decoded_is_left_as_it_is() {
        let home = tempfile::TempDir::new().unwrap();
        let path = home.path().join(RedbLog::FILE_NAME);
        write_old(&path, 2, |stored| stored.truncate(3));
        for _ in 0..2 {
            let refused = open(home.path()).err();
            assert!(matches!(refused, Some(OpenError::Damaged { .. })), "{refused:?}");
        }
        assert_eq!(read_format(&Database::open(&path).unwrap()).unwrap(), 2);
    }

    #[test]
    fn a_file_that_lacks_a_table_is_damaged_not_new() {
        for table in [0, 1, 2, 3] {
            let home = tempfile::TempDir::new().unwrap();
            drop(open(home.path()).unwrap());
            let database = Database::open(home.path().join(RedbLog::FILE_NAME)).unwrap();
            let transaction = database.begin_write().unwrap();
            let deleted = match table {
                0 => transaction.delete_table(META),
                1 => transaction.delete_table(EVENTS),
                2 => transaction.delete_table(RUNS),
                _ => transaction.delete_table(DEAD),
            };
            assert!(deleted.unwrap());
            transaction.commit().unwrap();
            drop(database);
            assert!(matches!(open(home.path()).err(), Some(OpenError::Damaged { .. })), "table {table}");
        }
    }
}
