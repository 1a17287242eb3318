//! The errors of the log, grouped by what the caller can do about them.

use std::path::PathBuf;

use crate::core::event::codec::Corrupt;
use crate::core::id::{RecordId, Seq};

pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Damage: stored bytes differ from those that were written. Trying again does not help: the process ends, and an operator decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("the block of records that ends at position {last} does not match its checksum")]
    Block { last: Seq },
    #[error("records between the positions {after} and {before} are missing")]
    Gap { after: Seq, before: Seq },
    #[error(
        "the log ends at position {last}, but more was stored: {blocks} blocks of records, of which {found} can be reached"
    )]
    Tail { last: Seq, blocks: u64, found: u64 },
    #[error("the log ends at position {last}, but records up to {acknowledged} had been acknowledged")]
    Lost { last: Seq, acknowledged: Seq },
    #[error("the index of record ids does not match its checksum, near the id {near}")]
    Ids { near: RecordId },
    #[error("dead letter {number} does not match its checksum")]
    Letter { number: u64 },
    #[error("{stored} dead letters were stored, of which {found} can be reached")]
    Letters { stored: u64, found: u64 },
    #[error("the structure of the file is damaged: {problem}")]
    File { problem: String },
}

/// Why an append failed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Nothing was written: too many appends are waiting. Try again later.
    #[error("the log has too many appends waiting")]
    Busy,
    /// Nothing was written: the log is shutting down or its writer is gone.
    #[error("the log is closed")]
    Closed,
    /// Nothing was written.
    #[error("the append did not happen")]
    Determinate(#[source] Source),
    /// Nothing was written: there is no room left. Reading still works.
    #[error("{place} is full: {detail}")]
    Full { place: String, detail: String },
    /// Nothing was written, and no append will succeed: the log is damaged.
    #[error("the append did not happen: the log is damaged")]
    Damaged(#[source] Damage),
    /// Any part may have been written. Read back before trying again.
    #[error("the append may or may not have happened")]
    Indeterminate(#[source] Source),
}

/// Why a read failed.
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
    #[error("the log is damaged")]
    Damaged(#[from] Damage),
    #[error("the archive of the log is damaged")]
    Archive(#[source] Source),
}

/// The error of a read of records that are in an archive which the log was not opened with.
pub(super) fn archive_unknown(trimmed_to: Seq) -> ReadError {
    let problem = format!("its records up to {trimmed_to} are in an archive; set log.archive to where it is");
    ReadError::Storage(problem.into())
}

impl ReadError {
    /// Returns whether the stored bytes are damaged, so that reading again gives the same error.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Damaged(_) | Self::Archive(_))
    }
}

/// Why a log could not be opened.
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
    #[error("{path} is damaged; `pml log verify` lists what is; restore a backup with `pml restore` into a new data directory")]
    Damaged {
        path: PathBuf,
        #[source]
        source: Damage,
    },
    #[error(
        "{path} is missing or empty, but {evidence} shows that there was a log; put the log back or restore a backup with `pml restore` into a new data directory; to begin an empty log, move {evidence} away"
    )]
    Vanished {
        path: PathBuf,
        evidence: PathBuf,
        #[source]
        source: Damage,
    },
    #[error("{path} was written by a newer pml (format {found}, this one reads {known})")]
    NewerFormat { path: PathBuf, found: u64, known: u64 },
}
