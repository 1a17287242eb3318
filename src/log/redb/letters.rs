//! Dead letters in the file: each behind its checksum, and how many there are beside them, so that none gets lost unnoticed.

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::checksum::Of;
use super::format::META;
use super::{DEAD, StoreError};
use crate::dead::DeadLetter;
use crate::log::Damage;

const COUNT_KEY: &str = "dead_count";

/// In order of arrival, after `after`.
pub(super) fn list(database: &Database, after: u64, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
    let transaction = database.begin_read()?;
    let mut letters = Vec::new();
    for entry in transaction.open_table(DEAD)?.range(after.saturating_add(1)..)?.take(limit) {
        let (number, bytes) = entry?;
        letters.push(decode(number.value(), bytes.value())?);
    }
    if after == 0 && letters.len() < limit {
        check_count(&transaction, letters.len() as u64)?;
    }
    Ok(letters)
}

fn decode(number: u64, bytes: &[u8]) -> Result<DeadLetter, Damage> {
    let stored = Of::Letter.open(number, bytes);
    stored.and_then(|stored| DeadLetter::decode(number, stored).ok()).ok_or(Damage::Letter { number })
}

/// After letters came or went: notes how many there are.
pub(super) fn count(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let letters = transaction.open_table(DEAD)?.len()?;
    transaction.open_table(META)?.insert(COUNT_KEY, letters)?;
    Ok(())
}

/// Whether `found` letters are all that there are.
fn check_count(transaction: &ReadTransaction, found: u64) -> Result<(), StoreError> {
    let stored = transaction.open_table(META)?.get(COUNT_KEY)?.map_or(0, |count| count.value());
    if found == stored { Ok(()) } else { Err(Damage::Letters { stored, found }.into()) }
}

/// Reads all of them; answers what is damaged.
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
