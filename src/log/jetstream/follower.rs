//! The follower: the task that reads the stream in order, for as long as the log is open. It pauses while this process is the only
//! writer: the acknowledgements then give all positions, and delivering every record would cost the server as much as storing it.
//!
//! A consumer does not survive its connection. To the server, records that were on their way are delivered; the client would notice the gap
//! when the next record comes, but a writer that reads back sends none before it has found the one that is missing.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, consumer};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::cache::StreamCache;
use super::message::StreamMessage;
use super::read_older;
use super::scan::trimmed_to;
use crate::core::id::Seq;
use crate::log::{OlderRecords, ReadError};
use crate::nats::connection;

/// Most messages handled at once.
const CHUNK_MESSAGES: usize = 1_024;
/// Records of the archive that are followed at once.
const OLDER_RECORDS_AT_ONCE: usize = 8_192;
/// Most chunks fetched ahead.
const CHUNKS_AHEAD: usize = 4;
/// After this long without a message, although one is known to be stored, a new consumer is created.
pub(super) const STALL_PATIENCE: Duration = Duration::from_secs(5);
/// After this many consecutive messages that this process wrote it considers itself the only writer.
const ONLY_WRITER_MESSAGES: usize = 4_096;
/// The pause before ids that could not be written to the index are written again.
const INDEX_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause before a failed consumer is replaced.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Follows the stream until a record cannot be read.
pub(super) async fn run(
    jetstream: jetstream::Context,
    stream: String,
    cache: Arc<StreamCache>,
    older: Option<Arc<dyn OlderRecords>>,
) {
    let client = jetstream.client();
    loop {
        let connection = connection::number(&client);
        // Following can be given up wherever it waits: what was delivered is in the cache by then, or was not taken.
        let ended = tokio::select! {
            ended = follow(&jetstream, &stream, &cache, older.as_ref()) => ended,
            () = connection::replaced(&client, connection) => {
                tracing::debug!("the connection was replaced; following the log stream with a new consumer");
                continue;
            }
        };
        match ended {
            Err(ReadError::Corrupt { seq, source }) => {
                tracing::error!(%seq, error = &source as &dyn std::error::Error, "the log holds a record that cannot be read");
                return cache.set_damage(seq, source);
            }
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "reading the log stream was interrupted"),
            Ok(FollowEnd::ConsumerEnded) => tracing::debug!("the consumer of the log stream ended"),
            Ok(FollowEnd::OnlyWriter) => {
                cache.wait_until_behind().await;
                continue;
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Why following ended.
enum FollowEnd {
    ConsumerEnded,
    OnlyWriter,
}

/// Follows the stream with one consumer.
async fn follow(
    jetstream: &jetstream::Context,
    stream: &str,
    cache: &StreamCache,
    older: Option<&Arc<dyn OlderRecords>>,
) -> Result<FollowEnd, ReadError> {
    cache.wait_for_follow_limit().await;
    let trimmed_to = trimmed_to(jetstream, stream).await?;
    // What was moved to the archive before this process had read it is followed there: its ids must be known.
    while cache.followed() < trimmed_to {
        let records = read_older(older.cloned(), cache.followed(), trimmed_to, OLDER_RECORDS_AT_ONCE).await?;
        cache.add_older(&records, trimmed_to);
        cache.wait_for_index().await?;
    }
    let (name, messages) = consume(jetstream, stream, cache.followed()).await?;
    let (fetched, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
    // Aborted when this function returns.
    let mut fetching = JoinSet::new();
    fetching.spawn(fetch(messages, fetched));
    let mut own_messages = 0;
    loop {
        let chunk = match tokio::time::timeout(STALL_PATIENCE, chunks.recv()).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(FollowEnd::ConsumerEnded),
            // Without a message for this long the follower must be at the end of the stream.
            Err(_) if cache.followed() >= cache.known_end() => continue,
            Err(_) => return Err(ReadError::Storage("the consumer delivers nothing although more is stored".into())),
        };
        own_messages += chunk.len();
        let mut messages = Vec::with_capacity(chunk.len());
        let mut failure = None;
        for message in chunk {
            match message.map_err(|error| ReadError::Storage(error.into())).and_then(StreamMessage::from_delivery) {
                Ok(message) => messages.push(message),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if cache.add_delivered(messages)? {
            own_messages = 0;
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if own_messages >= ONLY_WRITER_MESSAGES {
            // Otherwise the server would keep the consumer for half a minute more.
            if let Err(error) = jetstream.delete_consumer_from_stream(&name, stream).await {
                tracing::debug!(%error, "a consumer that is no longer read could not be removed");
            }
            return Ok(FollowEnd::OnlyWriter);
        }
        cache.wait_for_index().await?;
        cache.wait_for_follow_limit().await;
    }
}

/// Writes ids to the index, beside the follower and the writer, until it is dropped.
pub(super) async fn index_ids(cache: Arc<StreamCache>) {
    let mut followed = cache.follow_moves();
    loop {
        if !cache.has_ids_to_index() {
            // The cache owns the sender, so waiting cannot fail.
            drop(followed.changed().await);
            continue;
        }
        let writing = Arc::clone(&cache);
        match tokio::task::spawn_blocking(move || writing.index_ids()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the index of record ids cannot be written");
                tokio::time::sleep(INDEX_RETRY_PAUSE).await;
            }
            Err(panicked) => tracing::error!(%panicked, "writing the index of record ids panicked"),
        }
    }
}

type Fetched = Vec<Result<jetstream::Message, consumer::pull::OrderedError>>;

/// Requests further messages from the server while the fetched ones are handled.
async fn fetch(messages: consumer::pull::Ordered, fetched: mpsc::Sender<Fetched>) {
    let mut chunks = messages.ready_chunks(CHUNK_MESSAGES);
    while let Some(chunk) = chunks.next().await {
        if fetched.send(chunk).await.is_err() {
            return;
        }
    }
}

/// Creates a consumer and returns its name and its messages after `after`, in order. The client notices gaps and recreates it.
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
