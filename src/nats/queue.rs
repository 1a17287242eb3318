//! The outer side of the door: puts events on the work queue, as agents do. For commands that run beside the servers.
//!
//! The queue takes everything; what becomes of an event is decided by the process that takes it from there.

use async_nats::HeaderMap;
use async_nats::jetstream;

use super::{Nats, NatsError};
use crate::core::event::{NewRecord, cloud};

/// Events sent before the first of them must be acknowledged.
const UNDER_WAY: usize = 500;
/// The header by which the server recognises what it has taken already.
const ID: &str = "Nats-Msg-Id";

/// Whether the queue is to take an event again that it took a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Once is enough: the server compares ids for as long as it remembers them.
    Dropped,
    /// It was taken, refused, and is sent once more on purpose.
    Taken,
}

/// What the queue did with events.
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

struct Outgoing {
    subject: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Nats {
    /// Returns when the server holds all of `facts`, in this order.
    pub async fn enqueue(&self, facts: &[NewRecord], repeats: Repeats) -> Result<Queued, NatsError> {
        let mut total = Queued::default();
        for chunk in facts.chunks(UNDER_WAY) {
            let outgoing: Vec<Outgoing> = chunk.iter().map(|fact| self.outgoing(fact, repeats)).collect();
            let jetstream = self.jetstream().clone();
            total += self.run(async move { send(&jetstream, outgoing).await }).await.map_err(NatsError::Queue)?;
        }
        Ok(total)
    }

    fn outgoing(&self, fact: &NewRecord, repeats: Repeats) -> Outgoing {
        let mut headers = HeaderMap::new();
        if repeats == Repeats::Dropped {
            headers.insert(ID, fact.id.to_string().as_str());
        }
        let subject = self.subjects().input(fact.event.kind()).as_str().to_owned();
        Outgoing { subject, headers, body: cloud::to_structured(fact).to_string().into_bytes() }
    }
}

async fn send(
    jetstream: &jetstream::Context,
    outgoing: Vec<Outgoing>,
) -> Result<Queued, Box<dyn std::error::Error + Send + Sync>> {
    let mut acknowledgements = Vec::with_capacity(outgoing.len());
    for Outgoing { subject, headers, body } in outgoing {
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
