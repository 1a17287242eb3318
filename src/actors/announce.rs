//! Facts on their way into the log, which the execution actor announces to the prediction actor of its process: predictions are computed
//! while the log stores the steps that they follow, and published once these are in it.
//!
//! An announcement is a hint. It may be lost, and its fact may never be in the log, so nothing is published for it alone.

use std::convert::Infallible;
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::core::event::NewRecord;
use crate::core::live::calls_for_a_prediction;

/// Announcements that wait for the prediction actor; further ones replace the oldest.
const WAITING_MAX: usize = 64;
/// A larger group is not announced: in a burst, predictions wait for the processor and not for the log.
const GROUP_FACTS_MAX: usize = 16;

/// A fact that was handed to the log and after which a prediction is made.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Announced(pub(super) Arc<NewRecord>);

/// The channel of the announcements. Clones share it.
#[derive(Clone)]
pub(crate) struct Announcements(broadcast::Sender<Arc<NewRecord>>);

impl Announcements {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(WAITING_MAX))
    }

    /// Announces those of a group's facts after which a prediction is made.
    pub(super) fn announce<'a>(&self, facts: impl Iterator<Item = &'a Arc<NewRecord>> + Clone) {
        if self.0.receiver_count() == 0 || facts.clone().nth(GROUP_FACTS_MAX).is_some() {
            return;
        }
        for fact in facts.filter(|fact| calls_for_a_prediction(&fact.event)) {
            // An error means that nobody listens any more.
            drop(self.0.send(Arc::clone(fact)));
        }
    }

    /// Sends `actor` one fact after the other, from now on. Never ends; once the actor has ended it does nothing.
    pub(super) async fn forward<A>(&self, actor: Addr<A>) -> Infallible
    where
        A: Actor + Handler<Announced>,
        A::Context: ToEnvelope<A, Announced>,
    {
        let mut facts = self.0.subscribe();
        loop {
            match facts.recv().await {
                Ok(fact) => {
                    if actor.send(Announced(fact)).await.is_err() {
                        break;
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            }
        }
        std::future::pending().await
    }
}
