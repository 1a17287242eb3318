//! The format of the file, and how older ones become the present one.
//!
//! | format | differs by |
//! |---|---|
//! | 1 | `ids`: an entry of the tree for every id; `events`, `dead`: values without checksums |
//! | 2 | `id_runs`: ids in runs; `events`, `dead` as before |
//! | 3 | `blocks`, `id_index`, `letters`: every value has a checksum |
//!
//! The tables of a format have names of their own, so that none is read as another. A file is converted in one transaction: after a
//! crash it is still what it was.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::block::{self, Outgoing, Records};
use super::checksum::Of;
use super::ids::{self, RUNS};
use super::{DEAD, EVENTS, StoreError};
use crate::core::event::stored;
use crate::core::id::Seq;
use crate::log::{Damage, OpenError};

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const FORMAT: u64 = 3;

const EVENTS_BEFORE_3: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
const DEAD_BEFORE_3: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("dead");
const IDS_OF_2: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("id_runs");
const IDS_OF_1: TableDefinition<'_, u128, u64> = TableDefinition::new("ids");
/// Records converted at once: bounds the memory.
const CONVERT_RECORDS: usize = 8_192;

/// Makes the tables of a new file, converts those of an older one, and answers the last position.
pub(super) fn prepare(database: &Database, path: &Path) -> Result<Seq, OpenError> {
    let failed = |error: StoreError| cannot_prepare(path, error);
    match found(database).map_err(failed)? {
        None => create(database).map_err(failed)?,
        Some(FORMAT) => {}
        Some(older @ (1 | 2)) => {
            tracing::info!(path = %path.display(), from = older, to = FORMAT, "converting the log to the present format");
            convert(database).map_err(failed)?;
        }
        Some(0) => return Err(failed(Damage::File { problem: "it says that it has the format 0".to_owned() }.into())),
        Some(newer) => return Err(OpenError::NewerFormat { path: path.to_owned(), found: newer, known: FORMAT }),
    }
    tail(database).map_err(failed)
}

pub(super) fn cannot_prepare(path: &Path, error: StoreError) -> OpenError {
    let path = path.to_owned();
    match error {
        StoreError::Damaged(source) => OpenError::Damaged { path, source },
        other => OpenError::Storage { path, source: other.to_string().into() },
    }
}

/// The format that the file says it has; `None` if nothing was ever written to it.
fn found(database: &Database) -> Result<Option<u64>, StoreError> {
    let transaction = database.begin_read()?;
    if transaction.list_tables()?.next().is_none() {
        return Ok(None);
    }
    let meta = transaction.open_table(META)?;
    let format = meta.get(FORMAT_KEY)?.map(|format| format.value());
    format.map(Some).ok_or_else(|| Damage::File { problem: "it does not say which format it has".to_owned() }.into())
}

/// The last position. All tables must be there.
pub(super) fn tail(database: &Database) -> Result<Seq, StoreError> {
    let transaction = database.begin_read()?;
    transaction.open_table(RUNS)?;
    transaction.open_table(DEAD)?;
    block::tail(&transaction.open_table(EVENTS)?)
}

fn create(database: &Database) -> Result<(), StoreError> {
    let transaction = database.begin_write()?;
    create_tables(&transaction)?;
    transaction.commit()?;
    Ok(())
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
            letters.insert(number.value(), Of::Letter.seal(number.value(), bytes.value()).as_slice())?;
        }
    }
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
    let mut outgoing = Outgoing::default();
    let mut before = Seq::ZERO;
    for entry in old.iter()? {
        let (last, block) = entry?;
        let last = Seq(last.value());
        for (seq, bytes) in Records::new(last, block.value()).ok_or(Damage::Block { last })? {
            // What cannot be decoded must not get a checksum that says it is whole.
            let decoded = stored::decode(seq, bytes);
            let problem = |corrupt| Damage::File { problem: format!("record {seq}: {corrupt}") };
            outgoing.push(decoded.map_err(problem)?, bytes);
            if outgoing.records.len() == CONVERT_RECORDS {
                before = flush(transaction, &mut outgoing, before)?;
            }
        }
    }
    flush(transaction, &mut outgoing, before)?;
    Ok(())
}

fn flush(transaction: &WriteTransaction, outgoing: &mut Outgoing, before: Seq) -> Result<Seq, StoreError> {
    outgoing.write(transaction, before)?;
    let mut entries: Vec<(u128, Seq)> =
        outgoing.records.iter().map(|(record, _)| (record.fact.id.to_bits(), record.seq)).collect();
    entries.sort_unstable();
    ids::add(&mut transaction.open_table(RUNS)?, entries.into_iter())?;
    let last = outgoing.records.last().map_or(before, |(record, _)| record.seq);
    outgoing.clear();
    Ok(last)
}
