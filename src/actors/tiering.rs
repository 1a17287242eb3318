//! The tiering actor moves the oldest records of the log to the archive when enough of them are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ActorFailure;
use crate::archive::{ArchiveStore, HotLimits, TieredRecords, TieringError, tier};
use crate::clock::Clock;
use crate::core::id::Seq;
use crate::log::{ReadError, TrimmedLog};
use crate::views::Views;

/// The pause between two looks at the age of the oldest record, and after a run that failed. Nothing is lost meanwhile.
const PAUSE: Duration = Duration::from_mins(1);

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct TieringParts {
    pub(crate) log: Arc<dyn TrimmedLog>,
    pub(crate) views: Views,
    pub(crate) archive: ArchiveStore,
    pub(crate) limits: HotLimits,
    pub(crate) clock: Clock,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`.
pub(crate) async fn run(mut parts: TieringParts) -> Result<(), ActorFailure> {
    let limits = parts.limits;
    while !*parts.stop.borrow_and_update() {
        let failed = match move_records(&parts).await {
            Ok(None) => false,
            Ok(Some(moved)) => {
                tracing::info!(records = moved.archived, trimmed_to = moved.trimmed_to.0, "moved records to the archive");
                continue; // More may be due.
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no records moved to the archive; trying again later");
                true
            }
        };
        let due = Seq(parts.log.trimmed_to().0.saturating_add(limits.records).saturating_add(limits.run_records()));
        tokio::select! {
            view = parts.views.at_least(due), if limits.records > 0 && !failed => {
                if view.is_none() {
                    return Ok(()); // The fold has ended: the process is shutting down.
                }
            }
            () = tokio::time::sleep(PAUSE) => {}
            _ = parts.stop.changed() => {}
        }
    }
    Ok(())
}

/// Moves records on a thread of its own: encoding and comparing them takes long.
async fn move_records(parts: &TieringParts) -> Result<Option<TieredRecords>, TieringError> {
    let (log, archive, limits) = (Arc::clone(&parts.log), parts.archive.clone(), parts.limits);
    let (now, handle) = (parts.clock.now(), tokio::runtime::Handle::current());
    let moving = tokio::task::spawn_blocking(move || handle.block_on(tier(log.as_ref(), &archive, limits, now)));
    moving.await.unwrap_or_else(|panicked| Err(ReadError::Storage(panicked.into()).into()))
}
