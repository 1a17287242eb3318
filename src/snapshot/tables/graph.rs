//! The table `edges` holds the tool graph. `transitions` counts which call followed which. Nodes have a number, which a restore
//! reads, and a name, for people.

use arrow_array::{Array, Float64Array, LargeStringArray, RecordBatch, UInt32Array, UInt64Array};

use super::super::columns::{Columns, TableRows, optional_texts, texts};
use super::super::error::Unreadable;
use crate::core::graph::edge::{EdgeCounter, EdgeKind};
use crate::core::graph::transition::{Count, Symbol, Transitions};
use crate::core::graph::{EdgeKey, Node, ToolGraph};
use crate::core::id::Seq;
use crate::core::state::State;

pub(in super::super) const EDGES: &str = "edges";
pub(in super::super) const TRANSITIONS: &str = "transitions";

pub(super) fn edges(state: &State) -> Vec<RecordBatch> {
    let edges = || state.graph.edges();
    let node = |get: fn(&EdgeKey) -> Node| UInt32Array::from_iter_values(edges().map(move |(key, _)| get(key).to_bits()));
    let name = |get: fn(&EdgeKey) -> Node| texts(edges().map(move |(key, _)| state.callee(get(key)).to_string()));
    let count = |get: fn(&EdgeCounter) -> u32| UInt32Array::from_iter_values(edges().map(move |(_, counter)| get(counter)));
    let columns = Columns::default()
        .with("from_node", node(|(from, _, _)| *from))
        .with("to_node", node(|(_, to, _)| *to))
        .with("from", name(|(from, _, _)| *from))
        .with("to", name(|(_, to, _)| *to))
        .with("kind", texts(edges().map(|((_, _, kind), _)| kind.name())))
        .with("source", texts(edges().map(|(_, counter)| counter.source().name())))
        .with("weight", Float64Array::from_iter_values(edges().map(|((_, _, kind), counter)| counter.weight(*kind))))
        .with("declared", count(|counter| counter.declared))
        .with("observations", count(|counter| counter.observations))
        .with("successes", count(|counter| counter.successes))
        .with("last_seq", UInt64Array::from_iter_values(edges().map(|(_, counter)| counter.last_seq.0)));
    vec![columns.batch()]
}

/// The columns of `edges` that a restore needs; the others follow from them.
pub(in super::super) const EDGE_COLUMNS: [&str; 7] =
    ["from_node", "to_node", "kind", "declared", "observations", "successes", "last_seq"];

pub(in super::super) fn read_edges(rows: &TableRows) -> Result<ToolGraph, Unreadable> {
    let number = |name| rows.column::<UInt32Array>(name);
    let (from, to, kinds) = (number("from_node")?, number("to_node")?, rows.column::<LargeStringArray>("kind")?);
    let (declared, observations, successes) = (number("declared")?, number("observations")?, number("successes")?);
    let last_seq = rows.column::<UInt64Array>("last_seq")?;
    let edge = |row: usize| {
        let kind = EdgeKind::ALL.into_iter().find(|kind| kind.name() == kinds.value(row));
        let kind = kind.ok_or_else(|| rows.unreadable("kind", format!("holds '{}'", kinds.value(row))))?;
        let counter = EdgeCounter {
            declared: declared.value(row),
            observations: observations.value(row),
            successes: successes.value(row),
            last_seq: Seq(last_seq.value(row)),
        };
        Ok(((Node::from_bits(from.value(row)), Node::from_bits(to.value(row)), kind), counter))
    };
    let edges: Vec<(EdgeKey, EdgeCounter)> = (0..rows.len()).map(edge).collect::<Result<_, Unreadable>>()?;
    Ok(ToolGraph::from_edges(edges))
}

/// The name of a symbol: `start`, `end`, or the id of a callee.
pub(super) fn symbol_name(state: &State, symbol: Symbol) -> String {
    match symbol.node() {
        Some(node) => state.callee(node).to_string(),
        None if symbol == Symbol::START => "start".to_owned(),
        None => "end".to_owned(),
    }
}

pub(super) fn transitions(state: &State) -> Vec<RecordBatch> {
    let rows: Vec<_> = state.transitions.rows().collect();
    let name = |symbol: Symbol| symbol_name(state, symbol);
    let columns = Columns::default()
        .with_optional("before_symbol", rows.iter().map(|row| row.0.map(Symbol::to_bits)).collect::<UInt32Array>())
        .with("last_symbol", UInt32Array::from_iter_values(rows.iter().map(|row| row.1.to_bits())))
        .with("next_symbol", UInt32Array::from_iter_values(rows.iter().map(|row| row.2.to_bits())))
        .with_optional("before", optional_texts(rows.iter().map(|row| row.0.map(name))))
        .with("last", texts(rows.iter().map(|row| name(row.1))))
        .with("next", texts(rows.iter().map(|row| name(row.2))))
        .with("seen", UInt32Array::from_iter_values(rows.iter().map(|row| row.3.seen)))
        .with("succeeded", UInt32Array::from_iter_values(rows.iter().map(|row| row.3.succeeded)));
    vec![columns.batch()]
}

/// The columns of `transitions` that a restore needs.
pub(in super::super) const TRANSITION_COLUMNS: [&str; 5] = ["before_symbol", "last_symbol", "next_symbol", "seen", "succeeded"];

/// Reads the transitions; `totals` are the total numbers of calls and of ends of executions.
pub(in super::super) fn read_transitions(rows: &TableRows, totals: (u64, u64)) -> Result<Transitions, Unreadable> {
    let number = |name| rows.column::<UInt32Array>(name);
    let (before, last, next) = (number("before_symbol")?, number("last_symbol")?, number("next_symbol")?);
    let (seen, succeeded) = (number("seen")?, number("succeeded")?);
    let transition = |row: usize| {
        let before = before.is_valid(row).then(|| Symbol::from_bits(before.value(row)));
        let count = Count { seen: seen.value(row), succeeded: succeeded.value(row) };
        (before, Symbol::from_bits(last.value(row)), Symbol::from_bits(next.value(row)), count)
    };
    Ok(Transitions::from_rows((0..rows.len()).map(transition), totals))
}
