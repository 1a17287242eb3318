//! The supervisor restarts actors, because actix does not restart an actor that panicked. It runs an actor together with the loop that
//! sends it records; when these end without a stop signal, it rebuilds both from the log.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::ActorFailure;
use crate::clock::Clock;
use crate::metrics::{ByActor, Metrics};

/// First pause before a restart. Short, because most failures do not come back.
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
/// Longest pause before a restart; the pause doubles with each failure in a row.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Failures after a run longer than this start with the first pause again.
const LONG_RUN_MS: u64 = 5_000;

/// Where a supervisor reports failures.
pub(crate) struct Reports {
    pub(crate) metrics: Arc<Metrics>,
    /// Set when the log is damaged: a restart would fail in the same way.
    pub(crate) damaged: watch::Sender<Option<Arc<ActorFailure>>>,
}

/// Runs `incarnation` on `arbiter`, again after each failure, until `stop`, until the log is closed, or until it is found damaged. The
/// receiver resolves when the actor has ended for good.
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
            run_until_stopped(name, clock, reports, stop, incarnation).await;
            drop(ended);
        });
    });
    if !spawned {
        tracing::error!(actor = name, "the arbiter is gone");
    }
    end
}

async fn run_until_stopped<F, R>(
    name: &'static str,
    clock: Clock,
    reports: Reports,
    mut stop: watch::Receiver<bool>,
    incarnation: F,
) where
    F: Fn() -> R,
    R: Future<Output = Result<(), ActorFailure>>,
{
    let mut backoff = BACKOFF_FIRST;
    while !*stop.borrow() {
        let began = clock.uptime();
        // `Ok` means that it was stopped or that the log is closed, so there is nothing to rebuild it from.
        let Err(failure) = incarnation().await else { return };
        if clock.uptime().millis_since(began) > LONG_RUN_MS {
            backoff = BACKOFF_FIRST;
        }
        let error = &failure as &dyn std::error::Error;
        if *stop.borrow() {
            tracing::debug!(actor = name, error, "actor ended while stopping");
        } else if failure.is_damage() {
            tracing::error!(
                actor = name,
                error,
                "the log is damaged, so this process ends; `pml log verify` lists what is damaged, `pml restore` restores a backup"
            );
            reports.damaged.send_replace(Some(Arc::new(failure)));
            return;
        } else {
            tracing::error!(actor = name, error, "actor failed; rebuilding it from the log");
            reports.metrics.restarts.get_or_create(&ByActor { actor: name }).inc();
            tokio::select! {
                biased;
                () = tokio::time::sleep(backoff) => {}
                _ = stop.changed() => {}
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }
}
