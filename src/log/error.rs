//! What can go wrong with the log, by what the caller can do about it.

use std::path::PathBuf;

use crate::core::event::codec::Corrupt;
use crate::core::id::Seq;

pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Nothing was written: too much is waiting. Try again later.
    #[error("the log has too many appends waiting")]
    Busy,
    /// Nothing was written: the log is shutting down or its writer is gone.
    #[error("the log is closed")]
    Closed,
    /// Nothing was written.
    #[error("the append did not happen")]
    Determinate(#[source] Source),
    /// Nothing was written: there is no room left. What is there can still be read.
    #[error("{place} is full: {detail}")]
    Full { place: String, detail: String },
    /// It may have been written. Read back before trying again.
    #[error("the append may or may not have happened")]
    Indeterminate(#[source] Source),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the log")]
    Storage(#[source] Source),
    #[error("record {seq} is damaged")]
    Corrupt {
        seq: Seq,
        #[source]
        source: Corrupt,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is in use by another process; talk to that server with --url, or stop it")]
    InUse { path: PathBuf },
    #[error("cannot open {path}")]
    Storage {
        path: PathBuf,
        #[source]
        source: Source,
    },
    #[error("{path} was written by a newer pml (format {found}, this one reads {known})")]
    NewerFormat { path: PathBuf, found: u64, known: u64 },
}
