//! Chooses the snapshot that a state is restored from: the newest one that is complete and belongs to the log.

use super::{Manifest, Origin, SnapshotError, Store, Unusable, blocking, fetch, restore};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::log::EventLog;

/// The state to start from: that of the newest usable snapshot, else the empty state, from which the whole log is folded. A damaged
/// snapshot or an unreachable store does not prevent a start.
pub async fn to_start_from(store: &Store, log: &dyn EventLog) -> State {
    match newest_at_or_before(store, log, Seq(u64::MAX)).await {
        Ok(Some(state)) => {
            tracing::info!(seq = state.applied().0, place = %store, "starting from a snapshot");
            state
        }
        Ok(None) => State::default(),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "starting without a snapshot");
            State::default()
        }
    }
}

/// The state of the newest snapshot at or before `seq` that is complete and belongs to `log`. Others are skipped with a warning.
pub async fn newest_at_or_before(store: &Store, log: &dyn EventLog, seq: Seq) -> Result<Option<State>, SnapshotError> {
    let positions = store.positions().await?;
    for &at in positions.iter().rev().filter(|at| **at <= seq) {
        match load(store, log, at).await {
            Ok(state) => return Ok(Some(state)),
            Err(SnapshotError::Unusable { seq, source }) => {
                tracing::warn!(%seq, place = %store, error = &source as &dyn std::error::Error, "snapshot left alone");
            }
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

/// The state of one snapshot, if it is complete and belongs to `log`.
pub async fn load(store: &Store, log: &dyn EventLog, seq: Seq) -> Result<State, SnapshotError> {
    let fetched = fetch(store, seq).await?;
    let unusable = |source| SnapshotError::Unusable { seq, source };
    belongs(&fetched.manifest, log).await?.map_err(unusable)?;
    blocking(move || restore(&fetched)).await?.map_err(unusable)
}

/// Checks that a snapshot belongs to `log`.
pub async fn belongs(manifest: &Manifest, log: &dyn EventLog) -> Result<Result<(), Unusable>, SnapshotError> {
    let (at, tail) = (manifest.seq(), *log.tail().borrow());
    if at > tail {
        return Ok(Err(Unusable::Ahead { at, tail }));
    }
    let found = Origin::of(log, at).await?;
    if found.as_ref() == Some(&manifest.log) {
        return Ok(Ok(()));
    }
    let shown = |origin: &Origin| format!("{} (the first {})", origin.last_id, origin.first_id);
    let (expected, found) = (shown(&manifest.log), found.as_ref().map_or_else(|| "missing".to_owned(), shown));
    Ok(Err(Unusable::OtherLog { at, expected, found }))
}
