//! Transient messages: predictions, notices, questions. What must not be lost belongs in the log.
//!
//! The port is [`Bus`]; `memory` is the bus inside one process, `nats` the one between processes. Names live in `subject`; `contract` holds the suite every adapter
//! must pass.

mod memory;
mod nats;
mod queue;
pub mod subject;

#[cfg(feature = "testing")]
pub mod contract;

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use memory::MemoryBus;
pub use nats::NatsBus;
pub(crate) use subject::kind_of_subject;
pub use subject::{Pattern, Subject, Subjects, Workspace};

/// The message was not sent, or nobody knows. Delivery is at most once, so the caller may drop it or send it again as it likes.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error("the bus is closed")]
    Closed,
    #[error("the bus cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a subscriber receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    Message {
        subject: Subject,
        payload: Arc<[u8]>,
    },
    /// At this place messages were dropped, because the subscriber was slower than the publishers.
    Lagged {
        missed: u64,
    },
}

/// Publish and subscribe, at most once.
///
/// - A subscription MUST receive every message on a matching subject whose `publish` is called after `subscribe` returned `Ok`,
///   except those it is told to have missed. Nothing is kept for those who come later.
/// - Messages of one publisher MUST arrive in the order of its calls of `publish`, whatever their subjects.
/// - `publish` MUST NOT wait for a subscriber. At most `queue_len_max` messages (at least one) wait for a subscriber; while that many
///   wait, further ones are dropped for it, and for it alone.
/// - Each run of dropped messages MUST be reported by exactly one [`Delivery::Lagged`], at its place in the order, with their number.
///   A subscriber that has taken all that waited learns of a run at its end at once, not only with the next message.
/// - `listeners` MUST hold the pattern of every subscription made through this value and not dropped, and no other. Others may listen
///   elsewhere: what nobody here listens to may still be heard.
/// - Dropping the subscription ends it. Once the bus is gone, a subscription delivers what waits and then `None`.
pub trait Bus: Send + Sync + 'static {
    fn publish(&self, subject: Subject, payload: Arc<[u8]>) -> BoxFuture<'static, Result<(), BusError>>;

    fn subscribe(&self, pattern: Pattern, queue_len_max: usize) -> BoxFuture<'static, Result<Subscription, BusError>>;

    /// What is listened to in this process.
    fn listeners(&self) -> Vec<Pattern>;
}

pub type SharedBus = Arc<dyn Bus>;

/// The receiving end. Dropping it unsubscribes.
pub struct Subscription {
    deliveries: BoxStream<'static, Delivery>,
}

impl Subscription {
    /// For adapters: dropping `deliveries` MUST unsubscribe.
    pub fn new(deliveries: BoxStream<'static, Delivery>) -> Self {
        Self { deliveries }
    }

    /// The next delivery, or `None` once the bus is gone. Dropping the future loses nothing, so it may stand in a `select!`.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.next().await
    }
}
