//! Publishing: the types of a publish request and its answer, and [`Publisher`], the client with which gateways and other code in this
//! process publish. The execution actor answers.

mod order;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Message;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config;
use crate::core::event::NewRecord;
use crate::core::event::cloud::{self, Receipt, Received};
use crate::core::id::Seq;
use crate::core::intake::{self, Limits};
use crate::core::redact;
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::lease::LeaseState;
use crate::log::{AppendError, DeadLetter, DeadLetters};
use crate::metrics::Metrics;
pub(crate) use order::{RequestOrder, RequestPlace};

/// Longest wait of a request for the execution actor to start. The pauses between its restarts are at most half as long.
const ACTOR_WAIT: Duration = Duration::from_secs(10);
/// Longest path of an ignored member that is reported.
const IGNORED_PATH_BYTES_MAX: usize = 128;
/// Longest wait for the verdicts, in addition to `execution.reorder_wait_ms`. A log that takes longer is stuck.
const VERDICT_WAIT: Duration = Duration::from_mins(1);

/// An event that a gateway has checked: a fact, or a refusal.
///
/// Both are behind a pointer, because events are moved often.
#[derive(Debug)]
pub struct Incoming {
    pub content: Result<Arc<NewRecord>, Box<Refusal>>,
    /// The bytes as received, for a dead letter. Without them, a dead letter holds the event as structured JSON.
    pub original: Option<Bytes>,
    /// Paths of what was ignored, with secrets redacted.
    pub ignored: Vec<String>,
}

impl Incoming {
    /// Checks an event that a gateway has parsed, or failed to parse, from `original`.
    pub(crate) fn received(parsed: Result<Received, Refusal>, original: Bytes, limits: &Limits) -> Self {
        let mut ignored = Vec::new();
        let content = parsed.and_then(|mut received| {
            intake::check(&mut received.fact, limits)?;
            ignored = received.ignored;
            Ok(Arc::new(received.fact))
        });
        clean_paths(&mut ignored, limits);
        let content = content.map_err(|refusal| Box::new(refusal.redacted(&limits.redactor)));
        Self { content, original: Some(original), ignored }
    }
}

/// Redacts and cuts the paths of ignored members, which are reported to the sender.
pub(crate) fn clean_paths(paths: &mut [String], limits: &Limits) {
    for path in paths {
        limits.redactor.clean(path);
        redact::cut(path, IGNORED_PATH_BYTES_MAX);
    }
}

/// The answer for one published event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is durable in the log.
    Accepted { seq: Seq },
    /// The log held this event already: this id, with this content.
    Duplicate { seq: Seq },
    /// It is not in the log. It is kept as a dead letter, unless its sender sends it again.
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
    /// The named storage is full. Some events may have been taken. Sending all again, with the same ids, is safe.
    #[error("{0}; make room and send it again with the same ids")]
    Full(Arc<str>),
    /// Nothing was taken.
    #[error("the log cannot be written at the moment; GET /readyz says why")]
    Failing,
    /// Some events may have been taken. Sending all again, with the same ids, is safe.
    #[error("the outcome is unknown; send it again with the same ids")]
    Unknown,
}

/// The request to publish events, as a message for the execution actor.
#[derive(Message)]
#[rtype(result = "Result<Vec<Verdict>, PublishError>")]
pub(crate) struct Publish {
    pub(crate) items: Vec<Incoming>,
    /// The name of the gateway, for dead letters.
    pub(crate) origin: &'static str,
    /// The sender keeps events that are refused temporarily and sends them again, so these become no dead letters.
    pub(crate) retried_by_sender: bool,
    pub(crate) reservation: Reservation,
    /// The place of the request among those of its sender, if that keeps them in order.
    pub(crate) place: Option<RequestPlace>,
}

/// The sender through which the execution actor announces its address to publishers; `None` while there is no actor.
pub(crate) type AddressSender = watch::Sender<Option<actix::Recipient<Publish>>>;

/// Why dead letters could not be sent again.
#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("the events were sent again, but their dead letters could not be removed")]
    Remove(#[from] AppendError),
}

/// `Publisher` sends events to the execution actor and waits for the verdicts. It is cheap to clone and survives the actor's restarts.
#[derive(Clone)]
pub struct Publisher {
    address: watch::Receiver<Option<actix::Recipient<Publish>>>,
    limits: Arc<Limits>,
    /// The lease of the role `execution`.
    lease: watch::Receiver<LeaseState>,
    pending: Arc<PendingBytes>,
    actor_wait: Duration,
    verdict_wait: Duration,
    metrics: Arc<Metrics>,
}

/// The bytes, as received, of the events that wait for their verdicts.
struct PendingBytes {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl PendingBytes {
    /// Reserves `bytes`; `None` if they exceed `bytes_max` together with those reserved already. A request of any size is accepted
    /// while nothing else is reserved, because it could never succeed otherwise. Events made in this process count no bytes; their
    /// maker bounds them.
    fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let fits = |held: usize, sum: usize| bytes == 0 || held == 0 || sum <= self.bytes_max;
        let grown = |held: usize| held.checked_add(bytes).filter(|sum| fits(held, *sum));
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok()?;
        Some(Reservation { bytes, pending: Arc::clone(self) })
    }
}

/// The reserved bytes of a request, until it is answered or dropped.
pub(crate) struct Reservation {
    bytes: usize,
    pending: Arc<PendingBytes>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pending.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
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
        let pending = Arc::new(PendingBytes { bytes: AtomicUsize::new(0), bytes_max: settings.queue_bytes_max });
        let verdict_wait = VERDICT_WAIT + Duration::from_millis(settings.reorder_wait_ms);
        Self { address, limits, lease, pending, actor_wait: ACTOR_WAIT, verdict_wait, metrics }
    }

    /// Publishes events made in this process. When this returns, each is durable in the log or was refused.
    pub async fn publish(&self, facts: Vec<NewRecord>) -> Result<Vec<Verdict>, PublishError> {
        let check = |mut fact| match intake::check(&mut fact, &self.limits) {
            Ok(()) => Incoming { content: Ok(Arc::new(fact)), original: None, ignored: Vec::new() },
            Err(refusal) => {
                let original = cloud::to_structured(&fact).to_string().into_bytes().into();
                let refusal = Box::new(refusal.redacted(&self.limits.redactor));
                Incoming { content: Err(refusal), original: Some(original), ignored: Vec::new() }
            }
        };
        self.submit(facts.into_iter().map(check).collect(), "library").await
    }

    /// Publishes events that the gateway named `origin` has checked.
    pub async fn submit(&self, items: Vec<Incoming>, origin: &'static str) -> Result<Vec<Verdict>, PublishError> {
        self.send(items, origin, false, None).await
    }

    /// Publishes events after those of the earlier places of their order. If `retried`, the sender keeps events that are refused
    /// temporarily and sends them again, so these become no dead letters.
    pub(crate) async fn submit_in_order(
        &self,
        items: Vec<Incoming>,
        origin: &'static str,
        retried: bool,
        place: RequestPlace,
    ) -> Result<Vec<Verdict>, PublishError> {
        self.send(items, origin, retried, Some(place)).await
    }

    async fn send(
        &self,
        items: Vec<Incoming>,
        origin: &'static str,
        retried_by_sender: bool,
        place: Option<RequestPlace>,
    ) -> Result<Vec<Verdict>, PublishError> {
        match &*self.lease.borrow() {
            LeaseState::Held => {}
            LeaseState::Waiting(Some(_)) => return Err(PublishError::Closed),
            LeaseState::Waiting(None) => return Err(PublishError::Unleased),
        }
        let bytes = items.iter().filter_map(|item| item.original.as_ref()).map(bytes::Bytes::len).sum();
        let Some(reservation) = self.pending.reserve(bytes) else {
            self.metrics.busy.inc();
            return Err(PublishError::Busy);
        };
        self.metrics.ignored_members.inc_by(items.iter().map(|item| item.ignored.len() as u64).sum());
        let mut address = self.address.clone();
        let present = timeout(self.actor_wait, address.wait_for(Option::is_some)).await.map_err(|_| PublishError::NotReady)?;
        let actor = present.map_err(|_| PublishError::Closed)?.clone().expect("waited for an address");
        // A caller that stops waiting here does not withdraw the events: they keep their reservation until the actor has answered.
        let publish = Publish { items, origin, retried_by_sender, reservation, place };
        let verdicts = timeout(self.verdict_wait, actor.send(publish)).await;
        verdicts.map_or(Err(PublishError::Unknown), |sent| sent.unwrap_or(Err(PublishError::Unknown)))
    }

    /// Publishes the events of dead letters again and removes the letters. An event that is refused again gets a new dead letter with
    /// the new reason.
    pub async fn redrive(
        &self,
        dead: &dyn DeadLetters,
        letters: Vec<DeadLetter>,
        now: Timestamp,
    ) -> Result<Vec<(u64, Verdict)>, RedriveError> {
        let numbers: Vec<u64> = letters.iter().map(|letter| letter.number).collect();
        let parse = |letter: DeadLetter| {
            let parsed = cloud::receive_structured(&letter.letter.bytes, self.receipt(now));
            Incoming::received(parsed, letter.letter.bytes.into(), &self.limits)
        };
        let verdicts = self.submit(letters.into_iter().map(parse).collect(), "redrive").await?;
        dead.remove(numbers.clone()).await?;
        Ok(numbers.into_iter().zip(verdicts).collect())
    }

    /// Whether the execution actor is running, so that it can take events.
    pub fn is_open(&self) -> bool {
        self.address.borrow().is_some()
    }

    /// The state of the lease of the role `execution`.
    pub fn lease(&self) -> LeaseState {
        self.lease.borrow().clone()
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How an event that arrived at `now` is completed.
    pub fn receipt(&self, now: Timestamp) -> Receipt<'_> {
        Receipt { now, default_server: self.limits.default_server.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_reserved_up_to_the_maximum_or_for_one_request() {
        let pending = Arc::new(PendingBytes { bytes: AtomicUsize::new(0), bytes_max: 10 });
        let first = pending.reserve(6).unwrap();
        assert!(pending.reserve(5).is_none());
        let second = pending.reserve(4).unwrap();
        assert!(pending.reserve(1).is_none());
        drop((first, second));
        let alone = pending.reserve(1_000).unwrap();
        assert!(pending.reserve(1).is_none() && pending.reserve(usize::MAX).is_none());
        assert!(pending.reserve(0).is_some());
        drop(alone);
        assert!(pending.reserve(10).is_some());
    }

    #[tokio::test]
    async fn a_request_does_not_wait_for_ever_for_an_actor_that_is_not_running() {
        let config = config::Config::load(None, []).unwrap();
        let (_sender, address) = watch::channel(None);
        let limits = Arc::new(Limits::from(&config));
        let mut publisher = Publisher::new(address, limits, LeaseState::always(), &config.execution, Arc::new(Metrics::new()));
        publisher.actor_wait = Duration::from_millis(1);
        let refusal = cloud::from_structured(b"{}", Timestamp::from_micros(0)).unwrap_err();
        let item =
            Incoming { content: Err(Box::new(refusal)), original: Some(bytes::Bytes::from_static(b"{}")), ignored: Vec::new() };
        assert_eq!(publisher.submit(vec![item], "test").await, Err(PublishError::NotReady));
        assert_eq!(publisher.pending.bytes.load(Ordering::Relaxed), 0, "the reservation is released");
    }
}
