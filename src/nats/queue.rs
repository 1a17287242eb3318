//! Sending of events to the work queue, as agents do, for commands that run beside the servers.
//!
//! The queue accepts every event; the process that consumes it decides whether it is accepted or refused.

use async_nats::HeaderMap;
use async_nats::jetstream;

use super::{Nats, NatsError};
use crate::core::event::{NewRecord, cloud};

/// Most events that wait for acknowledgements.
const PENDING_MAX: usize = 500;
/// The header by which the server recognises duplicates.
const ID: &str = "Nats-Msg-Id";

/// Whether the queue accepts an event again that it accepted a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// The server drops events whose id it has accepted within its duplicate window.
    Dropped,
    /// The server accepts the event again, because it was refused and is sent again on purpose.
    Accepted,
}

/// How many events the queue accepted, and how many it dropped as duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    pub queued: usize,
    pub duplicate: usize,
}

impl std::ops::AddAssign for Queued {
    fn add_assign(&mut self, more: Self) {
        self.queued += more.queued;
        self.duplicate += more.duplicate;
    }
}

/// An event as a message to the work queue.
struct QueueMessage {
    subject: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Nats {
    /// Sends `facts` to the work queue, in this order. Returns once the server has stored all of them.
    pub async fn enqueue(&self, facts: &[NewRecord], repeats: Repeats) -> Result<Queued, NatsError> {
        let mut total = Queued::default();
        for chunk in facts.chunks(PENDING_MAX) {
            let messages: Vec<QueueMessage> = chunk.iter().map(|fact| self.queue_message(fact, repeats)).collect();
            let jetstream = self.jetstream().clone();
            total += self.run(async move { send(&jetstream, messages).await }).await.map_err(NatsError::Queue)?;
        }
        Ok(total)
    }

    fn queue_message(&self, fact: &NewRecord, repeats: Repeats) -> QueueMessage {
        let mut headers = HeaderMap::new();
        if repeats == Repeats::Dropped {
            headers.insert(ID, fact.id.to_string().as_str());
        }
        let subject = self.subjects().input(fact.event.kind()).as_str().to_owned();
        QueueMessage { subject, headers, body: cloud::to_structured(fact).to_string().into_bytes() }
    }
}

async fn send(
    jetstream: &jetstream::Context,
    messages: Vec<QueueMessage>,
) -> Result<Queued, Box<dyn std::error::Error + Send + Sync>> {
    let mut acknowledgements = Vec::with_capacity(messages.len());
    for QueueMessage { subject, headers, body } in messages {
        acknowledgements.push(jetstream.publish_with_headers(subject, headers, body.into()).await?);
    }
    let mut queued = Queued::default();
    for acknowledgement in acknowledgements {
        let known = acknowledgement.await?.duplicate;
        queued.duplicate += usize::from(known);
        queued.queued += usize::from(!known);
    }
    Ok(queued)
}
