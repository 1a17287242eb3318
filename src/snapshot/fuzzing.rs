//! What the fuzzer needs of snapshots: tables with other content under a manifest that agrees with them.

use arrow_array::RecordBatch;
use bytes::Bytes;

use super::error::Unusable;
use super::fetched::{FetchedSnapshot, Files};
use super::manifest::Manifest;
use super::parquet::{self, EncodedTable};
use super::take::{EncodedSnapshot, file_name, tables};
use crate::core::id::Seq;
use crate::core::state::State;

/// Reads a manifest; the bytes must be exactly those that pml writes.
pub fn read_manifest(seq: Seq, bytes: &[u8]) -> Result<Manifest, Unusable> {
    Manifest::parse(seq, bytes)
}

/// The bytes of a manifest as pml would write it.
pub fn write_manifest(manifest: &Manifest) -> Bytes {
    manifest.sealed().file().1
}

/// The tables of a state that are not empty, with the names of their files.
pub fn state_tables(state: &State) -> Vec<(String, Vec<RecordBatch>)> {
    tables(state).map(|table| (file_name(table.table), table.batches)).collect()
}

/// Encodes a table.
pub fn encode_table(batches: &[RecordBatch]) -> Vec<u8> {
    parquet::encode(batches)
}

/// The snapshot with the content of one file replaced.
pub fn replace_file(snapshot: &EncodedSnapshot, file: &str, content: Bytes) -> FetchedSnapshot {
    let mut manifest = snapshot.manifest.clone();
    let names = snapshot.manifest.files.iter().map(|entry| entry.name.clone());
    let mut files: std::collections::BTreeMap<_, _> = names.zip(snapshot.files.iter().cloned()).collect();
    for entry in manifest.files.iter_mut().filter(|entry| entry.name == file) {
        entry.bytes = content.len() as u64;
        entry.blake3 = blake3::hash(&content).to_hex().to_string();
        entry.rows = EncodedTable::open(content.clone()).map_or(entry.rows, |table| table.rows() as u64);
    }
    files.insert(file.to_owned(), content);
    FetchedSnapshot { manifest: manifest.sealed(), files: Files::Memory(files) }
}
