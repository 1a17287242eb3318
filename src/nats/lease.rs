//! Leases: at most one process at a time has a role. A lease is a key in a bucket, which its holder rewrites at intervals.
//!
//! The holder writes the key every quarter of the lease's length. A waiting process reads the key's revision. If it has not changed for a
//! whole length, by the waiting process's own clock, that process takes the lease over, by a write that succeeds only if the revision
//! is still the same. So the clocks of two machines are never compared. A holder that could not write for three quarters of the length
//! stops before another process takes over. A holder that ends normally deletes the key, and the next one need not wait.
//!
//! A killed holder is replaced sooner. Each holder listens on a subject of its own; if the server reports no responders there, the
//! holder's connection is gone. If the revision has also not changed for three eighths of the length, in which a live holder writes at
//! least once, the lease is taken over. A holder that has lost its connection has stopped by then.
//!
//! A holder that was suspended and resumes, or that is connected to a server which is partitioned from the others, may work beside its
//! successor until it next compares its clock: for at most three eighths of the length, if it is not suspended. The records that it
//! appends then still have unique ids: the lease prevents contention, the log guarantees correctness.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Nats, NatsError, streams};
use crate::clock::monotonic;
use crate::lease::LeaseState;
use crate::subject::Subjects;

/// Parts of a lease's length: the holder writes after each part and allows the server one more part to answer.
const PARTS: u32 = 4;
/// How often a waiting process checks the key within the length of a lease.
const CHECKS: u32 = 20;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A process's request for a role. It waits for the lease or holds it until it is released or dropped.
pub struct Lease {
    state: watch::Receiver<LeaseState>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

/// The value of the key, as JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeaseEntry {
    holder: String,
    /// The length of the lease in milliseconds, during which others must not take it over.
    length_ms: u64,
    /// Whether the holder answers liveness requests. Older versions do not.
    #[serde(default)]
    answers: bool,
}

impl Lease {
    /// Requests the lease of `role` for `holder`. Creates the bucket of the workspace if it is missing. Returns once the holder is
    /// known, or after `length`.
    pub async fn request(nats: &Nats, role: &'static str, holder: String, length: Duration) -> Result<Self, NatsError> {
        let bucket = format!("pml_{}_leases", nats.subjects().workspace());
        let (jetstream, wanted) = (nats.jetstream().clone(), bucket_stream(&bucket, nats.settings().replicas));
        let stream = wanted.name.clone();
        let opening = nats.run(async move {
            streams::ensure(&jetstream, wanted).await?;
            jetstream.get_key_value(bucket).await.map_err(|error| NatsError::Stream { stream, source: error.into() })
        });
        let store = opening.await?;
        let (sender, mut state) = watch::channel(LeaseState::Waiting(None));
        let (stop, stopping) = watch::channel(false);
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let entry = LeaseEntry { holder, length_ms, answers: true };
        let (client, subjects) = (nats.client().clone(), nats.subjects().clone());
        let lease_task = LeaseTask { store, client, subjects, role, entry, length, state: sender };
        let task = nats.spawn(lease_task.run(stopping));
        if timeout(length, state.wait_for(|state| *state != LeaseState::Waiting(None))).await.is_err() {
            tracing::warn!(role, "it is not known yet which process holds the lease");
        }
        Ok(Self { state, stop, task })
    }

    /// Returns a receiver of the lease's state.
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Gives the lease up, so that the next process need not wait.
    pub async fn release(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("the task that keeps a lease had panicked");
        }
    }
}

/// Returns the settings of the stream behind a bucket of keys with one value each.
fn bucket_stream(bucket: &str, replicas: usize) -> Config {
    Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        description: Some("pml: which process does what only one may do".to_owned()),
        max_messages_per_subject: 1,
        max_messages: -1,
        max_bytes: -1,
        max_consumers: -1,
        discard: DiscardPolicy::New,
        duplicate_window: Duration::from_mins(2),
        num_replicas: replicas,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..Config::default()
    }
}

/// The key as last read, and since when its revision has not changed.
struct ObservedEntry {
    revision: u64,
    entry: LeaseEntry,
    since: Instant,
}

/// The task behind a [`Lease`].
struct LeaseTask {
    store: kv::Store,
    client: async_nats::Client,
    subjects: Subjects,
    role: &'static str,
    entry: LeaseEntry,
    length: Duration,
    state: watch::Sender<LeaseState>,
}

impl LeaseTask {
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut observed: Option<ObservedEntry> = None;
        // Aborted when this function returns.
        let mut answering = JoinSet::new();
        self.entry.answers = match self.subscribe_liveness().await {
            Ok(asked) => {
                answering.spawn(answer_liveness(self.client.clone(), asked));
                true
            }
            Err(error) => {
                tracing::warn!(role = self.role, error, "cannot answer liveness requests; other processes will wait longer");
                false
            }
        };
        while !*stop.borrow() {
            // An attempt that is not answered in time changes nothing; the next one follows.
            let acquired = timeout(self.length, self.try_acquire(&mut observed)).await.unwrap_or_else(|late| Err(late.into()));
            match acquired {
                Ok(Some(revision)) => {
                    tracing::info!(role = self.role, "this process holds the lease");
                    self.state.send_replace(LeaseState::Held);
                    self.hold_until_ended(revision, &mut stop).await;
                    observed = None;
                    self.state.send_replace(LeaseState::Waiting(None));
                }
                Ok(None) => self.publish_holder(observed.as_ref()),
                Err(error) => tracing::debug!(role = self.role, error, "cannot read the lease"),
            }
            sleep_unless_stopped(self.length / CHECKS, &mut stop).await;
        }
    }

    /// Publishes and logs the current holder when it has changed.
    fn publish_holder(&self, observed: Option<&ObservedEntry>) {
        let waiting = LeaseState::Waiting(observed.map(|observed| observed.entry.holder.clone()));
        if *self.state.borrow() != waiting {
            let holder = observed.map_or("nobody yet", |observed| observed.entry.holder.as_str());
            tracing::info!(role = self.role, holder, "another process holds the lease; this one waits for it");
            self.state.send_replace(waiting);
        }
    }

    /// Subscribes to the liveness requests of others. The server knows the subscription before the key announces it.
    async fn subscribe_liveness(&self) -> Result<async_nats::Subscriber, Source> {
        let subject = self.subjects.lease(self.role, &self.entry.holder);
        let asked = self.client.subscribe(subject.as_str().to_owned()).await?;
        self.client.flush().await?;
        Ok(asked)
    }

    /// Returns whether the server reports no responders for this holder. A missing answer does not count: the holder may be busy.
    async fn is_disconnected(&self, entry: &LeaseEntry) -> bool {
        let subject = self.subjects.lease(self.role, &entry.holder).as_str().to_owned();
        let asking = timeout(self.length / CHECKS, self.client.request(subject, bytes::Bytes::new()));
        matches!(asking.await, Ok(Err(error)) if error.kind() == async_nats::RequestErrorKind::NoResponders)
    }

    /// Tries to acquire the lease. Returns its revision; `None` while another process holds it.
    async fn try_acquire(&self, observed: &mut Option<ObservedEntry>) -> Result<Option<u64>, Source> {
        let found = self.store.entry(self.role).await?.filter(|found| found.operation == kv::Operation::Put);
        let Some(found) = found else {
            // If another process was faster, the next attempt finds its entry.
            return Ok(self.store.create(self.role, self.value()?).await.ok());
        };
        let entry: LeaseEntry = serde_json::from_slice(&found.value)?;
        // The entry may be this process's own: an answer was lost, or it had stopped for lack of answers.
        let mut due = entry.holder == self.entry.holder;
        match observed {
            Some(observed) if observed.revision == found.revision => {
                let (silent, length) = (observed.since.elapsed(), Duration::from_millis(observed.entry.length_ms));
                due |= silent >= length;
                if !due && entry.answers && silent >= disconnected_patience(length) {
                    due = self.is_disconnected(&entry).await;
                }
            }
            _ => *observed = Some(ObservedEntry { revision: found.revision, entry, since: monotonic() }),
        }
        Ok(if due { self.store.update(self.role, self.value()?, found.revision).await.ok() } else { None })
    }

    /// Holds the lease until it is lost, or released because of `stop`.
    async fn hold_until_ended(&self, revision: u64, stop: &mut watch::Receiver<bool>) {
        let part = self.length / PARTS;
        let connected = || self.client.connection_state() == State::Connected;
        let patience = || if connected() { part * (PARTS - 1) } else { disconnected_patience(self.length) };
        match renew_until_ended(part, revision, patience, stop, |revision| self.renew(revision)).await {
            Ending::Stopped(revision) => {
                let releasing = self.store.delete_expect_revision(self.role, Some(revision));
                if !matches!(timeout(part, releasing).await, Ok(Ok(()))) {
                    tracing::debug!(role = self.role, "the lease was not released; it ends when its length is over");
                }
            }
            Ending::Lost => tracing::warn!(role = self.role, "another process has taken over the lease"),
            Ending::Unrenewed => {
                let text = "the lease could not be renewed; this process stops before another one takes over";
                tracing::warn!(role = self.role, "{text}");
            }
        }
    }

    /// Renews the lease. Returns the new revision; `None` if another process holds the lease.
    async fn renew(&self, revision: u64) -> Result<Option<u64>, Source> {
        match self.store.update(self.role, self.value()?, revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {
                // An update whose answer was lost has also changed the revision.
                let found = self.store.entry(self.role).await?.filter(|found| found.operation == kv::Operation::Put);
                let is_own = |found: &kv::Entry| {
                    serde_json::from_slice::<LeaseEntry>(&found.value).is_ok_and(|entry| entry == self.entry)
                };
                Ok(found.filter(is_own).map(|found| found.revision))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn value(&self) -> Result<bytes::Bytes, Source> {
        Ok(serde_json::to_vec(&self.entry)?.into())
    }
}

/// Returns how long a disconnected holder may go without a renewal: half a part longer than a live one ever does.
fn disconnected_patience(length: Duration) -> Duration {
    length * 3 / (2 * PARTS)
}

/// How holding a lease ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// It is to be released, at this revision.
    Stopped(u64),
    /// Another process holds it.
    Lost,
    /// It could not be renewed within `patience`.
    Unrenewed,
}

/// Renews a lease, acquired at `revision`, after every part. Returns when the last renewal is `patience` ago, also while a request
/// is pending.
async fn renew_until_ended<R>(
    part: Duration,
    mut revision: u64,
    patience: impl Fn() -> Duration,
    stop: &mut watch::Receiver<bool>,
    renew: impl Fn(u64) -> R,
) -> Ending
where
    R: Future<Output = Result<Option<u64>, Source>>,
{
    let mut renewed = monotonic();
    loop {
        sleep_unless_stopped(part.min(patience().saturating_sub(renewed.elapsed())), stop).await;
        if *stop.borrow() {
            return Ending::Stopped(revision);
        }
        let left = patience().saturating_sub(renewed.elapsed());
        if left.is_zero() {
            return Ending::Unrenewed;
        }
        let asked = monotonic();
        match timeout(part.min(left), renew(revision)).await {
            Ok(Ok(Some(next))) => (revision, renewed) = (next, asked),
            Ok(Ok(None)) => return Ending::Lost,
            Ok(Err(error)) => tracing::warn!(error, "cannot renew the lease"),
            Err(_) => tracing::warn!("the lease was not renewed in time"),
        }
    }
}

/// Answers liveness requests.
async fn answer_liveness(client: async_nats::Client, mut asked: async_nats::Subscriber) {
    while let Some(request) = asked.next().await {
        if let Some(reply) = request.reply
            && let Err(error) = client.publish(reply, bytes::Bytes::new()).await
        {
            tracing::debug!(%error, "the answer to a liveness request was not sent");
        }
    }
}

async fn sleep_unless_stopped(length: Duration, stop: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = tokio::time::sleep(length) => {}
        _ = stop.changed() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PART: Duration = Duration::from_millis(100);

    /// Returns how and after how long a lease ends whose renewals fail after `takes`.
    async fn unrenewed(takes: Duration, patience: Duration) -> (Ending, Duration) {
        let (_stops, mut stop) = watch::channel(false);
        let began = monotonic();
        let failing = |_| async move {
            tokio::time::sleep(takes).await;
            Err("the server is slow to say no".into())
        };
        (renew_until_ended(PART, 1, || patience, &mut stop, failing).await, began.elapsed())
    }

    #[tokio::test]
    async fn a_holder_stops_after_three_parts_however_slow_the_errors_are() {
        for takes in [Duration::ZERO, PART * 95 / 100, PART * 10] {
            let (ending, took) = unrenewed(takes, PART * 3).await;
            assert_eq!(ending, Ending::Unrenewed);
            assert!((PART * 3..PART * 7 / 2).contains(&took), "{took:?} with errors after {takes:?}");
        }
    }

    #[tokio::test]
    async fn a_renewal_counts_from_when_it_was_asked_for() {
        let (_stops, mut stop) = watch::channel(false);
        let (began, times) = (monotonic(), Cell::new(0));
        let once = |revision| {
            times.set(times.get() + 1);
            let first = times.get() == 1;
            async move {
                tokio::time::sleep(PART / 2).await;
                if first { Ok(Some(revision + 1)) } else { Err("gone".into()) }
            }
        };
        assert_eq!(renew_until_ended(PART, 1, || PART * 3, &mut stop, once).await, Ending::Unrenewed);
        let took = began.elapsed();
        assert!((PART * 4..PART * 9 / 2).contains(&took), "{took:?}");
    }
}
