//! Errors of snapshots, grouped by what the caller can do about them.

use crate::core::digest::StateDigest;
use crate::core::id::Seq;

pub(super) type Source = Box<dyn std::error::Error + Send + Sync>;

/// A column of a table that does not hold what this program writes.
#[derive(Debug, thiserror::Error)]
#[error("{table}.parquet: column '{column}' {problem}")]
pub struct Unreadable {
    pub table: &'static str,
    pub column: &'static str,
    pub problem: String,
}

/// Why a snapshot cannot be used. The log still holds everything, so another snapshot or a fold can replace it.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("it has no manifest.json: it was never finished")]
    Unfinished,
    #[error("its manifest.json cannot be read: {0}")]
    Manifest(String),
    #[error("it was written by a newer pml (schema {found}, this one reads {known})")]
    NewerSchema { found: u32, known: u32 },
    #[error("it is of another version: fold {found}, this pml has fold {known} and folds the log instead")]
    OtherFold { found: u32, known: u32 },
    #[error("{file} is missing")]
    Missing { file: String },
    #[error("{file} cannot be read")]
    Read {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{file} is damaged: its content has another hash than the manifest says")]
    Hash { file: String },
    #[error("{file} cannot be read as Parquet")]
    Parquet {
        file: String,
        #[source]
        source: parquet::errors::ParquetError,
    },
    #[error(transparent)]
    Table(#[from] Unreadable),
    #[error("{table}.parquet has {found} rows, the manifest says {expected}")]
    RowCount { table: String, expected: u64, found: u64 },
    #[error("the state restored from it has the digest {found}, the manifest says {expected}")]
    Digest { expected: String, found: StateDigest },
    #[error("it stands at record {at}, and the log ends at {tail}: it is ahead of this log")]
    Ahead { at: Seq, tail: Seq },
    #[error("record {at} of the log is {found}, of the snapshot's log {expected}: it belongs to another log")]
    OtherLog { at: Seq, expected: String, found: String },
}

/// Why an operation on snapshots failed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("snapshots.url: {url}: {problem}")]
    Place { url: String, problem: String },
    #[error("cannot use {place}")]
    Store {
        place: String,
        #[source]
        source: Source,
    },
    #[error("snapshot {seq} cannot be used")]
    Unusable {
        seq: Seq,
        #[source]
        source: Unusable,
    },
    #[error("there is no snapshot {0}; `pml snapshot list` shows which there are")]
    Unknown(Seq),
    #[error("{place} holds a snapshot at {seq} that belongs to another log; give each log a place of its own (snapshots.url)")]
    Taken { place: String, seq: Seq },
    #[error("there is nothing to snapshot: the log is empty")]
    Empty,
    #[error("cannot read the log that the snapshot belongs to")]
    Log(#[from] crate::log::ReadError),
    #[error("the snapshot was interrupted; the messages above say why")]
    Interrupted,
}
