//! `PageRank`: the share of a random walk along the links that is spent at each node.
//!
//! r(v) = (1 - d) / n + d * (sum over u -> v of r(u) * w(u, v) / w(u) + lost / n), where w(u) is the sum of the weights that leave u
//! and lost is the rank of the nodes without outgoing links. The ranks sum to 1.
//!
//! O(iterations * (nodes + edges)) time, O(nodes) memory. Starting from the ranks of an earlier state saves iterations
//! and changes the result only within the tolerance.
//!
//! Page, Brin, Motwani, Winograd: The `PageRank` citation ranking (1999).

use super::adjacency::{Adjacency, as_f64};

/// The share of steps that follow a link (ALGORITHMS 5).
pub const DAMPING: f64 = 0.85;
pub const ITERATIONS_MAX: u32 = 100;
/// Sum of the absolute changes below which the iteration ends.
pub const TOLERANCE: f64 = 1e-6;

/// The ranks of all nodes, and the iterations it took.
#[derive(Clone, Debug, Default)]
pub struct PageRank {
    /// By index; sums to 1 unless there is no node.
    pub ranks: Vec<f64>,
    pub iterations: u32,
}

/// Computes the ranks. `start` holds one value of at least 0 per node, not all 0; without it all nodes start with the same rank.
pub fn pagerank(graph: &Adjacency, start: Option<Vec<f64>>) -> PageRank {
    let nodes = graph.len();
    if nodes == 0 {
        return PageRank::default();
    }
    let mut ranks = start.unwrap_or_else(|| vec![1.0; nodes]);
    assert_eq!(ranks.len(), nodes, "one start value per node");
    scale(&mut ranks);
    let leaving: Vec<f64> = graph.indices().map(|node| graph.outgoing(node).iter().map(|link| link.weight).sum()).collect();
    let mut per_weight = vec![0.0; nodes];
    let mut iterations = 0;
    while iterations < ITERATIONS_MAX {
        iterations += 1;
        let mut lost = 0.0;
        for (node, &sum) in leaving.iter().enumerate() {
            per_weight[node] = if sum > 0.0 { ranks[node] / sum } else { 0.0 };
            lost += if sum > 0.0 { 0.0 } else { ranks[node] };
        }
        let base = (1.0 - DAMPING + DAMPING * lost) / as_f64(nodes);
        let arriving = |node| graph.incoming(node).iter().map(|link| link.weight * per_weight[link.to as usize]).sum::<f64>();
        let next: Vec<f64> = graph.indices().map(|node| base + DAMPING * arriving(node)).collect();
        let change: f64 = next.iter().zip(&ranks).map(|(new, old)| (new - old).abs()).sum();
        ranks = next;
        if change < TOLERANCE {
            break;
        }
    }
    scale(&mut ranks);
    PageRank { ranks, iterations }
}

/// Scales the ranks to a sum of 1.
fn scale(ranks: &mut [f64]) {
    let sum: f64 = ranks.iter().sum();
    for rank in ranks {
        *rank /= sum;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::samples::{edges, karate, shuffled};

    fn check(nodes: u32, edges: &[(u32, u32, f64)], expected: &[f64]) {
        let ranks = pagerank(&Adjacency::from_weights(nodes, edges), None).ranks;
        let close = ranks.len() == expected.len() && ranks.iter().zip(expected).all(|(rank, want)| (rank - want).abs() < 1e-6);
        assert!(close, "{ranks:?}");
    }

    /// ```python
    /// g = networkx.DiGraph(); g.add_nodes_from(range(5))
    /// g.add_weighted_edges_from([(0,1,.7),(0,2,.25),(1,2,1.0),(2,0,.35),(2,3,.7),(3,1,.49)])
    /// networkx.pagerank(g, alpha=0.85, tol=1e-14)   # 3.6.1; nothing enters or leaves node 4
    /// ```
    #[test]
    fn ranks_are_those_of_networkx() {
        let edges = [(0, 1, 0.7), (0, 2, 0.25), (1, 2, 1.0), (2, 0, 0.35), (2, 3, 0.7), (3, 1, 0.49)];
        check(5, &edges, NETWORKX);
        check(0, &[], &[]);
        check(4, &[], &[0.25; 4]);
    }

    const NETWORKX: &[f64] = &[0.126_714_311, 0.300_199_189, 0.319_657_879, 0.217_284_043, 0.036_144_578];

    #[test]
    fn a_warm_start_takes_fewer_steps_to_the_same_ranks() {
        let graph = Adjacency::from_weights(34, &karate());
        let cold = pagerank(&graph, None);
        let warm = pagerank(&graph, Some(cold.ranks.clone()));
        assert!(warm.iterations < cold.iterations, "{} < {}", warm.iterations, cold.iterations);
        assert!(warm.ranks.iter().zip(&cold.ranks).all(|(a, b)| (a - b).abs() < TOLERANCE));
    }

    proptest! {
        #[test]
        fn ranks_sum_to_one_and_do_not_depend_on_the_numbering((nodes, edges) in edges(), seed: u64) {
            let ranks = pagerank(&Adjacency::from_weights(nodes, &edges), None).ranks;
            prop_assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(ranks.iter().all(|rank| *rank > 0.0));
            let (new_name, renamed) = shuffled(nodes, &edges, seed);
            let again = pagerank(&Adjacency::from_weights(nodes, &renamed), None).ranks;
            for (node, rank) in ranks.iter().enumerate() {
                prop_assert!((rank - again[new_name[node] as usize]).abs() < 2.0 * TOLERANCE);
            }
        }
    }
}
