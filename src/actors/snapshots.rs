//! The snapshots actor takes a snapshot when enough records were folded since the last one, or enough time has passed. One that is due in
//! a load waits for its end, because it takes as much processor time as hundreds of thousands of events.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use super::burst::Burst;
use crate::config;
use crate::core::id::Seq;
use crate::snapshot::Keeper;
use crate::views::Views;

/// Pause after a failed snapshot. Nothing is lost meanwhile: the log holds every record.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// A snapshot that is due after so many records is taken after this many times as many, load or not: a start folds the records after it.
const PUT_OFF_FACTOR: u64 = 4;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct SnapshotsParts {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) views: Views,
    pub(crate) settings: config::Snapshots,
    /// The position of the snapshot that the process started from.
    pub(crate) last: Seq,
    pub(crate) burst: Burst,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`: waits until a snapshot is due, takes it, and waits again.
pub(crate) async fn run(mut parts: SnapshotsParts) -> Result<(), ActorFailure> {
    let settings = &parts.settings;
    let mut last = parts.last;
    while !*parts.stop.borrow_and_update() {
        tokio::select! {
            due = enough_records(&parts.views, &parts.burst, last, settings.every_records), if settings.every_records > 0 => {
                if due.is_none() {
                    return Ok(()); // The fold has ended: the process is shutting down.
                }
            }
            () = tokio::time::sleep(Duration::from_secs(settings.every_s)), if settings.every_s > 0 => {
                if parts.views.current().applied() == last {
                    continue;
                }
            }
            _ = parts.stop.changed() => continue,
        }
        let taken = tokio::select! {
            taken = parts.keeper.take_snapshot() => taken,
            _ = parts.stop.changed() => continue,
        };
        match taken {
            Ok(manifest) => {
                tracing::info!(seq = manifest.seq, rows = manifest.rows(), bytes = manifest.bytes(), "snapshot taken");
                last = manifest.seq();
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no snapshot taken; trying again later");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                    _ = parts.stop.changed() => {}
                }
            }
        }
    }
    Ok(())
}

/// Waits until enough records were folded after `last` and no load is under way, or many more were; `None` if the fold has ended.
async fn enough_records(views: &Views, burst: &Burst, last: Seq, every: u64) -> Option<()> {
    let after = |records: u64| Seq(last.0.saturating_add(records));
    views.at_least(after(every)).await?;
    tokio::select! {
        () = burst.load_over() => Some(()),
        view = views.at_least(after(every.saturating_mul(PUT_OFF_FACTOR))) => view.map(drop),
    }
}
