//! Verification of a whole file, for `pml log verify`.

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable};

use super::block::Block;
use super::format::{META, Trimmed};
use super::ids::{self, RUNS};
use super::{EVENTS, StoreError, block, letters};
use crate::core::event::stored;
use crate::core::id::Seq;
use crate::log::Damage;

/// Most problems listed; more would not tell an operator more.
const PROBLEMS_MAX: usize = 1_000;

/// Reads the whole file and returns a description of each problem found, with positions.
pub(super) fn find_problems(database: &Database) -> Result<Vec<String>, StoreError> {
    let transaction = database.begin_read()?;
    let (events, runs) = (transaction.open_table(EVENTS)?, transaction.open_table(RUNS)?);
    let mut problems = Vec::new();
    let (known, id_problems) = ids::verify(&runs)?;
    problems.extend(id_problems.iter().map(Damage::to_string));
    let trimmed = Trimmed::from_meta(&transaction.open_table(META)?)?;
    let records = trimmed.records + check_records(&events, &runs, trimmed.to, &mut problems)?;
    if problems.is_empty() && known != records {
        problems.push(format!("the index holds {known} record ids, log and archive {records} records"));
    }
    if let Err(error) = block::tail(&events, trimmed) {
        problems.push(error.to_string());
    }
    problems.extend(letters::verify(&transaction)?);
    problems.truncate(PROBLEMS_MAX);
    Ok(problems)
}

/// Checks every record after `trimmed_to` and adds to `problems`. Returns the number of records.
fn check_records(
    events: &ReadOnlyTable<u64, &'static [u8]>,
    runs: &ReadOnlyTable<u128, &'static [u8]>,
    trimmed_to: Seq,
    problems: &mut Vec<String>,
) -> Result<u64, StoreError> {
    let (mut records, mut last_read) = (0, Some(trimmed_to));
    for entry in events.iter()? {
        let (last, value) = entry?;
        let last = Seq(last.value());
        let block = Block::open(last, value.value());
        match block.and_then(|block| block.check_follows(last_read, last).map(|()| block)) {
            Ok(block) => {
                for (seq, bytes) in block.records {
                    records += 1;
                    problems.extend(check_record(runs, seq, bytes));
                }
            }
            Err(damage) => problems.push(damage.to_string()),
        }
        last_read = Some(last);
    }
    Ok(records)
}

/// Returns the problem of one record, if it has one.
fn check_record(runs: &ReadOnlyTable<u128, &'static [u8]>, seq: Seq, bytes: &[u8]) -> Option<String> {
    let record = match stored::decode(seq, bytes) {
        Ok(record) => record,
        Err(corrupt) => return Some(format!("record {seq}: {corrupt}")),
    };
    match ids::find(runs, record.fact.id) {
        Ok(Some(found)) if found == seq => None,
        Ok(Some(found)) => Some(format!("record {seq}: the index says that its id is at {found}")),
        Ok(None) => Some(format!("record {seq}: the index does not know its id")),
        Err(error) => Some(format!("record {seq}: {error}")),
    }
}
