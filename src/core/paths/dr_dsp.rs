//! DR-DSP: shortest hyperpaths in a changing hypergraph (Gao et al., arXiv:1202.0082; DR stands for dimension reduction).
//!
//! Any tail of a hyperedge reaches any of its heads, and a path is a chain of hyperedges. The hypergraph is reduced to pairs of nodes
//! ([`pairs`]); the cost of a pair is that of its cheapest hyperedge. Distances from pinned sources are kept up to date ([`tree`]).
//!
//! A change of one hyperedge costs O(tails x heads) row updates plus, per pinned source, the nodes whose distance changes and their
//! neighbours. Clones share all rows and trees until one of them changes.

pub mod pairs;
pub mod tree;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::hyperedge::{Hyperedge, Origin};
use crate::graph::Node;
use pairs::{PairEntry, PairRows};
use tree::{DistanceTree, PairChange, Pairs};

/// Sources whose distances are kept up to date, at most. Each costs 8 bytes per node, and time at every change.
pub const PINNED_MAX: usize = 256;

/// A chain of hyperedges from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperpath {
    /// From the source to the target, both included.
    pub nodes: Vec<Node>,
    /// The hyperedge taken to each node after the source.
    pub origins: Vec<Origin>,
    pub cost: u64,
}

/// The hyperedges, their pairs, and the distances from the pinned sources.
#[derive(Clone, Debug, Default)]
pub struct DrDsp {
    edges: OrdMap<Origin, Arc<Hyperedge>>,
    outgoing: PairRows,
    incoming: PairRows,
    pinned: BTreeMap<Node, Arc<DistanceTree>>,
}

impl DrDsp {
    /// Inserts a hyperedge, or replaces the one with the same origin.
    pub fn insert(&mut self, origin: Origin, edge: Hyperedge) {
        debug_assert!(edge.cost > 0, "a cost of 0 breaks the order in which distances are raised");
        if let Some(known) = self.edges.get(&origin) {
            if known.tails == edge.tails && known.heads == edge.heads {
                self.set_cost(origin, edge.cost);
                return;
            }
            self.remove(origin);
        }
        let edge = Arc::new(edge);
        self.edges.insert(origin, Arc::clone(&edge));
        self.change(origin, &edge, None, Some(edge.cost));
    }

    /// Removes a hyperedge; returns whether there was one.
    pub fn remove(&mut self, origin: Origin) -> bool {
        let Some(edge) = self.edges.remove(&origin) else { return false };
        self.change(origin, &edge, Some(edge.cost), None);
        true
    }

    /// Changes the cost of a hyperedge; returns whether there was one.
    pub fn set_cost(&mut self, origin: Origin, cost: u64) -> bool {
        debug_assert!(cost > 0, "a cost of 0 breaks the order in which distances are raised");
        let Some(known) = self.edges.get_mut(&origin) else { return false };
        let before = known.cost;
        if before != cost {
            Arc::make_mut(known).cost = cost;
            let edge = Arc::clone(known);
            self.change(origin, &edge, Some(before), Some(cost));
        }
        true
    }

    /// Moves the entries of one hyperedge from one cost to another and lets the pinned sources follow.
    fn change(&mut self, origin: Origin, edge: &Hyperedge, before: Option<u64>, after: Option<u64>) {
        let mut changes = Vec::new();
        for (from, to) in edge.pairs() {
            let reduced = self.outgoing.reduced(from, to);
            if let Some(cost) = before {
                self.outgoing.remove(from, PairEntry { other: to, cost, origin });
                self.incoming.remove(to, PairEntry { other: from, cost, origin });
            }
            if let Some(cost) = after {
                self.outgoing.insert(from, PairEntry { other: to, cost, origin });
                self.incoming.insert(to, PairEntry { other: from, cost, origin });
            }
            let now = self.outgoing.reduced(from, to);
            if reduced != now {
                changes.push(PairChange { from, to, before: reduced, after: now });
            }
        }
        if changes.is_empty() {
            return;
        }
        let pairs = Pairs { outgoing: &self.outgoing, incoming: &self.incoming };
        for tree in self.pinned.values_mut().filter(|tree| changes.iter().any(|change| tree.is_touched(change))) {
            Arc::make_mut(tree).update(pairs, &changes);
        }
    }

    /// Keeps the distances from `source` up to date from now on. Returns `false` if [`PINNED_MAX`] others are pinned already.
    pub fn pin(&mut self, source: Node) -> bool {
        if !self.pinned.contains_key(&source) {
            if self.pinned.len() >= PINNED_MAX {
                return false;
            }
            let tree = DistanceTree::compute(self.pairs(), source, None);
            self.pinned.insert(source, Arc::new(tree));
        }
        true
    }

    /// Drops the distances from `source`.
    pub fn unpin(&mut self, source: Node) {
        self.pinned.remove(&source);
    }

    /// The pinned sources, in node order.
    pub fn pinned(&self) -> impl Iterator<Item = Node> {
        self.pinned.keys().copied()
    }

    /// The cost of the shortest hyperpath. O(log) from a pinned source, else a search that ends at the target.
    pub fn distance(&self, source: Node, target: Node) -> Option<u64> {
        self.tree_to(source, target).distance(target)
    }

    /// The shortest hyperpath; of equally short ones that with the smallest nodes, compared from the end.
    pub fn path(&self, source: Node, target: Node) -> Option<Hyperpath> {
        let tree = self.tree_to(source, target);
        let cost = tree.distance(target)?;
        let (mut nodes, mut origins) = (vec![target], Vec::new());
        let mut node = target;
        while node != source {
            let entry = tree.predecessor(self.pairs(), node)?;
            origins.push(entry.origin);
            nodes.push(entry.other);
            node = entry.other;
        }
        nodes.reverse();
        origins.reverse();
        Some(Hyperpath { nodes, origins, cost })
    }

    fn tree_to(&self, source: Node, target: Node) -> Arc<DistanceTree> {
        let searched = || Arc::new(DistanceTree::compute(self.pairs(), source, Some(target)));
        self.pinned.get(&source).map_or_else(searched, Arc::clone)
    }

    fn pairs(&self) -> Pairs<'_> {
        Pairs { outgoing: &self.outgoing, incoming: &self.incoming }
    }

    /// The hyperedge of an origin.
    pub fn edge(&self, origin: Origin) -> Option<&Hyperedge> {
        self.edges.get(&origin).map(Arc::as_ref)
    }

    /// All hyperedges in the order of their origins.
    pub fn edges(&self) -> impl Iterator<Item = (Origin, &Hyperedge)> {
        self.edges.iter().map(|(origin, edge)| (*origin, edge.as_ref()))
    }

    /// The number of hyperedges.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there is no hyperedge.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// The entries that lead to a node, by the node they come from.
    pub fn leading_to(&self, node: Node) -> &[PairEntry] {
        self.incoming.row(node)
    }

    /// The entries that lead away from a node, by the node they go to.
    pub fn leading_from(&self, node: Node) -> &[PairEntry] {
        self.outgoing.row(node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn node(number: u32) -> Node {
        Node::tool(number)
    }

    const fn origin(number: u32) -> Origin {
        Origin::Whole { capability: number }
    }

    fn edge(tails: &[u32], heads: &[u32], cost: u64) -> Hyperedge {
        let nodes = |numbers: &[u32]| numbers.iter().copied().map(node).collect();
        Hyperedge { tails: nodes(tails), heads: nodes(heads), cost }
    }

    #[test]
    fn any_tail_reaches_any_head_and_a_path_is_a_chain_of_hyperedges() {
        let mut graph = DrDsp::default();
        graph.insert(origin(0), edge(&[0, 1], &[2, 3], 5));
        graph.insert(origin(1), edge(&[3], &[4], 2));
        graph.insert(origin(2), edge(&[2], &[4], 3));
        let path = graph.path(node(1), node(4)).unwrap();
        assert_eq!((path.nodes.as_slice(), path.cost), ([node(1), node(3), node(4)].as_slice(), 7));
        assert_eq!(path.origins, [origin(0), origin(1)]);
        assert_eq!(graph.path(node(4), node(0)), None);
        assert_eq!(graph.path(node(9), node(9)).unwrap().nodes, [node(9)]);
    }

    #[test]
    fn a_pinned_source_follows_cuts_and_detours() {
        let mut graph = DrDsp::default();
        for (number, ends) in [(0, (0, 1)), (1, (1, 2)), (2, (2, 3))] {
            graph.insert(origin(number), edge(&[ends.0], &[ends.1], 1));
        }
        graph.insert(origin(3), edge(&[0], &[3], 10));
        assert!(graph.pin(node(0)));
        assert_eq!(graph.distance(node(0), node(3)), Some(3));
        assert!(graph.set_cost(origin(1), 20));
        assert_eq!(graph.distance(node(0), node(3)), Some(10));
        assert!(graph.remove(origin(3)));
        assert_eq!(graph.distance(node(0), node(3)), Some(22));
        assert!(graph.remove(origin(0)));
        assert_eq!(graph.distance(node(0), node(3)), None);
    }

    #[test]
    fn pins_are_bounded() {
        let mut graph = DrDsp::default();
        let last = u32::try_from(PINNED_MAX).unwrap();
        let pinned = (0..=last).filter(|number| graph.pin(node(*number))).count();
        assert_eq!((pinned, graph.pinned().count()), (PINNED_MAX, PINNED_MAX));
        graph.unpin(node(0));
        assert!(graph.pin(node(last)));
    }

    /// Distances from one node by relaxing every hyperedge until nothing changes (Bellman-Ford).
    fn relaxed(graph: &DrDsp, source: Node, nodes: u32) -> Vec<Option<u64>> {
        let mut distances: BTreeMap<Node, u64> = BTreeMap::from([(source, 0)]);
        for _ in 0..nodes {
            for (_, edge) in graph.edges() {
                for (from, to) in edge.pairs() {
                    let Some(over) = distances.get(&from).map(|distance| distance + edge.cost) else { continue };
                    let known = distances.entry(to).or_insert(over);
                    *known = over.min(*known);
                }
            }
        }
        (0..nodes).map(|number| distances.get(&node(number)).copied()).collect()
    }

    /// One random update: which hyperedge, and its new tails, heads and cost; a cost of 0 removes it.
    type Update = (u32, Vec<u32>, Vec<u32>, u64);

    const NODES: u32 = 9;

    fn updates() -> impl Strategy<Value = Vec<Update>> {
        let ends = || proptest::collection::btree_set(0..NODES, 1..4).prop_map(|set| set.into_iter().collect());
        proptest::collection::vec((0_u32..14, ends(), ends(), 0_u64..8), 1..60)
    }

    /// Applies one update. Every second change of a known hyperedge keeps its ends, so that costs change both ways.
    fn apply(graph: &mut DrDsp, (number, tails, heads, cost): &Update) {
        if *cost == 0 {
            graph.remove(origin(*number));
        } else if cost % 2 == 0 && graph.edge(origin(*number)).is_some() {
            graph.set_cost(origin(*number), *cost);
        } else {
            graph.insert(origin(*number), edge(tails, heads, *cost));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn after_any_updates_distances_and_paths_equal_those_from_scratch(updates in updates()) {
            let mut graph = DrDsp::default();
            for source in [0, 1, 2] {
                graph.pin(node(source));
            }
            for update in &updates {
                apply(&mut graph, update);
                for source in [0, 1, 2].map(node) {
                    let expected = relaxed(&graph, source, NODES);
                    let distances: Vec<_> = (0..NODES).map(|target| graph.distance(source, node(target))).collect();
                    prop_assert_eq!(&distances, &expected);
                }
            }
            let mut fresh = DrDsp::default();
            for (origin, edge) in graph.edges() {
                fresh.insert(origin, edge.clone());
            }
            for (source, target) in (0..3).flat_map(|source| (0..NODES).map(move |target| (node(source), node(target)))) {
                let path = graph.path(source, target);
                prop_assert_eq!(&path, &fresh.path(source, target));
                let Some(path) = path else { continue };
                let costs = path.origins.iter().map(|origin| graph.edge(*origin).unwrap().cost);
                prop_assert_eq!(costs.sum::<u64>(), path.cost);
                for (ends, origin) in path.nodes.windows(2).zip(&path.origins) {
                    let edge = graph.edge(*origin).unwrap();
                    prop_assert!(edge.tails.contains(&ends[0]) && edge.heads.contains(&ends[1]));
                }
            }
        }

        #[test]
        fn a_clone_keeps_its_distances(updates in updates()) {
            let mut graph = DrDsp::default();
            graph.pin(node(0));
            let (first, rest) = updates.split_at(updates.len() / 2);
            for update in first {
                apply(&mut graph, update);
            }
            let view = graph.clone();
            let before = relaxed(&view, node(0), NODES);
            for update in rest {
                apply(&mut graph, update);
            }
            let distances: Vec<_> = (0..NODES).map(|target| view.distance(node(0), node(target))).collect();
            prop_assert_eq!(distances, before);
        }
    }
}
