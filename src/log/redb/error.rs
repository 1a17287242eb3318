//! The errors of the log file.

use std::panic::AssertUnwindSafe;

use crate::log::{AppendError, Damage, ReadError};

/// Why an operation on the file failed.
#[derive(Debug)]
pub(in crate::log) enum StoreError {
    /// An I/O error, or a consequence of one: reopening may help.
    Storage(redb::Error),
    /// The file was closed after an error and is not reopened yet.
    Closed(String),
    Damaged(Damage),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Corrupted(problem) => Self::Damaged(Damage::File { problem }),
            // Only pml creates tables in this file, so a missing one or one of another type is damage.
            table @ (redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_)) => Self::Damaged(Damage::File { problem: table.to_string() }),
            other => Self::Storage(other),
        }
    }
}

impl From<Damage> for StoreError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Storage(error) => Self::Storage(error.into()),
            StoreError::Closed(error) => Self::Storage(error.into()),
            StoreError::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

/// Runs work on the database and converts a panic to damage, because redb asserts invariants that a damaged file breaks.
pub(in crate::log) fn guarded<T, E: From<Damage>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Damage::File { problem: format!("reading it panicked: {}", text.unwrap_or("without a text")) }.into())
    })
}

impl StoreError {
    /// Returns the error for an append of which nothing was written. By reference, because several callers get the same error.
    pub(super) fn determinate(&self) -> AppendError {
        match self {
            Self::Damaged(damage) => AppendError::Damaged(damage.clone()),
            other => AppendError::Determinate(other.to_string().into()),
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Closed(error) => error.fmt(f),
            Self::Damaged(damage) => damage.fmt(f),
        }
    }
}
