//! The in-process client: how everything inside this process publishes events, and what HTTP uses too.

use std::sync::Arc;

use tokio::sync::watch;

use crate::actors::execution::{Execution, Incoming, Publish, PublishError, Verdict};
use crate::actors::turn::Turn;
use crate::core::event::{NewRecord, cloud};
use crate::core::intake::{self, Limits};
use crate::core::time::Timestamp;
use crate::dead::{DeadLetter, DeadLetters};
use crate::log::AppendError;

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
    address: watch::Receiver<Option<actix::Addr<Execution>>>,
    limits: Arc<Limits>,
    /// Whether this process is the one that takes events.
    turn: watch::Receiver<Turn>,
}

impl Publisher {
    pub(crate) fn new(
        address: watch::Receiver<Option<actix::Addr<Execution>>>,
        limits: Arc<Limits>,
        turn: watch::Receiver<Turn>,
    ) -> Self {
        Self { address, limits, turn }
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
        if !self.turn.borrow().is_held() {
            return Err(PublishError::Closed);
        }
        let mut address = self.address.clone();
        let present = address.wait_for(Option::is_some).await.map_err(|_| PublishError::Closed)?.clone();
        let actor = present.expect("waited for an address");
        actor.send(Publish { items, origin }).await.unwrap_or(Err(PublishError::Unknown))
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
    pub fn turn(&self) -> Turn {
        self.turn.borrow().clone()
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
