//! Publishing: the types of a publish request and its answer, and [`Publisher`], the client that every gateway and everything
//! inside this process publishes with. The execution actor answers.

use std::sync::Arc;

use actix::Message;
use bytes::Bytes;
use tokio::sync::watch;

use crate::core::event::{NewRecord, cloud};
use crate::core::id::Seq;
use crate::core::intake::{self, Limits};
use crate::core::refusal::Refusal;
use crate::core::time::Timestamp;
use crate::lease::LeaseState;
use crate::log::AppendError;
use crate::log::{DeadLetter, DeadLetters};

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
        Self { content: content.map_err(Box::new), original: Some(original) }
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
    #[error("too many events are waiting (execution.queue_events_max); try again in a moment")]
    Busy,
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
}

impl Publisher {
    pub(crate) fn new(
        address: watch::Receiver<Option<actix::Recipient<Publish>>>,
        limits: Arc<Limits>,
        lease: watch::Receiver<LeaseState>,
    ) -> Self {
        Self { address, limits, lease }
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
        self.send(Publish { items, origin, comes_again: false }).await
    }

    /// Publishes for a sender that keeps events that are refused temporarily and sends them again: they become no dead letters.
    pub(crate) async fn submit_to_come_again(
        &self,
        items: Vec<Incoming>,
        origin: &'static str,
    ) -> Result<Vec<Verdict>, PublishError> {
        self.send(Publish { items, origin, comes_again: true }).await
    }

    async fn send(&self, publish: Publish) -> Result<Vec<Verdict>, PublishError> {
        match &*self.lease.borrow() {
            LeaseState::Held => {}
            LeaseState::Waiting(Some(_)) => return Err(PublishError::Closed),
            LeaseState::Waiting(None) => return Err(PublishError::Unleased),
        }
        let mut address = self.address.clone();
        let present = address.wait_for(Option::is_some).await.map_err(|_| PublishError::Closed)?.clone();
        let actor = present.expect("waited for an address");
        actor.send(publish).await.unwrap_or(Err(PublishError::Unknown))
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
