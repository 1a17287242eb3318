//! A record as a message of the stream.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream;
use bytes::Bytes;

use crate::core::event::codec::Corrupt;
use crate::core::event::{NewRecord, Record, cloud};
use crate::core::id::{RecordId, Seq};
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::log::ReadError;

/// A fact with its form on the wire. Made by the caller's thread: the writer's time is everybody's.
#[derive(Clone)]
pub(super) struct Encoded {
    pub(super) fact: Arc<NewRecord>,
    pub(super) recorded_at: Timestamp,
    pub(super) payload: Bytes,
}

impl Encoded {
    pub(super) fn new(fact: Arc<NewRecord>, recorded_at: Timestamp) -> Self {
        let payload = cloud::recorded_to_structured(&fact, recorded_at).into();
        Self { fact, recorded_at, payload }
    }

    pub(super) fn id(&self) -> RecordId {
        self.fact.id
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, self.fact.id.to_string().as_str());
        headers.insert("content-type", cloud::STRUCTURED);
        headers
    }
}

/// A message that came: its place and its record's id.
pub(super) fn place(message: &jetstream::Message) -> Result<(Seq, RecordId), ReadError> {
    let info = message.info().map_err(ReadError::Storage)?;
    let seq = Seq(info.stream_sequence);
    let id = message.headers.as_ref().and_then(|headers| headers.get(NATS_MESSAGE_ID)).map(|id| id.as_str().parse());
    match id {
        Some(Ok(id)) => Ok((seq, id)),
        Some(Err(error)) => Err(corrupt(seq, format!("the message's id: {error}"))),
        None => Err(corrupt(seq, "the message has no id".to_owned())),
    }
}

pub(super) fn decode(seq: Seq, id: RecordId, payload: &[u8]) -> Result<Record, ReadError> {
    let read = cloud::recorded_from_structured(payload);
    let (fact, recorded_at) = read.map_err(|refusal: Refusal| corrupt(seq, refusal.to_string()))?;
    if fact.id != id {
        return Err(corrupt(seq, format!("the message's id is {id}, the event's is {}", fact.id)));
    }
    Ok(Record { seq, recorded_at, fact: Arc::new(fact) })
}

fn corrupt(seq: Seq, problem: String) -> ReadError {
    ReadError::Corrupt { seq, source: Corrupt { kind: "unknown".to_owned(), version: 0, problem } }
}
