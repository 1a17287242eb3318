//! Why the file did not give or take what was asked.

use std::panic::AssertUnwindSafe;

use crate::log::{AppendError, Damage, ReadError};

#[derive(Debug)]
pub(super) enum StoreError {
    /// An I/O error, or one that follows from it: reopening may help.
    Storage(redb::Error),
    /// Closed after an error, and not open again yet.
    Closed(String),
    Damaged(Damage),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Corrupted(problem) => Self::Damaged(Damage::File { problem }),
            // The tables are ours, so one that is of another type or missing was ours once.
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

/// Runs work on the database. redb asserts what a damaged file does not keep, so a panic in it is taken for damage.
pub(super) fn guarded<T, E: From<Damage>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Damage::File { problem: format!("reading it panicked: {}", text.unwrap_or("without a text")) }.into())
    })
}

impl StoreError {
    /// For an append of which nothing was written. Many callers may share one error.
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
