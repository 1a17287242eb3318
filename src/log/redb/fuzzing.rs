//! The decoders of stored values, for the fuzzer. Values get the right checksum first: a wrong one hides everything behind it.

use super::block::Block;
use super::checksum::SealedTable;
use super::{ids, letters};
use crate::core::event::stored;
use crate::core::id::Seq;

/// Reads a block under its key and decodes its records.
pub fn read_block(last: Seq, body: &[u8]) -> Result<usize, String> {
    let value = SealedTable::Block.seal(last.0, body);
    let block = Block::open(last, &value).map_err(|damage| damage.to_string())?;
    let mut records = 0;
    for (seq, bytes) in block.records {
        stored::decode(seq, bytes).map_err(|corrupt| corrupt.to_string())?;
        records += 1;
    }
    Ok(records)
}

/// Reads a run of ids under its key and looks an id up.
pub fn read_id_run(key: u128, body: &[u8], id: u128) -> Result<Option<Seq>, String> {
    ids::find_in_run(key, &SealedTable::IdRun.seal(key, body), id).map_err(|damage| damage.to_string())
}

/// Reads a dead letter under its number.
pub fn read_letter(number: u64, body: &[u8]) -> Result<(), String> {
    letters::decode(number, &SealedTable::Letter.seal(number, body)).map(drop).map_err(|damage| damage.to_string())
}
