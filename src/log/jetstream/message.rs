//! Records as messages of the stream, and the rule that distinguishes them from foreign messages.
//!
//! A foreign message is skipped: its position is a hole. Every process and every replay must skip the same ones, so the rule depends
//! on the message alone: a message is foreign if it has no record id, has no `recordedat`, or is on the subject of another kind. A
//! message that has the headers of a record and cannot be read is a damaged record, or one of a newer pml; reading stops there.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, NATS_EXPECTED_LAST_MESSAGE_ID, NATS_MESSAGE_ID};
use async_nats::jetstream;
use bytes::Bytes;

use crate::core::event::codec::Corrupt;
use crate::core::event::{NewRecord, Record, cloud};
use crate::core::id::{RecordId, Seq};
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::log::ReadError;
use crate::subject::kind_of_subject;

const CONTENT_TYPE: HeaderName = HeaderName::from_static("content-type");

/// A fact with its encoded message. Encoded on the caller's thread, because all appends share the writer.
#[derive(Clone)]
pub(super) struct EncodedMessage {
    pub(super) fact: Arc<NewRecord>,
    pub(super) recorded_at: Timestamp,
    pub(super) payload: Bytes,
}

impl EncodedMessage {
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
        headers.insert(CONTENT_TYPE, cloud::STRUCTURED);
        headers
    }

    /// The headers of a message that the server stores only right after the one with the id `before`, if there is one.
    pub(super) fn headers_after(&self, before: Option<RecordId>) -> HeaderMap {
        let mut headers = self.headers();
        if let Some(before) = before {
            headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, before.to_string().as_str());
        }
        headers
    }
}

/// A message read from the stream.
pub(super) struct StreamMessage {
    pub(super) seq: Seq,
    /// The record id in its headers.
    pub(super) id: Option<RecordId>,
    pub(super) subject: async_nats::Subject,
    pub(super) payload: Bytes,
    /// Whether its `content-type` is that of a structured event.
    structured: bool,
}

/// The content of a message.
pub(super) enum Content {
    Record(Record),
    /// A foreign message, with the reason why it is not a record.
    Foreign(&'static str),
}

impl StreamMessage {
    /// Creates it from a message that a consumer delivered.
    pub(super) fn from_delivery(message: jetstream::Message) -> Result<Self, ReadError> {
        let seq = Seq(message.info().map_err(ReadError::Storage)?.stream_sequence);
        let async_nats::Message { subject, headers, payload, .. } = message.message;
        Ok(Self::new(seq, subject, headers.as_ref(), payload))
    }

    pub(super) fn new(seq: Seq, subject: async_nats::Subject, headers: Option<&HeaderMap>, payload: Bytes) -> Self {
        let header = |name: HeaderName| headers.and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str);
        let id = header(NATS_MESSAGE_ID).and_then(|id| id.parse().ok());
        let structured = header(CONTENT_TYPE) == Some(cloud::STRUCTURED);
        Self { seq, id, subject, payload, structured }
    }

    /// Decodes the message. `sent` is the fact with this id that this process has just sent, if any: if its payload is the same, it is
    /// used instead.
    pub(super) fn decode(&self, sent: Option<EncodedMessage>) -> Result<Content, ReadError> {
        let Some(id) = self.id else { return Ok(Content::Foreign("it has no record id")) };
        let (fact, recorded_at) = match sent {
            // Another process may have written the same id with other content, so the payloads are compared.
            Some(EncodedMessage { fact, recorded_at, payload }) if payload == self.payload => (fact, recorded_at),
            _ => match cloud::recorded_from_structured(&self.payload) {
                Ok((fact, recorded_at)) => (Arc::new(fact), recorded_at),
                Err(refusal) => return self.classify_unreadable(&refusal),
            },
        };
        if fact.event.kind().name() != kind_of_subject(&self.subject) {
            return Ok(Content::Foreign("it is on the subject of another kind"));
        }
        if fact.id != id {
            return Err(self.corrupt(format!("the message's id is {id}, the event's is {}", fact.id)));
        }
        Ok(Content::Record(Record { seq: self.seq, recorded_at, fact }))
    }

    /// Decides whether a message that cannot be decoded is foreign or damaged.
    fn classify_unreadable(&self, refusal: &Refusal) -> Result<Content, ReadError> {
        match refusal {
            Refusal::Missing { field } if field == "recordedat" => Ok(Content::Foreign("it has no recordedat")),
            _ if !self.structured => Ok(Content::Foreign("it is not a structured event")),
            _ => Err(self.corrupt(refusal.to_string())),
        }
    }

    fn corrupt(&self, problem: String) -> ReadError {
        ReadError::Corrupt { seq: self.seq, source: Corrupt { kind: "unknown".to_owned(), version: 0, problem } }
    }
}

/// Reads a message of the stream, for the fuzzer: a record, or why it is none.
#[cfg(feature = "testing")]
pub fn read_message(subject: &str, headers: &HeaderMap, payload: &[u8]) -> Result<Option<Record>, ReadError> {
    let message = StreamMessage::new(Seq(1), subject.into(), Some(headers), Bytes::copy_from_slice(payload));
    match message.decode(None)? {
        Content::Record(record) => Ok(Some(record)),
        Content::Foreign(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{Event, ToolRemoved};

    fn encoded() -> EncodedMessage {
        let at = Timestamp::from_micros(7);
        let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
        let id = RecordId::from_parts(at, 1);
        EncodedMessage::new(
            Arc::new(NewRecord { id, time: at, source: "test".into(), causation: None, envelope: None, event }),
            at,
        )
    }

    fn check(subject: &str, headers: &HeaderMap, payload: impl Into<Bytes>, expected: &str) {
        let message = StreamMessage::new(Seq(3), subject.into(), Some(headers), payload.into());
        let found = match message.decode(None) {
            Ok(Content::Record(record)) => format!("record {}", record.seq),
            Ok(Content::Foreign(why)) => format!("foreign: {why}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_message_alone_decides_whether_it_is_a_record() {
        const HERE: &str = "pml.a.log.tool.removed";
        let record = encoded();
        let (ours, payload, none) = (record.headers(), record.payload.clone(), HeaderMap::new());
        let mut only_id = ours.clone();
        only_id.insert(CONTENT_TYPE, "text/plain");
        let mut other_id = ours.clone();
        other_id.insert(NATS_MESSAGE_ID, RecordId::from_parts(record.recorded_at, 2).to_string().as_str());
        let event = cloud::to_structured(&record.fact).to_string();
        check(HERE, &ours, payload.clone(), "record 3");
        check(HERE, &none, payload.clone(), "foreign: it has no record id");
        check("pml.a.log.tool.registered", &ours, payload.clone(), "foreign: it is on the subject of another kind");
        check("pml.a.log.hello", &ours, payload.clone(), "foreign: it is on the subject of another kind");
        check(HERE, &ours, event, "foreign: it has no recordedat");
        check(HERE, &only_id, "hello", "foreign: it is not a structured event");
        check(HERE, &ours, payload.slice(..payload.len() - 9), "record 3 is damaged");
        check(HERE, &other_id, payload, "record 3 is damaged");
    }
}
