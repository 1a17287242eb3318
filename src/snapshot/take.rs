//! From a state to the files of a snapshot. Pure work on memory, for a thread that may be busy for a while.

use bytes::Bytes;

use super::manifest::{About, FileEntry, Manifest};
use super::parquet;
use super::restore::Fetched;
use super::tables::TABLES;
use crate::core::state::State;

/// A snapshot on its way to a store.
pub struct Taken {
    pub manifest: Manifest,
    /// In the order of the manifest's entries.
    pub(super) files: Vec<Bytes>,
}

impl Taken {
    /// As if it had been written and read.
    pub fn fetched(self) -> Fetched {
        let files = self.manifest.files.iter().map(|file| file.name.clone()).zip(self.files).collect();
        Fetched { manifest: self.manifest, files }
    }
}

impl From<Fetched> for Taken {
    /// On its way from one store to another.
    fn from(fetched: Fetched) -> Self {
        let Fetched { manifest, mut files } = fetched;
        let files = manifest.files.iter().map(|file| files.remove(&file.name).unwrap_or_default()).collect();
        Self { manifest, files }
    }
}

/// Rows of a table, before they are written.
pub(crate) struct Batches {
    pub(crate) table: &'static str,
    pub(crate) batches: Vec<arrow_array::RecordBatch>,
}

impl Batches {
    pub(crate) fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

/// The tables that a state fills, one after the other.
pub(crate) fn tables(state: &State) -> impl Iterator<Item = Batches> {
    let filled = TABLES.iter().map(|table| Batches { table: table.name, batches: (table.batches)(state) });
    filled.filter(|table| !table.batches.is_empty())
}

/// How many steps [`take`] reports: the tables, and the digest.
pub const STEPS: u64 = TABLES.len() as u64 + 1;

/// Takes a snapshot of a state. `done` hears after each step.
pub fn take(state: &State, about: &About, done: impl Fn()) -> Taken {
    let mut entries = Vec::with_capacity(TABLES.len());
    let mut files = Vec::with_capacity(TABLES.len());
    for table in tables(state) {
        let bytes = Bytes::from(parquet::encode(&table.batches));
        entries.push(FileEntry {
            name: file_name(table.table),
            rows: table.rows(),
            bytes: bytes.len() as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
        });
        files.push(bytes);
        done();
    }
    let digest = state.digest().to_string();
    done();
    Taken { manifest: Manifest::new(state.applied(), digest, about, entries), files }
}

pub(super) fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}
