//! Which of several processes does what only one may do at a time: a key in a bucket, kept by writing it again and again.
//!
//! The holder writes every quarter of the lease's length. Whoever waits looks at the key's revision: one that has not moved for a
//! whole length, by the waiting process's own clock, is taken over by a write that succeeds only if the revision is still that one.
//! So the clocks of two machines are never compared. A holder that could not write for three quarters of the length stops by itself,
//! before anybody takes over. One that ends in good order deletes the key, and the next one need not wait.
//!
//! Nor need it wait for long after one that was killed. A holder answers on a subject of its own; when the server says that nobody
//! listens there, the holder's connection is gone. If the revision has not moved for three eighths of the length either, in which a
//! holder that lives writes at least once, it is taken over. A holder that has lost its connection stops by then, too.
//!
//! A holder that is frozen and wakes up, or that is connected to a server which is cut off from the others, may work beside its
//! successor until it looks at its watch: for three eighths of the length at most, if it is not frozen. What it appends then is still
//! one record per id: the lease keeps processes from disturbing each other, the log keeps the facts right.

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

/// Parts of its length: after one the holder writes, and gives the server one more to answer.
const PARTS: u32 = 4;
/// How often whoever waits looks, in parts of its own length.
const LOOKS: u32 = 20;

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
    /// Whether it answers those who ask if it is still there. Older ones do not.
    #[serde(default)]
    answers: bool,
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
        let note = Note { holder, length_ms, answers: true };
        let (client, subjects) = (nats.client().clone(), nats.subjects().clone());
        let claim = Claim { store, client, subjects, what, note, length, state: sender };
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
    client: async_nats::Client,
    subjects: Subjects,
    what: &'static str,
    note: Note,
    length: Duration,
    state: watch::Sender<LeaseState>,
}

impl Claim {
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut seen: Option<Seen> = None;
        // Ends with this function.
        let mut answering = JoinSet::new();
        self.note.answers = match self.listen().await {
            Ok(asked) => {
                answering.spawn(answer(self.client.clone(), asked));
                true
            }
            Err(error) => {
                tracing::warn!(what = self.what, error, "cannot answer whether this process is there; others will wait longer");
                false
            }
        };
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

    /// Where others ask whether this process is there. The server knows of it before the key says so.
    async fn listen(&self) -> Result<async_nats::Subscriber, Source> {
        let subject = self.subjects.lease(self.what, &self.note.holder);
        let asked = self.client.subscribe(subject.as_str().to_owned()).await?;
        self.client.flush().await?;
        Ok(asked)
    }

    /// Whether the server knows of no connection of this holder. One that does not answer may be busy: only the server's word counts.
    async fn has_left(&self, note: &Note) -> bool {
        let subject = self.subjects.lease(self.what, &note.holder).as_str().to_owned();
        let asking = timeout(self.length / LOOKS, self.client.request(subject, bytes::Bytes::new()));
        matches!(asking.await, Ok(Err(error)) if error.kind() == async_nats::RequestErrorKind::NoResponders)
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
                let (silent, length) = (seen.since.elapsed(), Duration::from_millis(seen.note.length_ms));
                due |= silent >= length;
                if !due && note.answers && silent >= patience_with_the_gone(length) {
                    due = self.has_left(&note).await;
                }
            }
            _ => *seen = Some(Seen { revision: entry.revision, note, since: monotonic() }),
        }
        Ok(if due { self.store.update(self.what, self.value()?, entry.revision).await.ok() } else { None })
    }

    /// Until it is lost, or given back because of `stop`.
    async fn hold(&self, revision: u64, stop: &mut watch::Receiver<bool>) {
        let part = self.length / PARTS;
        let connected = || self.client.connection_state() == State::Connected;
        let patience = || if connected() { part * (PARTS - 1) } else { patience_with_the_gone(self.length) };
        match keep(part, revision, patience, stop, |revision| self.renew(revision)).await {
            Ending::Stopped(revision) => {
                let giving_back = self.store.delete_expect_revision(self.what, Some(revision));
                if !matches!(timeout(part, giving_back).await, Ok(Ok(()))) {
                    tracing::debug!(what = self.what, "the lease stays until its time is over");
                }
            }
            Ending::Lost => tracing::warn!(what = self.what, "another process has taken over the lease"),
            Ending::Unrenewed => {
                let text = "the lease could not be renewed; this process stops before another one takes over";
                tracing::warn!(what = self.what, "{text}");
            }
        }
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

/// How long a holder of such a lease may be silent that is not connected: half a part longer than one that lives ever is.
fn patience_with_the_gone(length: Duration) -> Duration {
    length * 3 / (2 * PARTS)
}

/// How holding a lease ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// It was to be given back, at this revision.
    Stopped(u64),
    /// It belongs to another.
    Lost,
    /// Nobody knows: it could not be renewed for as long as `patience` lasts.
    Unrenewed,
}

/// Renews a lease, taken at `revision`, after every part. Ends as soon as the last renewal is as long ago as `patience` allows, whatever
/// the server is doing then.
async fn keep<R>(
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
        pause(part.min(patience().saturating_sub(renewed.elapsed())), stop).await;
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

/// Tells whoever asks that this process is there.
async fn answer(client: async_nats::Client, mut asked: async_nats::Subscriber) {
    while let Some(question) = asked.next().await {
        if let Some(reply) = question.reply
            && let Err(error) = client.publish(reply, bytes::Bytes::new()).await
        {
            tracing::debug!(%error, "an answer was not sent");
        }
    }
}

async fn pause(length: Duration, stop: &mut watch::Receiver<bool>) {
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

    /// How a lease ends whose renewals take so long and then fail, and after how long.
    async fn unrenewed(takes: Duration, patience: Duration) -> (Ending, Duration) {
        let (_stops, mut stop) = watch::channel(false);
        let began = monotonic();
        let failing = |_| async move {
            tokio::time::sleep(takes).await;
            Err("the server is slow to say no".into())
        };
        (keep(PART, 1, || patience, &mut stop, failing).await, began.elapsed())
    }

    #[tokio::test]
    async fn a_holder_stops_after_three_parts_however_slow_the_errors_are() {
        for takes in [Duration::ZERO, PART * 95 / 100, PART * 10] {
            let (kept, took) = unrenewed(takes, PART * 3).await;
            assert_eq!(kept, Ending::Unrenewed);
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
        assert_eq!(keep(PART, 1, || PART * 3, &mut stop, once).await, Ending::Unrenewed);
        let took = began.elapsed();
        assert!((PART * 4..PART * 9 / 2).contains(&took), "{took:?}");
    }
}
