//! The file of ids, for the fuzzer.

use std::path::Path;

use super::ids::IdIndex;
use crate::core::id::{RecordId, Seq};

/// The identity of the stream that the index is of, and the end of the stream.
const IDENTITY: u64 = 7;
const END: Seq = Seq(1 << 20);

/// Writes an index of these ids, at consecutive positions from 1, to `directory`.
pub fn write_id_index(directory: &Path, ids: &[RecordId]) -> Result<(), String> {
    let text = |error: crate::log::ReadError| error.to_string();
    let index = IdIndex::open(Some(directory), IDENTITY, END).map_err(text)?;
    let entries: Vec<(RecordId, Seq)> = ids.iter().copied().zip((1..).map(Seq)).collect();
    index.add(&entries, Seq(entries.len() as u64)).map_err(text)?;
    index.sync().map_err(text)
}

/// Opens the index in `directory`, looks an id up and adds another one. Returns up to where the index was complete and what was found.
pub fn use_id_index(directory: &Path, id: RecordId, new: RecordId) -> Result<(Seq, Option<Seq>), String> {
    let text = |error: crate::log::ReadError| error.to_string();
    let index = IdIndex::open(Some(directory), IDENTITY, END).map_err(text)?;
    let complete_to = index.complete_to().map_err(text)?;
    let found = index.find(std::iter::once(id)).map_err(text)?[0];
    index.add(&[(new, complete_to.next())], complete_to.next()).map_err(text)?;
    Ok((complete_to, found))
}
