//! The cheapest path from one node to another along edges that order their ends, by bidirectional Dijkstra.
//!
//! Only dependency, data flow and, penalised, sequence edges are followed; membership (`contains`) says nothing about order. An edge
//! costs 1 / max(weight, 0.1), from 1 to 10, so stronger edges are shorter.
//!
//! O((nodes + edges) log nodes) at worst, in practice far less: the searches from both ends meet after about the square root of
//! the nodes that one search would see. O(nodes) memory.
//!
//! Dijkstra: A note on two problems in connexion with graphs (1959). Pohl: Bi-directional search (1971).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::adjacency::{Adjacency, Link};
use super::edge::EdgeKind;

/// Weights below this cost as much as this (ALGORITHMS 6).
pub const WEIGHT_MIN: f64 = 0.1;
/// Factor for sequence edges, because "came before" is weaker than "is needed by" (S2). The sources give no number.
pub const SEQUENCE_PENALTY: f64 = 0.5;

/// The weight of an edge as a statement about order; 0 if its kind does not order its ends.
pub const fn order_weight(kind: EdgeKind, weight: f64) -> f64 {
    match kind {
        EdgeKind::Dependency | EdgeKind::Provides => weight,
        EdgeKind::Sequence => weight * SEQUENCE_PENALTY,
        EdgeKind::Contains | EdgeKind::Alternative | EdgeKind::Conditional => 0.0,
    }
}

/// A path through the graph; `N` is an index of the adjacency or a [`super::Node`].
#[derive(Clone, Debug, PartialEq)]
pub struct Path<N> {
    /// From the first to the last, both included.
    pub nodes: Vec<N>,
    pub cost: f64,
}

/// The cheapest path between two indices of `graph`, or `None` if there is none.
pub fn shortest(graph: &Adjacency, from: u32, to: u32) -> Option<Path<u32>> {
    let mut forward = Search::new(graph.len(), from);
    let mut backward = Search::new(graph.len(), to);
    // The cost of the cheapest path found so far and the node where its halves meet.
    let mut best: Option<(f64, u32)> = (from == to).then_some((0.0, from));
    while let (Some(reached), Some(reached_back)) = (forward.next_cost(), backward.next_cost()) {
        // No path not yet found can be cheaper than the two frontiers together.
        if best.is_some_and(|(cost, _)| cost <= reached + reached_back) {
            break;
        }
        let met = if reached <= reached_back {
            forward.advance(|node| graph.outgoing(node), &backward)
        } else {
            backward.advance(|node| graph.incoming(node), &forward)
        };
        best = [best, met].into_iter().flatten().min_by(|(a, _), (b, _)| a.total_cmp(b));
    }
    let (cost, middle) = best?;
    let mut nodes = forward.path_back_from(middle);
    nodes.reverse();
    nodes.extend(&backward.path_back_from(middle)[1..]);
    Some(Path { nodes, cost })
}

/// The cost of following a link that orders its ends.
pub(crate) fn step_cost(link: &Link) -> f64 {
    1.0 / link.order.max(WEIGHT_MIN)
}

/// The bits of a cost. Costs are positive and finite, and such floats order as their bits do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(u64);

/// The search from one end.
struct Search {
    cost: Vec<f64>,
    before: Vec<Option<u32>>,
    open: BinaryHeap<Reverse<(Cost, u32)>>,
}

impl Search {
    fn new(nodes: usize, start: u32) -> Self {
        let mut cost = vec![f64::INFINITY; nodes];
        cost[start as usize] = 0.0;
        Self { cost, before: vec![None; nodes], open: BinaryHeap::from([Reverse((Cost(0), start))]) }
    }

    /// The cost of the node to be settled next.
    fn next_cost(&mut self) -> Option<f64> {
        // Entries that a cheaper path made stale are dropped here.
        while let Some(Reverse((Cost(bits), node))) = self.open.peek() {
            if f64::from_bits(*bits) <= self.cost[*node as usize] {
                return Some(f64::from_bits(*bits));
            }
            self.open.pop();
        }
        None
    }

    /// Settles one node; returns cost and meeting node of the cheapest path that joins the other search at one of its neighbours.
    fn advance<'a>(&mut self, row: impl Fn(u32) -> &'a [Link], other: &Self) -> Option<(f64, u32)> {
        let Reverse((_, node)) = self.open.pop()?;
        let here = self.cost[node as usize];
        let mut best: Option<(f64, u32)> = None;
        for link in row(node).iter().filter(|link| link.order > 0.0) {
            let (next, cost) = (link.to as usize, here + step_cost(link));
            if cost < self.cost[next] {
                self.cost[next] = cost;
                self.before[next] = Some(node);
                self.open.push(Reverse((Cost(cost.to_bits()), link.to)));
            }
            let whole = self.cost[next] + other.cost[next];
            if whole.is_finite() && best.is_none_or(|(best, _)| whole < best) {
                best = Some((whole, link.to));
            }
        }
        best
    }

    /// The nodes from `node` back to the start of this search.
    fn path_back_from(&self, node: u32) -> Vec<u32> {
        std::iter::successors(Some(node), |node| self.before[*node as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::samples::edges;

    #[test]
    fn the_cheapest_path_is_taken_in_the_direction_of_the_edges() {
        // 0 -> 3 directly costs 10; over 1 and 2 it costs 1 / 0.7 + 1 / 0.5 + 1 = 4.43.
        let graph = Adjacency::from_weights(5, &[(0, 3, 0.05), (0, 1, 0.7), (1, 2, 0.5), (2, 3, 1.0)]);
        let path = shortest(&graph, 0, 3).unwrap();
        assert_eq!(path.nodes, [0, 1, 2, 3]);
        assert!((path.cost - (1.0 / 0.7 + 3.0)).abs() < 1e-12);
        assert_eq!(shortest(&graph, 3, 0), None);
        assert_eq!(shortest(&graph, 0, 4), None);
        assert_eq!(shortest(&graph, 2, 2), Some(Path { nodes: vec![2], cost: 0.0 }));
    }

    #[test]
    fn membership_is_not_followed_and_sequence_costs_more_than_data_flow() {
        assert!(order_weight(EdgeKind::Contains, 0.8) == 0.0);
        assert!(order_weight(EdgeKind::Sequence, 0.5) < order_weight(EdgeKind::Provides, 0.35));
    }

    /// Distances from one node, by relaxing every edge until nothing changes (Bellman-Ford).
    fn distances(graph: &Adjacency, from: u32) -> Vec<f64> {
        let mut cost = vec![f64::INFINITY; graph.len()];
        cost[from as usize] = 0.0;
        for _ in graph.indices() {
            for node in graph.indices() {
                for link in graph.outgoing(node) {
                    cost[link.to as usize] = cost[link.to as usize].min(cost[node as usize] + step_cost(link));
                }
            }
        }
        cost
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_through_everything_finds((nodes, edges) in edges(), from: u32, to: u32) {
            let graph = Adjacency::from_weights(nodes, &edges);
            let (from, to) = (from % nodes, to % nodes);
            let expected = distances(&graph, from)[to as usize];
            let Some(path) = shortest(&graph, from, to) else {
                prop_assert!(expected.is_infinite());
                return Ok(());
            };
            prop_assert!((path.cost - expected).abs() < 1e-9);
            let walked: f64 = path.nodes.windows(2).map(|ends| step_cost(graph.link(ends[0], ends[1]).unwrap())).sum();
            prop_assert!((path.cost - walked).abs() < 1e-9);
            prop_assert_eq!((path.nodes.first(), path.nodes.last()), (Some(&from), Some(&to)));
        }
    }
}
