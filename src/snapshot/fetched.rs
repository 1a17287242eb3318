//! The files of one snapshot, on their way back to a state.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use bytes::Bytes;
use parquet::errors::ParquetError;

use super::columns::Rows;
use super::error::Unusable;
use super::manifest::{FileEntry, Manifest};
use super::parquet::Encoded;
use super::take::file_name;

/// The files of one snapshot, not yet trusted.
pub struct Fetched {
    pub manifest: Manifest,
    pub(super) files: Files,
}

pub(super) enum Files {
    Memory(BTreeMap<String, Bytes>),
    /// Each is read by the thread that needs it.
    Directory(PathBuf),
}

impl Fetched {
    /// A file as its bytes, if its hash is the manifest's.
    pub(super) fn checked(&self, entry: &FileEntry) -> Result<Bytes, Unusable> {
        let bytes = match &self.files {
            Files::Memory(files) => files.get(&entry.name).cloned().ok_or_else(|| missing(&entry.name))?,
            Files::Directory(directory) => {
                std::fs::read(directory.join(&entry.name)).map_err(|error| unread(&entry.name, error))?.into()
            }
        };
        compare(entry, blake3::hash(&bytes))?;
        Ok(bytes)
    }

    pub(super) fn has(&self, table: &'static str) -> bool {
        self.entry(table).is_ok()
    }

    fn entry(&self, table: &'static str) -> Result<&FileEntry, Unusable> {
        let name = file_name(table);
        self.manifest.files.iter().find(|entry| entry.name == name).ok_or_else(|| missing(&name))
    }

    /// A table in memory.
    pub(super) fn opened(&self, table: &'static str) -> Result<Encoded, Unusable> {
        let entry = self.entry(table)?;
        whole(table, entry, Encoded::open(self.checked(entry)?))
    }

    /// A table that is left where it is, to be scanned: it may be large.
    pub(super) fn large(&self, table: &'static str) -> Result<Encoded, Unusable> {
        let Files::Directory(directory) = &self.files else { return self.opened(table) };
        let entry = self.entry(table)?;
        let path = directory.join(&entry.name);
        let hash = File::open(&path).and_then(|file| Ok(blake3::Hasher::new().update_reader(file)?.finalize()));
        compare(entry, hash.map_err(|error| unread(&entry.name, error))?)?;
        whole(table, entry, Encoded::open_file(path))
    }

    /// Some columns of a table, or all if none are named.
    pub(super) fn rows(&self, table: &'static str, columns: &[&str]) -> Result<Rows, Unusable> {
        let batch = self.opened(table)?.read(columns);
        Ok(Rows::new(table, batch.map_err(|source| Unusable::Parquet { file: file_name(table), source })?))
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

fn compare(entry: &FileEntry, hash: blake3::Hash) -> Result<(), Unusable> {
    if hash.to_hex().as_str() == entry.blake3 { Ok(()) } else { Err(Unusable::Hash { file: entry.name.clone() }) }
}

/// A table, if it has as many rows as the manifest says.
fn whole(table: &'static str, entry: &FileEntry, opened: Result<Encoded, ParquetError>) -> Result<Encoded, Unusable> {
    let encoded = opened.map_err(|source| Unusable::Parquet { file: entry.name.clone(), source })?;
    match encoded.rows() as u64 {
        found if found == entry.rows => Ok(encoded),
        found => Err(Unusable::RowCount { table: table.to_owned(), expected: entry.rows, found }),
    }
}
