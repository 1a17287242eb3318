//! Blocks: the values of the events table. Neighbouring records share one, so that the tree has one entry where it would have dozens.
//!
//! ```text
//! key: seq of the last record      value: count (u16) | length (u32) record | length (u32) record | ...
//! ```
//!
//! Positions inside a block are contiguous, so the key and the count give all of them; integers are little-endian. Because the key
//! is the last position, the blocks that hold anything after a position are exactly the range after it.

use redb::{Database, ReadableDatabase, WriteTransaction};

use super::{EVENTS, storage};
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::log::ReadError;

/// Bytes of a block: enough to make the tree cheap, few enough that reading one record reads little else. A value of this size gets
/// pages of its own, a power of two of them, so a full block is just below one; `PAGE_HEAD_LEN` is what the tree adds to it.
const BYTES_MAX: usize = (16 << 10) - PAGE_HEAD_LEN;
const PAGE_HEAD_LEN: usize = 32;
/// Records in a block, as many as its head can count.
const RECORDS_MAX: usize = u16::MAX as usize;

/// Bytes before the first record.
const HEAD_LEN: usize = size_of::<u16>();
/// Bytes before each record.
const LENGTH_LEN: usize = size_of::<u32>();

/// Records in order on their way into the table, laid out as they will stand in their blocks.
#[derive(Default)]
pub(super) struct Outgoing {
    /// With the end of the stored form in `bytes`.
    pub(super) records: Vec<(Record, usize)>,
    bytes: Vec<u8>,
}

impl Outgoing {
    pub(super) fn push(&mut self, record: Record, stored: &[u8]) {
        let len = u32::try_from(stored.len()).expect("records are limited to far less than 4 GB");
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(stored);
        self.records.push((record, self.bytes.len()));
    }

    /// Forgets what it holds and keeps the memory for the next records.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
    }

    /// Takes the records out, each with the size of its stored form.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Record, usize)> {
        self.bytes.clear();
        let mut start = 0;
        self.records.drain(..).map(move |(record, end)| {
            let size = end - start - LENGTH_LEN;
            start = end;
            (record, size)
        })
    }

    pub(super) fn write(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let mut events = transaction.open_table(EVENTS)?;
        let (mut rest, mut start) = (self.records.as_slice(), 0);
        while !rest.is_empty() {
            let fits = |(_, end): &&(Record, usize)| HEAD_LEN + end - start <= BYTES_MAX;
            // A record larger than a block gets one of its own.
            let together = rest.iter().take(RECORDS_MAX).take_while(fits).count().max(1);
            let count = 1 + rest[..together].windows(2).take_while(|pair| pair[0].0.seq.next() == pair[1].0.seq).count();
            let (last, end) = &rest[count - 1];
            let mut block = events.insert_reserve(last.seq.0, HEAD_LEN + end - start)?;
            let (head, body) = block.as_mut().split_at_mut(HEAD_LEN);
            head.copy_from_slice(&u16::try_from(count).expect("at most RECORDS_MAX").to_le_bytes());
            body.copy_from_slice(&self.bytes[start..*end]);
            drop(block);
            start = *end;
            rest = &rest[count..];
        }
        Ok(())
    }
}

/// Calls `visit` with position and stored form of the records after `after`, in order, at most `limit` times. Also the floor that
/// `pml bench replay` compares with.
pub fn scan(
    database: &Database,
    after: Seq,
    limit: usize,
    mut visit: impl FnMut(Seq, &[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let events = database.begin_read().map_err(storage)?.open_table(EVENTS).map_err(storage)?;
    let mut left = limit;
    for entry in events.range(after.0.saturating_add(1)..).map_err(storage)? {
        let (last, block) = entry.map_err(storage)?;
        for (seq, bytes) in Records::new(Seq(last.value()), block.value())?.filter(|(seq, _)| *seq > after) {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            visit(seq, bytes)?;
        }
    }
    Ok(())
}

/// The records of one block.
struct Records<'a> {
    next: Seq,
    last: Seq,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    fn new(last: Seq, block: &'a [u8]) -> Result<Self, ReadError> {
        let damaged = || ReadError::Storage(format!("the block that ends at {last} is damaged").into());
        let (count, rest) = block.split_first_chunk::<2>().ok_or_else(damaged)?;
        let count = u64::from(u16::from_le_bytes(*count));
        if !Self::fits(count, rest) {
            return Err(damaged());
        }
        Ok(Self { next: Seq((last.0 + 1).checked_sub(count).ok_or_else(damaged)?), last, rest })
    }

    /// Whether `rest` is exactly `count` records, so that walking them cannot fail.
    fn fits(count: u64, mut rest: &[u8]) -> bool {
        for _ in 0..count {
            let Some((_, after)) = split_record(rest) else { return false };
            rest = after;
        }
        rest.is_empty()
    }
}

fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

impl<'a> Iterator for Records<'a> {
    type Item = (Seq, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next > self.last {
            return None;
        }
        let (record, rest) = split_record(self.rest)?;
        self.rest = rest;
        let seq = self.next;
        self.next = seq.next();
        Some((seq, record))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::core::event::{Event, NewRecord, ToolRemoved};
    use crate::core::id::RecordId;
    use crate::core::time::Timestamp;

    #[test]
    fn records_of_any_size_come_back_in_order() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let time = Timestamp::from_micros(0);
        let mut outgoing = Outgoing::default();
        let sizes = std::iter::repeat_n(10, 2 * RECORDS_MAX + 1).chain([BYTES_MAX + 1, 0, BYTES_MAX - 100, 200, 7]);
        let stored: Vec<(Seq, Vec<u8>)> = (1..).zip(sizes).map(|(seq, size)| (Seq(seq), vec![b'x'; size])).collect();
        for (seq, bytes) in &stored {
            let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
            let id = RecordId::from_parts(time, seq.0.into());
            let fact = Arc::new(NewRecord { id, time, source: "".into(), causation: None, event });
            outgoing.push(Record { seq: *seq, recorded_at: time, fact }, bytes);
        }
        let transaction = database.begin_write().unwrap();
        outgoing.write(&transaction).unwrap();
        transaction.commit().unwrap();
        let mut found = Vec::new();
        scan(&database, Seq::ZERO, usize::MAX, |seq, bytes| {
            found.push((seq, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        assert!(found == stored, "{} of {} records", found.len(), stored.len());
        let sizes: Vec<usize> = outgoing.drain().map(|(_, size)| size).collect();
        assert!(sizes.iter().eq(stored.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>().iter()));
    }

    fn check(block: &[u8], expected: Option<&[(u64, &[u8])]>) {
        let records = Records::new(Seq(7), block).ok().map(Iterator::collect::<Vec<_>>);
        let expected = expected.map(|records| records.iter().map(|(seq, bytes)| (Seq(*seq), *bytes)).collect::<Vec<_>>());
        assert_eq!(records, expected, "{block:?}");
    }

    #[test]
    fn positions_follow_from_the_key_and_damage_is_seen_before_the_first_record() {
        check(b"\x02\0\x01\0\0\0a\x02\0\0\0bc", Some(&[(6, b"a"), (7, b"bc")]));
        check(b"\0\0", Some(&[]));
        check(b"\x02\0\x01\0\0\0a", None);
        check(b"\x01\0\x02\0\0\0a", None);
        check(b"\x01\0\x01\0\0\0ab", None);
        check(b"\x09\0", None);
        check(b"\x01", None);
    }
}
