//! Sending facts to the stream: many as one atomic batch (ADR-50 of NATS), or one message.
//!
//! A batch is stored as a whole or not at all, in consecutive positions, and synced to disk before the server answers.

use std::time::Duration;

use async_nats::header::{NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, Request, RequestErrorKind};

use super::message::Encoded;
use crate::bus::Subjects;
use crate::core::id::Seq;
use crate::log::error::Source;

/// Messages in one batch; the server's limit.
pub(super) const MESSAGES_MAX: usize = 1_000;
/// A batch that is synced to a busy disk takes its time.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) enum SendError {
    /// Nothing was stored: some id is in the stream already.
    Duplicate,
    /// Nothing was stored.
    Refused(Source),
    /// Nobody knows.
    Unknown(Source),
}

/// Stores the facts, at most [`MESSAGES_MAX`], one after the other; answers the position of the first.
pub(super) async fn send_all(client: &Client, subjects: &Subjects, facts: &[&Encoded]) -> Result<Seq, SendError> {
    let batch = format!("{:032x}", crate::clock::entropy());
    let (last, others) = facts.split_last().expect("a batch holds something");
    for (at, fact) in others.iter().enumerate() {
        let mut headers = fact.headers();
        headers.insert(NATS_BATCH_ID, batch.as_str());
        headers.insert(NATS_BATCH_SEQUENCE, (at + 1).to_string().as_str());
        let subject = subjects.log(fact.fact.event.kind());
        client
            .publish_with_headers(subject.as_str().to_owned(), headers, fact.payload.clone())
            .await
            // Without its last message a batch is never stored.
            .map_err(|error| SendError::Refused(error.into()))?;
    }
    let mut headers = last.headers();
    headers.insert(NATS_BATCH_ID, batch.as_str());
    headers.insert(NATS_BATCH_SEQUENCE, facts.len().to_string().as_str());
    headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
    let request = Request::new().headers(headers).payload(last.payload.clone()).timeout(Some(ANSWER_PATIENCE));
    let ack = ask(client, subjects, last, request).await?;
    match ack.batch_size {
        Some(size) if size == facts.len() as u64 => Ok(Seq(ack.sequence + 1 - size)),
        // An answer without the size is that of a plain message: the stream took part of the batch, message by message.
        _ => Err(SendError::Unknown(format!("the server stored {:?} of {} messages", ack.batch_size, facts.len()).into())),
    }
}

/// Stores one fact as a plain message; answers its position and whether the server knew its id.
pub(super) async fn send_one(client: &Client, subjects: &Subjects, fact: &Encoded) -> Result<(Seq, bool), SendError> {
    let request = Request::new().headers(fact.headers()).payload(fact.payload.clone()).timeout(Some(ANSWER_PATIENCE));
    let ack = ask(client, subjects, fact, request).await?;
    Ok((Seq(ack.sequence), ack.duplicate))
}

async fn ask(client: &Client, subjects: &Subjects, fact: &Encoded, request: Request) -> Result<PublishAck, SendError> {
    let subject = subjects.log(fact.fact.event.kind());
    let answer = client.send_request(subject.as_str().to_owned(), request).await.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders | RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => {
            SendError::Refused(error.into())
        }
        RequestErrorKind::TimedOut | RequestErrorKind::Other => SendError::Unknown(error.into()),
    })?;
    match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
        Ok(Response::Ok(ack)) => Ok(ack),
        Ok(Response::Err { error }) => Err(refused(error)),
        Err(error) => Err(SendError::Unknown(error.into())),
    }
}

fn refused(error: jetstream::Error) -> SendError {
    match error.error_code() {
        ErrorCode::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE => SendError::Duplicate,
        _ => SendError::Refused(error.into()),
    }
}
