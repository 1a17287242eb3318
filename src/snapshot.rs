//! Snapshots: a state as Parquet files, so that a start need not fold the whole log, and so that others can read what pml knows with
//! their own tools. The columns are documented in `docs/snapshots.md`.
//!
//! [`take()`] turns a state into files and [`restore()`] files into a state; both work on memory. A [`Store`] keeps the files, in a
//! directory or an object store, such that a half-written snapshot is never taken for a whole one. `tables` says what becomes of
//! each part of the state.
//!
//! A snapshot is never the truth. Whatever is wrong with one, the log still holds everything: it is left alone with a warning, and
//! an older one, or a fold from the first record, takes its place. [`Origin`] tells whether it belongs to the log at hand.

mod choose;
mod columns;
mod error;
mod fetched;
mod keeper;
mod manifest;
mod parquet;
mod restore;
mod store;
mod tables;
mod take;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::core::id::Seq;
use crate::core::state::State;
pub use choose::{belongs, load, newest_at_or_before, to_start_from};
pub use error::{SnapshotError, Unreadable, Unusable};
pub use fetched::Fetched;
pub use keeper::Keeper;
pub use manifest::FILE_NAME as MANIFEST;
pub use manifest::{About, FileEntry, Manifest, Origin, SCHEMA, config_hash};
pub use restore::{restore, verify};
pub use store::Store;
pub(crate) use take::tables;
use take::take_with;
pub use take::{STEPS, Taken, take};

/// One snapshot of a store, whole or not.
#[derive(Debug)]
pub struct Listed {
    pub seq: Seq,
    pub manifest: Result<Manifest, Unusable>,
}

/// All snapshots of a store, by position. Only manifests are read.
pub async fn list(store: &Store) -> Result<Vec<Listed>, SnapshotError> {
    let mut listed = Vec::new();
    for seq in store.positions().await? {
        listed.push(Listed { seq, manifest: manifest(store, seq).await? });
    }
    Ok(listed)
}

async fn manifest(store: &Store, seq: Seq) -> Result<Result<Manifest, Unusable>, SnapshotError> {
    let bytes = store.read(seq, manifest::FILE_NAME).await?;
    Ok(bytes.ok_or(Unusable::Unfinished).and_then(|bytes| Manifest::parse(seq, &bytes)))
}

/// Finds the files of a snapshot.
pub async fn fetch(store: &Store, seq: Seq) -> Result<Fetched, SnapshotError> {
    let manifest = manifest(store, seq).await?.map_err(|source| SnapshotError::Unusable { seq, source })?;
    let files = store.files(seq, manifest.files.iter().map(|file| file.name.as_str())).await?;
    Ok(Fetched { manifest, files })
}

/// Writes a snapshot, unless the store holds the same one already.
pub async fn put(store: &Store, taken: Taken) -> Result<Manifest, SnapshotError> {
    let Taken { manifest, files } = taken;
    let seq = manifest.seq();
    if store.positions().await?.contains(&seq)
        && let Ok(there) = self::manifest(store, seq).await?
    {
        if there.log != manifest.log {
            return Err(SnapshotError::Taken { place: store.to_string(), seq });
        }
        let whole = fetch(store, seq).await?;
        if there.digest == manifest.digest && blocking(move || restore(&whole).is_ok()).await? {
            return Ok(there);
        }
    }
    let named: Vec<_> = manifest.files.iter().map(|file| file.name.clone()).zip(files).collect();
    store.write(seq, named.into_iter().chain([manifest.file()])).await?;
    Ok(manifest)
}

/// Takes a snapshot of a state of `log` and writes it. The work is done on threads that may block; tables are on their way to the disk
/// while others are still made.
pub async fn create(
    store: &Store,
    state: Arc<State>,
    about: About,
    done: impl Fn() + Send + Sync + 'static,
) -> Result<Manifest, SnapshotError> {
    let seq = state.applied();
    if store.positions().await?.contains(&seq) {
        return put(store, blocking(move || take(&state, &about, done)).await?).await;
    }
    let (sender, files) = std::sync::mpsc::channel();
    let taking = blocking(move || {
        let send = |name: &str, bytes: &Bytes| drop(sender.send((name.to_owned(), bytes.clone())));
        let manifest = take_with(&state, &about, done, send).manifest;
        // If nobody takes it, writing has failed, and says so.
        drop(sender.send(manifest.file()));
        manifest
    });
    let (manifest, written) = tokio::join!(taking, store.write(seq, files.into_iter()));
    let manifest = manifest?;
    written?;
    Ok(manifest)
}

/// Removes all but the newest `keep` snapshots of each log, and those older than the newest one that were never finished. Answers
/// which.
pub async fn prune(store: &Store, keep: usize) -> Result<Vec<Seq>, SnapshotError> {
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    let mut removed = Vec::new();
    for Listed { seq, manifest } in list(store).await?.into_iter().rev() {
        let goes = match manifest {
            Ok(manifest) => {
                let newer = kept.entry(manifest.log.first_id).or_default();
                *newer += 1;
                *newer > keep
            }
            Err(Unusable::Unfinished) => !kept.is_empty(),
            // Whatever else it is, somebody may still want to look at it.
            Err(_) => false,
        };
        if goes {
            store.remove(seq).await?;
            removed.push(seq);
        }
    }
    Ok(removed)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, SnapshotError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| SnapshotError::Interrupted)
}
