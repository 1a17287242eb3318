//! The log on NATS: one JetStream stream with one message per record.
//!
//! # Layout
//! A record is a structured `CloudEvent` on `pml.<ws>.log.<kind>`, readable by every subscriber with permission. The header
//! `Nats-Msg-Id` is the record's id; the position is the message's sequence in the stream. Nothing is ever deleted. A foreign message
//! is skipped (`message` defines how it differs from a record) and leaves a hole.
//!
//! # Writing
//! One task (`writer`) per process. It drains the queue and sends, by configuration, either atomic batches (`batch`), which the
//! server syncs to disk before it answers, or single messages whose acknowledgements are awaited later. Several processes may
//! write; the server puts their messages into one order. An append without an answer is read back before it is sent again.
//!
//! In pipelined mode a message that was lost between others is written after them; in atomic mode the order is kept even then.
//!
//! # Reading
//! One task (`follower`) reads the whole stream once, in order, and keeps the newest records in memory for readers that follow the tail;
//! records that this process wrote need not be read back. It also stores the position of every id (`cache`), because the server forgets
//! ids after its duplicate window and the log must not. Until it has read the records from before the log was opened, the follower stays
//! a bounded distance ahead of its readers, so that a fold at start reads the stream once. Readers of older records get a consumer of
//! their own (`scan`).

mod atomic;
mod batch;
mod cache;
mod dead;
mod follower;
mod message;
mod scan;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{mpsc, oneshot, watch};

use super::error::Source;
use super::{AppendError, Appended, EventLog, ForeignMessages, ReadError};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record};
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::nats::{Nats, NatsError, StreamKind};
use cache::StreamCache;
pub use dead::StreamDeadLetters;
use message::{Content, EncodedMessage, StreamMessage};
use scan::Scans;
use writer::{Job, Writer};

/// How long a log that is dropped waits for its writer.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes reserved for the headers of a message within the server's limit.
const HEADERS_BYTES: usize = 1_024;

/// The log on a JetStream stream, with its writer and follower tasks.
pub struct JetStreamLog {
    nats: Nats,
    clock: Clock,
    jobs: mpsc::Sender<Job>,
    cache: Arc<StreamCache>,
    scans: Arc<Scans>,
    follower: tokio::task::JoinHandle<()>,
    /// Disconnects when the writer ends.
    writer_ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl JetStreamLog {
    /// Opens the workspace's log; the stream must exist ([`Nats::provision`]).
    pub async fn open(nats: Nats, queue_appends_max: usize, clock: Clock) -> Result<Self, NatsError> {
        let stream = nats.stream_name(StreamKind::Log);
        let wrong = |source| NatsError::Stream { stream: stream.clone(), source };
        let jetstream = nats.jetstream().clone();
        let name = stream.clone();
        let found = nats.run(async move { jetstream.get_stream(name).await }).await.map_err(|error| wrong(error.into()))?;
        let end = Seq(found.cached_info().state.last_sequence);
        let tail = nats.run(async move { last_record(&found, end).await }).await.map_err(wrong)?;
        let cache = Arc::new(StreamCache::new(tail, end, clock.clone()));
        let follower = nats.spawn(follower::run(nats.jetstream().clone(), stream.clone(), Arc::clone(&cache)));
        let (jobs, queue) = mpsc::channel(queue_appends_max);
        let (ended, writer_ended) = std::sync::mpsc::channel();
        let writer = Writer::new(&nats, stream.clone(), Arc::clone(&cache));
        nats.spawn(async move {
            writer.run(queue).await;
            drop(ended);
        });
        let scans = Arc::new(Scans::new(nats.jetstream().clone(), stream));
        Ok(Self { nats, clock, jobs, cache, scans, follower, writer_ended: Mutex::new(writer_ended) })
    }

    /// Appends records of another log, which keep their `recorded_at`.
    pub fn restore(&self, records: Vec<Record>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        self.submit(records.into_iter().map(|record| (record.fact, record.recorded_at)))
    }

    fn submit(
        &self,
        facts: impl Iterator<Item = (Arc<NewRecord>, Timestamp)>,
    ) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let facts: Vec<EncodedMessage> = facts.map(|(fact, recorded_at)| EncodedMessage::new(fact, recorded_at)).collect();
        let max = self.nats.client().max_payload().saturating_sub(HEADERS_BYTES);
        if let Some(fact) = facts.iter().find(|fact| fact.payload.len() > max) {
            let len = fact.payload.len();
            let problem = format!("record {} takes {len} bytes, the server takes {max} (its max_payload)", fact.id());
            return ready(Err(AppendError::Determinate(problem.into()))).boxed();
        }
        let (reply, answer) = oneshot::channel();
        match self.jobs.try_send(Job { facts, reply }) {
            Ok(()) => async { answer.await.unwrap_or_else(|gone| Err(AppendError::Indeterminate(gone.into()))) }.boxed(),
            Err(mpsc::error::TrySendError::Full(_)) => ready(Err(AppendError::Busy)).boxed(),
            Err(mpsc::error::TrySendError::Closed(_)) => ready(Err(AppendError::Closed)).boxed(),
        }
    }
}

/// Returns the last position up to `end` that does not hold a foreign message.
async fn last_record(stream: &Stream, end: Seq) -> Result<Seq, Source> {
    let mut position = end;
    while position > Seq::ZERO {
        match stream.get_raw_message(position.0).await {
            Ok(message) => {
                let message = StreamMessage::new(position, message.subject, Some(&message.headers), message.payload);
                if !matches!(message.decode(None), Ok(Content::Foreign(_))) {
                    break;
                }
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {}
            Err(error) => return Err(error.into()),
        }
        position = Seq(position.0 - 1);
    }
    Ok(position)
}

impl Drop for JetStreamLog {
    fn drop(&mut self) {
        // Closing the queue ends the writer once its jobs are written. It runs on the client's threads, never on this one.
        self.jobs = mpsc::channel(1).0;
        let ended = self.writer_ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(CLOSE_PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tracing::error!(
                "the NATS server did not answer while the log was closing; appends whose caller stopped waiting may be lost"
            );
        }
        self.follower.abort();
    }
}

impl EventLog for JetStreamLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        self.submit(facts.into_iter().map(|fact| (fact, self.clock.now())))
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        if let Some(records) = self.cache.try_read(after, limit) {
            return ready(Ok(records)).boxed();
        }
        let (cache, scans) = (Arc::clone(&self.cache), Arc::clone(&self.scans));
        self.nats.run(async move { cache.read(&scans, after, limit).await })
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        let cache = Arc::clone(&self.cache);
        async move {
            cache.wait_for_all_ids().await?;
            Ok(cache.find(id))
        }
        .boxed()
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.cache.tail()
    }

    fn foreign(&self) -> ForeignMessages {
        self.cache.foreign()
    }
}
