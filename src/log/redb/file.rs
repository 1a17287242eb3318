//! The open file, which can be closed and opened again while others hold on to it.
//!
//! After an I/O error redb refuses everything until its database is opened anew. Readers and the writer therefore share this handle
//! instead of the database itself, and take the database for one piece of work at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use redb::{Database, DatabaseError};

use super::error::guarded;
use super::{StoreError, format};
use crate::core::id::Seq;
use crate::log::{Damage, OpenError};
use crate::private;

/// Opens the file, and makes it if it is not there.
pub(super) type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

pub(super) struct LogFile {
    path: PathBuf,
    open: Opener,
    /// Written only to close and reopen, so that ordinary work never waits here.
    state: RwLock<State>,
    /// How often it was reopened: tells an error of the present database from one of a former.
    generation: AtomicU64,
}

enum State {
    Open(Database),
    Closed(String),
    Damaged(Damage),
}

/// The database for one piece of work; the file stays open until it is dropped.
pub(super) struct Opened<'a>(RwLockReadGuard<'a, State>);

impl Opened<'_> {
    pub(super) fn database(&self) -> Result<&Database, StoreError> {
        match &*self.0 {
            State::Open(database) => Ok(database),
            State::Closed(error) => Err(StoreError::Closed(error.clone())),
            State::Damaged(damage) => Err(damage.clone().into()),
        }
    }
}

impl LogFile {
    /// Also answers the last position.
    pub(super) fn open(path: PathBuf, open: Opener) -> Result<(Self, Seq), OpenError> {
        let database = if is_empty(&path) { create(&path, &open)? } else { None };
        let database = database.map_or_else(|| guarded_open(&path, &open), Ok)?;
        let last = format::prepare(&database, &path)?;
        Ok((Self { path, open, state: RwLock::new(State::Open(database)), generation: AtomicU64::new(0) }, last))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn opened(&self) -> Opened<'_> {
        Opened(self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the file for good, because of damage that was found while it was written.
    pub(super) fn condemn(&self, damage: Damage) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Damaged(damage);
    }

    /// Closes the file because of `error` and opens it again. Waits for those who work with it. `acknowledged` is the last position
    /// that callers were told of.
    pub(super) fn reopen(&self, error: &str, acknowledged: Seq) -> Result<Seq, OpenError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::AcqRel);
        *state = State::Closed(error.to_owned());
        let opened = self.open_checked(acknowledged);
        match opened {
            Ok((database, last)) => {
                *state = State::Open(database);
                Ok(last)
            }
            Err(error) => {
                *state = match &error {
                    OpenError::Damaged { source, .. } => State::Damaged(source.clone()),
                    other => State::Closed(other.to_string()),
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
        // Unlike `prepare` this writes nothing: there may be no room yet.
        let last = guarded(|| format::tail(&database)).map_err(|error| format::cannot_prepare(&self.path, error))?;
        if last < acknowledged {
            return Err(damaged(Damage::Lost { last, acknowledged }));
        }
        Ok((database, last))
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |file| file.len() == 0)
}

/// Makes a new file under another name, and gives it its own when its tables are there: a file without tables was therefore damaged,
/// whenever the first process that used it was killed. `None` if another process was faster.
fn create(path: &Path, open: &Opener) -> Result<Option<Database>, OpenError> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let storage = |error: std::io::Error| OpenError::Storage { path: path.to_owned(), source: error.into() };
    private::create_file_if_missing(&part).map_err(storage)?;
    let database = match guarded_open(&part, open) {
        // A process was killed while it made this; it never held anything.
        Err(OpenError::Damaged { .. }) => {
            std::fs::remove_file(&part).map_err(storage)?;
            private::create_file_if_missing(&part).map_err(storage)?;
            guarded_open(&part, open)?
        }
        opened => opened?,
    };
    // Whoever holds the other name, which is locked, may rename it. Another process may have done so before this one opened it.
    if !is_empty(path) {
        drop(database);
        std::fs::remove_file(&part).map_err(storage)?;
        return Ok(None);
    }
    guarded(|| format::create(&database)).map_err(|error| format::cannot_prepare(path, error))?;
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
    let database = opened.map_err(|error| format::cannot_prepare(path, error))?;
    database.ok_or_else(|| OpenError::InUse { path: path.to_owned() })
}
