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

/// Edges kept. Beyond it the undeclared ones that were observed least are dropped, an eighth of all at a time. Declared ones stay; if they
/// alone need more room, an eighth of this number of undeclared ones is kept beside them. Constant, because the fold depends on it.
pub const EDGES_KEPT: usize = 1 << 20;

/// The typed edges between tools and capabilities, with their counters.
#[derive(Clone, Debug, Default)]
pub struct ToolGraph {
    edges: OrdMap<EdgeKey, EdgeCounter>,
    /// How many of them are not declared, so that a graph of declared ones is not searched for others.
    undeclared: usize,
}

impl ToolGraph {
    /// Counts one observation; returns the edge if this promotes it.
    pub fn observe(&mut self, key: EdgeKey, success: bool, seq: Seq) -> Option<Promoted> {
        let before = self.edges.len();
        let promoted = upsert(&mut self.edges, key, |counter: &mut EdgeCounter| {
            let before = counter.source();
            counter.observations += 1;
            counter.successes += u32::from(success);
            counter.last_seq = seq;
            (counter.source() == EdgeSource::Observed && before != EdgeSource::Observed).then_some(Promoted(key))
        });
        self.undeclared += self.edges.len() - before;
        self.drop_rarest_undeclared(EDGES_KEPT);
        promoted
    }

    fn drop_rarest_undeclared(&mut self, kept: usize) {
        let weight = |counter: &EdgeCounter| (counter.declared == 0).then_some(counter.observations);
        self.undeclared -= drop_rarest(&mut self.edges, kept, self.undeclared, weight);
    }

    /// Counts one declaration by a template or a capability.
    pub fn declare(&mut self, key: EdgeKey) {
        let was_undeclared = upsert(&mut self.edges, key, |counter: &mut EdgeCounter| {
            counter.declared += 1;
            counter.declared == 1 && counter.observations > 0
        });
        self.undeclared -= usize::from(was_undeclared);
    }

    /// Withdraws one declaration; removes an edge that is neither declared nor observed any more.
    pub fn undeclare(&mut self, key: EdgeKey) {
        let Some(counter) = self.edges.get_mut(&key).filter(|counter| counter.declared > 0) else { return };
        counter.declared -= 1;
        match (counter.declared, counter.observations) {
            (0, 0) => drop(self.edges.remove(&key)),
            (0, _) => self.undeclared += 1,
            _ => {}
        }
    }

    pub fn edges(&self) -> impl Iterator<Item = (&EdgeKey, &EdgeCounter)> {
        self.edges.iter()
    }

    pub fn from_edges(edges: impl IntoIterator<Item = (EdgeKey, EdgeCounter)>) -> Self {
        let edges: OrdMap<EdgeKey, EdgeCounter> = edges.into_iter().collect();
        let undeclared = edges.values().filter(|counter| counter.declared == 0).count();
        Self { edges, undeclared }
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

/// If the map has more than `kept` entries, drops those with the lowest weights, in key order among equals, until an eighth of the room
/// is free. Entries without a weight stay; `droppable` is the number of the others. Returns how many were dropped: none while an eighth of
/// `kept` or fewer can be, so that each search is paid for by that many insertions, O(log n) each.
fn drop_rarest<K: Ord + Clone, V: Clone>(
    map: &mut OrdMap<K, V>,
    kept: usize,
    droppable: usize,
    weight: impl Fn(&V) -> Option<u32>,
) -> usize {
    let room = kept / 8;
    if map.len() <= kept || droppable <= room {
        return 0;
    }
    let surplus = (map.len() - (kept - room)).min(droppable);
    let mut weights: Vec<u32> = map.values().filter_map(&weight).collect();
    debug_assert_eq!(weights.len(), droppable, "the number of entries with a weight");
    let (lower, &mut last, _) = weights.select_nth_unstable(surplus - 1);
    let mut equals = surplus - lower.iter().filter(|weight| **weight < last).count();
    let mut is_dropped = |value: &V| match weight(value) {
        Some(weight) if weight == last && equals > 0 => {
            equals -= 1;
            true
        }
        Some(weight) => weight < last,
        None => false,
    };
    let dropped: Vec<K> = map.iter().filter(|(_, value)| is_dropped(value)).map(|(key, _)| key.clone()).collect();
    for key in &dropped {
        map.remove(key);
    }
    dropped.len()
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
    fn what_was_seen_least_is_dropped_first_and_what_is_declared_stays() {
        let weights = [Some(5), Some(1), None, Some(2), Some(1), Some(9), Some(2), Some(2), Some(7)];
        let mut map: OrdMap<usize, Option<u32>> = weights.into_iter().enumerate().collect();
        let drop_beyond = |map: &mut OrdMap<usize, Option<u32>>, kept: usize| {
            let droppable = map.values().flatten().count();
            drop_rarest(map, kept, droppable, |weight| *weight)
        };
        assert_eq!(drop_beyond(&mut map, weights.len()), 0, "there is room");
        assert_eq!(drop_beyond(&mut map, 8), 2);
        assert_eq!(map.keys().copied().collect::<Vec<_>>(), [0, 2, 3, 5, 6, 7, 8]);
        assert_eq!(drop_beyond(&mut map, 4), 3);
        assert_eq!(map.keys().copied().collect::<Vec<_>>(), [0, 2, 5, 8], "the first among equals goes first");
    }

    /// Observes new edges in a graph that keeps 64. Returns how often some were dropped.
    fn count_searches(graph: &mut ToolGraph, edges: std::ops::Range<u32>) -> usize {
        let mut searches = 0;
        for number in edges {
            graph.observe((Node::tool(number), Node::tool(number), EdgeKind::Sequence), true, Seq(1));
            let before = graph.edge_count();
            graph.drop_rarest_undeclared(64);
            searches += usize::from(graph.edge_count() < before);
            assert_eq!(graph.undeclared, graph.edges().filter(|(_, counter)| counter.declared == 0).count());
        }
        searches
    }

    #[test]
    fn a_graph_full_of_declared_edges_is_not_searched_at_every_insertion() {
        for declared in [0, 40, 60, 63, 64, 200] {
            let mut graph = ToolGraph::default();
            for number in 0..declared {
                graph.declare((Node::tool(number), Node::capability(number), EdgeKind::Sequence));
            }
            let searches = count_searches(&mut graph, 0..800);
            assert!(searches <= 800 / 8, "{searches} searches beside {declared} declared edges");
            let undeclared = graph.edge_count() - declared as usize;
            assert!(undeclared <= 8.max(64_usize.saturating_sub(declared as usize)), "{undeclared} beside {declared}");
        }
    }

    #[test]
    fn an_edge_counts_as_undeclared_from_its_last_withdrawal_to_its_next_declaration() {
        let mut graph = ToolGraph::default();
        let mut check = |change: fn(&mut ToolGraph), undeclared: usize| {
            change(&mut graph);
            assert_eq!(graph.undeclared, undeclared);
            assert_eq!(ToolGraph::from_edges(graph.edges().map(|(key, counter)| (*key, *counter))).undeclared, undeclared);
        };
        check(|graph| graph.undeclare(KEY), 0);
        check(|graph| assert_eq!(graph.observe(KEY, true, Seq(1)), None, "once is not enough"), 1);
        check(|graph| graph.undeclare(KEY), 1);
        check(|graph| graph.declare(KEY), 0);
        check(|graph| graph.declare(KEY), 0);
        check(|graph| graph.undeclare(KEY), 0);
        check(|graph| graph.undeclare(KEY), 1);
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
