//! An immutable picture of the graph for the measures: weighted rows by node, outwards, inwards and both, sparse.
//!
//! Nodes are numbered in the order of their ids, tools first. So the smaller index is the smaller id, and whatever is computed
//! from this picture is the same, bit for bit, in whichever order the tools became known.
//!
//! A pair of nodes has one [`Link`] per direction: its weight is the largest of kind x source (ALGORITHMS 4). A call that follows
//! itself says nothing about how tools relate, so loops are left out. What cold start guesses ([`super::cold_start`]) fills in only
//! where nothing is known.
//!
//! Building takes O(edges log edges) time and O(nodes + edges) memory.

use super::edge::{EdgeCounter, EdgeKind, EdgeSource};
use super::path;
use super::{Node, NodeKind};
use crate::core::state::State;

/// How a link came about: an edge of the log, or a guess from what tools look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    Edge(EdgeKind),
    /// Descriptions that nearly say the same.
    Similar,
    /// Tools of one server.
    Category,
}

impl LinkKind {
    /// Weaker than any edge of the log can be. No source gives a number.
    const CATEGORY_WEIGHT: f64 = 0.2;

    pub const fn name(self) -> &'static str {
        match self {
            Self::Edge(kind) => kind.name(),
            Self::Similar => "similar",
            Self::Category => "category",
        }
    }

    /// Before the source is taken into account. Similar tools may stand in for each other.
    pub const fn weight(self) -> f64 {
        match self {
            Self::Edge(kind) => kind.weight(),
            Self::Similar => EdgeKind::Alternative.weight(),
            Self::Category => Self::CATEGORY_WEIGHT,
        }
    }

    pub const fn is_guess(self) -> bool {
        !matches!(self, Self::Edge(_))
    }
}

/// A link that is not in the log, between two nodes that stand in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guess {
    pub ends: (Node, Node),
    pub kind: LinkKind,
}

/// One neighbour, seen from one end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Index of the neighbour.
    pub to: u32,
    pub weight: f64,
    /// Kind and source of the edge that gave the weight.
    pub kind: LinkKind,
    pub source: EdgeSource,
    /// Of all kinds together.
    pub observations: u32,
    /// Weight for questions of order ([`path::order_weight`]); 0 if the pair stands in no order.
    pub order: f64,
}

impl Link {
    fn edge(to: u32, kind: EdgeKind, counter: &EdgeCounter) -> Self {
        let weight = counter.weight(kind);
        let order = path::order_weight(kind, weight);
        let (source, observations) = (counter.source(), counter.observations);
        Self { to, weight, kind: LinkKind::Edge(kind), source, observations, order }
    }

    fn guess(to: u32, kind: LinkKind) -> Self {
        let source = EdgeSource::Template;
        Self { to, weight: kind.weight() * source.weight(), kind, source, observations: 0, order: 0.0 }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Adjacency {
    /// By index.
    nodes: Vec<Node>,
    /// Index by position in the state's tables.
    tools: Vec<u32>,
    capabilities: Vec<u32>,
    out: Rows,
    into: Rows,
    both: Rows,
    known: usize,
}

impl Adjacency {
    /// Edges of the graph, members of capabilities as `contains`, and `guesses`.
    pub fn of(state: &State, guesses: &[Guess]) -> Self {
        let tools = state.tools.positions().map(Node::tool);
        let mut picture = Self::numbered(tools.chain(state.capabilities.positions().map(Node::capability)).collect());
        let counted = state.graph.edges().map(|(&(from, to, kind), counter)| (from, to, kind, *counter));
        let members = state.capabilities.positions().flat_map(|position| {
            let capability = state.capabilities.at(position);
            let edge = |member: &Node| (Node::capability(position), *member, EdgeKind::Contains, capability.membership());
            capability.members.iter().map(edge).collect::<Vec<_>>()
        });
        let index = |node| picture.index(node).expect("edges join nodes of the tables");
        let links =
            counted.chain(members).map(|(from, to, kind, counter)| (index(from), Link::edge(index(to), kind, &counter)));
        let mut links = merged(links.collect());
        picture.known = links.len();
        let joined = |from: u32, to: u32| links.binary_search_by(|(node, link)| (*node, link.to).cmp(&(from, to))).is_ok();
        let ends = |guess: &Guess| Some((picture.index(guess.ends.0)?, picture.index(guess.ends.1)?, guess.kind));
        let fresh = guesses.iter().filter_map(ends).filter(|&(a, b, _)| !joined(a, b) && !joined(b, a));
        let fresh: Vec<_> = fresh.flat_map(|(a, b, kind)| [(a, Link::guess(b, kind)), (b, Link::guess(a, kind))]).collect();
        links.extend(fresh);
        picture.fill(links);
        picture
    }

    fn numbered(nodes: Vec<Node>) -> Self {
        let tools = nodes.iter().filter(|node| matches!(node.kind(), NodeKind::Tool(_))).count();
        let (mut by_tool, mut by_capability) = (vec![0; tools], vec![0; nodes.len() - tools]);
        for (index, node) in (0..).zip(&nodes) {
            match node.kind() {
                NodeKind::Tool(position) => by_tool[position as usize] = index,
                NodeKind::Capability(position) => by_capability[position as usize] = index,
            }
        }
        Self { nodes, tools: by_tool, capabilities: by_capability, ..Self::default() }
    }

    fn fill(&mut self, links: Vec<(u32, Link)>) {
        let out = merged(links);
        let into = merged(out.iter().map(|&(from, link)| (link.to, Link { to: from, ..link })).collect());
        let both = merged(out.iter().chain(&into).copied().collect());
        [self.out, self.into, self.both] = [out, into, both].map(|links| Rows::new(self.nodes.len(), links));
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn indices(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes")
    }

    pub fn node(&self, index: u32) -> Node {
        self.nodes[index as usize]
    }

    /// `None` for a node that came after this picture was taken.
    pub fn index(&self, node: Node) -> Option<u32> {
        match node.kind() {
            NodeKind::Tool(position) => self.tools.get(position as usize).copied(),
            NodeKind::Capability(position) => self.capabilities.get(position as usize).copied(),
        }
    }

    /// Whom this node points to, by index.
    pub fn outgoing(&self, index: u32) -> &[Link] {
        self.out.row(index)
    }

    /// Who points to this node, by index.
    pub fn incoming(&self, index: u32) -> &[Link] {
        self.into.row(index)
    }

    /// Distinct neighbours whatever the direction, each with the stronger of the two weights, by index.
    pub fn both(&self, index: u32) -> &[Link] {
        self.both.row(index)
    }

    pub fn link(&self, from: u32, to: u32) -> Option<&Link> {
        let row = self.outgoing(from);
        row.binary_search_by_key(&to, |link| link.to).ok().map(|at| &row[at])
    }

    /// Ordered pairs that the log joins. Guesses do not count: a graph of guesses is a graph that knows nothing.
    pub fn edge_count(&self) -> usize {
        self.known
    }

    /// Share of the possible ordered pairs that the log joins, 0 to 1.
    pub fn density(&self) -> f64 {
        let possible = self.nodes.len() * self.nodes.len().saturating_sub(1);
        if possible == 0 { 0.0 } else { real(self.known) / real(possible) }
    }
}

/// Compressed sparse rows: the links of node `n` are `links[starts[n]..starts[n + 1]]`.
#[derive(Clone, Debug, Default)]
struct Rows {
    starts: Vec<usize>,
    links: Vec<Link>,
}

impl Rows {
    fn new(nodes: usize, sorted: Vec<(u32, Link)>) -> Self {
        let mut starts = vec![0; nodes + 1];
        for (from, _) in &sorted {
            starts[*from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        Self { starts, links: sorted.into_iter().map(|(_, link)| link).collect() }
    }

    fn row(&self, index: u32) -> &[Link] {
        &self.links[self.starts[index as usize]..self.starts[index as usize + 1]]
    }
}

/// Sorted by ends, without loops, one link per ordered pair: the strongest, with what the others add.
fn merged(mut links: Vec<(u32, Link)>) -> Vec<(u32, Link)> {
    links.retain(|(from, link)| *from != link.to);
    links.sort_by(|(a, x), (b, y)| (a, x.to).cmp(&(b, y.to)).then(y.weight.total_cmp(&x.weight)).then(x.kind.cmp(&y.kind)));
    links.dedup_by(|(again, weaker), (from, link)| {
        let same = again == from && weaker.to == link.to;
        if same {
            link.order = link.order.max(weaker.order);
            link.observations = link.observations.saturating_add(weaker.observations);
        }
        same
    });
    links
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes and edges stay far below 2^52")]
pub(super) fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
impl Adjacency {
    /// Tools `0..nodes` joined by observed edges of these weights, each of which also orders its ends.
    pub(super) fn from_weights(nodes: u32, edges: &[(u32, u32, f64)]) -> Self {
        let mut picture = Self::numbered((0..nodes).map(Node::tool).collect());
        let (kind, source) = (LinkKind::Edge(EdgeKind::Provides), EdgeSource::Observed);
        let link = |&(from, to, weight)| (from, Link { to, weight, kind, source, observations: 1, order: weight });
        let links = merged(edges.iter().map(link).collect());
        picture.known = links.len();
        picture.fill(links);
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::id::Seq;

    fn known(ids: &[&str]) -> State {
        let mut state = State::default();
        for id in ids {
            state.tools.intern(&id.parse().unwrap());
        }
        state
    }

    /// By position.
    const fn tool(position: u32) -> Node {
        Node::tool(position)
    }

    #[test]
    fn nodes_are_numbered_by_id_and_a_pair_weighs_as_its_strongest_edge() {
        let mut state = known(&["z:last", "a:first", "m:middle"]);
        state.graph.declare((tool(0), tool(1), EdgeKind::Dependency));
        for _ in 0..3 {
            state.graph.observe((tool(0), tool(1), EdgeKind::Sequence), true, Seq(1));
        }
        state.graph.observe((tool(1), tool(1), EdgeKind::Sequence), true, Seq(1));
        let picture = Adjacency::of(&state, &[]);
        assert_eq!(picture.indices().map(|index| picture.node(index)).collect::<Vec<_>>(), [tool(1), tool(2), tool(0)]);
        let link = picture.link(2, 0).unwrap();
        assert_eq!((link.kind, link.source), (LinkKind::Edge(EdgeKind::Dependency), EdgeSource::Template));
        assert_eq!((link.weight, link.observations), (0.5, 3));
        assert_eq!((picture.incoming(0).len(), picture.outgoing(0).len(), picture.both(0).len()), (1, 0, 1));
        assert_eq!(picture.edge_count(), 1, "a loop is no edge between two nodes");
        assert!((picture.density() - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_guess_stands_only_where_nothing_is_known_and_counts_for_nothing() {
        let mut state = known(&["a:x", "a:y", "a:z"]);
        state.graph.observe((tool(1), tool(0), EdgeKind::Sequence), true, Seq(1));
        let guess = |a, b, kind| Guess { ends: (tool(a), tool(b)), kind };
        let guesses = [guess(0, 1, LinkKind::Category), guess(1, 2, LinkKind::Category), guess(1, 2, LinkKind::Similar)];
        let picture = Adjacency::of(&state, &guesses);
        assert_eq!(picture.link(0, 1), None);
        let (there, back) = (picture.link(1, 2).unwrap(), picture.link(2, 1).unwrap());
        assert_eq!((there.kind, there.source, back.kind), (LinkKind::Similar, EdgeSource::Template, LinkKind::Similar));
        assert!((there.weight - 0.3).abs() < 1e-12);
        assert_eq!(picture.edge_count(), 1);
    }
}
