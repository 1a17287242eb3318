//! The task that reads the stream, in order and for ever.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, consumer};
use futures_util::StreamExt;

use super::known::{Arrival, Known};
use super::message;
use crate::core::id::Seq;
use crate::log::ReadError;

/// Messages taken at once when they are there.
const CHUNK_MESSAGES: usize = 1_024;
/// After this long without a message, although one is known to be stored, the consumer is made anew.
pub(super) const STALL_PATIENCE: Duration = Duration::from_secs(5);
/// Pause before a consumer that failed is made anew.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn run(jetstream: jetstream::Context, stream: String, known: Arc<Known>) {
    loop {
        match follow(&jetstream, &stream, &known).await {
            Err(ReadError::Corrupt { seq, source }) => {
                tracing::error!(%seq, error = &source as &dyn std::error::Error, "the log holds a message that is no record");
                return known.damaged(seq, source);
            }
            Err(ReadError::Storage(error)) => tracing::warn!(%error, "reading the log stream was interrupted"),
            Ok(()) => tracing::debug!("the consumer of the log stream ended"),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn follow(jetstream: &jetstream::Context, stream: &str, known: &Known) -> Result<(), ReadError> {
    known.is_wanted().await;
    let messages = consume(jetstream, stream, known.followed()).await?;
    let mut chunks = messages.ready_chunks(CHUNK_MESSAGES);
    loop {
        let chunk = match tokio::time::timeout(STALL_PATIENCE, chunks.next()).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(()),
            // Silence is normal at the end of the stream, and only there.
            Err(_) if known.followed() >= *known.tail().borrow() => continue,
            Err(_) => return Err(ReadError::Storage("the consumer delivers nothing although more is stored".into())),
        };
        let mut arrivals = Vec::with_capacity(chunk.len());
        let mut failure = None;
        let followed = known.followed();
        for message in chunk {
            let read = message.map_err(|error| ReadError::Storage(error.into())).and_then(|message| {
                let (seq, id) = message::place(&message)?;
                Ok(Arrival { seq, id, payload: message.message.payload })
            });
            match read {
                Ok(arrival) if arrival.seq > followed => arrivals.push(arrival),
                Ok(_) => {}
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        known.arrive(arrivals)?;
        if let Some(error) = failure {
            return Err(error);
        }
        known.is_wanted().await;
    }
}

/// The messages after `after`, in order. The client notices gaps and starts over by itself.
pub(super) async fn consume(
    jetstream: &jetstream::Context,
    stream: &str,
    after: Seq,
) -> Result<consumer::pull::Ordered, ReadError> {
    let storage = |error: Box<dyn std::error::Error + Send + Sync>| ReadError::Storage(error);
    let config = consumer::pull::OrderedConfig {
        deliver_policy: consumer::DeliverPolicy::ByStartSequence { start_sequence: after.next().0 },
        ..consumer::pull::OrderedConfig::default()
    };
    let consumer = jetstream.create_consumer_on_stream(config, stream).await.map_err(|error| storage(error.into()))?;
    consumer.messages().await.map_err(|error| storage(error.into()))
}
