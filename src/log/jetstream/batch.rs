//! Sending of facts to the stream: several as one atomic batch (ADR-50 of NATS), or one as a single message.
//!
//! A batch is stored as a whole or not at all, in consecutive positions, and synced to disk before the server answers.

use std::time::Duration;

use async_nats::header::{NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, HeaderMap, Request, RequestErrorKind};

use super::message::EncodedMessage;
use crate::core::id::Seq;
use crate::log::error::Source;
use crate::nats::connection;
use crate::subject::Subjects;

/// Most messages in one batch; the server's limit.
pub(super) const MESSAGES_MAX: usize = 1_000;
/// How long the server may take to answer; it syncs a batch to disk before.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Why facts were not stored, or are not known to be.
#[derive(Debug)]
pub(super) enum SendError {
    /// Nothing was stored: some id is in the stream already.
    Duplicate,
    /// Nothing was stored: the stream, the account or the server has no room.
    Full(jetstream::Error),
    /// Nothing was stored.
    Refused(Source),
    /// It is unknown whether anything was stored.
    Unknown(Source),
}

/// The unique name of a batch.
pub(super) struct BatchId(String);

impl Default for BatchId {
    fn default() -> Self {
        Self(format!("{:032x}", crate::clock::entropy()))
    }
}

/// Stores the facts, at most [`MESSAGES_MAX`], as one batch. Returns the position of the first.
pub(super) async fn send_all(client: &Client, subjects: &Subjects, facts: &[EncodedMessage]) -> Result<Seq, SendError> {
    let batch = BatchId::default();
    for (number, fact) in (1..facts.len()).zip(facts) {
        stage(client, subjects, &batch, number, fact).await?;
    }
    commit(client, subjects, &batch, facts).await
}

/// Sends a message of the batch other than its last; the first has the number 1.
pub(super) async fn stage(
    client: &Client,
    subjects: &Subjects,
    batch: &BatchId,
    number: usize,
    fact: &EncodedMessage,
) -> Result<(), SendError> {
    let subject = subjects.log(fact.fact.event.kind());
    let sent = client.publish_with_headers(subject.as_str().to_owned(), headers(batch, number, fact), fact.payload.clone());
    // Without its last message a batch is never stored.
    sent.await.map_err(|error| SendError::Refused(error.into()))
}

/// Sends the last message of the batch `facts`, which makes the server store it. Returns the position of the first fact.
pub(super) async fn commit(
    client: &Client,
    subjects: &Subjects,
    batch: &BatchId,
    facts: &[EncodedMessage],
) -> Result<Seq, SendError> {
    let last = facts.last().expect("a batch holds something");
    let mut headers = headers(batch, facts.len(), last);
    headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
    let request = Request::new().headers(headers).payload(last.payload.clone()).timeout(Some(ANSWER_PATIENCE));
    let ack = request_ack(client, subjects, last, request).await?;
    match ack.batch_size {
        Some(size) if size == facts.len() as u64 => Ok(Seq(ack.sequence + 1 - size)),
        // An answer without the size is that of a plain message: the stream stored messages of the batch one by one.
        _ => Err(SendError::Unknown(format!("the server stored {:?} of {} messages", ack.batch_size, facts.len()).into())),
    }
}

fn headers(batch: &BatchId, number: usize, fact: &EncodedMessage) -> HeaderMap {
    let mut headers = fact.headers();
    headers.insert(NATS_BATCH_ID, batch.0.as_str());
    headers.insert(NATS_BATCH_SEQUENCE, number.to_string().as_str());
    headers
}

/// Stores one fact as a plain message. Returns its position and whether the server knew its id.
pub(super) async fn send_one(client: &Client, subjects: &Subjects, fact: &EncodedMessage) -> Result<(Seq, bool), SendError> {
    let request = Request::new().headers(fact.headers()).payload(fact.payload.clone()).timeout(Some(ANSWER_PATIENCE));
    let ack = request_ack(client, subjects, fact, request).await?;
    Ok((Seq(ack.sequence), ack.duplicate))
}

/// Sends a message and waits for its acknowledgement.
async fn request_ack(
    client: &Client,
    subjects: &Subjects,
    fact: &EncodedMessage,
    request: Request,
) -> Result<PublishAck, SendError> {
    let subject = subjects.log(fact.fact.event.kind());
    let sending = client.send_request(subject.as_str().to_owned(), request);
    let answer = connection::answer(client, connection::number(client), sending).await;
    let answer = answer.map_err(|lost| SendError::Unknown(lost.into()))?.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders | RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => {
            SendError::Refused(error.into())
        }
        RequestErrorKind::TimedOut | RequestErrorKind::Other => SendError::Unknown(error.into()),
    })?;
    match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
        Ok(Response::Ok(ack)) => Ok(ack),
        Ok(Response::Err { error }) => Err(send_error(error)),
        Err(error) => Err(SendError::Unknown(error.into())),
    }
}

/// Converts an error answer of the server.
fn send_error(error: jetstream::Error) -> SendError {
    match error.error_code() {
        ErrorCode::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE => SendError::Duplicate,
        // `STREAM_STORE_FAILED`: a limit of the stream, or a full disk. The others are limits of the account and the server.
        ErrorCode::STREAM_STORE_FAILED
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES => SendError::Full(error),
        _ => SendError::Refused(error.into()),
    }
}
