//! Keeping actors alive. actix does not restart an actor that panicked, so this does: it runs the actor together with what feeds
//! it, and when that ends without being asked to, builds both anew from the log.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::ActorFailure;
use crate::clock::Clock;
use crate::metrics::{ByActor, Metrics};

/// Waits between restarts: short at first, because most failures are gone after one; bounded, because some are not.
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Whatever ended the lives before one this long is over.
const LONG_LIFE_MS: u64 = 5_000;

/// Where a supervisor tells what happened.
pub(crate) struct Reports {
    pub(crate) metrics: Arc<Metrics>,
    /// Damage of the log, which no restart gets past.
    pub(crate) damaged: watch::Sender<Option<Arc<ActorFailure>>>,
}

/// Runs `incarnation` on `arbiter` again and again until `stop`, or until the log is gone or found damaged. The receiver resolves when it has ended
/// for good.
pub(crate) fn supervise<F, R>(
    name: &'static str,
    arbiter: &actix_rt::ArbiterHandle,
    clock: Clock,
    reports: Reports,
    stop: watch::Receiver<bool>,
    incarnation: F,
) -> oneshot::Receiver<()>
where
    F: Fn() -> R + Send + 'static,
    R: Future<Output = Result<(), ActorFailure>> + 'static,
{
    let (ended, end) = oneshot::channel();
    let spawned = arbiter.spawn_fn(move || {
        actix_rt::spawn(async move {
            let mut stop = stop;
            let mut backoff = BACKOFF_FIRST;
            while !*stop.borrow() {
                let born = clock.uptime();
                let outcome = incarnation().await;
                if clock.uptime().millis_since(born) > LONG_LIFE_MS {
                    backoff = BACKOFF_FIRST;
                }
                match outcome {
                    // Asked to stop, or the log is gone: there is nothing to build the next life from.
                    Ok(()) => break,
                    Err(failure) if *stop.borrow() => {
                        tracing::debug!(actor = name, error = &failure as &dyn std::error::Error, "actor ended while stopping");
                    }
                    Err(failure) if failure.is_damage() => {
                        tracing::error!(actor = name, error = &failure as &dyn std::error::Error, "the log is damaged, so this process ends; `pml log verify` lists what is damaged, `pml restore` restores a backup");
                        reports.damaged.send_replace(Some(Arc::new(failure)));
                        break;
                    }
                    Err(failure) => {
                        tracing::error!(
                            actor = name,
                            error = &failure as &dyn std::error::Error,
                            "actor failed; rebuilding it from the log"
                        );
                        reports.metrics.restarts.get_or_create(&ByActor { actor: name }).inc();
                        tokio::select! {
                            () = tokio::time::sleep(backoff) => {}
                            _ = stop.changed() => {}
                        }
                        backoff = (backoff * 2).min(BACKOFF_MAX);
                    }
                }
            }
            drop(ended);
        });
    });
    if !spawned {
        tracing::error!(actor = name, "the arbiter is gone");
    }
    end
}
