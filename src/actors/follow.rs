//! Feeding an actor from the log: read a batch, hand it over, wait until it is done, and read the next batch meanwhile.

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

/// How long the log may be silent before the actor gets a tick.
const TICK: Duration = Duration::from_millis(10);

/// Runs until `stop` says so (`Ok`) or the actor or the log fails. With `burst`, feeding pauses during a burst.
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
            // Whichever comes first; a tail that moved, a tick and a stop are all handled by the next round.
            tokio::select! {
                moved = tail.wait_for(|tail| *tail > position) => {
                    if moved.is_err() {
                        return Ok(()); // The log is gone: shutting down.
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
