//! `intents`: the intents remembered, oldest first, and what succeeded when they were seen.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{FixedSizeBinaryArray, LargeStringArray, ListArray, RecordBatch, UInt32Array, UInt64Array};

use super::super::columns::{Columns, Rows, number_lists, text_lists, texts};
use super::super::error::Unreadable;
use super::vectors::{hash_at, hashes};
use crate::core::graph::Node;
use crate::core::memory::{Memory, Remembered};
use crate::core::state::State;

pub(in super::super) const INTENTS: &str = "intents";

pub(super) fn intents(state: &State) -> Vec<RecordBatch> {
    let rows = || state.memory.iter();
    let used = |get: fn(&(Node, u32)) -> u32| {
        number_lists::<UInt32Type>(rows().map(move |(_, row)| row.used.iter().map(get).collect::<Vec<_>>()))
    };
    let name = |(node, _): &(Node, u32)| state.callee(*node).to_string();
    let columns = Columns::default()
        .with("number", UInt64Array::from_iter_values(rows().map(|(number, _)| number)))
        .with("intent", texts(rows().map(|(_, row)| &row.intent)))
        .with("text_hash", hashes(rows().map(|(_, row)| row.hash)))
        .with("runs", UInt32Array::from_iter_values(rows().map(|(_, row)| row.runs)))
        .with("used_nodes", used(|(node, _)| node.to_bits()))
        .with("used", text_lists(rows().map(|(_, row)| row.used.iter().map(name))))
        .with("used_times", used(|(_, times)| *times));
    vec![columns.batch()]
}

/// The columns of `intents` that a restore needs.
pub(in super::super) const INTENT_COLUMNS: [&str; 6] = ["number", "intent", "text_hash", "runs", "used_nodes", "used_times"];

pub(in super::super) fn read_intents(rows: &Rows, next: u64) -> Result<Memory, Unreadable> {
    let (numbers, intents) = (rows.column::<UInt64Array>("number")?, rows.column::<LargeStringArray>("intent")?);
    let (hashes, runs) = (rows.column::<FixedSizeBinaryArray>("text_hash")?, rows.column::<UInt32Array>("runs")?);
    let (nodes, times) = (rows.column::<ListArray>("used_nodes")?, rows.column::<ListArray>("used_times")?);
    let remembered = |row: usize| {
        let (nodes, times) = (nodes.value(row), times.value(row));
        let (nodes, times) = (nodes.as_primitive::<UInt32Type>().values(), times.as_primitive::<UInt32Type>().values());
        let entry = Remembered {
            intent: intents.value(row).into(),
            hash: hash_at(rows, hashes, row)?,
            runs: runs.value(row),
            used: nodes.iter().map(|bits| Node::from_bits(*bits)).zip(times.iter().copied()).collect(),
        };
        Ok((numbers.value(row), entry))
    };
    let entries: Vec<(u64, Remembered)> = (0..rows.len()).map(remembered).collect::<Result<_, Unreadable>>()?;
    Ok(Memory::from_rows(entries, next))
}
