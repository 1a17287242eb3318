//! Sending an actor the records of the log: the next batch is read while the actor handles the last one.

use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler};
use futures_util::future::join;
use tokio::sync::watch;

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

/// Sends `actor` every record after `position`, in batches, until `stop` (`Ok`) or until the actor or the log fails. With `burst`, it
/// pauses during a burst.
pub(super) async fn follow<A>(
    log: SharedLog,
    mut position: Seq,
    batch_max: usize,
    actor: Addr<A>,
    burst: Option<Burst>,
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
                moved = tail.wait_for(|tail| *tail > position) => {
                    if moved.is_err() {
                        return Ok(()); // The log is closed: the process is shutting down.
                    }
                }
                () = tokio::time::sleep(tick) => {}
                _ = stop.changed() => {}
            }
        } else {
            last_record = monotonic();
        }
        if let Some(follower) = &mut follower {
            follower.report(position, *tail.borrow());
            follower.pause(caught_up, || *tail.borrow()).await;
        }
        debug_assert_eq!(positions_increase(position, records.iter().map(|record| record.seq)), Ok(()));
        position = records.last().map_or(position, |record| record.seq);
        let (handled, next) = join(actor.send(Records(records)), log.read(position, batch_max)).await;
        handled.map_err(|_| ActorFailure::Gone)??;
        records = next?;
    }
    Ok(())
}
