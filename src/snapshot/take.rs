//! Encodes a state as the files of a snapshot, in memory. It takes a while: call it on a thread that may block.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use bytes::Bytes;

use super::error::Unusable;
use super::fetched::{FetchedSnapshot, Files};
use super::manifest::{About, FileEntry, Manifest};
use super::parquet;
use super::tables::{TABLES, Table};
use crate::core::state::State;

/// An encoded snapshot, ready to be written to a store.
pub struct EncodedSnapshot {
    pub manifest: Manifest,
    /// In the order of the manifest's entries.
    pub(super) files: Vec<Bytes>,
}

impl EncodedSnapshot {
    /// The same as writing it to a store and fetching it.
    pub fn into_fetched(self) -> FetchedSnapshot {
        let files = self.manifest.files.iter().map(|file| file.name.clone()).zip(self.files).collect();
        FetchedSnapshot { manifest: self.manifest, files: Files::Memory(files) }
    }
}

impl TryFrom<FetchedSnapshot> for EncodedSnapshot {
    type Error = Unusable;

    /// Reads and checks all files, to copy a snapshot from one store to another.
    fn try_from(fetched: FetchedSnapshot) -> Result<Self, Unusable> {
        let files = fetched.manifest.files.iter().map(|file| fetched.read_checked(file)).collect::<Result<_, _>>()?;
        Ok(Self { manifest: fetched.manifest, files })
    }
}

/// The rows of one table.
pub(crate) struct TableBatches {
    pub(crate) table: &'static str,
    pub(crate) batches: Vec<arrow_array::RecordBatch>,
}

impl TableBatches {
    pub(crate) fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

/// The tables of a state that are not empty.
pub(crate) fn tables(state: &State) -> impl Iterator<Item = TableBatches> {
    TABLES.iter().filter_map(|table| fill(table, state))
}

fn fill(table: &Table, state: &State) -> Option<TableBatches> {
    let batches = (table.batches)(state);
    (!batches.is_empty()).then_some(TableBatches { table: table.name, batches })
}

/// Number of steps that [`encode_state`] reports: the tables and the digest.
pub const STEPS: u64 = TABLES.len() as u64 + 1;

/// Encodes a state as a snapshot; `done` is called after each step. Two threads encode the tables from the end of the list, where
/// the long ones are; one of them starts with the digest. More threads would slow down publishing.
pub fn encode_state(state: &State, about: &About, done: impl Fn() + Sync) -> EncodedSnapshot {
    encode_state_with(state, about, done, |_, _| ())
}

/// Like [`encode_state`]; `on_file` is called with the name and content of every file as soon as it is encoded.
pub(super) fn encode_state_with(
    state: &State,
    about: &About,
    done: impl Fn() + Sync,
    on_file: impl Fn(&str, &Bytes) + Sync,
) -> EncodedSnapshot {
    let left = AtomicUsize::new(TABLES.len());
    let encode_all = || {
        let mut encoded = Vec::new();
        while let Ok(at) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            if let Some((entry, bytes)) = encode(&TABLES[at - 1], state) {
                on_file(&entry.name, &bytes);
                encoded.push((at, entry, bytes));
            }
            done();
        }
        encoded
    };
    let (mut encoded, digest) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| (state.digest().to_string(), encode_all()));
        let mut encoded = encode_all();
        let (digest, more) = joined(beside);
        encoded.extend(more);
        (encoded, digest)
    });
    done();
    encoded.sort_unstable_by_key(|(at, ..)| *at);
    let (entries, files) = encoded.into_iter().map(|(_, entry, bytes)| (entry, bytes)).unzip();
    EncodedSnapshot { manifest: Manifest::new(state.applied(), digest, about, entries), files }
}

/// The file of a table; `None` if the table is empty.
fn encode(table: &Table, state: &State) -> Option<(FileEntry, Bytes)> {
    let filled = fill(table, state)?;
    let bytes = Bytes::from(parquet::encode(&filled.batches));
    let entry = FileEntry {
        name: file_name(filled.table),
        rows: filled.rows(),
        bytes: bytes.len() as u64,
        blake3: blake3::hash(&bytes).to_hex().to_string(),
    };
    Some((entry, bytes))
}

/// The result of a thread; a panic of the thread is passed on.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(super) fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}
