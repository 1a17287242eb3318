//! The intake: consumes events from the work queue, submits them to the execution actor, and acknowledges them last.
//!
//! An acknowledged event is in the log or among the dead letters. Any other is delivered again, and is then recognised by its id. An event
//! with a temporary refusal (`Refusal::is_temporary`) is returned to the queue, which delivers it again after a pause.
//!
//! Each run of `consume` creates a new consumer. The queue holds exactly the events that were not acknowledged, so a new one delivers
//! them first and in order; an old one would deliver the unacknowledged events of a killed process only after `ACK_WAIT`, long after
//! the events that depend on them. Therefore only one process consumes the queue at a time.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{self, consumer};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::core::event::cloud;
use crate::core::intake::Limits;
use crate::core::time::Timestamp;
use crate::nats::{Nats, StreamKind};
use crate::publisher::Publisher;
use crate::publisher::{Incoming, PublishError, Verdict};

/// The origin that dead letters show.
const ORIGIN: &str = "nats";
const CONSUMER: &str = "execution";
/// After this long without an acknowledgement an event is delivered again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Most events submitted together.
const CHUNK_EVENTS: usize = 512;
/// Most chunks submitted without a verdict: an event that is held back does not delay those after it.
const CHUNKS_PENDING_MAX: usize = 16;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long an event with a temporary refusal stays on the queue: twice as long after each delivery, up to the maximum.
const REDELIVERY_DELAY_FIRST: Duration = Duration::from_millis(500);
const REDELIVERY_DELAY_MAX: Duration = Duration::from_secs(30);
/// Most events that are put off at the same time. The queue delivers as many more before it waits for acknowledgements, because after
/// events that wait for room come the ends of other executions, which make room. Further events become dead letters.
const PUT_OFF_EVENTS_MAX: usize = 65_536;

/// What the intake works with.
#[derive(Clone)]
pub(crate) struct IntakeParts {
    pub(crate) nats: Nats,
    pub(crate) publisher: Publisher,
    pub(crate) clock: Clock,
    pub(crate) stop: watch::Receiver<bool>,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Runs until it is stopped; a consumer that fails is replaced.
pub(crate) async fn run(parts: IntakeParts) {
    let mut stop = parts.stop.clone();
    let mut pause = PAUSE_FIRST;
    while !*stop.borrow() {
        match consume(&parts).await {
            Ok(()) => pause = PAUSE_FIRST,
            Err(error) => {
                tracing::warn!(%error, "consuming the work queue was interrupted");
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Consumes the work queue with one consumer.
async fn consume(parts: &IntakeParts) -> Result<(), Source> {
    let in_flight = parts.nats.settings().intake_events_max;
    let config = consumer::pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: consumer::AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: i64::try_from(in_flight.saturating_add(PUT_OFF_EVENTS_MAX)).unwrap_or(i64::MAX),
        ..consumer::pull::Config::default()
    };
    let stream = parts.nats.jetstream().get_stream(parts.nats.stream_name(StreamKind::In)).await?;
    match stream.delete_consumer(CONSUMER).await {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ConsumerErrorKind::JetStream(_)) => {} // The consumer does not exist.
        Err(error) => return Err(error.into()),
    }
    let consumer = stream.create_consumer(config).await?;
    let messages = consumer.stream().max_messages_per_batch(in_flight.min(CHUNK_EVENTS * 4)).messages().await?;
    let chunks = until_stopped(messages.ready_chunks(CHUNK_EVENTS), parts.stop.clone());
    let put_off = PutOffEvents::default();
    let mut answered = pin!(chunks.map(|chunk| submit_chunk(parts, &put_off, chunk)).buffered(CHUNKS_PENDING_MAX));
    while let Some(outcome) = answered.next().await {
        outcome?;
    }
    Ok(())
}

/// Returns the items of `items` until `stop` is set.
fn until_stopped<T>(items: impl Stream<Item = T>, stop: watch::Receiver<bool>) -> impl Stream<Item = T> {
    stream::unfold((Box::pin(items), stop), |(mut items, mut stop)| async move {
        if *stop.borrow() {
            return None;
        }
        let item = tokio::select! {
            item = items.next() => item,
            _ = stop.changed() => None,
        };
        item.map(|item| (item, (items, stop)))
    })
}

type Received<E> = Result<jetstream::Message, E>;

/// The positions in the queue of events that were returned to it and are not acknowledged yet.
#[derive(Default)]
struct PutOffEvents(Mutex<BTreeSet<u64>>);

impl PutOffEvents {
    /// Returns whether `more` events may be put off.
    fn has_room_for(&self, more: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() + more <= PUT_OFF_EVENTS_MAX
    }

    /// Adds or removes the event at `position`.
    fn set(&self, position: u64, is_put_off: bool) {
        let mut positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_put_off {
            positions.insert(position)
        } else {
            positions.remove(&position)
        };
    }
}

/// Gets the verdict on every event of a chunk, then acknowledges them or returns them to the queue.
async fn submit_chunk<E: Into<Source>>(
    parts: &IntakeParts,
    put_off: &PutOffEvents,
    chunk: Vec<Received<E>>,
) -> Result<(), Source> {
    let messages: Vec<jetstream::Message> = chunk.into_iter().collect::<Result<_, _>>().map_err(Into::into)?;
    let can_redeliver = put_off.has_room_for(messages.len());
    let verdicts = verdicts(parts, &messages, can_redeliver).await?;
    for (message, verdict) in messages.iter().zip(verdicts) {
        let info = message.info()?;
        let is_put_off = can_redeliver && matches!(verdict, Verdict::Refused(refusal) if refusal.is_temporary());
        put_off.set(info.stream_sequence, is_put_off);
        // If the acknowledgement is lost, the event is delivered again, which is harmless.
        message.ack_with(if is_put_off { AckKind::Nak(Some(redelivery_delay(info.delivered))) } else { AckKind::Ack }).await?;
    }
    Ok(())
}

/// Returns how long an event stays on the queue that was delivered `delivered` times.
fn redelivery_delay(delivered: i64) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or_default().min(16);
    (REDELIVERY_DELAY_FIRST * 2_u32.pow(doublings)).min(REDELIVERY_DELAY_MAX)
}

/// Submits the events, again while the failure is temporary, and returns their verdicts.
async fn verdicts(
    parts: &IntakeParts,
    messages: &[jetstream::Message],
    can_redeliver: bool,
) -> Result<Vec<Verdict>, PublishError> {
    let mut pause = PAUSE_FIRST;
    loop {
        let limits = parts.publisher.limits();
        let items = messages.iter().map(|message| read_event(message, limits, parts)).collect();
        let submitted = if can_redeliver {
            parts.publisher.submit_retryable(items, ORIGIN).await
        } else {
            parts.publisher.submit(items, ORIGIN).await
        };
        match submitted {
            Ok(verdicts) => return Ok(verdicts),
            // The same ids are submitted again: events that were appended the first time are duplicates.
            Err(
                PublishError::Busy
                | PublishError::Full(_)
                | PublishError::Failing
                | PublishError::NotReady
                | PublishError::Unknown,
            ) if !*parts.stop.borrow() => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Reads the event of a message, in structured or binary mode. What it leaves out follows from when the queue stored it, so that an event
/// without an id is the same event when it is delivered again.
fn read_event(message: &jetstream::Message, limits: &Limits, parts: &IntakeParts) -> Incoming {
    let stored = message.info().ok().and_then(|info| i64::try_from(info.published.unix_timestamp_nanos() / 1_000).ok());
    let receipt = parts.publisher.receipt(stored.map_or_else(|| parts.clock.now(), Timestamp::from_micros));
    let body = &message.payload;
    let headers = message.headers.iter().flat_map(async_nats::HeaderMap::iter);
    let headers: Vec<(String, &str)> = headers
        .filter_map(|(name, values)| {
            let name: &str = name.as_ref();
            Some((name.to_ascii_lowercase(), values.first()?.as_str()))
        })
        .filter(|(name, _)| name.starts_with(cloud::HEADER_PREFIX))
        .collect();
    if headers.is_empty() {
        return Incoming::received(cloud::receive_structured(body, receipt), body.clone(), limits);
    }
    let borrowed = || headers.iter().map(|(name, value)| (name.as_str(), *value));
    let read = cloud::receive_binary(borrowed(), body, receipt);
    let mut incoming = Incoming::received(read, Bytes::new(), limits);
    // An accepted event needs no copy; if the actor refuses it later, its dead letter is encoded by pml.
    incoming.original = incoming.content.is_err().then(|| cloud::join_binary(borrowed(), body).into());
    incoming
}
