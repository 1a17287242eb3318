//! The stored form of a record. The key (seq) belongs to the log; the value is:
//!
//! ```text
//! format (1 byte) | postcard(kind, version, id, time, recorded_at, source, causation) | postcard(data of that kind and version)
//! ```
//!
//! About half the size of the JSON and three times as fast to read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::codec::{self, Corrupt};
use super::{Kind, NewRecord, Record};
use crate::id::{RecordId, Seq};
use crate::time::Timestamp;

/// The first byte of every value. Another layout gets the next number.
const FORMAT: u8 = 1;

#[derive(Serialize, Deserialize)]
struct RecordHeader<'a> {
    kind: u8,
    version: u8,
    id: [u8; 16],
    time_us: i64,
    recorded_at_us: i64,
    #[serde(borrow)]
    source: &'a str,
    causation: Option<[u8; 16]>,
}

/// Encodes `fact`, recorded at `recorded_at`.
pub fn encode(fact: &NewRecord, recorded_at: Timestamp) -> Vec<u8> {
    encode_after(fact, recorded_at, Vec::with_capacity(256))
}

/// Appends the encoded `fact` to `bytes`, so that many records can share one allocation.
pub fn encode_after(fact: &NewRecord, recorded_at: Timestamp, mut bytes: Vec<u8>) -> Vec<u8> {
    let kind = fact.event.kind();
    let header = RecordHeader {
        kind: kind.tag(),
        version: kind.version(),
        id: fact.id.to_bits().to_be_bytes(),
        time_us: fact.time.micros(),
        recorded_at_us: recorded_at.micros(),
        source: &fact.source,
        causation: fact.causation.map(|id| id.to_bits().to_be_bytes()),
    };
    bytes.push(FORMAT);
    let bytes = postcard::to_extend(&header, bytes).expect("writing to memory cannot fail");
    codec::to_postcard(&fact.event, bytes)
}

/// Decodes the record stored at `seq`.
pub fn decode(seq: Seq, bytes: &[u8]) -> Result<Record, Corrupt> {
    let corrupt = |problem: String| Corrupt { kind: "unknown".to_owned(), version: 0, problem };
    let Some((&FORMAT, rest)) = bytes.split_first() else {
        return Err(corrupt(format!("unknown storage format {:?}", bytes.first())));
    };
    let (header, data): (RecordHeader<'_>, _) = postcard::take_from_bytes(rest).map_err(|error| corrupt(error.to_string()))?;
    let kind = Kind::from_tag(header.kind).ok_or_else(|| corrupt(format!("unknown kind tag {}", header.kind)))?;
    let id = |bytes: [u8; 16]| RecordId::from_bits(u128::from_be_bytes(bytes));
    Ok(Record {
        seq,
        recorded_at: Timestamp::from_micros(header.recorded_at_us),
        fact: Arc::new(NewRecord {
            id: id(header.id),
            time: Timestamp::from_micros(header.time_us),
            source: header.source.into(),
            causation: header.causation.map(id),
            event: codec::from_postcard(kind, header.version, data)?,
        }),
    })
}
