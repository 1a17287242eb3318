//! Sending an actor the records of the log: the next batch is read while the actor handles the last one.

use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler};
use futures_util::future::join;
use tokio::sync::watch;
use tokio::time::Instant;

use super::burst::Burst;
use super::{ActorFailure, Records};
use crate::clock::monotonic;
use crate::core::id::Seq;
use crate::core::invariant::positions_increase;
use crate::log::SharedLog;

/// The time between two ticks, which an actor gets while the log is silent: a part of the silence, so that what is due soon after a
/// record is done on time and an idle process rests.
const TICK_MIN: Duration = Duration::from_millis(10);
const TICK_MAX: Duration = Duration::from_millis(100);
const TICKS_PER_SILENCE: u32 = 4;

/// How an actor follows the log.
pub(super) struct Pace {
    /// Records handled at once.
    pub(super) batch_max: usize,
    /// Records that come sooner than this after the last ones are handled together with those that come until then: to wake an actor
    /// for each of them takes longer than to handle them.
    pub(super) gather: Duration,
    /// The bursts in which the actor pauses.
    pub(super) burst: Option<Burst>,
}

impl Pace {
    /// The time to gather of actors for whose records nobody waits.
    pub(super) const GATHER: Duration = Duration::from_millis(5);
}

/// Sends `actor` every record after `position`, in batches, until `stop` (`Ok`) or until the actor or the log fails.
pub(super) async fn follow<A>(
    log: SharedLog,
    mut position: Seq,
    Pace { batch_max, gather, burst }: Pace,
    actor: Addr<A>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ActorFailure>
where
    A: Actor + Handler<Records>,
    A::Context: ToEnvelope<A, Records>,
{
    let mut tail = log.tail();
    let mut follower = burst.map(|burst| burst.follower());
    let (mut caught_up, mut last_record) = (monotonic(), monotonic());
    let mut records = log.read(position, batch_max).await?;
    while !*stop.borrow_and_update() {
        if records.is_empty() {
            caught_up = monotonic();
            let tick = (caught_up.duration_since(last_record) / TICKS_PER_SILENCE).clamp(TICK_MIN, TICK_MAX);
            // Whichever comes first: the code below and the loop condition handle all three.
            tokio::select! {
                biased;
                moved = moved(&mut tail, position, last_record + gather) => {
                    if moved.is_err() {
                        return Ok(()); // The log is closed: the process is shutting down.
                    }
                }
                () = tokio::time::sleep(tick) => {}
                _ = stop.changed() => {}
            }
        }
        if let Some(follower) = &mut follower {
            follower.report(position, *tail.borrow());
            follower.pause(caught_up, || *tail.borrow()).await;
        }
        if records.is_empty() {
            records = log.read(position, batch_max).await?;
        }
        debug_assert_eq!(positions_increase(position, records.iter().map(|record| record.seq)), Ok(()));
        if let Some(last) = records.last() {
            (position, last_record) = (last.seq, monotonic());
        }
        let (handled, next) = join(actor.send(Records(records)), log.read(position, batch_max)).await;
        handled.map_err(|_| ActorFailure::Gone)??;
        records = next?;
    }
    Ok(())
}

/// Waits until `not_before`, then until the log has records after `position`. Fails if the log is closed.
async fn moved(tail: &mut watch::Receiver<Seq>, position: Seq, not_before: Instant) -> Result<(), watch::error::RecvError> {
    if not_before > monotonic() {
        tokio::time::sleep_until(not_before).await;
    }
    tail.wait_for(|tail| *tail > position).await.map(drop)
}
