//! Refused events in the file, bounded by number and by bytes.

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::{DEAD, META, ReadError, RedbOptions, storage};
use crate::clock::Clock;
use crate::dead::{DeadLetter, DeadPage, NewDeadLetter};

const LAST_KEY: &str = "dead_last";
const BYTES_KEY: &str = "dead_bytes";

type Letters<'a> = Table<'a, u64, &'static [u8]>;

/// Takes letters in; the oldest go while there are too many, or too many bytes of them.
pub(super) fn bury(
    transaction: &WriteTransaction,
    letters: &[NewDeadLetter],
    options: &RedbOptions,
    clock: &Clock,
) -> Result<(), redb::Error> {
    let mut dead = transaction.open_table(DEAD)?;
    let mut meta = transaction.open_table(META)?;
    // Remembered apart from the letters: whoever still holds the number of a removed one must not hit another with it.
    let mut number = meta.get(LAST_KEY)?.map_or(0, |number| number.value());
    let mut bytes = bytes_of(&meta, &dead)?;
    for letter in letters {
        number += 1;
        let stored = letter.encode(clock.now());
        bytes += stored.len() as u64;
        dead.insert(number, stored.as_slice())?;
    }
    let mut dropped = 0_usize;
    while dead.len()? > options.dead_letters_max as u64 || bytes > options.dead_bytes_max {
        let Some((_, oldest)) = dead.pop_first()? else { break };
        bytes = bytes.saturating_sub(oldest.value().len() as u64);
        dropped += 1;
    }
    meta.insert(LAST_KEY, number)?;
    meta.insert(BYTES_KEY, bytes)?;
    if dropped > 0 {
        tracing::warn!(dropped, bytes, "dropped the oldest dead letters (dead.letters_max, dead.bytes_max)");
    }
    Ok(())
}

pub(super) fn remove(transaction: &WriteTransaction, numbers: &[u64]) -> Result<(), redb::Error> {
    let mut dead = transaction.open_table(DEAD)?;
    let mut meta = transaction.open_table(META)?;
    let mut bytes = bytes_of(&meta, &dead)?;
    for number in numbers {
        if let Some(letter) = dead.remove(number)? {
            bytes = bytes.saturating_sub(letter.value().len() as u64);
        }
    }
    meta.insert(BYTES_KEY, bytes)?;
    Ok(())
}

/// How many bytes the letters have; counted once in a file that was written when nobody counted them.
fn bytes_of(meta: &Table<'_, &'static str, u64>, dead: &Letters<'_>) -> Result<u64, redb::Error> {
    if let Some(bytes) = meta.get(BYTES_KEY)? {
        return Ok(bytes.value());
    }
    let mut bytes = 0;
    for letter in dead.iter()? {
        bytes += letter?.1.value().len() as u64;
    }
    Ok(bytes)
}

pub(super) fn list(database: &Database, after: u64, limit: usize) -> Result<DeadPage, ReadError> {
    let dead = database.begin_read().map_err(storage)?.open_table(DEAD).map_err(storage)?;
    let mut page = DeadPage::default();
    for entry in dead.range(after.saturating_add(1)..).map_err(storage)? {
        if !page.has_room(limit) {
            page.goes_on();
            break;
        }
        let (number, bytes) = entry.map_err(storage)?;
        page.push(DeadLetter::decode(number.value(), bytes.value()).map_err(|error| ReadError::Storage(error.into()))?);
    }
    Ok(page)
}
