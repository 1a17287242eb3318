//! Blocks: the values of the events table. A block holds neighbouring records, so that the tree has one entry instead of dozens.
//!
//! ```text
//! key: seq of the last record
//! value: checksum (u64) | position before (u64) | number of the block (u64) | count (u16) | length (u32) record | length (u32) record | ...
//! ```
//!
//! Positions inside a block are contiguous, so the key and the count determine all of them; integers are little-endian. Because the key
//! is the last position, the blocks with records after a position are exactly the key range after it.
//!
//! The checksum covers the key and the rest of the value. `position before` is the last position of the previous block, so that a reader
//! notices a block that the tree no longer reaches. The number, counted from one, does the same for the last block: it must equal the
//! table's length and the number of blocks that were removed from its beginning ([`trim`]).

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::checksum::{self, SealedTable};
use super::format::Trimmed;
use super::{EVENTS, StoreError};
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::log::{Damage, ReadError};

/// Most bytes of a block: enough to keep the tree small, few enough that reading one record reads little else. redb stores a value of
/// this size in its own pages, a power of two of them, so a full block is just below one; `PAGE_HEADER_LEN` is what the tree adds.
const BYTES_MAX: usize = (16 << 10) - PAGE_HEADER_LEN;
const PAGE_HEADER_LEN: usize = 32;
/// Most records in a block: the range of its count field.
const RECORDS_MAX: usize = u16::MAX as usize;

/// Most blocks removed in one transaction: appends wait for it.
const TRIMMED_BLOCKS_MAX: usize = 4_096;

/// Bytes before the first record: the checksum, the position before, the number, the count.
const HEADER_LEN: usize = checksum::LEN + 2 * size_of::<u64>() + size_of::<u16>();
/// Bytes before each record.
const LENGTH_LEN: usize = size_of::<u32>();

/// Records in order that are to be written, encoded as they will be in their blocks.
#[derive(Default)]
pub(super) struct PendingRecords {
    /// Each with the end of its stored form in `bytes`.
    pub(super) records: Vec<(Record, usize)>,
    bytes: Vec<u8>,
}

impl PendingRecords {
    pub(super) fn push(&mut self, record: Record, stored: &[u8]) {
        let len = u32::try_from(stored.len()).expect("records are limited to far less than 4 GB");
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(stored);
        self.records.push((record, self.bytes.len()));
    }

    /// Removes all records and keeps the memory for the next ones.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
    }

    /// Removes and returns the records, each with the size of its stored form.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Record, usize)> {
        self.bytes.clear();
        let mut start = 0;
        self.records.drain(..).map(move |(record, end)| {
            let size = end - start - LENGTH_LEN;
            start = end;
            (record, size)
        })
    }

    /// Writes the blocks; `before` is the last position of the table.
    pub(super) fn write(&self, transaction: &WriteTransaction, mut before: Seq) -> Result<(), StoreError> {
        let mut events = transaction.open_table(EVENTS)?;
        let mut number = events.len()? + Trimmed::read(transaction)?.blocks;
        let (mut rest, mut start) = (self.records.as_slice(), 0);
        while !rest.is_empty() {
            let fits = |(_, end): &&(Record, usize)| HEADER_LEN + end - start <= BYTES_MAX;
            // A record larger than a block gets one of its own.
            let together = rest.iter().take(RECORDS_MAX).take_while(fits).count().max(1);
            let count = 1 + rest[..together].windows(2).take_while(|pair| pair[0].0.seq.next() == pair[1].0.seq).count();
            let (last, end) = &rest[count - 1];
            number += 1;
            let mut block = events.insert_reserve(last.seq.0, HEADER_LEN + end - start)?;
            let records = &self.bytes[start..*end];
            write_block(
                block.as_mut(),
                last.seq,
                BlockHeader { before, number, count: u16::try_from(count).expect("at most RECORDS_MAX") },
                records,
            );
            drop(block);
            (before, start) = (last.seq, *end);
            rest = &rest[count..];
        }
        Ok(())
    }
}

/// The header fields of a block, except the checksum.
#[derive(Clone, Copy)]
struct BlockHeader {
    before: Seq,
    number: u64,
    count: u16,
}

/// Writes header, records and checksum into `block`.
fn write_block(block: &mut [u8], last: Seq, header: BlockHeader, records: &[u8]) {
    let (sum, body) = block.split_at_mut(checksum::LEN);
    let fields = [&header.before.0.to_le_bytes()[..], &header.number.to_le_bytes(), &header.count.to_le_bytes(), records];
    let mut rest = &mut *body;
    for field in fields {
        let (place, after) = rest.split_at_mut(field.len());
        place.copy_from_slice(field);
        rest = after;
    }
    sum.copy_from_slice(&SealedTable::Block.checksum(last.0, body));
}

/// Calls `visit` with the position and stored form of the records after `after`, in order, at most `limit` times. Public because
/// `pml bench replay` compares with it.
pub fn scan(
    database: &Database,
    after: Seq,
    limit: usize,
    visit: impl FnMut(Seq, &[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let events = (|| -> Result<_, StoreError> { Ok(database.begin_read()?.open_table(EVENTS)?) })()?;
    scan_table(&events, after, limit, visit)
}

fn scan_table(
    events: &impl ReadableTable<u64, &'static [u8]>,
    after: Seq,
    limit: usize,
    mut visit: impl FnMut(Seq, &[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut left = limit;
    let mut last_read: Option<Seq> = None;
    for entry in events.range(after.0.saturating_add(1)..).map_err(StoreError::from)? {
        let (last, value) = entry.map_err(StoreError::from)?;
        let last = Seq(last.value());
        let block = Block::open(last, value.value())?;
        block.check_follows(last_read, after)?;
        last_read = Some(last);
        for (seq, bytes) in block.records.filter(|(seq, _)| *seq > after) {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            visit(seq, bytes)?;
        }
    }
    Ok(())
}

/// Returns the last position of the table.
pub(super) fn tail(events: &impl ReadableTable<u64, &'static [u8]>, trimmed: Trimmed) -> Result<Seq, StoreError> {
    let blocks = events.len()? + trimmed.blocks;
    let (last, found) = match events.last()? {
        Some((last, value)) => (Seq(last.value()), Block::open(Seq(last.value()), value.value())?.number),
        None => (Seq::ZERO, 0),
    };
    if found == blocks { Ok(last) } else { Err(Damage::Tail { last, blocks, found }.into()) }
}

/// Removes the records up to `to`, at most [`TRIMMED_BLOCKS_MAX`] blocks; of the last one that is concerned the rest stays. Returns what is
/// removed in all.
pub(super) fn trim(transaction: &WriteTransaction, to: Seq) -> Result<Trimmed, StoreError> {
    let before = Trimmed::read(transaction)?;
    let mut trimmed = before;
    let mut events = transaction.open_table(EVENTS)?;
    for _ in 0..TRIMMED_BLOCKS_MAX {
        let Some(CutBlock { last, rest }) = first_without(&events, to, &mut trimmed)? else { break };
        match rest {
            None => drop(events.pop_first()?),
            Some(rest) => drop(events.insert(last.0, rest.as_slice())?),
        }
    }
    drop(events);
    if trimmed != before {
        trimmed.write(transaction)?;
    }
    Ok(trimmed)
}

/// The first block of the table without its first records.
struct CutBlock {
    last: Seq,
    /// Its value; `None` if nothing is left of it.
    rest: Option<Vec<u8>>,
}

/// Returns the first block without its records up to `to`; `None` if it has no such record. Counts in `trimmed` what is gone.
fn first_without(
    events: &impl ReadableTable<u64, &'static [u8]>,
    to: Seq,
    trimmed: &mut Trimmed,
) -> Result<Option<CutBlock>, StoreError> {
    let Some((last, value)) = events.first()? else { return Ok(None) };
    let last = Seq(last.value());
    let block = Block::open(last, value.value())?;
    if block.records.next > to {
        return Ok(None);
    }
    let (kept, bytes) = block.records_after(to);
    trimmed.records += u64::from(block.count - kept);
    trimmed.to = last.min(to);
    if kept == 0 {
        trimmed.blocks += 1;
        return Ok(Some(CutBlock { last, rest: None }));
    }
    let mut rest = vec![0; HEADER_LEN + bytes.len()];
    write_block(&mut rest, last, BlockHeader { before: to, number: block.number, count: kept }, bytes);
    Ok(Some(CutBlock { last, rest: Some(rest) }))
}

/// One block whose checksum was found right.
pub(super) struct Block<'a> {
    before: Seq,
    number: u64,
    count: u16,
    pub(super) records: BlockRecords<'a>,
}

impl<'a> Block<'a> {
    pub(super) fn open(last: Seq, value: &'a [u8]) -> Result<Self, Damage> {
        let body = SealedTable::Block.open(last.0, value);
        body.and_then(|body| Self::parse(last, body)).ok_or(Damage::Block { last })
    }

    fn parse(last: Seq, body: &'a [u8]) -> Option<Self> {
        let (before, rest) = body.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (before, number) = (Seq(u64::from_le_bytes(*before)), u64::from_le_bytes(*number));
        let records = BlockRecords::new(last, rest)?;
        let count = u16::try_from(records.last.0 + 1 - records.next.0).ok()?;
        Some(Self { before, number, count, records })
    }

    /// Returns the number of records after `to` and their bytes.
    fn records_after(&self, to: Seq) -> (u16, &'a [u8]) {
        let (mut seq, mut rest) = (self.records.next, self.records.rest);
        while seq <= to && seq <= self.records.last {
            rest = split_record(rest).map_or(&[][..], |(_, rest)| rest);
            seq = seq.next();
        }
        let kept = (self.records.last.0 + 1).saturating_sub(seq.0);
        (u16::try_from(kept).unwrap_or(u16::MAX), rest)
    }

    /// Checks that nothing is missing between this block and the one read before it or, if it is the first one read, the position
    /// after which reading began.
    pub(super) fn check_follows(&self, last_read: Option<Seq>, after: Seq) -> Result<(), Damage> {
        let follows = last_read.map_or(self.before <= after, |last_read| self.before == last_read);
        if follows { Ok(()) } else { Err(Damage::Gap { after: last_read.unwrap_or(after), before: self.records.next }) }
    }
}

/// The records of one block.
pub(super) struct BlockRecords<'a> {
    next: Seq,
    last: Seq,
    rest: &'a [u8],
}

impl<'a> BlockRecords<'a> {
    /// `counted` is a block from its count on, which is also the whole value of a block of the formats 1 and 2. Returns `None` if the
    /// records do not match the count and their lengths.
    pub(super) fn new(last: Seq, counted: &'a [u8]) -> Option<Self> {
        let (count, rest) = counted.split_first_chunk::<2>()?;
        let count = u64::from(u16::from_le_bytes(*count));
        if !Self::is_exactly(count, rest) {
            return None;
        }
        Some(Self { next: Seq((last.0.checked_add(1)?).checked_sub(count)?), last, rest })
    }

    /// Returns whether `rest` is exactly `count` records, so that iterating over them cannot fail.
    fn is_exactly(count: u64, mut rest: &[u8]) -> bool {
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

impl<'a> Iterator for BlockRecords<'a> {
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

    use super::super::format::META;
    use super::*;
    use crate::core::event::{Event, NewRecord, ToolRemoved};
    use crate::core::id::RecordId;
    use crate::core::time::Timestamp;

    #[test]
    fn records_of_any_size_come_back_in_order() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let time = Timestamp::from_micros(0);
        let mut pending = PendingRecords::default();
        let sizes = std::iter::repeat_n(10, 2 * RECORDS_MAX + 1).chain([BYTES_MAX + 1, 0, BYTES_MAX - 100, 200, 7]);
        let stored: Vec<(Seq, Vec<u8>)> = (1..).zip(sizes).map(|(seq, size)| (Seq(seq), vec![b'x'; size])).collect();
        for (seq, bytes) in &stored {
            let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
            let id = RecordId::from_parts(time, seq.0.into());
            let fact = Arc::new(NewRecord { id, time, source: "".into(), causation: None, envelope: None, event });
            pending.push(Record { seq: *seq, recorded_at: time, fact }, bytes);
        }
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap();
        pending.write(&transaction, Seq::ZERO).unwrap();
        transaction.commit().unwrap();
        let mut found = Vec::new();
        scan(&database, Seq::ZERO, usize::MAX, |seq, bytes| {
            found.push((seq, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        assert!(found == stored, "{} of {} records", found.len(), stored.len());
        let sizes: Vec<usize> = pending.drain().map(|(_, size)| size).collect();
        assert!(sizes.iter().eq(stored.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>().iter()));
    }

    fn check(block: &[u8], expected: Option<&[(u64, &[u8])]>) {
        let records = BlockRecords::new(Seq(7), block).map(Iterator::collect::<Vec<_>>);
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

    /// A table with three blocks of one record each, at the positions 3, 5 and 6.
    fn three_blocks() -> Database {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut events = transaction.open_table(EVENTS).unwrap();
        transaction.open_table(META).unwrap();
        for (number, (before, last)) in (1..).zip([(0, 3), (3, 5), (5, 6)]) {
            let mut value = vec![0; HEADER_LEN + 5];
            write_block(&mut value, Seq(last), BlockHeader { before: Seq(before), number, count: 1 }, b"\x01\0\0\0x");
            events.insert(last, value.as_slice()).unwrap();
        }
        drop(events);
        transaction.commit().unwrap();
        database
    }

    fn change(database: &Database, change: impl FnOnce(&mut redb::Table<'_, u64, &'static [u8]>)) {
        let transaction = database.begin_write().unwrap();
        change(&mut transaction.open_table(EVENTS).unwrap());
        transaction.commit().unwrap();
    }

    fn read(database: &Database, after: u64) -> Result<Vec<u64>, Damage> {
        let mut found = Vec::new();
        let scanned = scan(database, Seq(after), usize::MAX, |seq, _| {
            found.push(seq.0);
            Ok(())
        });
        match scanned {
            Ok(()) => Ok(found),
            Err(ReadError::Damaged(damage)) => Err(damage),
            Err(other) => panic!("{other}"),
        }
    }

    fn tail_of(database: &Database) -> Result<Seq, StoreError> {
        tail(&database.begin_read().unwrap().open_table(EVENTS).unwrap(), Trimmed::default())
    }

    #[test]
    fn a_block_that_the_tree_does_not_reach_is_noticed() {
        let database = three_blocks();
        assert_eq!(read(&database, 0), Ok(vec![3, 5, 6]));
        assert_eq!(read(&database, 4), Ok(vec![5, 6]), "a hole is no gap");
        assert_eq!(tail_of(&database).unwrap(), Seq(6));
        change(&database, |events| drop(events.remove(5).unwrap()));
        assert_eq!(read(&database, 0), Err(Damage::Gap { after: Seq(3), before: Seq(6) }));
        assert_eq!(read(&database, 4), Err(Damage::Gap { after: Seq(4), before: Seq(6) }));
        assert_eq!(read(&database, 5), Ok(vec![6]));
        assert!(matches!(tail_of(&database), Err(StoreError::Damaged(Damage::Tail { blocks: 2, found: 3, .. }))));
    }

    #[test]
    fn records_are_removed_from_the_beginning_and_the_rest_of_their_block_stays() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap();
        let mut pending = PendingRecords::default();
        let time = Timestamp::from_micros(0);
        for seq in 1..=2_000 {
            let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
            let id = RecordId::from_parts(time, seq.into());
            let fact = Arc::new(NewRecord { id, time, source: "".into(), causation: None, envelope: None, event });
            pending.push(Record { seq: Seq(seq), recorded_at: time, fact }, &[b'x'; 100]);
        }
        pending.write(&transaction, Seq::ZERO).unwrap();
        transaction.commit().unwrap();
        for to in [0, 1, 70, 71, 500, 1_203, 1_999] {
            let transaction = database.begin_write().unwrap();
            let trimmed = trim(&transaction, Seq(to)).unwrap();
            transaction.commit().unwrap();
            assert_eq!((trimmed.to, trimmed.records), (Seq(to), to));
            assert_eq!(read(&database, to).unwrap(), (to + 1..=2_000).collect::<Vec<_>>());
            if to > 0 {
                assert!(matches!(read(&database, to - 1), Err(Damage::Gap { .. })), "what is gone is missed");
            }
            let events = database.begin_read().unwrap().open_table(EVENTS).unwrap();
            assert_eq!(tail(&events, trimmed).unwrap(), Seq(2_000));
            assert!(to < 500 || tail(&events, Trimmed::default()).is_err(), "a beginning that nobody removed is missed");
        }
    }

    #[test]
    fn a_bit_turned_in_a_block_is_noticed_wherever_it_is() {
        let database = three_blocks();
        let value = database.begin_read().unwrap().open_table(EVENTS).unwrap().get(5).unwrap().unwrap().value().to_vec();
        for place in 0..value.len() * 8 {
            let mut damaged = value.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            change(&database, |events| drop(events.insert(5, damaged.as_slice()).unwrap()));
            assert_eq!(read(&database, 0), Err(Damage::Block { last: Seq(5) }), "bit {place}");
        }
        change(&database, |events| drop(events.insert(4, value.as_slice()).unwrap()));
        assert_eq!(read(&database, 3), Err(Damage::Block { last: Seq(4) }), "under another key");
    }
}
