//! `FetchedSnapshot` is a snapshot whose files were fetched but not yet checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use bytes::Bytes;
use parquet::errors::ParquetError;

use super::columns::TableRows;
use super::error::Unusable;
use super::manifest::{FileEntry, Manifest};
use super::parquet::EncodedTable;
use super::take::file_name;

/// A snapshot to restore from. Each file is checked against the manifest when it is opened.
pub struct FetchedSnapshot {
    pub manifest: Manifest,
    pub(super) files: Files,
}

/// Where the files are.
pub(super) enum Files {
    Memory(BTreeMap<String, Bytes>),
    /// Each file is read by the thread that needs it.
    Directory(PathBuf),
}

impl FetchedSnapshot {
    /// Reads a file and checks its hash.
    pub(super) fn read_checked(&self, entry: &FileEntry) -> Result<Bytes, Unusable> {
        let bytes = match &self.files {
            Files::Memory(files) => files.get(&entry.name).cloned().ok_or_else(|| missing(&entry.name))?,
            Files::Directory(directory) => {
                std::fs::read(directory.join(&entry.name)).map_err(|error| unread(&entry.name, error))?.into()
            }
        };
        check_hash(entry, blake3::hash(&bytes))?;
        Ok(bytes)
    }

    pub(super) fn has_table(&self, table: &'static str) -> bool {
        self.entry(table).is_ok()
    }

    fn entry(&self, table: &'static str) -> Result<&FileEntry, Unusable> {
        let name = file_name(table);
        self.manifest.files.iter().find(|entry| entry.name == name).ok_or_else(|| missing(&name))
    }

    /// Opens a table in memory.
    pub(super) fn open_in_memory(&self, table: &'static str) -> Result<EncodedTable, Unusable> {
        let entry = self.entry(table)?;
        check_rows(table, entry, EncodedTable::open(self.read_checked(entry)?))
    }

    /// Opens a table that may be large: a local file is not loaded into memory but scanned later.
    pub(super) fn open_in_place(&self, table: &'static str) -> Result<EncodedTable, Unusable> {
        let Files::Directory(directory) = &self.files else { return self.open_in_memory(table) };
        let entry = self.entry(table)?;
        let path = directory.join(&entry.name);
        let hash = File::open(&path).and_then(|file| Ok(blake3::Hasher::new().update_reader(file)?.finalize()));
        check_hash(entry, hash.map_err(|error| unread(&entry.name, error))?)?;
        check_rows(table, entry, EncodedTable::open_file(path))
    }

    /// Reads the named columns of a table, or all if none are named.
    pub(super) fn rows(&self, table: &'static str, columns: &[&str]) -> Result<TableRows, Unusable> {
        let batch = self.open_in_memory(table)?.read(columns);
        Ok(TableRows::new(table, batch.map_err(|source| Unusable::Parquet { file: file_name(table), source })?))
    }
}

fn missing(file: &str) -> Unusable {
    Unusable::Missing { file: file.to_owned() }
}

fn unread(file: &str, error: Error) -> Unusable {
    match error.kind() {
        ErrorKind::NotFound => missing(file),
        _ => Unusable::Read { file: file.to_owned(), source: error },
    }
}

fn check_hash(entry: &FileEntry, hash: blake3::Hash) -> Result<(), Unusable> {
    if hash.to_hex().as_str() == entry.blake3 { Ok(()) } else { Err(Unusable::Hash { file: entry.name.clone() }) }
}

/// Checks that a table has as many rows as the manifest says.
fn check_rows(
    table: &'static str,
    entry: &FileEntry,
    opened: Result<EncodedTable, ParquetError>,
) -> Result<EncodedTable, Unusable> {
    let encoded = opened.map_err(|source| Unusable::Parquet { file: entry.name.clone(), source })?;
    match encoded.rows() as u64 {
        found if found == entry.rows => Ok(encoded),
        found => Err(Unusable::RowCount { table: table.to_owned(), expected: entry.rows, found }),
    }
}
