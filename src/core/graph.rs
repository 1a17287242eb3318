//! The tool graph: nodes are tools and capabilities, edges are typed and counted. Membership of tools in capabilities is stored in
//! `capability`, which is the hypergraph, and not repeated here.
//!
//! `edge`, `cycle` and `transition` belong to the fold. The rest are measures: functions of a state, one algorithm per file, on an
//! [`adjacency`] built once per state; [`measures`] holds their results.

pub mod cycle;
pub mod edge;
pub mod transition;

pub mod adjacency;
pub mod cold_start;
pub mod measures;
pub mod similar;

pub mod adamic_adar;
pub mod community;
pub mod hybrid;
pub(crate) mod membership;
pub mod neighbours;
pub mod pagerank;
pub mod path;

#[cfg(test)]
mod samples;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::digest::{DigestWriter, Digestible};
use crate::id::Seq;
use edge::{EdgeCounter, EdgeKind, EdgeSource};

/// A tool or capability as its position in the state's tables. Positions are assigned in log order and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);

/// The table of a [`Node`] and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    Tool(u32),
    Capability(u32),
}

impl Node {
    pub const fn tool(position: u32) -> Self {
        Self(position << 1)
    }

    pub const fn capability(position: u32) -> Self {
        Self((position << 1) | 1)
    }

    pub const fn kind(self) -> NodeKind {
        if self.0 & 1 == 0 { NodeKind::Tool(self.0 >> 1) } else { NodeKind::Capability(self.0 >> 1) }
    }

    pub const fn to_bits(self) -> u32 {
        self.0
    }

    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// Key of an edge: from, to, kind. Ordered by the first node, so the outgoing edges of a node are one range.
pub type EdgeKey = (Node, Node, EdgeKind);

/// An edge whose source has just become [`EdgeSource::Observed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promoted(pub EdgeKey);

/// The typed edges between tools and capabilities, with their counters.
#[derive(Clone, Debug, Default)]
pub struct ToolGraph {
    edges: OrdMap<EdgeKey, EdgeCounter>,
}

impl ToolGraph {
    /// Counts one observation; returns the edge if this promotes it.
    pub fn observe(&mut self, key: EdgeKey, success: bool, seq: Seq) -> Option<Promoted> {
        upsert(&mut self.edges, key, |counter: &mut EdgeCounter| {
            let before = counter.source();
            counter.observations += 1;
            counter.successes += u32::from(success);
            counter.last_seq = seq;
            (counter.source() == EdgeSource::Observed && before != EdgeSource::Observed).then_some(Promoted(key))
        })
    }

    /// Counts one declaration by a template or a capability.
    pub fn declare(&mut self, key: EdgeKey) {
        upsert(&mut self.edges, key, |counter| counter.declared += 1);
    }

    /// Withdraws one declaration; removes an edge that is neither declared nor observed any more.
    pub fn undeclare(&mut self, key: EdgeKey) {
        if let Some(counter) = self.edges.get_mut(&key) {
            counter.declared = counter.declared.saturating_sub(1);
            if counter.declared == 0 && counter.observations == 0 {
                self.edges.remove(&key);
            }
        }
    }

    pub fn edges(&self) -> impl Iterator<Item = (&EdgeKey, &EdgeCounter)> {
        self.edges.iter()
    }

    pub fn from_edges(edges: impl IntoIterator<Item = (EdgeKey, EdgeCounter)>) -> Self {
        Self { edges: edges.into_iter().collect() }
    }

    pub fn edge(&self, key: EdgeKey) -> Option<&EdgeCounter> {
        self.edges.get(&key)
    }

    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The edges that `earlier` does not have in the same form, or that it has and this graph does not, in key order. Parts that the
    /// two graphs share are skipped, so a few changes are found in about O(changes x log edges).
    pub fn changed_edges(&self, earlier: &Self) -> impl Iterator<Item = EdgeKey> {
        earlier.edges.diff(&self.edges).map(|item| match item {
            DiffItem::Add(key, _) | DiffItem::Update { new: (key, _), .. } | DiffItem::Remove(key, _) => *key,
        })
    }
}

/// Changes the value at `key`, inserting a default one first if there is none. Walks down the tree once if the key is present, as it
/// mostly is; the map's own `entry` walks twice.
fn upsert<K: Ord + Clone, V: Default + Clone, R>(map: &mut OrdMap<K, V>, key: K, change: impl FnOnce(&mut V) -> R) -> R {
    if let Some(value) = map.get_mut(&key) {
        return change(value);
    }
    let mut value = V::default();
    let result = change(&mut value);
    map.insert(key, value);
    result
}

impl Digestible for ToolGraph {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.edges.len());
        for ((from, to, kind), counter) in &self.edges {
            writer.u32(from.0).u32(to.0).u32(*kind as u32);
            counter.digest(writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: EdgeKey = (Node::tool(0), Node::capability(0), EdgeKind::Provides);

    #[test]
    fn the_third_success_promotes_once() {
        let mut graph = ToolGraph::default();
        let promotions: Vec<bool> =
            [true, false, true, true, true].into_iter().map(|success| graph.observe(KEY, success, Seq(1)).is_some()).collect();
        assert_eq!(promotions, [false, false, false, true, false]);
    }

    #[test]
    fn an_edge_nobody_declares_any_more_disappears_unless_it_was_seen() {
        let mut graph = ToolGraph::default();
        graph.declare(KEY);
        graph.undeclare(KEY);
        assert_eq!(graph.edge_count(), 0);
        graph.declare(KEY);
        graph.observe(KEY, false, Seq(2));
        graph.undeclare(KEY);
        assert_eq!(graph.edge(KEY).map(|edge| (edge.declared, edge.observations)), Some((0, 1)));
    }
}
