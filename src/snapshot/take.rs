//! From a state to the files of a snapshot. Pure work on memory, for a thread that may be busy for a while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use bytes::Bytes;

use super::error::Unusable;
use super::fetched::{Fetched, Files};
use super::manifest::{About, FileEntry, Manifest};
use super::parquet;
use super::tables::{TABLES, Table};
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
        Fetched { manifest: self.manifest, files: Files::Memory(files) }
    }
}

impl TryFrom<Fetched> for Taken {
    type Error = Unusable;

    /// On its way from one store to another.
    fn try_from(fetched: Fetched) -> Result<Self, Unusable> {
        let files = fetched.manifest.files.iter().map(|file| fetched.checked(file)).collect::<Result<_, _>>()?;
        Ok(Self { manifest: fetched.manifest, files })
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
    TABLES.iter().filter_map(|table| fill(table, state))
}

fn fill(table: &Table, state: &State) -> Option<Batches> {
    let batches = (table.batches)(state);
    (!batches.is_empty()).then_some(Batches { table: table.name, batches })
}

/// How many steps [`take`] reports: the tables, and the digest.
pub const STEPS: u64 = TABLES.len() as u64 + 1;

/// Takes a snapshot of a state. `done` hears after each step. Two threads make the tables, the long ones first, which are the last of
/// the list; one of them begins with the digest. More would be in the way of those who publish meanwhile.
pub fn take(state: &State, about: &About, done: impl Fn() + Sync) -> Taken {
    take_with(state, about, done, |_, _| ())
}

/// The same; `file` gets every file, by name, as soon as it is made.
pub(super) fn take_with(state: &State, about: &About, done: impl Fn() + Sync, file: impl Fn(&str, &Bytes) + Sync) -> Taken {
    let left = AtomicUsize::new(TABLES.len());
    let encode_all = || {
        let mut encoded = Vec::new();
        while let Ok(at) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            if let Some((entry, bytes)) = encode(&TABLES[at - 1], state) {
                file(&entry.name, &bytes);
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
    Taken { manifest: Manifest::new(state.applied(), digest, about, entries), files }
}

/// The file of a table, if the state fills it.
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

/// What a thread made; if it panicked, so does this.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(super) fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}
