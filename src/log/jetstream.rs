//! The log on NATS: one JetStream stream with one message per record.
//!
//! # Layout
//! A record is a structured `CloudEvent` on `pml.<ws>.log.<kind>`, readable by every subscriber with permission. The header
//! `Nats-Msg-Id` is the record's id; the position is the message's sequence in the stream. Nothing is deleted, except by tiering from the
//! beginning of the stream; what is gone there is read from the archive. A foreign message is skipped (`message` defines how it differs
//! from a record) and leaves a hole.
//!
//! # Writing
//! One task (`writer`) per process. It drains the queue and sends, by configuration, either atomic batches (`batch`), which the
//! server syncs to disk before it answers, or messages whose acknowledgements, one for several, are awaited later (`pipelined`, `chain`).
//! Several processes may write; the server puts their messages into one order. An append without an answer is read back before it is sent again.
//!
//! In pipelined mode a message that was lost between others on their way is written after them, unless they were chained to it, and before
//! what is sent later; in atomic mode the order is kept even then.
//!
//! # Reading
//! One task (`follower`) reads the stream in order and keeps the newest records in memory for readers that follow the tail; records that
//! this process wrote need not be read back. It also stores the position of every id, because the server forgets ids after its duplicate
//! window and the log must not: in a file of this process (`ids`), so that neither memory nor a start grows with the stream. A start
//! follows from where that file ends; without one, from the beginning. Until it has read the records from before the log was opened, the
//! follower stays a bounded distance ahead of its readers, so that a fold at start reads the stream once. Readers of older records get a
//! consumer of their own (`scan`).

mod atomic;
mod batch;
mod cache;
mod chain;
mod dead;
mod follower;
#[cfg(feature = "testing")]
mod fuzzing;
mod ids;
mod message;
mod pipelined;
mod scan;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{mpsc, oneshot, watch};

use super::error::{Source, archive_unknown};
use super::{AppendError, Appended, Damage, EventLog, ForeignMessages, OlderRecords, ReadError, TrimmedLog};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record};
use crate::core::hash::fnv1a;
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::nats::{Nats, NatsError, StreamKind};
use cache::StreamCache;
pub use dead::StreamDeadLetters;
#[cfg(feature = "testing")]
pub use fuzzing::{use_id_index, write_id_index};
use ids::IdIndex;
#[cfg(feature = "testing")]
pub use message::read_message;
use message::{Content, EncodedMessage, StreamMessage};
use scan::Scans;
use writer::{Job, Writer};

/// How long a log that is dropped waits for its writer.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes reserved for the headers of a message within the server's limit.
const HEADERS_BYTES: usize = 1_024;

/// The settings of a [`JetStreamLog`].
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Where the index of ids is kept; without a directory in memory, for commands that end soon.
    pub directory: Option<PathBuf>,
    /// Where records are that were removed from the stream.
    pub older: Option<Arc<dyn OlderRecords>>,
    /// Appends that may wait for the writer.
    pub queue_appends_max: usize,
}

/// The log on a JetStream stream, with its writer and follower tasks.
pub struct JetStreamLog {
    nats: Nats,
    clock: Clock,
    jobs: mpsc::Sender<Job>,
    cache: Arc<StreamCache>,
    scans: Arc<Scans>,
    /// The position up to which records were removed, as far as this process knows.
    trimmed_to: Arc<AtomicU64>,
    older: Option<Arc<dyn OlderRecords>>,
    follower: tokio::task::JoinHandle<()>,
    indexer: tokio::task::JoinHandle<()>,
    /// Disconnects when the writer ends.
    writer_ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl JetStreamLog {
    /// Opens the workspace's log; the stream must exist ([`Nats::provision`]).
    pub async fn open(nats: Nats, options: StreamOptions, clock: Clock) -> Result<Self, NatsError> {
        let StreamOptions { directory, older, queue_appends_max } = options;
        let stream = nats.stream_name(StreamKind::Log);
        let wrong = |source| NatsError::Stream { stream: stream.clone(), source };
        let jetstream = nats.jetstream().clone();
        let name = stream.clone();
        let found = nats.run(async move { jetstream.get_stream(name).await }).await.map_err(|error| wrong(error.into()))?;
        let end = Seq(found.cached_info().state.last_sequence);
        let trimmed_to = Seq(found.cached_info().state.first_sequence.saturating_sub(1));
        let identity = fnv1a(format!("{stream} {}", found.cached_info().created).as_bytes());
        let tail = nats.run(async move { last_record(&found, end).await }).await.map_err(wrong)?;
        let ids = IdIndex::open(directory.as_deref(), identity, end).map_err(|error| wrong(error.into()))?;
        let trimmed_to = Arc::new(AtomicU64::new(trimmed_to.0));
        let cache = StreamCache::new(tail, end, ids, clock.clone()).map_err(|error| wrong(error.into()))?;
        let cache = Arc::new(cache);
        let indexer = nats.spawn(follower::index_ids(Arc::clone(&cache)));
        let follower = nats.spawn(follower::run(nats.jetstream().clone(), stream.clone(), Arc::clone(&cache), older.clone()));
        let (jobs, queue) = mpsc::channel(queue_appends_max);
        let (ended, writer_ended) = std::sync::mpsc::channel();
        let writer = Writer::new(&nats, stream.clone(), Arc::clone(&cache));
        nats.spawn(async move {
            writer.run(queue).await;
            drop(ended);
        });
        let scans = Arc::new(Scans::new(nats.jetstream().clone(), stream, Arc::clone(&trimmed_to)));
        Ok(Self {
            nats,
            clock,
            jobs,
            cache,
            scans,
            trimmed_to,
            older,
            follower,
            indexer,
            writer_ended: Mutex::new(writer_ended),
        })
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

/// Reads records that were removed from the stream.
async fn read_older(older: Option<Arc<dyn OlderRecords>>, after: Seq, to: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
    let older = older.ok_or_else(|| archive_unknown(to))?;
    let read = tokio::task::spawn_blocking(move || older.read(after, to, limit)).await;
    read.unwrap_or_else(|panicked| Err(ReadError::Storage(panicked.into())))
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

impl TrimmedLog for JetStreamLog {
    fn trimmed_to(&self) -> Seq {
        Seq(self.trimmed_to.load(Ordering::Acquire))
    }

    fn trim(&self, to: Seq) -> BoxFuture<'static, Result<Seq, AppendError>> {
        let (jetstream, trimmed_to) = (self.nats.jetstream().clone(), Arc::clone(&self.trimmed_to));
        let stream = self.nats.stream_name(StreamKind::Log);
        let to = to.min(Seq(self.cache.tail().borrow().0.saturating_sub(1)));
        self.nats.run(async move {
            let failed = |error: Source| AppendError::Indeterminate(error);
            let stream = jetstream.get_stream(stream).await.map_err(|error| failed(error.into()))?;
            stream.purge().sequence(to.next().0).await.map_err(|error| failed(error.into()))?;
            trimmed_to.fetch_max(to.0, Ordering::AcqRel);
            Ok(to)
        })
    }
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
        self.indexer.abort();
        if let Err(error) = self.cache.close_index() {
            tracing::warn!(error = &error as &dyn std::error::Error, "the next start reads more of the log stream");
        }
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
        let (older, trimmed_to) = (self.older.clone(), Arc::clone(&self.trimmed_to));
        self.nats.run(async move {
            loop {
                let to = Seq(trimmed_to.load(Ordering::Acquire));
                let mut records = if after < to { read_older(older.clone(), after, to, limit).await? } else { Vec::new() };
                if records.len() == limit {
                    return Ok(records);
                }
                match cache.read(&scans, after.max(to), limit - records.len()).await {
                    // It was removed meanwhile.
                    Err(ReadError::Damaged(Damage::Gap { .. })) if trimmed_to.load(Ordering::Acquire) > to.0 => {}
                    outcome => {
                        records.extend(outcome?);
                        return Ok(records);
                    }
                }
            }
        })
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        let cache = Arc::clone(&self.cache);
        async move {
            cache.wait_for_all_ids().await?;
            cache.find(id)
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
