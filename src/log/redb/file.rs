//! The log file: a shared handle whose database can be closed and reopened.
//!
//! After an I/O error redb refuses everything until its database is opened anew. Readers and the writer therefore share this handle
//! instead of the database, and lock the database for one operation at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use redb::{Database, DatabaseError};

use super::error::guarded;
use super::{StoreError, format};
use crate::core::id::Seq;
use crate::log::{Damage, OpenError};
use crate::private;

/// Opens the file, and creates it if it is missing.
pub(super) type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// The handle of the log file, shared by readers and the writer.
pub(super) struct LogFile {
    path: PathBuf,
    open: Opener,
    /// Locked for writing only to close and reopen, so that other operations do not wait for each other.
    state: RwLock<FileState>,
    /// How often the file was reopened, which distinguishes errors of the present database from those of an earlier one.
    generation: AtomicU64,
}

enum FileState {
    Open(Database),
    Closed(String),
    Damaged(Damage),
}

/// Keeps the file open for one operation.
pub(super) struct FileGuard<'a>(RwLockReadGuard<'a, FileState>);

impl FileGuard<'_> {
    /// Returns the database, or why it is not open.
    pub(super) fn database(&self) -> Result<&Database, StoreError> {
        match &*self.0 {
            FileState::Open(database) => Ok(database),
            FileState::Closed(error) => Err(StoreError::Closed(error.clone())),
            FileState::Damaged(damage) => Err(damage.clone().into()),
        }
    }
}

impl LogFile {
    /// Opens or creates the file. Also returns the last position.
    pub(super) fn open(path: PathBuf, open: Opener) -> Result<(Self, Seq), OpenError> {
        let database = if is_empty(&path) { create(&path, &open)? } else { None };
        let database = database.map_or_else(|| guarded_open(&path, &open), Ok)?;
        let last = format::prepare(&database, &path)?;
        Ok((Self { path, open, state: RwLock::new(FileState::Open(database)), generation: AtomicU64::new(0) }, last))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Keeps the file open until the guard is dropped.
    pub(super) fn lock(&self) -> FileGuard<'_> {
        FileGuard(self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the file for good because of damage found while writing.
    pub(super) fn close_damaged(&self, damage: Damage) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = FileState::Damaged(damage);
    }

    /// Closes the file because of `error` and opens it again, after waiting for running operations. `acknowledged` is the last position
    /// acknowledged to callers. Returns the last position.
    pub(super) fn reopen(&self, error: &str, acknowledged: Seq) -> Result<Seq, OpenError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::AcqRel);
        *state = FileState::Closed(error.to_owned());
        let opened = self.open_checked(acknowledged);
        match opened {
            Ok((database, last)) => {
                *state = FileState::Open(database);
                Ok(last)
            }
            Err(error) => {
                *state = match &error {
                    OpenError::Damaged { source, .. } => FileState::Damaged(source.clone()),
                    other => FileState::Closed(other.to_string()),
                };
                Err(error)
            }
        }
    }

    fn open_checked(&self, acknowledged: Seq) -> Result<(Database, Seq), OpenError> {
        let damaged = |source| OpenError::Damaged { path: self.path.clone(), source };
        if !self.path.exists() {
            return Err(damaged(Damage::File { problem: "it was removed while it was in use".to_owned() }));
        }
        let database = guarded_open(&self.path, &self.open)?;
        // Unlike `prepare` this writes nothing, because there may be no room yet.
        let last = guarded(|| format::tail(&database)).map_err(|error| format::open_error(&self.path, error))?;
        if last < acknowledged {
            return Err(damaged(Damage::Lost { last, acknowledged }));
        }
        Ok((database, last))
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |file| file.len() == 0)
}

/// Creates a new file under a temporary name and renames it once its tables exist. A file without tables is therefore damaged, even
/// if the process that created it was killed. Returns `None` if another process created the file first.
fn create(path: &Path, open: &Opener) -> Result<Option<Database>, OpenError> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let storage = |error: std::io::Error| OpenError::Storage { path: path.to_owned(), source: error.into() };
    private::create_file_if_missing(&part).map_err(storage)?;
    let database = match guarded_open(&part, open) {
        // A process was killed while creating this file; it never held records.
        Err(OpenError::Damaged { .. }) => {
            std::fs::remove_file(&part).map_err(storage)?;
            private::create_file_if_missing(&part).map_err(storage)?;
            guarded_open(&part, open)?
        }
        opened => opened?,
    };
    // The process that holds the lock on the temporary file may rename it. Another one may have done so before this one opened it.
    if !is_empty(path) {
        drop(database);
        std::fs::remove_file(&part).map_err(storage)?;
        return Ok(None);
    }
    guarded(|| format::create(&database)).map_err(|error| format::open_error(path, error))?;
    std::fs::rename(&part, path).map_err(storage)?;
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(storage)?;
    }
    Ok(Some(database))
}

fn guarded_open(path: &Path, open: &Opener) -> Result<Database, OpenError> {
    let opened = guarded(|| match open(path) {
        Err(DatabaseError::DatabaseAlreadyOpen) => Ok(None),
        other => Ok(Some(other?)),
    });
    let database = opened.map_err(|error| format::open_error(path, error))?;
    database.ok_or_else(|| OpenError::InUse { path: path.to_owned() })
}
