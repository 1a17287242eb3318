//! Which of several processes does what only one may do at a time: a key in a bucket, kept by writing it again and again.
//!
//! The holder writes every quarter of the lease's length. Whoever waits looks at the key's revision: one that has not moved for a
//! whole length, by the waiting process's own clock, is taken over by a write that succeeds only if the revision is still that one.
//! So the clocks of two machines are never compared. A holder that could not write for three quarters of the length stops by itself,
//! before anybody takes over. One that ends in good order deletes the key, and the next one need not wait.
//!
//! A holder that is frozen for longer than that and wakes up may work beside its successor until it looks at its watch. What it
//! appends then is still one record per id: the lease keeps processes from disturbing each other, the log keeps the facts right.

use std::time::Duration;

use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{Nats, NatsError, streams};
use crate::clock::monotonic;
use crate::lease::LeaseState;

/// Parts of its length: after one the holder writes, and gives the server one more to answer.
const PARTS: u32 = 4;
/// How often whoever waits looks, in parts of its own length.
const LOOKS: u32 = 5;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A share in something that one process does at a time. Goes on waiting or holding until it is released or dropped.
pub struct Lease {
    state: watch::Receiver<LeaseState>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

/// What the key says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    holder: String,
    /// The patience others must have with this holder.
    length_ms: u64,
}

impl Lease {
    /// Stands in line for `what`. Makes the bucket of the workspace if it is missing. Returns when it is known who holds it, or
    /// after a while without.
    pub async fn seek(nats: &Nats, what: &'static str, holder: String, length: Duration) -> Result<Self, NatsError> {
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
        let claim = Claim { store, what, note: Note { holder, length_ms }, length, state: sender };
        let task = nats.spawn(claim.run(stopping));
        if timeout(length, state.wait_for(|state| *state != LeaseState::Waiting(None))).await.is_err() {
            tracing::warn!(what, "it is not known yet which process has the lease");
        }
        Ok(Self { state, stop, task })
    }

    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Lets the next one have it at once.
    pub async fn release(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("the task that keeps a lease had panicked");
        }
    }
}

/// The stream below a bucket of keys with one value each.
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

/// The key as last seen, and since when it has not moved.
struct Seen {
    revision: u64,
    note: Note,
    since: Instant,
}

struct Claim {
    store: kv::Store,
    what: &'static str,
    note: Note,
    length: Duration,
    state: watch::Sender<LeaseState>,
}

impl Claim {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut seen: Option<Seen> = None;
        while !*stop.borrow() {
            // A question that is not answered in time leaves things as they are; the next one follows.
            let look = timeout(self.length, self.look(&mut seen)).await.unwrap_or_else(|late| Err(late.into()));
            match look {
                Ok(Some(revision)) => {
                    tracing::info!(what = self.what, "this process has the lease");
                    self.state.send_replace(LeaseState::Held);
                    self.hold(revision, &mut stop).await;
                    seen = None;
                    self.state.send_replace(LeaseState::Waiting(None));
                }
                Ok(None) => self.tell(seen.as_ref()),
                Err(error) => tracing::debug!(what = self.what, error, "cannot look at the lease"),
            }
            pause(self.length / LOOKS, &mut stop).await;
        }
    }

    /// Says once who is waited for.
    fn tell(&self, seen: Option<&Seen>) {
        let waiting = LeaseState::Waiting(seen.map(|seen| seen.note.holder.clone()));
        if *self.state.borrow() != waiting {
            let holder = seen.map_or("nobody yet", |seen| seen.note.holder.as_str());
            tracing::info!(what = self.what, holder, "another process has the lease; this one waits until it is gone");
            self.state.send_replace(waiting);
        }
    }

    /// The revision at which the lease was taken; `None` while it belongs to another.
    async fn look(&self, seen: &mut Option<Seen>) -> Result<Option<u64>, Source> {
        let entry = self.store.entry(self.what).await?.filter(|entry| entry.operation == kv::Operation::Put);
        let Some(entry) = entry else {
            // Whoever else was faster shows at the next look.
            return Ok(self.store.create(self.what, self.value()?).await.ok());
        };
        let note: Note = serde_json::from_slice(&entry.value)?;
        // Its own: an answer was lost, or it had stopped for lack of answers.
        let mut due = note.holder == self.note.holder;
        match seen {
            Some(seen) if seen.revision == entry.revision => {
                due |= seen.since.elapsed() >= Duration::from_millis(seen.note.length_ms);
            }
            _ => *seen = Some(Seen { revision: entry.revision, note, since: monotonic() }),
        }
        Ok(if due { self.store.update(self.what, self.value()?, entry.revision).await.ok() } else { None })
    }

    /// Until it is lost, or given back because of `stop`.
    async fn hold(&self, mut revision: u64, stop: &mut watch::Receiver<bool>) {
        let part = self.length / PARTS;
        let mut renewed = monotonic();
        // At most one pause and one question more, so it ends a part before its time is over.
        while renewed.elapsed() < part * (PARTS - 2) {
            pause(part, stop).await;
            if *stop.borrow() {
                let giving_back = self.store.delete_expect_revision(self.what, Some(revision));
                if !matches!(timeout(part, giving_back).await, Ok(Ok(()))) {
                    tracing::debug!(what = self.what, "the lease stays until its time is over");
                }
                return;
            }
            let asked = monotonic();
            match timeout(part, self.renew(revision)).await {
                Ok(Ok(Some(next))) => (revision, renewed) = (next, asked),
                Ok(Ok(None)) => {
                    tracing::warn!(what = self.what, "another process has taken over the lease");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(what = self.what, error, "cannot renew the lease"),
                Err(_) => tracing::warn!(what = self.what, "the lease was not renewed in time"),
            }
        }
        tracing::warn!(what = self.what, "the lease could not be renewed; this process stops before another one takes over");
    }

    /// The new revision; `None` if the lease is another's.
    async fn renew(&self, revision: u64) -> Result<Option<u64>, Source> {
        match self.store.update(self.what, self.value()?, revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {
                // An update whose answer was lost has moved the revision, too.
                let entry = self.store.entry(self.what).await?.filter(|entry| entry.operation == kv::Operation::Put);
                let own = |entry: &kv::Entry| serde_json::from_slice::<Note>(&entry.value).is_ok_and(|note| note == self.note);
                Ok(entry.filter(own).map(|entry| entry.revision))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn value(&self) -> Result<bytes::Bytes, Source> {
        Ok(serde_json::to_vec(&self.note)?.into())
    }
}

async fn pause(length: Duration, stop: &mut watch::Receiver<bool>) {
    tokio::select! {
        () = tokio::time::sleep(length) => {}
        _ = stop.changed() => {}
    }
}
