//! The recorder publishes the events that this process makes by itself: the calls of runs and the tools of servers.
//!
//! They pass the same checks as events of agents. If this process has the lease of the role `execution`, they go to the execution actor;
//! otherwise, on NATS, to the work queue.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::core::event::{Event, NewRecord};
use crate::core::id::{RecordId, Seq};
use crate::core::intake;
use crate::core::time::Timestamp;
use crate::core::tool::UPSTREAM_SOURCE;
use crate::nats::{Nats, NatsError, Repeats};
use crate::publisher::{PublishError, Publisher, Verdict};

/// Most events that wait to be recorded; whoever adds further ones waits.
const QUEUE_EVENTS_MAX: usize = 4_096;
/// Most events recorded at once.
const BATCH_EVENTS_MAX: usize = 512;
/// Attempts to record a batch before its events are given up.
const ATTEMPTS_MAX: u32 = 20;
/// The pause after the first failed attempt; it grows by as much with each further one.
const PAUSE_MS: u64 = 50;

/// Why events were not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Queue(#[from] NatsError),
}

/// A message to the task that records.
enum Entry {
    Events(Vec<NewRecord>),
    /// Answered when everything before it is recorded.
    Flush(oneshot::Sender<()>),
}

/// `Recorder` records events, at once or in the background, in the order in which they were given. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    publisher: Publisher,
    /// Whether this process has the role `execution`.
    has_role: bool,
    queue: Option<Nats>,
    sender: mpsc::Sender<Entry>,
    receiver: Arc<Mutex<Option<mpsc::Receiver<Entry>>>>,
}

impl Recorder {
    /// `has_role` says whether this process has the role `execution`; `queue` is the connection to the work queue, for a process on NATS.
    pub(crate) fn new(publisher: Publisher, has_role: bool, queue: Option<Nats>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_EVENTS_MAX);
        Self { publisher, has_role, queue, sender, receiver: Arc::new(Mutex::new(Some(receiver))) }
    }

    /// Records events and waits until they are durable. Returns the position of the last one, if this process appended it.
    pub async fn record(&self, facts: Vec<NewRecord>) -> Result<Option<Seq>, RecordError> {
        if facts.is_empty() {
            return Ok(None);
        }
        if !(self.has_role && self.publisher.lease().is_held())
            && let Some(nats) = &self.queue
        {
            nats.enqueue(&self.checked(facts), Repeats::Dropped).await?;
            return Ok(None);
        }
        let verdicts = self.publisher.publish(facts).await?;
        let mut last = None;
        for verdict in verdicts {
            match verdict {
                Verdict::Accepted { seq } | Verdict::Duplicate { seq } => last = last.max(Some(seq)),
                Verdict::Refused(refusal) => tracing::warn!(%refusal, "an event of this process was refused"),
            }
        }
        Ok(last)
    }

    /// The events that pass the checks, with secrets removed: what is sent over the network is what the log will hold.
    fn checked(&self, facts: Vec<NewRecord>) -> Vec<NewRecord> {
        let check = |mut fact: NewRecord| match intake::check(&mut fact, self.publisher.limits()) {
            Ok(()) => Some(fact),
            Err(refusal) => {
                tracing::warn!(%refusal, "an event of this process was refused");
                None
            }
        };
        facts.into_iter().filter_map(check).collect()
    }

    /// Records events in the background. Waits only while too many wait.
    pub async fn record_soon(&self, facts: Vec<NewRecord>) {
        if self.sender.send(Entry::Events(facts)).await.is_err() {
            tracing::error!("events of this process are lost: it is stopping");
        }
    }

    /// Waits until everything that was given before is recorded or given up.
    pub async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        if self.sender.send(Entry::Flush(done)).await.is_ok() {
            // An error means that the task has ended: nothing waits any more.
            drop(waiting.await);
        }
    }

    /// Records what `record_soon` is given, until all handles are dropped or the task is cancelled. Runs once.
    pub(crate) async fn run(self) {
        let Some(mut receiver) = self.receiver.lock().take() else { return };
        while let Some(entry) = receiver.recv().await {
            let (mut facts, mut flushes) = (Vec::new(), Vec::new());
            let mut next = Some(entry);
            while let Some(entry) = next {
                match entry {
                    Entry::Events(more) => facts.extend(more),
                    Entry::Flush(done) => flushes.push(done),
                }
                next = if facts.len() < BATCH_EVENTS_MAX { receiver.try_recv().ok() } else { None };
            }
            self.record_patiently(facts).await;
            for done in flushes {
                // An error means that whoever waited has gone.
                let _gone = done.send(()).is_err();
            }
        }
    }

    /// Tries again while nothing can be recorded: sending the same ids twice is harmless.
    async fn record_patiently(&self, facts: Vec<NewRecord>) {
        for attempt in 1..=ATTEMPTS_MAX {
            match self.record(facts.clone()).await {
                Ok(_) => return,
                Err(error) if attempt == ATTEMPTS_MAX => {
                    tracing::error!(error = &error as &dyn std::error::Error, events = facts.len(), "events are lost");
                }
                Err(error) => {
                    tracing::debug!(%error, attempt, "events cannot be recorded yet");
                    tokio::time::sleep(std::time::Duration::from_millis(PAUSE_MS * u64::from(attempt))).await;
                }
            }
        }
    }
}

/// A fact made by this process.
pub fn fact(id: RecordId, time: Timestamp, event: Event) -> NewRecord {
    NewRecord { id, time, source: UPSTREAM_SOURCE.into(), causation: None, envelope: None, event }
}
