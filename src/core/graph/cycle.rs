//! Cycle detection that returns the cycle, for relations that must be acyclic: containment, dependency, data flow of one run.

use std::hash::Hash;

use petgraph::algo::{astar, toposort};
use petgraph::graphmap::DiGraphMap;

/// A shortest cycle through the first node found on one, as a closed path (`a -> b -> a`), or `None`. O(nodes + edges).
pub fn find<N>(edges: impl IntoIterator<Item = (N, N)>) -> Option<Vec<N>>
where
    N: Copy + Ord + Hash,
{
    let graph: DiGraphMap<N, ()> = DiGraphMap::from_edges(edges);
    let start = toposort(&graph, None).err()?.node_id();
    if graph.contains_edge(start, start) {
        return Some(vec![start, start]);
    }
    let back = |from: N| astar(&graph, from, |node| node == start, |_| 1, |_| 0);
    let (_, mut path) = graph
        .neighbors(start)
        .filter_map(back)
        .min_by_key(|(len, path)| (*len, path.clone()))
        .expect("the node lies on a cycle");
    path.insert(0, start);
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_returned_closed_and_a_dag_has_none() {
        assert_eq!(find([(1, 2), (2, 3), (1, 3)]), None);
        assert_eq!(find([(1, 1)]), Some(vec![1, 1]));
        let path = find([(1, 2), (2, 3), (3, 1), (3, 4)]).unwrap();
        assert_eq!((path.len(), path.first()), (4, path.last()));
    }
}
