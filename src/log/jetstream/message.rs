//! A record as a message of the stream, and how to tell it from a message that somebody else put there.
//!
//! A foreign message is skipped: its position is a hole. Every process and every replay must skip the same ones, so this is decided by
//! looking at the message alone: one without the id of a record, without the time at which a log took it, or on the subject of
//! another kind is foreign. One that has the headers of a record and cannot be read is a damaged record, or one of a newer pml, and
//! nobody reads on behind it.

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
use crate::subject::kind_of_subject;

const CONTENT_TYPE: &str = "content-type";

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
        headers.insert(CONTENT_TYPE, cloud::STRUCTURED);
        headers
    }
}

/// A message that came.
pub(super) struct Arrival {
    pub(super) seq: Seq,
    /// As its headers have it.
    pub(super) id: Option<RecordId>,
    pub(super) subject: async_nats::Subject,
    pub(super) payload: Bytes,
    /// Whether its headers say that it is a structured event.
    structured: bool,
}

/// What a message is.
pub(super) enum Content {
    Record(Record),
    /// Somebody else's, and why it is none of ours.
    Foreign(&'static str),
}

impl Arrival {
    pub(super) fn delivered(message: jetstream::Message) -> Result<Self, ReadError> {
        let seq = Seq(message.info().map_err(ReadError::Storage)?.stream_sequence);
        let async_nats::Message { subject, headers, payload, .. } = message.message;
        Ok(Self::new(seq, subject, headers.as_ref(), payload))
    }

    pub(super) fn new(seq: Seq, subject: async_nats::Subject, headers: Option<&HeaderMap>, payload: Bytes) -> Self {
        let header = |name: &str| headers.and_then(|headers| headers.get(name)).map(async_nats::HeaderValue::as_str);
        let id = header(NATS_MESSAGE_ID.as_ref()).and_then(|id| id.parse().ok());
        let structured = header(CONTENT_TYPE) == Some(cloud::STRUCTURED);
        Self { seq, id, subject, payload, structured }
    }

    /// `sent` is the fact of this id that this process has just sent, if there is one: what it encoded it need not decode.
    pub(super) fn read(&self, sent: Option<Encoded>) -> Result<Content, ReadError> {
        let Some(id) = self.id else { return Ok(Content::Foreign("it has no id of a record")) };
        let (fact, recorded_at) = match sent {
            // Another process may have written the same id with other content: compare, do not assume.
            Some(Encoded { fact, recorded_at, payload }) if payload == self.payload => (fact, recorded_at),
            _ => match cloud::recorded_from_structured(&self.payload) {
                Ok((fact, recorded_at)) => (Arc::new(fact), recorded_at),
                Err(refusal) => return self.unreadable(&refusal),
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

    fn unreadable(&self, refusal: &Refusal) -> Result<Content, ReadError> {
        match refusal {
            Refusal::Missing { field } if field == "recordedat" => Ok(Content::Foreign("no log has taken it")),
            _ if !self.structured => Ok(Content::Foreign("it is no structured event")),
            _ => Err(self.corrupt(refusal.to_string())),
        }
    }

    fn corrupt(&self, problem: String) -> ReadError {
        ReadError::Corrupt { seq: self.seq, source: Corrupt { kind: "unknown".to_owned(), version: 0, problem } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{Event, ToolRemoved};

    fn encoded() -> Encoded {
        let at = Timestamp::from_micros(7);
        let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
        let id = RecordId::from_parts(at, 1);
        Encoded::new(Arc::new(NewRecord { id, time: at, source: "test".into(), causation: None, event }), at)
    }

    fn check(subject: &str, headers: &HeaderMap, payload: impl Into<Bytes>, expected: &str) {
        let arrival = Arrival::new(Seq(3), subject.into(), Some(headers), payload.into());
        let said = match arrival.read(None) {
            Ok(Content::Record(record)) => format!("record {}", record.seq),
            Ok(Content::Foreign(why)) => format!("foreign: {why}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn a_message_is_told_from_a_record_by_looking_at_it_alone() {
        const HERE: &str = "pml.a.log.tool.removed";
        let record = encoded();
        let (ours, payload, none) = (record.headers(), record.payload.clone(), HeaderMap::new());
        let mut only_id = ours.clone();
        only_id.insert(CONTENT_TYPE, "text/plain");
        let mut other_id = ours.clone();
        other_id.insert(NATS_MESSAGE_ID, RecordId::from_parts(record.recorded_at, 2).to_string().as_str());
        let event = cloud::to_structured(&record.fact).to_string();
        check(HERE, &ours, payload.clone(), "record 3");
        check(HERE, &none, payload.clone(), "foreign: it has no id of a record");
        check("pml.a.log.tool.registered", &ours, payload.clone(), "foreign: it is on the subject of another kind");
        check("pml.a.log.hello", &ours, payload.clone(), "foreign: it is on the subject of another kind");
        check(HERE, &ours, event, "foreign: no log has taken it");
        check(HERE, &only_id, "hello", "foreign: it is no structured event");
        check(HERE, &ours, payload.slice(..payload.len() - 9), "record 3 is damaged");
        check(HERE, &other_id, payload, "record 3 is damaged");
    }
}
