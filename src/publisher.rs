//! Publishing: the types of a publish request and its answer, and [`Publisher`], the client that every gateway and everything
//! inside this process publishes with. The execution actor answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Message;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config;
use crate::core::event::{NewRecord, cloud};
use crate::core::id::Seq;
use crate::core::intake::{self, Limits};
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::lease::LeaseState;
use crate::log::AppendError;
use crate::log::{DeadLetter, DeadLetters};
use crate::metrics::Metrics;

/// Longest wait of a request for the execution actor to be there. The pauses between its restarts are at most half as long.
const ACTOR_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for the verdicts, beyond what the actor lets events wait for others. A log that takes this long is stuck.
const VERDICT_WAIT: Duration = Duration::from_mins(1);

/// An event that has passed the door it came through, or was refused there.
///
/// Boxed on both sides, by the sender's thread: events are handed on often.
#[derive(Debug)]
pub struct Incoming {
    pub content: Result<Arc<NewRecord>, Box<Refusal>>,
    /// As received; without it, a refused event is kept in the form it would have had on the wire.
    pub original: Option<Bytes>,
}

impl Incoming {
    /// An event as a door read it, after it has passed the intake.
    pub(crate) fn received(read: Result<NewRecord, Refusal>, original: Bytes, limits: &Limits) -> Self {
        let content = read.and_then(|mut fact| {
            intake::check(&mut fact, limits)?;
            Ok(Arc::new(fact))
        });
        let content = content.map_err(|refusal| Box::new(refusal.redacted(&limits.redactor)));
        Self { content, original: Some(original) }
    }
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In the log, durably.
    Accepted { seq: Seq },
    /// The log held this id already.
    Duplicate { seq: Seq },
    /// Not in the log; kept as a dead letter.
    Refused(Box<Refusal>),
}

/// Why a whole publish request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Nothing was taken.
    #[error("too many events are waiting (execution.queue_events_max, execution.queue_bytes_max); try again in a moment")]
    Busy,
    /// Nothing was taken.
    #[error(
        "events are not accepted yet: the execution actor is catching up with the log, or cannot read it; try again in a moment"
    )]
    NotReady,
    /// Nothing was taken.
    #[error("this process takes no events: it is stopping, or the role 'execution' belongs to another one")]
    Closed,
    /// Nothing was taken.
    #[error(
        "this process accepts no events at the moment: it has no lease on the role 'execution', nor is another process known to have it"
    )]
    Unleased,
    /// There is no room; names what is full. Some of it may have been taken before that. Sending it again, with the same ids, is safe.
    #[error("{0}; make room and send it again with the same ids")]
    Full(Arc<str>),
    /// Nothing was taken.
    #[error("the log cannot be written at the moment; GET /readyz says why")]
    Failing,
    /// Some of it may have been taken. Sending it again, with the same ids, is safe.
    #[error("the outcome is unknown; send it again with the same ids")]
    Unknown,
}

#[derive(Message)]
#[rtype(result = "Result<Vec<Verdict>, PublishError>")]
pub(crate) struct Publish {
    pub(crate) items: Vec<Incoming>,
    pub(crate) origin: &'static str,
    /// The sender keeps events that are refused temporarily and sends them again: they become no dead letters.
    pub(crate) comes_again: bool,
    pub(crate) room: Room,
}

/// Where the execution actor announces itself to publishers; `None` while there is none.
pub(crate) type Announce = watch::Sender<Option<actix::Recipient<Publish>>>;

#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("the events were sent again, but their dead letters could not be removed")]
    Remove(#[from] AppendError),
}

/// Publishes events through the execution actor. Cheap to clone; survives the actor's restarts.
#[derive(Clone)]
pub struct Publisher {
    address: watch::Receiver<Option<actix::Recipient<Publish>>>,
    limits: Arc<Limits>,
    /// Whether this process is the one that takes events.
    lease: watch::Receiver<LeaseState>,
    waiting: Arc<Waiting>,
    actor_wait: Duration,
    verdict_wait: Duration,
    metrics: Arc<Metrics>,
}

/// What waits for its verdict, in bytes as received.
struct Waiting {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Waiting {
    /// `None` if there is no room beside what waits already. What waits alone may be of any size: it would never find more room. What
    /// was made in this process has no bytes as received, and is bounded by who made it.
    fn take_room(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let fits = |held: usize, sum: usize| bytes == 0 || held == 0 || sum <= self.bytes_max;
        let grown = |held: usize| held.checked_add(bytes).filter(|sum| fits(held, *sum));
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok()?;
        Some(Room { bytes, of: Arc::clone(self) })
    }
}

/// The room that a request takes until it has its verdicts or is dropped.
pub(crate) struct Room {
    bytes: usize,
    of: Arc<Waiting>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Publisher {
    pub(crate) fn new(
        address: watch::Receiver<Option<actix::Recipient<Publish>>>,
        limits: Arc<Limits>,
        lease: watch::Receiver<LeaseState>,
        settings: &config::Execution,
        metrics: Arc<Metrics>,
    ) -> Self {
        let waiting = Arc::new(Waiting { bytes: AtomicUsize::new(0), bytes_max: settings.queue_bytes_max });
        let verdict_wait = VERDICT_WAIT + Duration::from_millis(settings.reorder_wait_ms);
        Self { address, limits, lease, waiting, actor_wait: ACTOR_WAIT, verdict_wait, metrics }
    }

    /// Publishes events made in this process. When this returns, each is durably in the log or was refused.
    pub async fn publish(&self, facts: Vec<NewRecord>) -> Result<Vec<Verdict>, PublishError> {
        let check = |mut fact| match intake::check(&mut fact, &self.limits) {
            Ok(()) => Incoming { content: Ok(Arc::new(fact)), original: None },
            Err(refusal) => {
                let original = cloud::to_structured(&fact).to_string().into_bytes().into();
                Incoming { content: Err(Box::new(refusal.redacted(&self.limits.redactor))), original: Some(original) }
            }
        };
        self.submit(facts.into_iter().map(check).collect(), "library").await
    }

    /// Publishes what came through a door named `origin`, checked or refused there.
    pub async fn submit(&self, items: Vec<Incoming>, origin: &'static str) -> Result<Vec<Verdict>, PublishError> {
        self.send(items, origin, false).await
    }

    /// Publishes for a sender that keeps events that are refused temporarily and sends them again: they become no dead letters.
    pub(crate) async fn submit_to_come_again(
        &self,
        items: Vec<Incoming>,
        origin: &'static str,
    ) -> Result<Vec<Verdict>, PublishError> {
        self.send(items, origin, true).await
    }

    async fn send(&self, items: Vec<Incoming>, origin: &'static str, comes_again: bool) -> Result<Vec<Verdict>, PublishError> {
        match &*self.lease.borrow() {
            LeaseState::Held => {}
            LeaseState::Waiting(Some(_)) => return Err(PublishError::Closed),
            LeaseState::Waiting(None) => return Err(PublishError::Unleased),
        }
        let bytes = items.iter().filter_map(|item| item.original.as_ref()).map(bytes::Bytes::len).sum();
        let Some(room) = self.waiting.take_room(bytes) else {
            self.metrics.busy.inc();
            return Err(PublishError::Busy);
        };
        let mut address = self.address.clone();
        let present = timeout(self.actor_wait, address.wait_for(Option::is_some)).await.map_err(|_| PublishError::NotReady)?;
        let actor = present.map_err(|_| PublishError::Closed)?.clone().expect("waited for an address");
        // A caller that stops waiting here does not take the events back: they keep their room until the actor is done with them.
        let verdicts = timeout(self.verdict_wait, actor.send(Publish { items, origin, comes_again, room })).await;
        verdicts.map_or(Err(PublishError::Unknown), |sent| sent.unwrap_or(Err(PublishError::Unknown)))
    }

    /// Sends dead letters through the door again. Each leaves the store; one that is refused once more comes back with the new
    /// reason.
    pub async fn redrive(
        &self,
        dead: &dyn DeadLetters,
        letters: Vec<DeadLetter>,
        now: Timestamp,
    ) -> Result<Vec<(u64, Verdict)>, RedriveError> {
        let numbers: Vec<u64> = letters.iter().map(|letter| letter.number).collect();
        let reread = |letter: DeadLetter| {
            let read = cloud::from_structured(&letter.letter.bytes, now);
            Incoming::received(read, letter.letter.bytes.into(), &self.limits)
        };
        let verdicts = self.submit(letters.into_iter().map(reread).collect(), "redrive").await?;
        dead.remove(numbers.clone()).await?;
        Ok(numbers.into_iter().zip(verdicts).collect())
    }

    /// Whether the execution actor is there to take events.
    pub fn is_open(&self) -> bool {
        self.address.borrow().is_some()
    }

    /// Whether it would take them, or waits for another process.
    pub fn lease(&self) -> LeaseState {
        self.lease.borrow().clone()
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_for_so_many_bytes_or_for_one_request() {
        let waiting = Arc::new(Waiting { bytes: AtomicUsize::new(0), bytes_max: 10 });
        let first = waiting.take_room(6).unwrap();
        assert!(waiting.take_room(5).is_none());
        let second = waiting.take_room(4).unwrap();
        assert!(waiting.take_room(1).is_none());
        drop((first, second));
        let alone = waiting.take_room(1_000).unwrap();
        assert!(waiting.take_room(1).is_none() && waiting.take_room(usize::MAX).is_none());
        assert!(waiting.take_room(0).is_some());
        drop(alone);
        assert!(waiting.take_room(10).is_some());
    }

    #[tokio::test]
    async fn nobody_waits_for_ever_for_an_actor_that_is_not_there() {
        let config = config::Config::load(None, []).unwrap();
        let (_door, address) = watch::channel(None);
        let limits = Arc::new(Limits::from(&config));
        let mut publisher = Publisher::new(address, limits, LeaseState::always(), &config.execution, Arc::new(Metrics::new()));
        publisher.actor_wait = Duration::from_millis(1);
        let refusal = cloud::from_structured(b"{}", Timestamp::from_micros(0)).unwrap_err();
        let item = Incoming { content: Err(Box::new(refusal)), original: Some(bytes::Bytes::from_static(b"{}")) };
        assert_eq!(publisher.submit(vec![item], "test").await, Err(PublishError::NotReady));
        assert_eq!(publisher.waiting.bytes.load(Ordering::Relaxed), 0, "and the room is free again");
    }
}
