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
        let database = guarded_open(&path, &open)?;
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

fn guarded_open(path: &Path, open: &Opener) -> Result<Database, OpenError> {
    let opened = guarded(|| match open(path) {
        Err(DatabaseError::DatabaseAlreadyOpen) => Ok(None),
        other => Ok(Some(other?)),
    });
    let database = opened.map_err(|error| format::cannot_prepare(path, error))?;
    database.ok_or_else(|| OpenError::InUse { path: path.to_owned() })
}
