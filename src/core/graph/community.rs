//! Community detection by the Louvain method: groups of nodes with more weight among them than expected by chance.
//!
//! Links are undirected, with the stronger of the two weights. Each node moves to the neighbouring community with the largest gain in
//! modularity, until no move gains; then communities become nodes and the moves start over. Gain of moving i into C:
//! w(i, C) - resolution * w(i) * w(C) / w, with w(i) the weight at i, w(C) the sum of it over C, w over all nodes.
//!
//! Nodes are visited in the order of their ids and ties go to the smaller id, so no seed is needed. At the end a disconnected
//! community is split into its components: Louvain may leave such ones, and splitting them only adds modularity. Every node is in
//! exactly one community, alone if it has no link, and the label of a community is its smallest member.
//!
//! About O(edges) per pass, a handful of passes in practice, at most [`PASSES_MAX`] x [`LEVELS_MAX`]; O(nodes + edges) memory.
//!
//! Blondel, Guillaume, Lambiotte, Lefebvre: Fast unfolding of communities in large networks (2008), arXiv:0803.0476. Traag, Waltman,
//! van Eck: From Louvain to Leiden (2019), arXiv:1810.08473, on disconnected communities.

use super::adjacency::{Adjacency, row_starts};

/// Weight of the expected part of the gain (ALGORITHMS 5).
pub const RESOLUTION: f64 = 1.0;
/// Gains below this are rounding noise; the limits on passes and levels end the search if noise alternates.
const GAIN_MIN: f64 = 1e-9;
pub const PASSES_MAX: u32 = 50;
pub const LEVELS_MAX: u32 = 20;

/// The community of every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Communities {
    /// By index: the smallest index in its community.
    labels: Vec<u32>,
}

impl Communities {
    /// The smallest index in the community of `index`.
    pub fn label(&self, index: u32) -> u32 {
        self.labels[index as usize]
    }

    /// All members of the community of `index`, itself included, in index order. O(nodes).
    pub fn members(&self, index: u32) -> impl Iterator<Item = u32> {
        let label = self.label(index);
        (0..).zip(&self.labels).filter(move |(_, other)| **other == label).map(|(member, _)| member)
    }

    pub fn count(&self) -> usize {
        (0..).zip(&self.labels).filter(|(index, label)| *index == **label).count()
    }
}

/// The communities of a graph.
pub fn louvain(graph: &Adjacency) -> Communities {
    let mut level = Level::from_graph(graph);
    let total: f64 = level.weight.iter().sum();
    // By node of the graph, its community as a node of `level`.
    let mut group_of: Vec<u32> = graph.indices().collect();
    for _ in 0..LEVELS_MAX {
        let Some(moved) = level.move_nodes(total) else { break };
        for group in &mut group_of {
            *group = moved[*group as usize];
        }
        level = level.aggregate(&moved);
    }
    connected(graph, &group_of)
}

/// Splits the groups into connected components and labels each with its smallest node.
fn connected(graph: &Adjacency, group_of: &[u32]) -> Communities {
    const NONE: u32 = u32::MAX;
    let mut labels = vec![NONE; group_of.len()];
    for first in graph.indices() {
        let mut open = if labels[first as usize] == NONE { vec![first] } else { Vec::new() };
        while let Some(node) = open.pop() {
            labels[node as usize] = first;
            let mates = graph.undirected(node).iter().map(|link| link.to);
            open.extend(
                mates.filter(|&mate| labels[mate as usize] == NONE && group_of[mate as usize] == group_of[node as usize]),
            );
        }
    }
    Communities { labels }
}

/// A weighted undirected graph without loops, which no move can change.
struct Level {
    starts: Vec<usize>,
    links: Vec<(u32, f64)>,
    /// By node: the weight of all its links, those within an aggregated group counted from both ends.
    weight: Vec<f64>,
}

impl Level {
    fn from_graph(graph: &Adjacency) -> Self {
        let mut level = Self { starts: vec![0], links: Vec::new(), weight: Vec::new() };
        for node in graph.indices() {
            level.links.extend(graph.undirected(node).iter().map(|link| (link.to, link.weight)));
            level.weight.push(graph.undirected(node).iter().map(|link| link.weight).sum());
            level.starts.push(level.links.len());
        }
        level
    }

    fn row(&self, node: usize) -> &[(u32, f64)] {
        &self.links[self.starts[node]..self.starts[node + 1]]
    }

    /// Moves nodes until no move gains and returns the community of every node, numbered without gaps in the order of their first
    /// nodes; `None` if no node moved.
    fn move_nodes(&self, total: f64) -> Option<Vec<u32>> {
        let nodes = self.weight.len();
        let mut group_of: Vec<u32> = (0..).take(nodes).collect();
        let mut group_weight = self.weight.clone();
        let mut to_group = vec![0.0; nodes];
        let mut any = false;
        for _ in 0..PASSES_MAX {
            let mut moves = 0;
            for node in 0..nodes {
                let best = self.best_group(node, total, &group_of, &mut group_weight, &mut to_group);
                moves += u32::from(best != group_of[node]);
                group_of[node] = best;
            }
            any |= moves > 0;
            if moves == 0 {
                break;
            }
        }
        any.then(|| renumbered(&group_of))
    }

    /// Moves `node` to its best group in `group_weight` and returns that group. `to_group` is a buffer, all zeros before and after.
    fn best_group(&self, node: usize, total: f64, group_of: &[u32], group_weight: &mut [f64], to_group: &mut [f64]) -> u32 {
        let own = group_of[node];
        for &(to, weight) in self.row(node) {
            to_group[group_of[to as usize] as usize] += weight;
        }
        group_weight[own as usize] -= self.weight[node];
        let gain = |group: u32, to_group: &[f64]| {
            let by_chance = self.weight[node] * group_weight[group as usize] / total;
            to_group[group as usize] - RESOLUTION * by_chance
        };
        let (mut best, mut most) = (own, gain(own, to_group) + GAIN_MIN);
        for &(to, _) in self.row(node) {
            let group = group_of[to as usize];
            let here = gain(group, to_group);
            if here > most || (best != own && group < best && here >= most) {
                (best, most) = (group, here);
            }
        }
        for &(to, _) in self.row(node) {
            to_group[group_of[to as usize] as usize] = 0.0;
        }
        group_weight[best as usize] += self.weight[node];
        best
    }

    /// The graph whose nodes are the groups.
    fn aggregate(&self, group_of: &[u32]) -> Self {
        let groups = group_of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut weight = vec![0.0; groups];
        let mut between: Vec<(u32, u32, f64)> = Vec::new();
        for (node, &group) in group_of.iter().enumerate() {
            weight[group as usize] += self.weight[node];
            let leaving = self.row(node).iter().map(|&(to, weight)| (group, group_of[to as usize], weight));
            between.extend(leaving.filter(|(from, to, _)| from != to));
        }
        between.sort_by_key(|&(from, to, _)| (from, to));
        between.dedup_by(|again, first| {
            let same = (again.0, again.1) == (first.0, first.1);
            first.2 += if same { again.2 } else { 0.0 };
            same
        });
        let starts = row_starts(groups, between.iter().map(|(from, ..)| *from));
        Self { starts, links: between.into_iter().map(|(_, to, weight)| (to, weight)).collect(), weight }
    }
}

fn renumbered(group_of: &[u32]) -> Vec<u32> {
    let mut numbers = vec![None; group_of.len()];
    let mut next = 0;
    let number = |group: &u32| {
        *numbers[*group as usize].get_or_insert_with(|| {
            next += 1;
            next - 1
        })
    };
    group_of.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::samples::{edges, karate};

    fn groups(communities: &Communities) -> Vec<Vec<u32>> {
        let labels = (0..).zip(&communities.labels).filter(|(index, label)| *index == **label);
        labels.map(|(index, _)| communities.members(index).collect()).collect()
    }

    /// Share of the weight inside communities, less what chance would put there.
    fn modularity(graph: &Adjacency, communities: &Communities) -> f64 {
        let weight = |node| graph.undirected(node).iter().map(|link| link.weight).sum::<f64>();
        let total: f64 = graph.indices().map(weight).sum();
        let same = |a: u32, b: u32| communities.label(a) == communities.label(b);
        let inside = graph.indices().flat_map(|node| graph.undirected(node).iter().filter(move |link| same(node, link.to)));
        let inside: f64 = inside.map(|link| link.weight).sum();
        let mates = graph.indices().flat_map(|a| graph.indices().filter(move |b| same(a, *b)).map(move |b| (a, b)));
        inside / total - mates.map(|(a, b)| weight(a) * weight(b)).sum::<f64>() / (total * total)
    }

    /// ```python
    /// g = networkx.karate_club_graph()
    /// [modularity(g, louvain_communities(g, weight=None, seed=s), weight=None) for s in range(5)]   # networkx 3.6.1
    /// # 0.41979, 0.41880, 0.41880, 0.41511, 0.41511
    /// ```
    /// The largest is known to be the optimum of this graph.
    #[test]
    fn the_karate_club_falls_into_its_known_groups() {
        let graph = Adjacency::from_weights(34, &karate());
        let found = louvain(&graph);
        let modularity = modularity(&graph, &found);
        assert!((0.415..0.4198).contains(&modularity), "{modularity} {:?}", groups(&found));
        assert_eq!(found.count(), 4);
    }

    #[test]
    fn cliques_are_communities_weights_decide_and_nobody_is_left_out() {
        let clique = |first: u32| [(first, first + 1, 1.0), (first + 1, first + 2, 1.0), (first + 2, first, 1.0)];
        let mut edges: Vec<_> = [clique(0), clique(3)].concat();
        edges.push((2, 3, 1.0));
        assert_eq!(groups(&louvain(&Adjacency::from_weights(7, &edges))), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        let square = |even, odd| [(0, 1, even), (1, 2, odd), (2, 3, even), (3, 0, odd)];
        assert_eq!(groups(&louvain(&Adjacency::from_weights(4, &square(1.0, 0.1)))), [[0, 1], [2, 3]]);
        assert_eq!(groups(&louvain(&Adjacency::from_weights(4, &square(0.1, 1.0)))), [[0, 3], [1, 2]]);
        assert_eq!(louvain(&Adjacency::from_weights(0, &[])).count(), 0);
    }

    proptest! {
        #[test]
        fn communities_hang_together_beat_being_alone_and_repeat((nodes, edges) in edges()) {
            let graph = Adjacency::from_weights(nodes, &edges);
            let found = louvain(&graph);
            let other_order: Vec<_> = edges.iter().rev().copied().collect();
            prop_assert_eq!(&found, &louvain(&Adjacency::from_weights(nodes, &other_order)));
            let alone = Communities { labels: graph.indices().collect() };
            if graph.edge_count() > 0 {
                prop_assert!(modularity(&graph, &found) >= modularity(&graph, &alone) - 1e-9);
            }
            for node in graph.indices() {
                prop_assert!(found.label(node) <= node && found.label(found.label(node)) == found.label(node));
                let alone = found.members(node).count() == 1;
                prop_assert!(alone || graph.undirected(node).iter().any(|link| found.label(link.to) == found.label(node)));
            }
        }
    }
}
