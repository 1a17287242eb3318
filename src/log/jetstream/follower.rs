//! The task that reads the stream, in order and for ever, except while this process is the only one that writes: then it knows what is
//! stored, and where, from the acknowledgements, and having it all sent back would cost the server as much as storing it did.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, consumer};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::known::Known;
use super::message::Arrival;
use crate::core::id::Seq;
use crate::log::ReadError;

/// Messages taken at once when they are there.
const CHUNK_MESSAGES: usize = 1_024;
/// How many of those may wait.
const CHUNKS_AHEAD: usize = 4;
/// After this long without a message, although one is known to be stored, the consumer is made anew.
pub(super) const STALL_PATIENCE: Duration = Duration::from_secs(5);
/// After this many messages in a row that this process wrote itself it takes itself for the only writer.
const ALONE_MESSAGES: usize = 4_096;
/// Pause before a consumer that failed is made anew.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn run(jetstream: jetstream::Context, stream: String, known: Arc<Known>) {
    loop {
        match follow(&jetstream, &stream, &known).await {
            Err(ReadError::Corrupt { seq, source }) => {
                tracing::error!(%seq, error = &source as &dyn std::error::Error, "the log holds a record that cannot be read");
                return known.damaged(seq, source);
            }
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "reading the log stream was interrupted"),
            Ok(Ended::ByTheServer) => tracing::debug!("the consumer of the log stream ended"),
            Ok(Ended::Alone) => {
                known.is_needed().await;
                continue;
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Why the stream is no longer read.
enum Ended {
    ByTheServer,
    Alone,
}

async fn follow(jetstream: &jetstream::Context, stream: &str, known: &Known) -> Result<Ended, ReadError> {
    known.is_wanted().await;
    let (name, messages) = consume(jetstream, stream, known.followed()).await?;
    let (fetched, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
    // Ends with this function.
    let mut fetching = JoinSet::new();
    fetching.spawn(fetch(messages, fetched));
    let mut alone = 0;
    loop {
        let chunk = match tokio::time::timeout(STALL_PATIENCE, chunks.recv()).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(Ended::ByTheServer),
            // Silence is normal at the end of the stream, and only there.
            Err(_) if known.followed() >= *known.tail().borrow() => continue,
            Err(_) => return Err(ReadError::Storage("the consumer delivers nothing although more is stored".into())),
        };
        alone += chunk.len();
        let mut arrivals = Vec::with_capacity(chunk.len());
        let mut failure = None;
        for message in chunk {
            match message.map_err(|error| ReadError::Storage(error.into())).and_then(Arrival::delivered) {
                Ok(arrival) => arrivals.push(arrival),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if known.arrive(arrivals)? {
            alone = 0;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if alone >= ALONE_MESSAGES {
            // Of one that stays there the server would think for half a minute more.
            if let Err(error) = jetstream.delete_consumer_from_stream(&name, stream).await {
                tracing::debug!(%error, "a consumer that is no longer read could not be removed");
            }
            return Ok(Ended::Alone);
        }
        known.is_wanted().await;
    }
}

type Fetched = Vec<Result<jetstream::Message, consumer::pull::OrderedError>>;

/// Asks the server for more while others read what came: it sends nothing it was not asked for.
async fn fetch(messages: consumer::pull::Ordered, fetched: mpsc::Sender<Fetched>) {
    let mut chunks = messages.ready_chunks(CHUNK_MESSAGES);
    while let Some(chunk) = chunks.next().await {
        if fetched.send(chunk).await.is_err() {
            return;
        }
    }
}

/// The name of a consumer, and the messages after `after`, in order. The client notices gaps and starts over by itself.
pub(super) async fn consume(
    jetstream: &jetstream::Context,
    stream: &str,
    after: Seq,
) -> Result<(String, consumer::pull::Ordered), ReadError> {
    let storage = |error: Box<dyn std::error::Error + Send + Sync>| ReadError::Storage(error);
    let config = consumer::pull::OrderedConfig {
        deliver_policy: consumer::DeliverPolicy::ByStartSequence { start_sequence: after.next().0 },
        ..consumer::pull::OrderedConfig::default()
    };
    let consumer = jetstream.create_consumer_on_stream(config, stream).await.map_err(|error| storage(error.into()))?;
    let name = consumer.cached_info().name.clone();
    Ok((name, consumer.messages().await.map_err(|error| storage(error.into()))?))
}
