//! A DAG of tools: who has to wait for whom (ALGORITHMS 6).
//!
//! One tool depends on another if a path of at most [`HOPS_MAX`] ordered edges leads from the other to it. Dependencies are added
//! strongest first, and one that would close a cycle is dropped: it is the weakest of that cycle. Then a dependency that follows from
//! others is left out (transitive reduction).

use crate::graph::Node;
use crate::graph::adjacency::Adjacency;
use crate::graph::path::step_cost;

/// Longest path that makes a dependency, in edges (S0).
pub const HOPS_MAX: usize = 3;

/// A dependency between two positions of a DAG.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependency {
    pub from: usize,
    pub to: usize,
    /// Larger is stronger.
    pub strength: f64,
}

/// Nodes and the dependencies between them, without cycles and without those that follow from others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dag {
    nodes: Vec<Node>,
    /// By `from`, then `to`.
    dependencies: Vec<Dependency>,
    /// By position: the positions that come after it, as bits.
    after: Vec<Bits>,
}

impl Dag {
    /// The DAG of `nodes`, each once, by the paths between them in `graph`. Two nodes that the graph does not join are independent.
    /// O(nodes x (edges within two hops)), plus O(nodes^3 / 64).
    pub fn by_paths(graph: &Adjacency, nodes: &[Node]) -> Self {
        let indices: Vec<Option<u32>> = nodes.iter().map(|node| graph.index(*node)).collect();
        let mut found = Vec::new();
        for (from, index) in indices.iter().enumerate() {
            let Some(index) = index else { continue };
            let reach = TwoHops::from(graph, *index);
            for (to, target) in indices.iter().enumerate().filter(|(to, _)| *to != from) {
                let cost = target.and_then(|target| reach.cost_to(graph, target));
                found.extend(cost.map(|cost| Dependency { from, to, strength: 1.0 / cost }));
            }
        }
        Self::new(nodes.to_vec(), found)
    }

    /// The DAG of `nodes` with these dependencies, as far as they make no cycle, without those that follow from others. Of equally
    /// strong ones those with the smaller positions are kept.
    pub fn new(nodes: Vec<Node>, dependencies: Vec<Dependency>) -> Self {
        let mut dag = Self::unreduced(nodes, dependencies);
        let all = dag.dependencies.clone();
        let follows = |dependency: &Dependency| {
            let others = all.iter().filter(|other| other.from == dependency.from && other.to != dependency.to);
            others.into_iter().any(|other| dag.after[other.to].has(dependency.to))
        };
        dag.dependencies.retain(|dependency| !follows(dependency));
        dag
    }

    /// The same with the dependencies that follow from others: data may flow along both.
    pub fn unreduced(nodes: Vec<Node>, mut dependencies: Vec<Dependency>) -> Self {
        let mut after = vec![Bits::new(nodes.len()); nodes.len()];
        dependencies.sort_by(|a, b| b.strength.total_cmp(&a.strength).then((a.from, a.to).cmp(&(b.from, b.to))));
        dependencies.retain(|dependency| add(&mut after, dependency.from, dependency.to));
        dependencies.sort_by_key(|dependency| (dependency.from, dependency.to));
        dependencies.dedup_by_key(|dependency| (dependency.from, dependency.to));
        Self { nodes, dependencies, after }
    }

    /// The nodes by position.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The dependencies that do not follow from others, by `from`, then `to`.
    pub fn dependencies(&self) -> &[Dependency] {
        &self.dependencies
    }

    /// Whether the node at position `to` comes after that at position `from`, directly or not.
    pub fn comes_after(&self, from: usize, to: usize) -> bool {
        self.after[from].has(to)
    }

    /// The nodes on which the node at a position depends directly.
    pub fn depends_on(&self, position: usize) -> impl Iterator<Item = Node> {
        self.dependencies
            .iter()
            .filter(move |dependency| dependency.to == position)
            .map(|dependency| self.nodes[dependency.from])
    }

    /// By position: 0 if it depends on nothing, else one more than the highest layer among those it depends on.
    pub fn layers(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        // What comes before has more after it.
        order.sort_by_key(|position| (std::cmp::Reverse(self.after[*position].len()), *position));
        let mut layers = vec![0; self.nodes.len()];
        for position in order {
            let below = self.dependencies.iter().filter(|dependency| dependency.to == position);
            layers[position] = below.map(|dependency| layers[dependency.from] + 1).max().unwrap_or(0);
        }
        layers
    }
}

/// Adds a dependency and what follows from it; `false` if it would close a cycle.
fn add(after: &mut [Bits], from: usize, to: usize) -> bool {
    if from == to || after[to].has(from) {
        return false;
    }
    if !after[from].has(to) {
        let mut new = after[to].clone();
        new.insert(to);
        for (before, row) in after.iter_mut().enumerate() {
            if before == from || row.has(from) {
                row.extend(&new);
            }
        }
    }
    true
}

/// A set of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn has(&self, position: usize) -> bool {
        self.0[position / 64] >> (position % 64) & 1 == 1
    }

    fn insert(&mut self, position: usize) {
        self.0[position / 64] |= 1 << (position % 64);
    }

    fn extend(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// The cheapest costs from one node over at most two ordered edges. The third edge is looked up from its end, so that the search
/// never spreads over three.
struct TwoHops {
    from: u32,
    costs: Vec<f64>,
}

impl TwoHops {
    fn from(graph: &Adjacency, from: u32) -> Self {
        let mut costs = vec![f64::INFINITY; graph.len()];
        let first: Vec<(u32, f64)> = ordered(graph.outgoing(from)).collect();
        for &(node, cost) in &first {
            costs[node as usize] = cost;
        }
        for (middle, cost) in first {
            for (node, more) in ordered(graph.outgoing(middle)) {
                costs[node as usize] = costs[node as usize].min(cost + more);
            }
        }
        Self { from, costs }
    }

    fn cost_to(&self, graph: &Adjacency, to: u32) -> Option<f64> {
        let over = |(node, more): (u32, f64)| if node == self.from { more } else { self.costs[node as usize] + more };
        let best = ordered(graph.incoming(to)).map(over).fold(self.costs[to as usize], f64::min);
        best.is_finite().then_some(best)
    }
}

fn ordered(links: &[crate::graph::adjacency::Link]) -> impl Iterator<Item = (u32, f64)> {
    links.iter().filter(|link| link.order > 0.0).map(|link| (link.to, step_cost(link)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::path;

    fn nodes(count: u32) -> Vec<Node> {
        (0..count).map(Node::tool).collect()
    }

    fn ends(dag: &Dag) -> Vec<(usize, usize)> {
        dag.dependencies().iter().map(|dependency| (dependency.from, dependency.to)).collect()
    }

    #[test]
    fn a_dependency_is_a_path_of_at_most_three_hops() {
        let graph = Adjacency::from_weights(6, &[(0, 1, 0.7), (1, 2, 0.7), (2, 3, 0.7), (3, 4, 0.7)]);
        let pick = |picked: &[u32]| Dag::by_paths(&graph, &picked.iter().map(|at| Node::tool(*at)).collect::<Vec<_>>());
        assert_eq!(ends(&pick(&[0, 3])), [(0, 1)]);
        assert_eq!(ends(&pick(&[0, 4])), []);
        assert_eq!(ends(&pick(&[4, 0, 2])), [(1, 2), (2, 0)]);
        assert_eq!(pick(&[4, 0, 2, 5]).layers(), [2, 0, 1, 0]);
    }

    #[test]
    fn the_weakest_edge_of_a_cycle_goes_and_what_follows_is_left_out() {
        let dependency = |from, to, strength| Dependency { from, to, strength };
        // 0 -> 1 -> 2 -> 0, of which 1 -> 2 is the weakest.
        let cycle = Dag::new(nodes(3), vec![dependency(0, 1, 0.9), dependency(1, 2, 0.3), dependency(2, 0, 0.5)]);
        assert_eq!(ends(&cycle), [(0, 1), (2, 0)]);
        let reduced = Dag::new(nodes(3), vec![dependency(0, 1, 0.9), dependency(1, 2, 0.3), dependency(0, 2, 0.5)]);
        assert_eq!(ends(&reduced), [(0, 1), (1, 2)]);
        let both_ways = Dag::new(nodes(2), vec![dependency(1, 0, 0.5), dependency(0, 1, 0.5)]);
        assert_eq!(ends(&both_ways), [(0, 1)]);
        assert!(reduced.comes_after(0, 2) && !reduced.comes_after(2, 0));
    }

    fn random() -> impl Strategy<Value = (u32, Vec<(u32, u32, f64)>)> {
        (2_u32..9).prop_flat_map(|count| {
            let edge = (0..count, 0..count, 1_u32..=20).prop_map(|(from, to, weight)| (from, to, f64::from(weight) / 20.0));
            (Just(count), proptest::collection::vec(edge, 0..30))
        })
    }

    /// Whether `to` can be reached along the dependencies, without the one with number `except`.
    fn reaches(dag: &Dag, from: usize, to: usize, except: usize) -> bool {
        let mut open = vec![from];
        let mut seen = vec![false; dag.nodes().len()];
        while let Some(at) = open.pop() {
            for (number, dependency) in dag.dependencies().iter().enumerate() {
                if dependency.from == at && number != except && !std::mem::replace(&mut seen[dependency.to], true) {
                    open.push(dependency.to);
                }
            }
        }
        seen[to]
    }

    proptest! {
        #[test]
        fn a_dag_has_no_cycle_no_shortcut_and_drops_only_what_contradicts_it((count, edges) in random()) {
            let graph = Adjacency::from_weights(count, &edges);
            let dag = Dag::by_paths(&graph, &nodes(count));
            let layers = dag.layers();
            for (number, dependency) in dag.dependencies().iter().enumerate() {
                prop_assert!(layers[dependency.from] < layers[dependency.to]);
                prop_assert!(!reaches(&dag, dependency.from, dependency.to, number), "a shortcut");
            }
            for (from, to) in (0..count as usize).flat_map(|from| (0..count as usize).map(move |to| (from, to))) {
                prop_assert_eq!(dag.comes_after(from, to), reaches(&dag, from, to, usize::MAX));
                let (a, b) = (u32::try_from(from).unwrap(), u32::try_from(to).unwrap());
                let short = path::shortest(&graph, a, b).filter(|path| from != to && path.nodes.len() <= HOPS_MAX + 1);
                if short.is_some() {
                    prop_assert!(dag.comes_after(from, to) || dag.comes_after(to, from), "a path is kept or contradicted");
                }
            }
        }
    }
}
