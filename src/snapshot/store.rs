//! Where snapshots are kept: a directory, or a bucket of an object store.
//!
//! `Store` holds snapshots in a directory or an object store. A snapshot is `<seq, 20 digits>/` with its files and `manifest.json`. An
//! unfinished one is always recognised:
//!
//! - In a directory, the files, the manifest last, are written and synced under a name that starts with a dot, and the finished
//!   directory is renamed. A crash leaves a directory that is not taken for a snapshot; the next write or removal deletes it.
//! - An object store cannot rename, but stores each object completely or not at all. There the manifest is put after all other files
//!   and deleted before them.
//!
//! In both, a snapshot without a manifest was never finished, and one with a manifest had all its files when it was written.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};

use super::error::{SnapshotError, Source};
use super::fetched::Files;
use super::manifest::FILE_NAME as MANIFEST;
use super::take::joined;
use crate::config::Config;
use crate::core::id::Seq;
use crate::files::Place;
use crate::private;

/// Digits of the position in the name of a snapshot, so that names sort like positions.
const SEQ_DIGITS: usize = 20;
/// Prefix of the names of directories that are being written or removed.
const UNFINISHED: &str = ".unfinished-";

/// Where snapshots are stored.
#[derive(Clone, Debug)]
pub enum Store {
    Directory(PathBuf),
    Objects { store: Arc<dyn ObjectStore>, prefix: ObjectPath },
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(root) => root.display().fmt(f),
            Self::Objects { store, prefix } => write!(f, "{store}/{prefix}"),
        }
    }
}

fn name(seq: Seq) -> String {
    format!("{:0width$}", seq.0, width = SEQ_DIGITS)
}

fn seq_of(name: &str) -> Option<Seq> {
    (name.len() == SEQ_DIGITS).then(|| name.parse().ok()).flatten().map(Seq)
}

impl Store {
    /// Name of the directory of snapshots in the data directory.
    pub const DIRECTORY: &str = "snapshots";

    /// Whether an entry of a directory of snapshots is one, by its name.
    pub(crate) fn is_snapshot(name: &std::ffi::OsStr) -> bool {
        name.to_str().and_then(seq_of).is_some()
    }

    /// The configured store; by default `snapshots` in the data directory.
    pub fn configured(config: &Config) -> Result<Self, SnapshotError> {
        match config.snapshots.url.as_str() {
            "" => Ok(Self::Directory(config.data_dir.join(Self::DIRECTORY))),
            url => Self::at(url, config),
        }
    }

    /// The store at a directory or a URL such as `s3://bucket/pml`.
    pub fn at(place: &str, config: &Config) -> Result<Self, SnapshotError> {
        match Place::at(place, config.snapshots.object_store_options()) {
            Ok(Place::Directory(root)) => Ok(Self::Directory(root)),
            Ok(Place::Objects { store, prefix }) => Ok(Self::Objects { store, prefix }),
            Err(problem) => Err(SnapshotError::Place { url: place.to_owned(), problem }),
        }
    }

    /// The positions of all snapshots, finished or not, in order.
    pub async fn positions(&self) -> Result<Vec<Seq>, SnapshotError> {
        let mut found: Vec<Seq> = match self {
            Self::Directory(root) => {
                let root = root.clone();
                self.blocking(move || list_directory(&root)).await?.iter().filter_map(|name| seq_of(name)).collect()
            }
            Self::Objects { store, prefix } => {
                let listed = store.list_with_delimiter(Some(prefix)).await.map_err(|error| self.failed(error))?;
                listed.common_prefixes.iter().filter_map(|path| seq_of(path.filename()?)).collect()
            }
        };
        found.sort_unstable();
        Ok(found)
    }

    /// The content of a file; `None` if there is no such file.
    pub(super) async fn read(&self, seq: Seq, file: &str) -> Result<Option<Bytes>, SnapshotError> {
        match self {
            Self::Directory(root) => {
                let path = root.join(name(seq)).join(file);
                let read = move || match std::fs::read(path) {
                    Ok(bytes) => Ok(Some(Bytes::from(bytes))),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                };
                self.blocking(read).await
            }
            Self::Objects { store, prefix } => match store.get(&prefix.clone().join(name(seq)).join(file)).await {
                Ok(found) => Ok(Some(found.bytes().await.map_err(|error| self.failed(error))?)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(self.failed(error)),
            },
        }
    }

    /// Several files of a snapshot: their directory, or their contents.
    pub(super) async fn files(&self, seq: Seq, names: impl Iterator<Item = &str>) -> Result<Files, SnapshotError> {
        if let Self::Directory(root) = self {
            return Ok(Files::Directory(root.join(name(seq))));
        }
        let mut contents = BTreeMap::new();
        for file in names {
            contents.extend(self.read(seq, file).await?.map(|content| (file.to_owned(), content)));
        }
        Ok(Files::Memory(contents))
    }

    /// Writes a snapshot as its files arrive, the manifest last. One at the same position is replaced.
    pub(super) async fn write(
        &self,
        seq: Seq,
        files: impl Iterator<Item = (String, Bytes)> + Send + 'static,
    ) -> Result<(), SnapshotError> {
        match self {
            Self::Directory(root) => {
                let root = root.clone();
                self.blocking(move || write_directory(&root, seq, files)).await
            }
            Self::Objects { store, prefix } => {
                let directory = prefix.clone().join(name(seq));
                let files = self.blocking(move || Ok(files.collect::<Vec<_>>())).await?;
                self.delete(store, &directory.clone().join(MANIFEST)).await?;
                for (file, content) in files {
                    store.put(&directory.clone().join(file), content.into()).await.map_err(|error| self.failed(error))?;
                }
                Ok(())
            }
        }
    }

    /// Removes a snapshot, finished or not.
    pub(super) async fn remove(&self, seq: Seq) -> Result<(), SnapshotError> {
        match self {
            Self::Directory(root) => {
                let root = root.clone();
                self.blocking(move || remove_directory(&root, &name(seq))).await
            }
            Self::Objects { store, prefix } => {
                let directory = prefix.clone().join(name(seq));
                self.delete(store, &directory.clone().join(MANIFEST)).await?;
                let listed = store.list_with_delimiter(Some(&directory)).await.map_err(|error| self.failed(error))?;
                for object in listed.objects {
                    self.delete(store, &object.location).await?;
                }
                Ok(())
            }
        }
    }

    async fn delete(&self, store: &Arc<dyn ObjectStore>, path: &ObjectPath) -> Result<(), SnapshotError> {
        match store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, SnapshotError> {
        let done = tokio::task::spawn_blocking(work).await.map_err(|_| SnapshotError::Interrupted)?;
        done.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: impl Into<Source>) -> SnapshotError {
        SnapshotError::Store { place: self.to_string(), source: error.into() }
    }
}

/// The names in a directory; none if it does not exist.
fn list_directory(root: &Path) -> std::io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
}

/// Deletes the directories that a crash left.
fn clear_unfinished(root: &Path) -> std::io::Result<()> {
    for name in list_directory(root)?.iter().filter(|name| name.starts_with(UNFINISHED)) {
        std::fs::remove_dir_all(root.join(name))?;
    }
    Ok(())
}

fn write_directory(root: &Path, seq: Seq, files: impl Iterator<Item = (String, Bytes)>) -> std::io::Result<()> {
    private::create_directory(root)?;
    clear_unfinished(root)?;
    let unfinished = root.join(format!("{UNFINISHED}{}", name(seq)));
    private::create_directory(&unfinished)?;
    if write_files(&unfinished, files)?.as_deref() != Some(MANIFEST) {
        return Err(Error::other("the snapshot was not taken to its end"));
    }
    File::open(&unfinished)?.sync_all()?;
    let finished = root.join(name(seq));
    if finished.exists() {
        remove_directory(root, &name(seq))?;
    }
    std::fs::rename(&unfinished, &finished)?;
    File::open(root)?.sync_all()
}

/// Writes and syncs files and returns the name of the last. Files are synced on other threads while the next one is encoded.
fn write_files(directory: &Path, files: impl Iterator<Item = (String, Bytes)>) -> std::io::Result<Option<String>> {
    std::thread::scope(|scope| {
        let (mut syncing, mut last) = (Vec::new(), None);
        for (name, content) in files {
            let mut file = private::create_file(&directory.join(&name))?;
            file.write_all(&content)?;
            syncing.push(scope.spawn(move || file.sync_all()));
            last = Some(name);
        }
        syncing.into_iter().try_for_each(joined)?;
        Ok(last)
    })
}

/// Renames the directory before it is deleted, so that no reader sees a part of the snapshot.
fn remove_directory(root: &Path, name: &str) -> std::io::Result<()> {
    let unfinished = root.join(format!("{UNFINISHED}removed-{name}"));
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    std::fs::rename(root.join(name), &unfinished)?;
    std::fs::remove_dir_all(unfinished)
}
