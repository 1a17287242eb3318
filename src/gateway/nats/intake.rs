//! The door for agents: takes events from the work queue, hands them to the execution actor, and acknowledges them last.
//!
//! What is acknowledged is in the log or among the dead letters. What is not comes again, and is then recognised by its id. An event that
//! is refused only for the moment (`Refusal::is_temporary`) is handed back to the queue, which brings it again after a pause.
//!
//! Every life of this task begins with a new consumer. The queue holds exactly what was not acknowledged, so a new consumer delivers
//! that first and in order; an old one would bring what a killed process had in hand only after its patience has ended, long after
//! the events that depend on it. So one process takes from the queue at a time.

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
use crate::nats::{Nats, StreamKind};
use crate::publisher::Publisher;
use crate::publisher::{Incoming, PublishError, Verdict};

/// The origin that dead letters show.
const ORIGIN: &str = "nats";
const CONSUMER: &str = "execution";
/// After this long without an acknowledgement an event is delivered again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Events handed over together when they are there.
const CHUNK_EVENTS: usize = 512;
/// Chunks handed over and not yet answered: an event that is held back does not hold up those behind it.
const CHUNKS_UNDER_WAY: usize = 16;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long an event that is refused only for the moment stays on the queue: longer each time.
const PUT_OFF_FIRST: Duration = Duration::from_millis(500);
const PUT_OFF_MAX: Duration = Duration::from_secs(30);
/// Events that are put off at the same time. The queue delivers so many more before it waits for acknowledgements: behind those that
/// wait for room are the ends of other executions, which make room. What comes on top becomes a dead letter.
const PUT_OFF_EVENTS_MAX: usize = 65_536;

#[derive(Clone)]
pub(crate) struct IntakeParts {
    pub(crate) nats: Nats,
    pub(crate) publisher: Publisher,
    pub(crate) clock: Clock,
    pub(crate) stop: watch::Receiver<bool>,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Runs until it is told to stop; a consumer that fails is made anew.
pub(crate) async fn run(parts: IntakeParts) {
    let mut stop = parts.stop.clone();
    let mut pause = PAUSE_FIRST;
    while !*stop.borrow() {
        match take(&parts).await {
            Ok(()) => pause = PAUSE_FIRST,
            Err(error) => {
                tracing::warn!(%error, "taking events from the work queue was interrupted");
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn take(parts: &IntakeParts) -> Result<(), Source> {
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
        Err(error) if matches!(error.kind(), ConsumerErrorKind::JetStream(_)) => {} // There is none.
        Err(error) => return Err(error.into()),
    }
    let consumer = stream.create_consumer(config).await?;
    let messages = consumer.stream().max_messages_per_batch(in_flight.min(CHUNK_EVENTS * 4)).messages().await?;
    let chunks = until_stopped(messages.ready_chunks(CHUNK_EVENTS), parts.stop.clone());
    let put_off = PutOff::default();
    let mut answered = pin!(chunks.map(|chunk| hand_over(parts, &put_off, chunk)).buffered(CHUNKS_UNDER_WAY));
    while let Some(outcome) = answered.next().await {
        outcome?;
    }
    Ok(())
}

/// The items of `items` until somebody says stop.
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

/// The places on the queue of what was handed back to it and has not come to an end.
#[derive(Default)]
struct PutOff(Mutex<BTreeSet<u64>>);

impl PutOff {
    /// Whether `more` may be put off, too.
    fn has_room_for(&self, more: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() + more <= PUT_OFF_EVENTS_MAX
    }

    fn note(&self, place: u64, is_put_off: bool) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_put_off {
            places.insert(place)
        } else {
            places.remove(&place)
        };
    }
}

/// Gets the verdict on every event of a chunk, then acknowledges them or hands them back.
async fn hand_over<E: Into<Source>>(parts: &IntakeParts, put_off: &PutOff, chunk: Vec<Received<E>>) -> Result<(), Source> {
    let messages: Vec<jetstream::Message> = chunk.into_iter().collect::<Result<_, _>>().map_err(Into::into)?;
    let retried_by_sender = put_off.has_room_for(messages.len());
    let verdicts = verdicts(parts, &messages, retried_by_sender).await?;
    for (message, verdict) in messages.iter().zip(verdicts) {
        let info = message.info()?;
        let is_put_off = retried_by_sender && matches!(verdict, Verdict::Refused(refusal) if refusal.is_temporary());
        put_off.note(info.stream_sequence, is_put_off);
        // One that is lost on the way brings the event again, which is harmless.
        message.ack_with(if is_put_off { AckKind::Nak(Some(pause_before(info.delivered))) } else { AckKind::Ack }).await?;
    }
    Ok(())
}

/// How long an event waits that was delivered so often.
fn pause_before(delivered: i64) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or_default().min(16);
    (PUT_OFF_FIRST * 2_u32.pow(doublings)).min(PUT_OFF_MAX)
}

async fn verdicts(
    parts: &IntakeParts,
    messages: &[jetstream::Message],
    retried_by_sender: bool,
) -> Result<Vec<Verdict>, PublishError> {
    let mut pause = PAUSE_FIRST;
    loop {
        let limits = parts.publisher.limits();
        let items = messages.iter().map(|message| read(message, limits, &parts.clock)).collect();
        let submitted = if retried_by_sender {
            parts.publisher.submit_retryable(items, ORIGIN).await
        } else {
            parts.publisher.submit(items, ORIGIN).await
        };
        match submitted {
            Ok(verdicts) => return Ok(verdicts),
            // The same ids again: what was taken the first time is recognised.
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

fn read(message: &jetstream::Message, limits: &Limits, clock: &Clock) -> Incoming {
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
        return Incoming::received(cloud::from_structured(body, clock.now()), body.clone(), limits);
    }
    let borrowed = || headers.iter().map(|(name, value)| (name.as_str(), *value));
    let read = cloud::from_binary(borrowed(), body, clock.now());
    let mut incoming = Incoming::received(read, Bytes::new(), limits);
    // What is taken needs no copy; one that the actor refuses later is kept in the words pml uses.
    incoming.original = incoming.content.is_err().then(|| cloud::join_binary(borrowed(), body).into());
    incoming
}
