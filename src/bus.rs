//! The bus carries messages that may be lost: predictions, notices, questions. What must not be lost belongs in the log.
//!
//! The port is [`Bus`]; its adapters are `memory` (inside one process) and `nats` (between processes). `subject` builds and parses
//! subjects; `contract` is the test suite that every adapter must pass.

mod memory;
mod nats;
mod queue;

#[cfg(feature = "testing")]
pub mod contract;

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::subject::{Pattern, Subject};

pub use memory::MemoryBus;
pub use nats::NatsBus;

/// Why a message was not sent, or may not have been sent. Delivery is at most once, so the caller may drop or repeat it.
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
    /// `missed` messages were dropped at this point, because the subscriber was slower than the publishers.
    Lagged {
        missed: u64,
    },
}

/// `Bus` is publish and subscribe with delivery at most once.
///
/// - A subscription MUST receive every message on a matching subject whose `publish` is called after `subscribe` returned `Ok`,
///   except those reported as missed. Nothing is stored for later subscribers.
/// - Messages of one publisher MUST arrive in the order of its calls of `publish`, whatever their subjects.
/// - `publish` MUST NOT wait for a subscriber. At most `queue_len_max` messages (at least one) wait for a subscriber; while that many
///   wait, further ones are dropped for it, and for it alone.
/// - Each run of dropped messages MUST be reported by exactly one [`Delivery::Lagged`], at its position in the order, with their
///   number. A run at the end of the queue is reported as soon as the queue is empty, not only with the next message.
/// - `listeners` MUST hold the pattern of every subscription that was made through this value and not dropped, and no other. Other
///   processes may have further subscriptions.
/// - Dropping the subscription ends it. Once the bus is dropped, a subscription delivers the queued messages and then `None`.
pub trait Bus: Send + Sync + 'static {
    fn publish(&self, subject: Subject, payload: Arc<[u8]>) -> BoxFuture<'static, Result<(), BusError>>;

    fn subscribe(&self, pattern: Pattern, queue_len_max: usize) -> BoxFuture<'static, Result<Subscription, BusError>>;

    /// The patterns of the subscriptions in this process.
    fn listeners(&self) -> Vec<Pattern>;
}

pub type SharedBus = Arc<dyn Bus>;

/// `Subscription` receives messages. Dropping it unsubscribes.
pub struct Subscription {
    deliveries: BoxStream<'static, Delivery>,
}

impl Subscription {
    /// Wraps an adapter's stream. Dropping `deliveries` MUST unsubscribe.
    pub fn new(deliveries: BoxStream<'static, Delivery>) -> Self {
        Self { deliveries }
    }

    /// The next delivery, or `None` once the bus is dropped. Dropping the future loses nothing, so it can be used in a `select!`.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.next().await
    }
}
