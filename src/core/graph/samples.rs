//! Graphs for the tests of the measures: a well-known one from the literature, and random ones.

use proptest::prelude::*;

pub(super) type Edges = Vec<(u32, u32, f64)>;

/// Up to 12 nodes and 40 weighted edges, loops and repetitions included.
pub(super) fn edges() -> impl Strategy<Value = (u32, Edges)> {
    (1_u32..12).prop_flat_map(|nodes| {
        let edge = (0..nodes, 0..nodes, 1_u32..=20).prop_map(|(from, to, weight)| (from, to, f64::from(weight) / 20.0));
        (Just(nodes), proptest::collection::vec(edge, 0..40))
    })
}

/// The same graph under other numbers and in another order, and the new number of each node.
pub(super) fn shuffled(nodes: u32, edges: &Edges, seed: u64) -> (Vec<u32>, Edges) {
    let key = |number: u64| (number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(seed | 1);
    let mut order: Vec<u32> = (0..nodes).collect();
    order.sort_by_key(|node| key(u64::from(*node)));
    let mut new_name = vec![0; order.len()];
    for (new, old) in (0..).zip(order) {
        new_name[old as usize] = new;
    }
    let rename = |&(from, to, weight): &(u32, u32, f64)| (new_name[from as usize], new_name[to as usize], weight);
    let mut renamed: Edges = edges.iter().map(rename).collect();
    renamed.reverse();
    (new_name, renamed)
}

/// Zachary's karate club, as `networkx.karate_club_graph()` numbers it, every weight 1; 34 nodes.
pub(super) fn karate() -> Edges {
    let rows: [(u32, &[u32]); 25] = [
        (0, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31]),
        (1, &[2, 3, 7, 13, 17, 19, 21, 30]),
        (2, &[3, 7, 8, 9, 13, 27, 28, 32]),
        (3, &[7, 12, 13]),
        (4, &[6, 10]),
        (5, &[6, 10, 16]),
        (6, &[16]),
        (8, &[30, 32, 33]),
        (9, &[33]),
        (13, &[33]),
        (14, &[32, 33]),
        (15, &[32, 33]),
        (18, &[32, 33]),
        (19, &[33]),
        (20, &[32, 33]),
        (22, &[32, 33]),
        (23, &[25, 27, 29, 32, 33]),
        (24, &[25, 27, 31]),
        (25, &[31]),
        (26, &[29, 33]),
        (27, &[33]),
        (28, &[31, 33]),
        (29, &[32, 33]),
        (30, &[32, 33]),
        (31, &[32, 33]),
    ];
    let edges = rows.into_iter().flat_map(|(from, row)| row.iter().map(move |to| (from, *to, 1.0)));
    edges.chain([(32, 33, 1.0)]).collect()
}
