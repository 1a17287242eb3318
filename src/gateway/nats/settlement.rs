//! Settlement: what becomes of the events on the work queue that have their verdicts. An event that was put off is returned to the queue. The
//! others are removed: a few by an acknowledgement each, many together by a purge of the queue up to a position, which costs the server less
//! than half.
//!
//! A purge removes every event before its position, so that position is never after an event that has no final verdict: it is in a chunk
//! under way, or was put off. While one is put off, the events after it are acknowledged one by one. Nothing else stands between: the
//! queue delivers in its order, and nobody but the owner of this settlement reads with its consumer. An event whose removal is lost is
//! delivered again, which is harmless.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::intake::Source;
use crate::nats::{Nats, connection};

/// So many events with verdicts are removed at once while others are under way.
const REMOVED_TOGETHER: usize = 4_096;
/// From so many on by a purge, whose cost hardly depends on their number.
const PURGED_MIN: usize = 1_024;
/// Most events that are put off at the same time. The queue delivers as many more before it waits for acknowledgements, because after
/// events that wait for room come the ends of other executions, which make room. Further events become dead letters.
pub(super) const PUT_OFF_EVENTS_MAX: usize = 65_536;
/// How long an event with a temporary refusal stays on the queue: twice as long after each delivery, up to the maximum.
const REDELIVERY_DELAY_FIRST: Duration = Duration::from_millis(500);
const REDELIVERY_DELAY_MAX: Duration = Duration::from_secs(30);

/// The place of a delivered event in the queue, and where its acknowledgement is sent.
#[derive(Clone)]
pub(super) struct QueuePlace {
    pub(super) position: u64,
    /// How often it was delivered.
    pub(super) delivered: i64,
    pub(super) acknowledge: Subject,
}

/// Events are removed; the answer is whether purging works.
type Removal = BoxFuture<'static, Result<bool, Source>>;

/// The events of one consumer that are not removed from the queue yet.
pub(super) struct Settlement {
    nats: Nats,
    stream: Stream,
    /// The number of the connection on which the consumer was created.
    connection: u64,
    can_purge: bool,
    /// The lowest position in each chunk under way, by its number.
    under_way: BTreeMap<u64, u64>,
    next_chunk: u64,
    /// The positions of events that were returned to the queue.
    put_off: BTreeSet<u64>,
    /// Events with final verdicts.
    settled: Vec<QueuePlace>,
    removal: Option<Removal>,
}

impl Settlement {
    pub(super) fn new(nats: Nats, stream: Stream, connection: u64) -> Self {
        Self {
            nats,
            stream,
            connection,
            can_purge: true,
            under_way: BTreeMap::new(),
            next_chunk: 0,
            put_off: BTreeSet::new(),
            settled: Vec::new(),
            removal: None,
        }
    }

    /// Adds a chunk of events that wait for their verdicts, and returns its number.
    pub(super) fn begin(&mut self, positions: impl Iterator<Item = u64>) -> u64 {
        let number = self.next_chunk;
        self.next_chunk += 1;
        self.under_way.extend(positions.min().map(|lowest| (number, lowest)));
        number
    }

    /// Returns whether `more` events may be put off.
    pub(super) fn may_put_off(&self, more: usize) -> bool {
        self.put_off.len() + more <= PUT_OFF_EVENTS_MAX
    }

    /// Takes the verdicts on a chunk: for each event, whether it is put off.
    pub(super) async fn settle(&mut self, chunk: u64, events: impl Iterator<Item = (QueuePlace, bool)>) -> Result<(), Source> {
        for (event, is_put_off) in events {
            if is_put_off {
                self.put_off.insert(event.position);
                let answer = AckKind::Nak(Some(redelivery_delay(event.delivered)));
                self.nats.client().publish(event.acknowledge, answer.into()).await?;
            } else {
                if event.delivered > 1 {
                    self.put_off.remove(&event.position);
                }
                self.settled.push(event);
            }
        }
        self.under_way.remove(&chunk);
        if self.settled.len() >= REMOVED_TOGETHER {
            // At most as many again wait for the removal before them.
            self.removed().await?;
            self.remove().await
        } else {
            self.remove_if_idle().await
        }
    }

    /// Removes the events that have final verdicts if no more will come soon.
    pub(super) async fn remove_if_idle(&mut self) -> Result<(), Source> {
        if self.under_way.is_empty() && self.removal.is_none() { self.remove().await } else { Ok(()) }
    }

    /// Removes the events that have final verdicts, by a purge without waiting for it.
    async fn remove(&mut self) -> Result<(), Source> {
        let settled = std::mem::take(&mut self.settled);
        let open = self.under_way.values().chain(self.put_off.first()).min().copied();
        let (purged, others): (Vec<_>, Vec<_>) =
            settled.into_iter().partition(|event| open.is_none_or(|open| event.position < open));
        if self.can_purge && purged.len() >= PURGED_MIN {
            self.settled = others;
            self.removal = Some(purge(self.nats.clone(), self.stream.clone(), self.connection, purged));
            return Ok(());
        }
        acknowledge(&self.nats, purged.into_iter().chain(others)).await
    }

    /// Waits until the purge under way is done, if there is one.
    pub(super) async fn removed(&mut self) -> Result<(), Source> {
        if let Some(removal) = &mut self.removal {
            let outcome = removal.await;
            self.removal = None;
            self.can_purge = outcome?;
        }
        Ok(())
    }

    pub(super) fn is_removing(&self) -> bool {
        self.removal.is_some()
    }

    /// Removes all events that have final verdicts.
    pub(super) async fn finish(&mut self) -> Result<(), Source> {
        self.removed().await?;
        self.remove().await?;
        self.removed().await?;
        acknowledge(&self.nats, std::mem::take(&mut self.settled).into_iter()).await
    }
}

/// Removes `events` by a purge, or one by one if that fails.
fn purge(nats: Nats, stream: Stream, connection: u64, events: Vec<QueuePlace>) -> Removal {
    async move {
        let Some(last) = events.iter().max_by_key(|event| event.position) else { return Ok(true) };
        // After another connection the queue may be one that lost its latest events and gave their positions to others.
        let purged = if connection::number(nats.client()) == connection {
            stream.purge().sequence(last.position).await.map(drop).map_err(Source::from)
        } else {
            Err("the connection was replaced".into())
        };
        match purged {
            // A consumer that waits for acknowledgements is not woken by a purge.
            Ok(()) => acknowledge(&nats, std::iter::once(last.clone())).await.map(|()| true),
            Err(error) => {
                tracing::warn!(%error, "the work queue could not be purged; its events are acknowledged one by one");
                acknowledge(&nats, events.into_iter()).await.map(|()| false)
            }
        }
    }
    .boxed()
}

async fn acknowledge(nats: &Nats, events: impl Iterator<Item = QueuePlace>) -> Result<(), Source> {
    let answer = Bytes::from(AckKind::Ack);
    for event in events {
        nats.client().publish(event.acknowledge, answer.clone()).await?;
    }
    Ok(())
}

/// Returns how long an event stays on the queue that was delivered `delivered` times.
fn redelivery_delay(delivered: i64) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or_default().min(16);
    (REDELIVERY_DELAY_FIRST * 2_u32.pow(doublings)).min(REDELIVERY_DELAY_MAX)
}
