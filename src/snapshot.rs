//! A snapshot is a state stored as Parquet files. It saves a start from folding the whole log, and other tools can read it. The
//! columns are documented in `docs/snapshots.md`.
//!
//! [`encode_state`] turns a state into files and [`restore()`] turns files into a state; both work in memory. A [`Store`] holds the
//! files in a directory or an object store, so that an unfinished snapshot is never mistaken for a complete one. `tables` maps each
//! part of the state to a table.
//!
//! The log is authoritative, not the snapshot: one that cannot be used is skipped with a warning, and an older one, or a fold from
//! the first record, is used in its place. [`Origin`] identifies the log that a snapshot belongs to.

mod choose;
mod columns;
mod error;
mod fetched;
#[cfg(feature = "testing")]
pub mod fuzzing;
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
pub use fetched::FetchedSnapshot;
pub use keeper::Keeper;
pub use manifest::FILE_NAME as MANIFEST;
pub use manifest::{About, FileEntry, Manifest, Origin, SCHEMA, config_hash};
pub use restore::{restore, verify};
pub use store::Store;
use take::encode_state_with;
pub(crate) use take::tables;
pub use take::{EncodedSnapshot, STEPS, encode_state};

/// One snapshot of a store; `manifest` is an error if it cannot be used.
#[derive(Debug)]
pub struct ListedSnapshot {
    pub seq: Seq,
    pub manifest: Result<Manifest, Unusable>,
}

/// Lists all snapshots of a store, sorted by position. Only manifests are read.
pub async fn list(store: &Store) -> Result<Vec<ListedSnapshot>, SnapshotError> {
    let mut listed = Vec::new();
    for seq in store.positions().await? {
        listed.push(ListedSnapshot { seq, manifest: manifest(store, seq).await? });
    }
    Ok(listed)
}

async fn manifest(store: &Store, seq: Seq) -> Result<Result<Manifest, Unusable>, SnapshotError> {
    let bytes = store.read(seq, manifest::FILE_NAME).await?;
    Ok(bytes.ok_or(Unusable::Unfinished).and_then(|bytes| Manifest::parse(seq, &bytes)))
}

/// Fetches the manifest of a snapshot, and its files if they are not in a local directory.
pub async fn fetch(store: &Store, seq: Seq) -> Result<FetchedSnapshot, SnapshotError> {
    let manifest = manifest(store, seq).await?.map_err(|source| SnapshotError::Unusable { seq, source })?;
    let files = store.files(seq, manifest.files.iter().map(|file| file.name.as_str())).await?;
    Ok(FetchedSnapshot { manifest, files })
}

/// Writes a snapshot, unless the store already holds the same one.
pub async fn put(store: &Store, encoded: EncodedSnapshot) -> Result<Manifest, SnapshotError> {
    let EncodedSnapshot { manifest, files } = encoded;
    let seq = manifest.seq();
    if store.positions().await?.contains(&seq)
        && let Ok(existing) = self::manifest(store, seq).await?
    {
        if existing.log != manifest.log {
            return Err(SnapshotError::Taken { place: store.to_string(), seq });
        }
        let fetched = fetch(store, seq).await?;
        if existing.digest == manifest.digest && blocking(move || restore(&fetched).is_ok()).await? {
            return Ok(existing);
        }
    }
    let named: Vec<_> = manifest.files.iter().map(|file| file.name.clone()).zip(files).collect();
    store.write(seq, named.into_iter().chain([manifest.file()])).await?;
    Ok(manifest)
}

/// Takes a snapshot of a state and writes it; `done` is called after each of [`STEPS`] steps. The work is done on threads that may
/// block; finished tables are written while others are encoded.
pub async fn create(
    store: &Store,
    state: Arc<State>,
    about: About,
    done: impl Fn() + Send + Sync + 'static,
) -> Result<Manifest, SnapshotError> {
    let seq = state.applied();
    if store.positions().await?.contains(&seq) {
        return put(store, blocking(move || encode_state(&state, &about, done)).await?).await;
    }
    let (sender, files) = std::sync::mpsc::channel();
    let encoding = blocking(move || {
        let send = |name: &str, bytes: &Bytes| drop(sender.send((name.to_owned(), bytes.clone())));
        let manifest = encode_state_with(&state, &about, done, send).manifest;
        // If the receiver is gone, writing has failed, which is reported below.
        drop(sender.send(manifest.file()));
        manifest
    });
    let (manifest, written) = tokio::join!(encoding, store.write(seq, files.into_iter()));
    let manifest = manifest?;
    written?;
    Ok(manifest)
}

/// Removes all but the newest `keep` snapshots of each log, and unfinished ones older than the newest finished one. Returns the
/// positions of those removed.
pub async fn prune(store: &Store, keep: usize) -> Result<Vec<Seq>, SnapshotError> {
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    let mut removed = Vec::new();
    for ListedSnapshot { seq, manifest } in list(store).await?.into_iter().rev() {
        let is_superfluous = match manifest {
            Ok(manifest) => {
                let newer = kept.entry(manifest.log.first_id).or_default();
                *newer += 1;
                *newer > keep
            }
            Err(Unusable::Unfinished) => !kept.is_empty(),
            // Damaged ones are kept for inspection.
            Err(_) => false,
        };
        if is_superfluous {
            store.remove(seq).await?;
            removed.push(seq);
        }
    }
    Ok(removed)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, SnapshotError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| SnapshotError::Interrupted)
}
