//! Adamic-Adar index: relates two nodes by the neighbours they share; a shared neighbour counts more the fewer neighbours it has.
//!
//! AA(u, v) = sum over common neighbours x of mean(w(u, x), w(x, v)) / ln(deg x), at least 0 and without an upper bound. Neighbours
//! count without direction, deg is their number, and each leg has the weight of its stronger direction, so AA(u, v) = AA(v, u).
//!
//! O(deg u + deg v): both rows are sorted.
//!
//! Adamic, Adar: Friends and neighbors on the web (2003).

use std::cmp::Ordering;

use super::adjacency::{Adjacency, as_f64};

/// The index from which two nodes that no edge joins count as fully related (S0).
pub const FULLY_RELATED: f64 = 2.0;

/// The Adamic-Adar index of two nodes.
pub fn adamic_adar(graph: &Adjacency, one: u32, other: u32) -> f64 {
    let (mut left, mut right) = (graph.undirected(one), graph.undirected(other));
    let mut sum = 0.0;
    while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
        match a.to.cmp(&b.to) {
            Ordering::Less => left = left_rest,
            Ordering::Greater => right = right_rest,
            Ordering::Equal => {
                let degree = graph.undirected(a.to).len();
                // ln 1 = 0: a neighbour with one link joins no pair.
                if degree > 1 {
                    sum += f64::midpoint(a.weight, b.weight) / libm::log(as_f64(degree));
                }
                (left, right) = (left_rest, right_rest);
            }
        }
    }
    sum
}

/// Relatedness of `node` to the most related node of `context`, 0 to 1: 1 if an edge of the log joins them in either direction, else
/// AA / [`FULLY_RELATED`], at most 1. Guessed links join nothing directly; they count as neighbours only. 0 if the context is empty.
pub fn relatedness(graph: &Adjacency, node: u32, context: &[u32]) -> f64 {
    let joined = |from, to| graph.link(from, to).is_some_and(|link| !link.kind.is_guess());
    let others = context.iter().filter(|other| **other != node);
    let related = |&other: &u32| {
        if joined(node, other) || joined(other, node) {
            1.0
        } else {
            (adamic_adar(graph, node, other) / FULLY_RELATED).min(1.0)
        }
    };
    others.map(related).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::samples::{edges, karate};

    fn check(graph: &Adjacency, one: u32, other: u32, expected: f64) {
        let score = adamic_adar(graph, one, other);
        assert!((score - expected).abs() < 1e-9, "{one} {other}: {score}");
    }

    /// ```python
    /// list(networkx.adamic_adar_index(networkx.karate_club_graph(), [(0, 33), (1, 2), (8, 13), (16, 24)]))   # 3.6.1
    /// ```
    #[test]
    fn without_weights_it_is_the_index_of_networkx() {
        let club = Adjacency::from_weights(34, &karate());
        check(&club, 0, 33, 2.711_019_722_297);
        check(&club, 1, 2, 2.261_466_841_778);
        check(&club, 8, 13, 1.147_924_365_990);
        check(&club, 16, 24, 0.0);
    }

    #[test]
    fn a_shared_neighbour_counts_by_the_mean_of_both_legs() {
        // Node 1 has the neighbours 0, 2 and 3; the stronger direction of 0 - 1 is the one back.
        let graph = Adjacency::from_weights(5, &[(0, 1, 0.3), (1, 0, 0.7), (1, 2, 0.35), (3, 1, 0.5)]);
        check(&graph, 0, 2, 0.525 / 3.0_f64.ln());
        assert!((relatedness(&graph, 0, &[2]) - 0.525 / 3.0_f64.ln() / 2.0).abs() < 1e-9);
        for (context, expected) in [(&[][..], 0.0), (&[4][..], 0.0), (&[0][..], 0.0), (&[4, 1][..], 1.0)] {
            assert!((relatedness(&graph, 0, context) - expected).abs() < 1e-12, "{context:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_symmetric_and_relatedness_stays_between_0_and_1((nodes, edges) in edges(), a: u32, b: u32) {
            let graph = Adjacency::from_weights(nodes, &edges);
            let (a, b) = (a % nodes, b % nodes);
            prop_assert_eq!(adamic_adar(&graph, a, b).to_bits(), adamic_adar(&graph, b, a).to_bits());
            prop_assert!((0.0..=1.0).contains(&relatedness(&graph, a, &[b])));
        }
    }
}
