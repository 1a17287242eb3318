//! The graph of one state in sparse, immutable form, for the measures: weighted links by node, outgoing, incoming and undirected.
//!
//! Nodes are indexed in the order of their ids, tools first. So the smaller index has the smaller id, and every measure is the same,
//! bit for bit, in whichever order the tools became known.
//!
//! A pair of nodes has one [`Link`] per direction: its weight is the largest of kind x source (ALGORITHMS 4). Loops are left out,
//! since a call that follows itself says nothing about how tools relate. A guess of [`super::cold_start`] is used only for a pair
//! that no edge joins.
//!
//! Building takes O(edges log edges) time and O(nodes + edges) memory.

use super::edge::{EdgeCounter, EdgeKind, EdgeSource};
use super::path;
use super::{Node, NodeKind};
use crate::state::State;

/// The origin of a link: an edge learnt from the log, or a guess from the tools' descriptions and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkKind {
    Edge(EdgeKind),
    /// The descriptions are nearly the same.
    Similar,
    /// The tools belong to one server.
    Category,
}

impl LinkKind {
    /// Weaker than any edge of the log. No source gives a number.
    const CATEGORY_WEIGHT: f64 = 0.2;

    pub const fn name(self) -> &'static str {
        match self {
            Self::Edge(kind) => kind.name(),
            Self::Similar => "similar",
            Self::Category => "category",
        }
    }

    /// The weight before that of the source. Similar tools count as alternatives.
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

/// An undirected link that is not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guess {
    pub ends: (Node, Node),
    pub kind: LinkKind,
}

/// A neighbour of a node, with the strongest edge to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Index of the neighbour.
    pub to: u32,
    pub weight: f64,
    /// Kind and source of the edge that gave the weight.
    pub kind: LinkKind,
    pub source: EdgeSource,
    /// Summed over all kinds.
    pub observations: u32,
    /// [`path::order_weight`] of the edge; 0 if it does not order the pair.
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

/// The links of every node, by index.
#[derive(Clone, Debug, Default)]
pub struct Adjacency {
    /// By index.
    nodes: Vec<Node>,
    /// Index by position in the state's tables.
    tools: Vec<u32>,
    capabilities: Vec<u32>,
    outgoing: LinkRows,
    incoming: LinkRows,
    undirected: LinkRows,
    /// Ordered pairs that the log joins.
    edge_count: usize,
}

impl Adjacency {
    /// Builds the links from the edges of the graph, the members of capabilities (`contains`), and `guesses`.
    pub fn from_state(state: &State, guesses: &[Guess]) -> Self {
        let tools = state.tools.positions().map(Node::tool);
        let mut adjacency = Self::numbered(tools.chain(state.capabilities.positions().map(Node::capability)).collect());
        let counted = state.graph.edges().map(|(&(from, to, kind), counter)| (from, to, kind, *counter));
        let members = state.capabilities.positions().flat_map(|position| {
            let capability = state.capabilities.at(position);
            let edge = |member: &Node| (Node::capability(position), *member, EdgeKind::Contains, capability.membership());
            capability.members.iter().map(edge).collect::<Vec<_>>()
        });
        let index = |node| adjacency.index(node).expect("edges join nodes of the tables");
        let links =
            counted.chain(members).map(|(from, to, kind, counter)| (index(from), Link::edge(index(to), kind, &counter)));
        let mut links = merged(links.collect());
        adjacency.edge_count = links.len();
        let joined = |from: u32, to: u32| links.binary_search_by(|(node, link)| (*node, link.to).cmp(&(from, to))).is_ok();
        let ends = |guess: &Guess| Some((adjacency.index(guess.ends.0)?, adjacency.index(guess.ends.1)?, guess.kind));
        let fresh = guesses.iter().filter_map(ends).filter(|&(a, b, _)| !joined(a, b) && !joined(b, a));
        let fresh: Vec<_> = fresh.flat_map(|(a, b, kind)| [(a, Link::guess(b, kind)), (b, Link::guess(a, kind))]).collect();
        links.extend(fresh);
        adjacency.set_links(links);
        adjacency
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

    fn set_links(&mut self, links: Vec<(u32, Link)>) {
        let outgoing = merged(links);
        let incoming = merged(outgoing.iter().map(|&(from, link)| (link.to, Link { to: from, ..link })).collect());
        let undirected = merged(outgoing.iter().chain(&incoming).copied().collect());
        [self.outgoing, self.incoming, self.undirected] =
            [outgoing, incoming, undirected].map(|links| LinkRows::new(self.nodes.len(), links));
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

    /// The index of a node; `None` if the node is newer than the state this was built from.
    pub fn index(&self, node: Node) -> Option<u32> {
        match node.kind() {
            NodeKind::Tool(position) => self.tools.get(position as usize).copied(),
            NodeKind::Capability(position) => self.capabilities.get(position as usize).copied(),
        }
    }

    /// The nodes this node points to, by index.
    pub fn outgoing(&self, index: u32) -> &[Link] {
        self.outgoing.row(index)
    }

    /// The nodes that point to this node, by index.
    pub fn incoming(&self, index: u32) -> &[Link] {
        self.incoming.row(index)
    }

    /// The neighbours in either direction, each once with the stronger of the two weights, by index.
    pub fn undirected(&self, index: u32) -> &[Link] {
        self.undirected.row(index)
    }

    /// The link from one node to another, if there is one.
    pub fn link(&self, from: u32, to: u32) -> Option<&Link> {
        let row = self.outgoing(from);
        row.binary_search_by_key(&to, |link| link.to).ok().map(|at| &row[at])
    }

    /// How many ordered pairs the log joins. Guesses do not count, since nothing was observed about them.
    pub fn edge_count(&self) -> usize {
        self.edge_count
    }

    /// Share of the possible ordered pairs that the log joins, 0 to 1.
    pub fn density(&self) -> f64 {
        let possible = self.nodes.len() * self.nodes.len().saturating_sub(1);
        if possible == 0 { 0.0 } else { as_f64(self.edge_count) / as_f64(possible) }
    }
}

/// Compressed sparse rows: the links of node `n` are `links[starts[n]..starts[n + 1]]`.
#[derive(Clone, Debug, Default)]
struct LinkRows {
    starts: Vec<usize>,
    links: Vec<Link>,
}

impl LinkRows {
    fn new(nodes: usize, sorted: Vec<(u32, Link)>) -> Self {
        let starts = row_starts(nodes, sorted.iter().map(|(from, _)| *from));
        Self { starts, links: sorted.into_iter().map(|(_, link)| link).collect() }
    }

    fn row(&self, index: u32) -> &[Link] {
        &self.links[self.starts[index as usize]..self.starts[index as usize + 1]]
    }
}

/// Where the entries of each row start if entries are sorted by row, and the end; `owners` holds the row of each entry.
pub(super) fn row_starts(rows: usize, owners: impl Iterator<Item = u32>) -> Vec<usize> {
    let mut starts = vec![0; rows + 1];
    for owner in owners {
        starts[owner as usize + 1] += 1;
    }
    for row in 0..rows {
        starts[row + 1] += starts[row];
    }
    starts
}

/// The links sorted by ends, without loops, merged to one per ordered pair: the strongest, with the sum of the observations and the
/// largest order weight.
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
pub(super) fn as_f64(count: usize) -> f64 {
    count as f64
}

impl Adjacency {
    /// Tools `0..nodes` joined by observed edges of these weights, each of which also orders its ends.
    pub(crate) fn from_weights(nodes: u32, edges: &[(u32, u32, f64)]) -> Self {
        let mut adjacency = Self::numbered((0..nodes).map(Node::tool).collect());
        let (kind, source) = (LinkKind::Edge(EdgeKind::Provides), EdgeSource::Observed);
        let link = |&(from, to, weight)| (from, Link { to, weight, kind, source, observations: 1, order: weight });
        let links = merged(edges.iter().map(link).collect());
        adjacency.edge_count = links.len();
        adjacency.set_links(links);
        adjacency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Seq;

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
        let adjacency = Adjacency::from_state(&state, &[]);
        assert_eq!(adjacency.indices().map(|index| adjacency.node(index)).collect::<Vec<_>>(), [tool(1), tool(2), tool(0)]);
        let link = adjacency.link(2, 0).unwrap();
        assert_eq!((link.kind, link.source), (LinkKind::Edge(EdgeKind::Dependency), EdgeSource::Template));
        assert_eq!((link.weight, link.observations), (0.5, 3));
        assert_eq!((adjacency.incoming(0).len(), adjacency.outgoing(0).len(), adjacency.undirected(0).len()), (1, 0, 1));
        assert_eq!(adjacency.edge_count(), 1, "a loop is no edge between two nodes");
        assert!((adjacency.density() - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_guess_stands_only_where_nothing_is_known_and_counts_for_nothing() {
        let mut state = known(&["a:x", "a:y", "a:z"]);
        state.graph.observe((tool(1), tool(0), EdgeKind::Sequence), true, Seq(1));
        let guess = |a, b, kind| Guess { ends: (tool(a), tool(b)), kind };
        let guesses = [guess(0, 1, LinkKind::Category), guess(1, 2, LinkKind::Category), guess(1, 2, LinkKind::Similar)];
        let adjacency = Adjacency::from_state(&state, &guesses);
        assert_eq!(adjacency.link(0, 1), None);
        let (there, back) = (adjacency.link(1, 2).unwrap(), adjacency.link(2, 1).unwrap());
        assert_eq!((there.kind, there.source, back.kind), (LinkKind::Similar, EdgeSource::Template, LinkKind::Similar));
        assert!((there.weight - 0.3).abs() < 1e-12);
        assert_eq!(adjacency.edge_count(), 1);
    }
}
