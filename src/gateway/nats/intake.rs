//! The intake: consumes events from the work queue, submits them to the execution actor, and acknowledges them last.
//!
//! An acknowledged event is in the log or among the dead letters. Any other is delivered again, and is then recognised by its id. An event
//! with a temporary refusal (`Refusal::is_temporary`) is returned to the queue, which delivers it again after a pause.
//!
//! # Order
//! Events are submitted in the order of the queue, because the end of an execution must not come to the log before its steps. Several chunks
//! wait for their verdicts at the same time; if one of them is not taken, or its outcome is unknown, neither are those after it
//! (`RequestOrder`), and all of them are submitted again, in order. Events that are already in the log are duplicates then.
//!
//! Each run of `consume` creates a new consumer. The queue holds exactly the events that were not acknowledged, so a new one delivers
//! them first and in order; an old one would deliver the unacknowledged events of a killed process, or events that were lost on the way,
//! only after `ACK_WAIT`, long after the events that depend on them. Therefore only one process consumes the queue at a time, and a
//! consumer whose deliveries have a gap is replaced. Its name is never used again: a process that had the queue before cannot read with it.

use std::pin::pin;
use std::time::Duration;

use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{self, consumer};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::watch;

use super::settlement::{PUT_OFF_EVENTS_MAX, QueuePlace, Settlement};
use crate::core::event::cloud;
use crate::core::time::Timestamp;
use crate::nats::{Nats, StreamKind, connection};
use crate::publisher::{Incoming, PublishError, Publisher, RequestOrder, Verdict};

/// The origin that dead letters show.
const ORIGIN: &str = "nats";
/// The beginning of the name of every consumer.
const CONSUMER: &str = "execution";
/// A consumer that nobody reads with for so long is removed: one of a process that stopped, if no other comes after it.
const IDLE_CONSUMER: Duration = Duration::from_mins(5);
/// After this long without an acknowledgement an event is delivered again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Most events submitted together.
const CHUNK_EVENTS: usize = 512;
/// Most chunks submitted without a verdict: an event that is held back does not delay those after it.
const CHUNKS_PENDING_MAX: usize = 16;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// What the intake works with.
pub(crate) struct IntakeParts {
    pub(crate) nats: Nats,
    pub(crate) publisher: Publisher,
    pub(crate) stop: watch::Receiver<bool>,
}

pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

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
    let connection = connection::number(parts.nats.client());
    let config = consumer::pull::Config {
        durable_name: Some(format!("{CONSUMER}-{:016x}", crate::clock::entropy())),
        inactive_threshold: IDLE_CONSUMER,
        ack_policy: consumer::AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: i64::try_from(in_flight.saturating_add(PUT_OFF_EVENTS_MAX)).unwrap_or(i64::MAX),
        ..consumer::pull::Config::default()
    };
    let stream = parts.nats.jetstream().get_stream(parts.nats.stream_name(StreamKind::In)).await?;
    for old in stream.consumer_names().try_collect::<Vec<String>>().await? {
        match stream.delete_consumer(&old).await {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ConsumerErrorKind::JetStream(_)) => {} // Another process has deleted it.
            Err(error) => return Err(error.into()),
        }
    }
    let consumer = stream.create_consumer(config).await?;
    let messages = consumer.stream().max_messages_per_batch(in_flight.min(CHUNK_EVENTS * 4)).messages().await?;
    let mut chunks = pin!(until_stopped(messages.ready_chunks(CHUNK_EVENTS), parts.stop.clone()));
    let mut submissions = Submissions::new(parts, Settlement::new(parts.nats.clone(), stream.clone(), connection));
    let (mut deliveries, mut ended) = (0, false);
    loop {
        tokio::select! {
            chunk = chunks.next(), if !ended && submissions.pending.len() < CHUNKS_PENDING_MAX => match chunk {
                Some(chunk) => {
                    let mut events = Vec::with_capacity(chunk.len());
                    for message in chunk {
                        events.push(QueuedEvent::new(message?, &mut deliveries)?);
                    }
                    submissions.add(events);
                }
                None => ended = true,
            },
            Some(answered) = submissions.pending.next() => submissions.settle(answered).await?,
            removed = submissions.settlement.removed(), if submissions.settlement.is_removing() => {
                removed?;
                submissions.settlement.remove_if_idle().await?;
            }
            else => return submissions.settlement.finish().await,
        }
    }
}

/// An event that the queue delivered.
struct QueuedEvent {
    message: async_nats::Message,
    place: QueuePlace,
    /// When the queue stored it.
    stored: Timestamp,
}

impl QueuedEvent {
    /// `deliveries` is the number of deliveries of the consumer so far. Fails if one between them and this did not arrive.
    fn new(message: jetstream::Message, deliveries: &mut u64) -> Result<Self, Source> {
        let info = message.info()?;
        if info.consumer_sequence != *deliveries + 1 {
            let number = info.consumer_sequence;
            return Err(format!("delivery {number} of the work queue came after {deliveries}: some were lost").into());
        }
        *deliveries = info.consumer_sequence;
        let (position, delivered) = (info.stream_sequence, info.delivered);
        let stored = Timestamp::from_micros(i64::try_from(info.published.unix_timestamp_nanos() / 1_000)?);
        let mut message = message.message;
        let acknowledge = message.reply.take().ok_or("the work queue delivered an event that cannot be acknowledged")?;
        Ok(Self { message, place: QueuePlace { position, delivered, acknowledge }, stored })
    }
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

/// Events that are submitted together and wait for their verdicts.
struct Chunk {
    number: u64,
    events: Vec<QueuedEvent>,
    /// Whether they may be returned to the queue.
    can_redeliver: bool,
}

/// A chunk and what became of its submission.
type Answered = (Chunk, Result<Vec<Verdict>, PublishError>);

/// The chunks under way, in the order of the queue.
struct Submissions<'a> {
    parts: &'a IntakeParts,
    settlement: Settlement,
    order: RequestOrder,
    pending: FuturesOrdered<BoxFuture<'a, Answered>>,
    /// The pause before chunks are submitted again.
    pause: Duration,
}

impl<'a> Submissions<'a> {
    fn new(parts: &'a IntakeParts, settlement: Settlement) -> Self {
        let order = RequestOrder::default();
        Self { parts, settlement, order, pending: FuturesOrdered::new(), pause: PAUSE_FIRST }
    }

    fn add(&mut self, events: Vec<QueuedEvent>) {
        let can_redeliver = self.settlement.may_put_off(events.len());
        let number = self.settlement.begin(events.iter().map(|event| event.place.position));
        self.submit(Chunk { number, events, can_redeliver });
    }

    fn submit(&mut self, chunk: Chunk) {
        let (parts, place) = (self.parts, self.order.next_place());
        self.pending.push_back(Box::pin(async move {
            let items = chunk.events.iter().map(|event| read_event(event, &parts.publisher)).collect();
            let verdicts = parts.publisher.submit_in_order(items, ORIGIN, chunk.can_redeliver, place).await;
            (chunk, verdicts)
        }));
    }

    /// Acknowledges the events of a chunk, or submits it and those after it again if the failure is temporary.
    async fn settle(&mut self, (chunk, outcome): Answered) -> Result<(), Source> {
        match outcome {
            Ok(verdicts) => {
                self.pause = PAUSE_FIRST;
                self.acknowledge(chunk, &verdicts).await
            }
            Err(error) if is_temporary(&error) && !*self.parts.stop.borrow() => self.submit_again(chunk).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the outcomes of the chunks under way, and submits `first` and those that were not taken again.
    async fn submit_again(&mut self, first: Chunk) -> Result<(), Source> {
        let mut again = vec![first];
        while let Some((chunk, outcome)) = self.pending.next().await {
            match outcome {
                Ok(verdicts) => self.acknowledge(chunk, &verdicts).await?,
                Err(_) => again.push(chunk),
            }
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.order = RequestOrder::default();
        for chunk in again {
            self.submit(chunk);
        }
        Ok(())
    }

    /// Removes events that have their verdicts from the queue, or returns them to it.
    async fn acknowledge(&mut self, chunk: Chunk, verdicts: &[Verdict]) -> Result<(), Source> {
        let Chunk { number, events, can_redeliver } = chunk;
        let settled = events.into_iter().zip(verdicts).map(|(event, verdict)| {
            let is_temporary = matches!(verdict, Verdict::Refused(refusal) if refusal.is_temporary());
            (event.place, can_redeliver && is_temporary)
        });
        self.settlement.settle(number, settled).await
    }
}

/// Whether the same events can be submitted again. Those that were appended the first time are duplicates then.
fn is_temporary(error: &PublishError) -> bool {
    match error {
        PublishError::Busy | PublishError::Full(_) | PublishError::Failing | PublishError::NotReady | PublishError::Unknown => {
            true
        }
        PublishError::Closed | PublishError::Unleased => false,
    }
}

/// Reads an event in structured or binary mode. What it leaves out follows from when the queue stored it, so that an event without an id
/// is the same event when it is delivered again.
fn read_event(event: &QueuedEvent, publisher: &Publisher) -> Incoming {
    let (receipt, limits) = (publisher.receipt(event.stored), publisher.limits());
    let body = &event.message.payload;
    let headers: Vec<(String, &str)> = event.message.headers.iter().flat_map(attributes).collect();
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

/// The headers that are attributes of an event in binary mode, their names in lower case.
fn attributes(headers: &async_nats::HeaderMap) -> impl Iterator<Item = (String, &str)> {
    let is_attribute = |name: &str| {
        let prefix = name.get(..cloud::HEADER_PREFIX.len());
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(cloud::HEADER_PREFIX))
    };
    headers.iter().filter_map(move |(name, values)| {
        let name: &str = name.as_ref();
        Some((is_attribute(name).then(|| name.to_ascii_lowercase())?, values.first()?.as_str()))
    })
}
