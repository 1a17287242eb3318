//! Dead letters in the file: bounded by number and by bytes, each with a checksum, and counted, so that a lost one is noticed.

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::checksum::SealedTable;
use super::format::META;
use super::{DEAD, RedbOptions, StoreError};
use crate::clock::Clock;
use crate::log::{Damage, DeadLetter, DeadPage, NewDeadLetter};

/// The last number given to a letter. Stored apart from the letters, so that the number of a removed one is never given again.
const LAST_KEY: &str = "dead_last";
const BYTES_KEY: &str = "dead_bytes";
const COUNT_KEY: &str = "dead_count";

type Letters<'a> = Table<'a, u64, &'static [u8]>;

/// Stores letters, and drops the oldest while there are too many letters or bytes.
pub(super) fn store(
    transaction: &WriteTransaction,
    letters: &[NewDeadLetter],
    options: &RedbOptions,
    clock: &Clock,
) -> Result<(), StoreError> {
    let mut dead = transaction.open_table(DEAD)?;
    let mut meta = transaction.open_table(META)?;
    let mut number = meta.get(LAST_KEY)?.map_or(0, |number| number.value());
    let mut bytes = total_bytes(&meta, &dead)?;
    for letter in letters {
        number += 1;
        let stored = SealedTable::Letter.seal(number, &letter.encode(clock.now()));
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

/// Removes the letters with these numbers, if they exist.
pub(super) fn remove(transaction: &WriteTransaction, numbers: &[u64]) -> Result<(), StoreError> {
    let mut dead = transaction.open_table(DEAD)?;
    let mut meta = transaction.open_table(META)?;
    let mut bytes = total_bytes(&meta, &dead)?;
    for number in numbers {
        if let Some(letter) = dead.remove(number)? {
            bytes = bytes.saturating_sub(letter.value().len() as u64);
        }
    }
    meta.insert(BYTES_KEY, bytes)?;
    Ok(())
}

/// Returns the bytes of all letters; computes them for a file written before they were counted.
fn total_bytes(meta: &Table<'_, &'static str, u64>, dead: &Letters<'_>) -> Result<u64, StoreError> {
    if let Some(bytes) = meta.get(BYTES_KEY)? {
        return Ok(bytes.value());
    }
    let mut bytes = 0;
    for letter in dead.iter()? {
        bytes += letter?.1.value().len() as u64;
    }
    Ok(bytes)
}

/// Returns a page of letters after number `after`, in order of arrival.
pub(super) fn list(database: &Database, after: u64, limit: usize) -> Result<DeadPage, StoreError> {
    let transaction = database.begin_read()?;
    let mut page = DeadPage::default();
    for entry in transaction.open_table(DEAD)?.range(after.saturating_add(1)..)? {
        if !page.has_room(limit) {
            page.set_next();
            break;
        }
        let (number, bytes) = entry?;
        page.push(decode(number.value(), bytes.value())?);
    }
    if after == 0 && page.next.is_none() {
        check_count(&transaction, page.letters.len() as u64)?;
    }
    Ok(page)
}

pub(super) fn decode(number: u64, bytes: &[u8]) -> Result<DeadLetter, Damage> {
    let stored = SealedTable::Letter.open(number, bytes);
    stored.and_then(|stored| DeadLetter::decode(number, stored).ok()).ok_or(Damage::Letter { number })
}

/// Stores the number of letters; called after letters were added or removed.
pub(super) fn store_count(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let letters = transaction.open_table(DEAD)?.len()?;
    transaction.open_table(META)?.insert(COUNT_KEY, letters)?;
    Ok(())
}

/// Checks that the number of letters `found` is the stored one.
fn check_count(transaction: &ReadTransaction, found: u64) -> Result<(), StoreError> {
    let stored = transaction.open_table(META)?.get(COUNT_KEY)?.map_or(0, |count| count.value());
    if found == stored { Ok(()) } else { Err(Damage::Letters { stored, found }.into()) }
}

/// Reads all letters and returns a description of each problem found.
pub(super) fn verify(transaction: &ReadTransaction) -> Result<Vec<String>, StoreError> {
    let (mut found, mut problems) = (0, Vec::new());
    for entry in transaction.open_table(DEAD)?.iter()? {
        let (number, bytes) = entry?;
        found += 1;
        problems.extend(decode(number.value(), bytes.value()).err().map(|damage| damage.to_string()));
    }
    problems.extend(check_count(transaction, found).err().map(|error| error.to_string()));
    Ok(problems)
}
