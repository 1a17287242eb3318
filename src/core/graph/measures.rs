//! All graph measures of one state. They are read by node, so older measures serve a newer view: positions never change, and a node
//! that is newer than the measures has no neighbours, rank 0 and no community.
//!
//! [`Measures::compute`] runs beside the fold and needs only a view. Its results are the same in every process except for the last
//! digits of the ranks, which depend on the start values within the tolerance.

use super::Node;
use super::adjacency::{Adjacency, Link, as_f64};
use super::cold_start::{ColdEdges, ColdStart};
use super::community::{Communities, louvain};
use super::neighbours::{self, Direction, RelatedTool};
use super::pagerank::{PageRank, pagerank};
use super::path::Path;
use super::{adamic_adar, hybrid, path};
use crate::id::Seq;
use crate::state::State;
use crate::vectors::TextHash;

/// Adjacency, ranks and communities of one state.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    at: Seq,
    adjacency: Adjacency,
    cold: ColdEdges,
    pagerank: PageRank,
    communities: Communities,
}

impl Measures {
    /// Computes the measures of `state`. `previous` only saves work; `vectors` are those of the tools, by position.
    pub fn compute(state: &State, previous: Option<&Self>, settings: ColdStart, vectors: &[Option<&[f32]>]) -> Self {
        let cold = ColdEdges::compute(state, settings, vectors, previous.map(|previous| &previous.cold));
        let adjacency = Adjacency::from_state(state, &cold.guesses);
        let start = previous.filter(|previous| !previous.adjacency.is_empty()).map(|previous| {
            let uniform = 1.0 / as_f64(adjacency.len());
            let previous_rank = |index| previous.rank(adjacency.node(index)).unwrap_or(uniform);
            adjacency.indices().map(previous_rank).collect()
        });
        let pagerank = pagerank(&adjacency, start);
        let communities = louvain(&adjacency);
        Self { at: state.applied(), adjacency, cold, pagerank, communities }
    }

    /// The last record in the state these measures were computed from.
    pub fn applied(&self) -> Seq {
        self.at
    }

    /// The graph the measures were computed on.
    pub fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    fn rank(&self, node: Node) -> Option<f64> {
        self.adjacency.index(node).map(|index| self.pagerank.ranks[index as usize])
    }

    /// The rank of a node; all ranks sum to 1.
    pub fn pagerank(&self, node: Node) -> f64 {
        self.rank(node).unwrap_or(0.0)
    }

    /// The community of a node, as its member with the smallest id.
    pub fn community(&self, node: Node) -> Option<Node> {
        let index = self.adjacency.index(node)?;
        Some(self.adjacency.node(self.communities.label(index)))
    }

    pub fn community_count(&self) -> usize {
        self.communities.count()
    }

    /// The other members of the node's community, by id. O(nodes).
    pub fn community_mates(&self, node: Node) -> Vec<Node> {
        let Some(index) = self.adjacency.index(node) else { return Vec::new() };
        let mates = self.communities.members(index).filter(|mate| *mate != index);
        mates.map(|mate| self.adjacency.node(mate)).collect()
    }

    /// The neighbours of a node, those with most evidence first.
    pub fn neighbours(&self, node: Node, direction: Direction) -> Vec<(Node, Link)> {
        let Some(index) = self.adjacency.index(node) else { return Vec::new() };
        let links = neighbours::neighbours(&self.adjacency, index, direction);
        links.into_iter().map(|link| (self.adjacency.node(link.to), link)).collect()
    }

    /// Tools that often run before or after `node`, of those that `wanted` accepts.
    pub fn related_tools(&self, node: Node, wanted: impl Fn(Node) -> bool) -> Vec<RelatedTool> {
        let index = self.adjacency.index(node);
        index.map_or_else(Vec::new, |index| neighbours::related_tools(&self.adjacency, index, wanted))
    }

    /// The Adamic-Adar index of two nodes.
    pub fn adamic_adar(&self, one: Node, other: Node) -> f64 {
        let both = self.adjacency.index(one).zip(self.adjacency.index(other));
        both.map_or(0.0, |(one, other)| adamic_adar::adamic_adar(&self.adjacency, one, other))
    }

    /// Relatedness of a node to the most related node of the context, 0 to 1.
    pub fn relatedness(&self, node: Node, context: &[Node]) -> f64 {
        let Some(index) = self.adjacency.index(node) else { return 0.0 };
        let context: Vec<u32> = context.iter().filter_map(|other| self.adjacency.index(*other)).collect();
        adamic_adar::relatedness(&self.adjacency, index, &context)
    }

    /// The cheapest path along ordered edges ([`path::shortest`]).
    pub fn shortest_path(&self, from: Node, to: Node) -> Option<Path<Node>> {
        let path = path::shortest(&self.adjacency, self.adjacency.index(from)?, self.adjacency.index(to)?)?;
        Some(Path { nodes: path.nodes.iter().map(|index| self.adjacency.node(*index)).collect(), cost: path.cost })
    }

    /// The weight of the semantic score in hybrid search ([`hybrid::alpha`]).
    pub fn alpha(&self, has_context: bool) -> f64 {
        hybrid::alpha(has_context, self.adjacency.edge_count(), self.adjacency.density())
    }
}

/// The vectors of the tools' texts, by the tools' positions in `state`.
pub fn tool_vectors(state: &State) -> Vec<Option<&[f32]>> {
    let vector = |position| {
        let text = state.tools.at(position).text()?;
        state.vectors.get(TextHash::compute(&text)).map(|vector| &**vector)
    };
    (0..).take(state.tools.len()).map(vector).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::NodeKind;
    use crate::graph::edge::EdgeKind;
    use crate::id::ToolId;

    const IDS: [&str; 6] = ["fs:read", "fs:write", "git:commit", "git:push", "web:fetch", "web:parse"];
    const EDGES: [(&str, &str, EdgeKind); 5] = [
        ("fs:read", "fs:write", EdgeKind::Provides),
        ("fs:write", "git:commit", EdgeKind::Sequence),
        ("git:commit", "git:push", EdgeKind::Dependency),
        ("web:fetch", "web:parse", EdgeKind::Provides),
        ("web:parse", "fs:write", EdgeKind::Provides),
    ];

    fn state(ids: &[&str]) -> State {
        let mut state = State::default();
        for id in ids {
            state.tools.intern(&id.parse().unwrap());
        }
        for (from, to, kind) in EDGES {
            let key = (node(&state, from), node(&state, to), kind);
            state.graph.observe(key, true, Seq(1));
        }
        state
    }

    fn node(state: &State, id: &str) -> Node {
        Node::tool(state.tools.position(&id.parse::<ToolId>().unwrap()).unwrap())
    }

    fn id(state: &State, node: Node) -> &str {
        match node.kind() {
            NodeKind::Tool(position) => state.tools.at(position).id.as_str(),
            NodeKind::Capability(_) => unreachable!("there are none"),
        }
    }

    #[test]
    fn measures_are_the_same_to_the_bit_in_whichever_order_tools_became_known() {
        let all = |ids: &[&str]| -> Vec<(u64, String)> {
            let state = state(ids);
            let measures = Measures::compute(&state, None, ColdStart::default(), &[]);
            let both = |tool: &&str| {
                let node = node(&state, tool);
                (measures.pagerank(node).to_bits(), id(&state, measures.community(node).unwrap()).to_owned())
            };
            IDS.iter().map(both).collect()
        };
        let mut other = IDS;
        other.reverse();
        other.swap(1, 4);
        assert_eq!(all(&IDS), all(&other));
    }

    #[test]
    fn a_new_tool_is_unknown_until_the_next_computation_and_the_previous_ranks_are_the_start() {
        let mut state = state(&IDS);
        let first = Measures::compute(&state, None, ColdStart::default(), &[]);
        let new = Node::tool(state.tools.intern(&"a:new".parse().unwrap()));
        assert_eq!((first.pagerank(new), first.community(new), first.community_mates(new)), (0.0, None, vec![]));
        assert_eq!((first.relatedness(new, &[node(&state, "fs:read")]), first.shortest_path(new, new)), (0.0, None));
        let second = Measures::compute(&state, Some(&first), ColdStart::default(), &[]);
        let again = Measures::compute(&state, Some(&second), ColdStart::default(), &[]);
        assert!(second.pagerank(new) > 0.0 && second.community(new) == Some(new));
        assert!(again.pagerank.iterations < second.pagerank.iterations);
    }

    #[test]
    fn a_path_follows_the_order_and_alpha_depends_on_the_number_of_edges() {
        let state = state(&IDS);
        let measures = Measures::compute(&state, None, ColdStart::default(), &[]);
        let path = measures.shortest_path(node(&state, "web:fetch"), node(&state, "git:push")).unwrap();
        let ids: Vec<&str> = path.nodes.iter().map(|node| id(&state, *node)).collect();
        assert_eq!(ids, ["web:fetch", "web:parse", "fs:write", "git:commit", "git:push"]);
        assert!((path.cost - (2.0 / 0.49 + 1.0 / 0.175 + 1.0 / 0.7)).abs() < 1e-9);
        assert!((measures.alpha(true) - 0.8).abs() < 1e-12 && (measures.alpha(false) - 1.0).abs() < 1e-12);
    }
}
