//! The table `intents` holds the intents in the memory, oldest first, with the callees that succeeded. `ways` holds the call
//! sequences of the executions with each intent, in the order of the intents, the most recent one last.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{BooleanArray, FixedSizeBinaryArray, LargeStringArray, ListArray, RecordBatch, UInt32Array, UInt64Array};

use super::super::columns::{Columns, TableRows, number_lists, text_lists, texts};
use super::super::error::Unreadable;
use super::vectors::{hash_at, hashes};
use crate::core::graph::Node;
use crate::core::id::Seq;
use crate::core::memory::{CallSequence, Memory, PastIntent};
use crate::core::state::State;

pub(in super::super) const INTENTS: &str = "intents";
pub(in super::super) const WAYS: &str = "ways";

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

pub(super) fn ways(state: &State) -> Vec<RecordBatch> {
    let rows = || state.memory.iter().flat_map(|(number, row)| row.sequences.iter().map(move |sequence| (number, sequence)));
    let count = |get: fn(&CallSequence) -> u32| UInt32Array::from_iter_values(rows().map(move |(_, sequence)| get(sequence)));
    let nodes = rows().map(|(_, sequence)| sequence.calls.iter().map(|node| node.to_bits()).collect::<Vec<_>>());
    let name = |node: &Node| state.callee(*node).to_string();
    let columns = Columns::default()
        .with("intent_number", UInt64Array::from_iter_values(rows().map(|(number, _)| number)))
        .with("call_nodes", number_lists::<UInt32Type>(nodes))
        .with("calls", text_lists(rows().map(|(_, sequence)| sequence.calls.iter().map(name))))
        .with("ended", rows().map(|(_, sequence)| Some(sequence.ended)).collect::<BooleanArray>())
        .with("times", count(|sequence| sequence.times))
        .with("succeeded", count(|sequence| sequence.succeeded))
        .with("last_seq", UInt64Array::from_iter_values(rows().map(|(_, sequence)| sequence.seq.0)))
        .with("execution", texts(rows().map(|(_, sequence)| sequence.execution.as_str())));
    vec![columns.batch()]
}

/// The columns of `ways` that a restore needs.
pub(in super::super) const WAY_COLUMNS: [&str; 7] =
    ["intent_number", "call_nodes", "ended", "times", "succeeded", "last_seq", "execution"];

fn read_ways(rows: &TableRows) -> Result<BTreeMap<u64, Vec<CallSequence>>, Unreadable> {
    let (numbers, nodes) = (rows.column::<UInt64Array>("intent_number")?, rows.column::<ListArray>("call_nodes")?);
    let (ended, executions) = (rows.column::<BooleanArray>("ended")?, rows.column::<LargeStringArray>("execution")?);
    let (times, succeeded) = (rows.column::<UInt32Array>("times")?, rows.column::<UInt32Array>("succeeded")?);
    let seqs = rows.column::<UInt64Array>("last_seq")?;
    let mut sequences: BTreeMap<u64, Vec<CallSequence>> = BTreeMap::new();
    for row in 0..rows.len() {
        let nodes = nodes.value(row);
        sequences.entry(numbers.value(row)).or_default().push(CallSequence {
            calls: nodes.as_primitive::<UInt32Type>().values().iter().map(|bits| Node::from_bits(*bits)).collect(),
            ended: ended.value(row),
            times: times.value(row),
            succeeded: succeeded.value(row),
            seq: Seq(seqs.value(row)),
            execution: executions.value(row).parse().map_err(|problem| rows.unreadable("execution", problem))?,
        });
    }
    Ok(sequences)
}

/// The columns of `intents` that a restore needs.
pub(in super::super) const INTENT_COLUMNS: [&str; 6] = ["number", "intent", "text_hash", "runs", "used_nodes", "used_times"];

pub(in super::super) fn read_intents(rows: &TableRows, ways: &TableRows, next: u64) -> Result<Memory, Unreadable> {
    let (numbers, intents) = (rows.column::<UInt64Array>("number")?, rows.column::<LargeStringArray>("intent")?);
    let (hashes, runs) = (rows.column::<FixedSizeBinaryArray>("text_hash")?, rows.column::<UInt32Array>("runs")?);
    let (nodes, times) = (rows.column::<ListArray>("used_nodes")?, rows.column::<ListArray>("used_times")?);
    let mut sequences = read_ways(ways)?;
    let remembered = |row: usize| {
        let (nodes, times) = (nodes.value(row), times.value(row));
        let (nodes, times) = (nodes.as_primitive::<UInt32Type>().values(), times.as_primitive::<UInt32Type>().values());
        let entry = PastIntent {
            intent: intents.value(row).into(),
            hash: hash_at(rows, hashes, row)?,
            runs: runs.value(row),
            used: nodes.iter().map(|bits| Node::from_bits(*bits)).zip(times.iter().copied()).collect(),
            sequences: sequences.remove(&numbers.value(row)).unwrap_or_default(),
        };
        Ok((numbers.value(row), entry))
    };
    let entries: Vec<(u64, PastIntent)> = (0..rows.len()).map(remembered).collect::<Result<_, Unreadable>>()?;
    Ok(Memory::from_rows(entries, next))
}
