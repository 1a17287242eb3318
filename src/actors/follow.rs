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
use crate::log::SharedLog;

/// Silence of the log after which the actor gets a tick.
const TICK: Duration = Duration::from_millis(10);

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
    let mut caught_up = monotonic();
    let mut records = log.read(position, batch_max).await?;
    while !*stop.borrow_and_update() {
        if records.is_empty() {
            caught_up = monotonic();
            // Whichever comes first: the code below and the loop condition handle all three.
            tokio::select! {
                moved = tail.wait_for(|tail| *tail > position) => {
                    if moved.is_err() {
                        return Ok(()); // The log is closed: the process is shutting down.
                    }
                }
                () = tokio::time::sleep(TICK) => {}
                _ = stop.changed() => {}
            }
        }
        if let Some(burst) = &burst {
            burst.pause(caught_up).await;
        }
        position = records.last().map_or(position, |record| record.seq);
        let (handled, next) = join(actor.send(Records(records)), log.read(position, batch_max)).await;
        handled.map_err(|_| ActorFailure::Gone)??;
        records = next?;
    }
    Ok(())
}
