//! The log on NATS: one JetStream stream, a message per record.
//!
//! # Layout
//! A record is a structured `CloudEvent` on `pml.<ws>.log.<kind>`, so that whoever may subscribe can read it. The header
//! `Nats-Msg-Id` is the record's id; the position is the message's sequence in the stream. Nothing is ever deleted. A message that
//! somebody else put there is skipped (`message` says how it is told from a record) and leaves a hole.
//!
//! # Writing
//! One task (`writer`) per process. It takes what waits and sends it, by configuration, as atomic batches (`batch`), which the
//! server syncs to disk before it answers, or as single messages whose acknowledgements are awaited later. Several processes may
//! write; the server puts their messages into one order. An append that nobody answered is read back before it is sent again.
//!
//! In pipelined mode a message that was lost between others is written after them; in atomic mode the order is kept even then.
//!
//! # Reading
//! One task (`follower`) reads the whole stream once, in order, and keeps the last records in memory for those who follow the tail;
//! what this process writes itself it need not read back. On the way it learns every id (`known`): the server forgets ids after its
//! window, the log must not. While the log is young in this process the follower keeps step with its readers, so that a fold at start
//! reads the stream once. Whoever asks for older records gets a consumer of its own (`scan`).

mod atomic;
mod batch;
mod dead;
mod follower;
mod known;
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
use super::{AppendError, Appended, EventLog, Foreign, ReadError};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record};
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::nats::{Nats, NatsError, StreamKind};
pub use dead::StreamDeadLetters;
use known::Known;
use message::{Arrival, Content, Encoded};
use scan::Scans;
use writer::{Job, Writer};

/// How long a log that is dropped waits for its writer.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// Room for the headers of a message within the server's limit.
const HEADERS_BYTES: usize = 1_024;

pub struct JetStreamLog {
    nats: Nats,
    clock: Clock,
    jobs: mpsc::Sender<Job>,
    known: Arc<Known>,
    scans: Arc<Scans>,
    follower: tokio::task::JoinHandle<()>,
    /// Disconnected once the writer has ended.
    writer_ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl JetStreamLog {
    /// Opens the workspace's log; the stream must be there ([`Nats::provision`]).
    pub async fn open(nats: Nats, queue_appends_max: usize, clock: Clock) -> Result<Self, NatsError> {
        let stream = nats.stream_name(StreamKind::Log);
        let wrong = |source| NatsError::Stream { stream: stream.clone(), source };
        let jetstream = nats.jetstream().clone();
        let name = stream.clone();
        let found = nats.run(async move { jetstream.get_stream(name).await }).await.map_err(|error| wrong(error.into()))?;
        let past = Seq(found.cached_info().state.last_sequence);
        let tail = nats.run(async move { last_record(&found, past).await }).await.map_err(wrong)?;
        let known = Arc::new(Known::new(tail, past, clock.clone()));
        let follower = nats.spawn(follower::run(nats.jetstream().clone(), stream.clone(), Arc::clone(&known)));
        let (jobs, queue) = mpsc::channel(queue_appends_max);
        let (ended, writer_ended) = std::sync::mpsc::channel();
        let writer = Writer::new(&nats, stream.clone(), Arc::clone(&known));
        nats.spawn(async move {
            writer.run(queue).await;
            drop(ended);
        });
        let scans = Arc::new(Scans::new(nats.jetstream().clone(), stream));
        Ok(Self { nats, clock, jobs, known, scans, follower, writer_ended: Mutex::new(writer_ended) })
    }

    /// Appends records of another log, which keep the time that log took them.
    pub fn restore(&self, records: Vec<Record>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        self.submit(records.into_iter().map(|record| (record.fact, record.recorded_at)))
    }

    fn submit(
        &self,
        facts: impl Iterator<Item = (Arc<NewRecord>, Timestamp)>,
    ) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let facts: Vec<Encoded> = facts.map(|(fact, recorded_at)| Encoded::new(fact, recorded_at)).collect();
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

/// The last position up to `end` that does not hold somebody else's message.
async fn last_record(stream: &Stream, end: Seq) -> Result<Seq, Source> {
    let mut position = end;
    while position > Seq::ZERO {
        match stream.get_raw_message(position.0).await {
            Ok(message) => {
                let arrival = Arrival::new(position, message.subject, Some(&message.headers), message.payload);
                if !matches!(arrival.read(None), Ok(Content::Foreign(_))) {
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
        // Closing the queue ends the writer after what it holds is written. It runs on the client's threads, never on this one.
        self.jobs = mpsc::channel(1).0;
        let ended = self.writer_ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(CLOSE_PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tracing::error!("the server did not answer; some appends that nobody waited for may be lost");
        }
        self.follower.abort();
    }
}

impl EventLog for JetStreamLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        self.submit(facts.into_iter().map(|fact| (fact, self.clock.now())))
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        if let Some(records) = self.known.read_now(after, limit) {
            return ready(Ok(records)).boxed();
        }
        let (known, scans) = (Arc::clone(&self.known), Arc::clone(&self.scans));
        self.nats.run(async move { known.read(&scans, after, limit).await })
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        let known = Arc::clone(&self.known);
        async move {
            known.learn_all().await?;
            Ok(known.find(id))
        }
        .boxed()
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.known.tail()
    }

    fn foreign(&self) -> Foreign {
        self.known.foreign()
    }
}
