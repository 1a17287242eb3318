//! The backup format: a log as one stream of bytes, which `pml backup` writes and `pml restore` reads.
//!
//! ```text
//! "pml-log1" | frame | frame | ... | 0 (u32) | records (u64) | last position (u64) | BLAKE3 of everything before (32 bytes)
//! frame: length (u32, above 0) | position (u64) length (u32) record | position (u64) length (u32) record | ...
//! ```
//!
//! Integers are little-endian; a record has its stored form (`core::event::stored`). A log is append-only, so the records up to the
//! tail at the beginning of the backup are a consistent copy, whatever is appended meanwhile. The end tells a complete stream from
//! one that was cut short.

use std::io::Read;
use std::sync::Arc;

use futures_util::stream::{self, Stream};

use crate::core::event::codec::Corrupt;
use crate::core::event::{Record, stored};
use crate::core::id::Seq;
use crate::log::{ReadError, SharedLog};

const MAGIC: &[u8; 8] = b"pml-log1";
/// A frame ends once it has this many bytes, so that a slow reader of a backup holds no more than that and one record.
const FRAME_BYTES: usize = 256 << 10;
/// Records read from the log at once; those that did not fit into a frame are read again.
const PAGE_RECORDS_FIRST: usize = 8;
const PAGE_RECORDS_MAX: usize = 512;
/// A longer frame is damage: pml writes none.
const FRAME_BYTES_MAX: u32 = 1 << 30;

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("cannot read the backup")]
    Io(#[source] std::io::Error),
    #[error("this is no backup of pml, or one of a newer format")]
    Foreign,
    #[error("the backup ends in the middle; it was cut short")]
    Cut,
    #[error("the backup is damaged: {0}")]
    Damaged(&'static str),
    #[error("record {seq} of the backup is damaged")]
    Record {
        seq: Seq,
        #[source]
        source: Corrupt,
    },
}

/// `Encoder` writes a backup, one frame of records at a time.
struct Encoder {
    hasher: blake3::Hasher,
    records: u64,
    last: Seq,
}

impl Encoder {
    /// A new encoder and the first bytes of the stream.
    fn begin() -> (Self, Vec<u8>) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(MAGIC);
        (Self { hasher, records: 0, last: Seq::ZERO }, MAGIC.to_vec())
    }

    /// The bytes of the next frame: as many of `records` as fit, up to `last`. There is at least one record.
    fn encode_frame(&mut self, records: &[Record]) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<u32>()];
        for record in records {
            bytes.extend_from_slice(&record.seq.0.to_le_bytes());
            let start = bytes.len() + size_of::<u32>();
            bytes.extend_from_slice(&[0; size_of::<u32>()]);
            bytes = stored::encode_after(&record.fact, record.recorded_at, bytes);
            let len = u32::try_from(bytes.len() - start).expect("records are limited to far less than 4 GB");
            bytes[start - size_of::<u32>()..start].copy_from_slice(&len.to_le_bytes());
            self.records += 1;
            self.last = record.seq;
            if bytes.len() >= FRAME_BYTES {
                break;
            }
        }
        let len = u32::try_from(bytes.len() - size_of::<u32>()).expect("frames are limited to far less than 4 GB");
        bytes[..size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
        self.hasher.update(&bytes);
        bytes
    }

    /// The last bytes of the stream.
    fn finish(mut self) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<u32>()];
        bytes.extend_from_slice(&self.records.to_le_bytes());
        bytes.extend_from_slice(&self.last.0.to_le_bytes());
        self.hasher.update(&bytes);
        bytes.extend_from_slice(self.hasher.finalize().as_bytes());
        bytes
    }
}

/// Encodes a log up to its present tail. It reads page by page and never blocks a writer.
pub fn encode_log(log: SharedLog) -> impl Stream<Item = Result<Vec<u8>, ReadError>> {
    let tail = *log.tail().borrow();
    let (encoder, head) = Encoder::begin();
    let start = (Some(encoder), PAGE_RECORDS_FIRST, Some(head));
    stream::try_unfold(start, move |(encoder, page_records, head)| {
        let log = Arc::clone(&log);
        async move {
            let Some(mut encoder) = encoder else { return Ok(None) };
            if let Some(head) = head {
                return Ok(Some((head, (Some(encoder), page_records, None))));
            }
            let mut records = log.read(encoder.last, page_records).await?;
            records.retain(|record| record.seq <= tail);
            if records.is_empty() {
                return Ok(Some((encoder.finish(), (None, page_records, None))));
            }
            let frame = encoder.encode_frame(&records);
            let taken = records.iter().filter(|record| record.seq <= encoder.last).count();
            Ok(Some((frame, (Some(encoder), (taken * 2).clamp(1, PAGE_RECORDS_MAX), None))))
        }
    })
}

/// `Decoder` reads a backup as an iterator over frames of records. Callers must not use the records before the iterator has ended
/// without an error: the checksum is at the end.
pub struct Decoder<R> {
    input: R,
    hasher: blake3::Hasher,
    records: u64,
    last: Seq,
    ended: bool,
}

impl<R: Read> Decoder<R> {
    /// Reads the first bytes and checks that `input` is a backup.
    pub fn begin(mut input: R) -> Result<Self, BackupError> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(|_| BackupError::Foreign)?;
        if magic != *MAGIC {
            return Err(BackupError::Foreign);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(MAGIC);
        Ok(Self { input, hasher, records: 0, last: Seq::ZERO, ended: false })
    }

    fn read_exact(&mut self, len: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(len as u64).read_to_end(&mut bytes).map_err(BackupError::Io)?;
        if read < len { Err(BackupError::Cut) } else { Ok(bytes) }
    }

    fn read_u64(&mut self) -> Result<u64, BackupError> {
        let bytes = self.read_exact(size_of::<u64>())?;
        self.hasher.update(&bytes);
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were read")))
    }

    /// The records of the next frame; `None` at the end, if the checksum is right.
    fn next_frame(&mut self) -> Result<Option<Vec<Record>>, BackupError> {
        let head = self.read_exact(size_of::<u32>())?;
        self.hasher.update(&head);
        let len = u32::from_le_bytes(head.try_into().expect("four bytes were read"));
        if len == 0 {
            return self.check_end().map(|()| None);
        }
        if len > FRAME_BYTES_MAX {
            return Err(BackupError::Damaged("a frame is longer than any that pml writes"));
        }
        let frame = self.read_exact(len as usize)?;
        self.hasher.update(&frame);
        let (mut records, mut rest) = (Vec::new(), frame.as_slice());
        while let Some((seq, after)) = rest.split_first_chunk() {
            let seq = Seq(u64::from_le_bytes(*seq));
            let stored =
                after.split_first_chunk().and_then(|(len, after)| after.split_at_checked(u32::from_le_bytes(*len) as usize));
            let (bytes, after) = stored.ok_or(BackupError::Damaged("a record goes beyond its frame"))?;
            if seq <= self.last {
                return Err(BackupError::Damaged("positions do not grow"));
            }
            records.push(stored::decode(seq, bytes).map_err(|source| BackupError::Record { seq, source })?);
            (self.last, self.records, rest) = (seq, self.records + 1, after);
        }
        if rest.is_empty() { Ok(Some(records)) } else { Err(BackupError::Damaged("a frame ends in the middle of a record")) }
    }

    fn check_end(&mut self) -> Result<(), BackupError> {
        let counts = (self.read_u64()?, Seq(self.read_u64()?));
        let expected = self.hasher.finalize();
        let found = self.read_exact(blake3::OUT_LEN)?;
        if found != expected.as_bytes() || counts != (self.records, self.last) {
            return Err(BackupError::Damaged("its checksum is wrong"));
        }
        if self.input.read(&mut [0]).map_err(BackupError::Io)? > 0 {
            return Err(BackupError::Damaged("something follows its end"));
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Decoder<R> {
    type Item = Result<Vec<Record>, BackupError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let frame = self.next_frame().transpose();
        self.ended = !matches!(frame, Some(Ok(_)));
        frame
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::clock::Clock;
    use crate::core::event::{Event, ExecutionStarted, NewRecord, ToolRemoved};
    use crate::core::id::RecordId;
    use crate::core::time::Timestamp;
    use crate::log::MemoryLog;

    fn records() -> Vec<Record> {
        let record = |seq: u64| {
            let time = Timestamp::from_micros(seq.cast_signed());
            let event = Event::ToolRemoved(ToolRemoved { tool: format!("fs:t{seq}").parse().unwrap() });
            let fact = NewRecord {
                id: RecordId::from_parts(time, seq.into()),
                time,
                source: "s".into(),
                causation: None,
                envelope: None,
                event,
            };
            Record { seq: Seq(seq), recorded_at: time, fact: Arc::new(fact) }
        };
        [1, 2, 3, 5, 8].map(record).to_vec()
    }

    fn encoded() -> Vec<u8> {
        let (mut encoder, mut bytes) = Encoder::begin();
        let records = records();
        bytes.extend(encoder.encode_frame(&records[..2]));
        bytes.extend(encoder.encode_frame(&records[2..]));
        bytes.extend(encoder.finish());
        bytes
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<Record>, BackupError> {
        Ok(Decoder::begin(bytes)?.collect::<Result<Vec<_>, _>>()?.concat())
    }

    #[test]
    fn records_come_back_as_they_were_holes_included() {
        assert_eq!(decoded(&encoded()).unwrap(), records());
        let (encoder, mut empty) = Encoder::begin();
        empty.extend(encoder.finish());
        assert_eq!(decoded(&empty).unwrap(), []);
    }

    #[tokio::test]
    async fn frames_of_large_records_are_small_and_hold_every_record() {
        let log: SharedLog = Arc::new(MemoryLog::new(Clock::system()));
        let fact = |number: u64| {
            let time = Timestamp::from_micros(number.cast_signed());
            let text = "x".repeat(if number.is_multiple_of(3) { 100_000 } else { 10 });
            let event = Event::ExecutionStarted(ExecutionStarted {
                execution: format!("e{number}").parse().unwrap(),
                intent: text,
                session: None,
                agent: None,
                parent: None,
            });
            Arc::new(NewRecord {
                id: RecordId::from_parts(time, number.into()),
                time,
                source: "s".into(),
                causation: None,
                envelope: None,
                event,
            })
        };
        log.append((1..=100).map(fact).collect()).await.unwrap();
        let pieces: Vec<Vec<u8>> = encode_log(Arc::clone(&log)).map(Result::unwrap).collect().await;
        assert!(pieces.iter().all(|piece| piece.len() < FRAME_BYTES + 101_000), "{:?}", pieces.iter().map(Vec::len).max());
        assert_eq!(decoded(&pieces.concat()).unwrap(), log.read(Seq::ZERO, usize::MAX).await.unwrap());
    }

    #[test]
    fn a_stream_cut_anywhere_or_with_any_bit_turned_is_refused() {
        let whole = encoded();
        for len in 0..whole.len() {
            assert!(decoded(&whole[..len]).is_err(), "cut to {len} of {}", whole.len());
        }
        for place in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[place / 8] ^= 1 << (place % 8);
            assert!(decoded(&damaged).is_err(), "bit {place}");
        }
        assert!(decoded(&[whole, vec![0]].concat()).is_err(), "something follows");
    }
}
