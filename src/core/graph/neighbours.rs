//! The neighbours of a node, those with most evidence first, and the tools that often run before and after it (ALGORITHMS 2 and 3).
//! O(degree log degree).

use super::adjacency::{Adjacency, Link};
use super::{Node, NodeKind};

/// Related tools per side, at most (S0).
pub const RELATED_MAX: usize = 2;

/// Which links of a node to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    /// Each neighbour once, by the stronger direction.
    Both,
}

/// The links of a node, those observed most often first, then by descending weight, then id.
pub fn neighbours(graph: &Adjacency, node: u32, direction: Direction) -> Vec<Link> {
    let mut links = match direction {
        Direction::In => graph.incoming(node),
        Direction::Out => graph.outgoing(node),
        Direction::Both => graph.undirected(node),
    }
    .to_vec();
    links.sort_by(|a, b| b.observations.cmp(&a.observations).then(b.weight.total_cmp(&a.weight)).then(a.to.cmp(&b.to)));
    links
}

/// Whether a related tool runs before or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    OftenBefore,
    OftenAfter,
}

impl Relation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::OftenBefore => "often_before",
            Self::OftenAfter => "often_after",
        }
    }
}

/// A tool that often runs before or after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelatedTool {
    pub tool: Node,
    pub relation: Relation,
    /// Runs in which it came before or after.
    pub times: u32,
}

/// The strongest [`RELATED_MAX`] tools before and after `node` that `wanted` accepts. Only edges that order their ends count: a
/// member of a capability or a similar tool comes neither before nor after.
pub fn related_tools(graph: &Adjacency, node: u32, wanted: impl Fn(Node) -> bool) -> Vec<RelatedTool> {
    let side = |direction, relation| {
        let is_tool = |tool: &Node| matches!(tool.kind(), NodeKind::Tool(_)) && wanted(*tool);
        let ordered = neighbours(graph, node, direction).into_iter().filter(|link| link.order > 0.0);
        let related = ordered.map(|link| RelatedTool { tool: graph.node(link.to), relation, times: link.observations });
        related.filter(|related| is_tool(&related.tool)).take(RELATED_MAX).collect::<Vec<_>>()
    };
    [side(Direction::In, Relation::OftenBefore), side(Direction::Out, Relation::OftenAfter)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_come_first_and_two_per_side_are_related() {
        let graph =
            Adjacency::from_weights(6, &[(1, 0, 0.35), (2, 0, 0.7), (3, 0, 0.7), (0, 4, 0.5), (4, 0, 0.9), (0, 5, 0.5)]);
        let at = |direction| neighbours(&graph, 0, direction).iter().map(|link| link.to).collect::<Vec<_>>();
        assert_eq!(at(Direction::In), [4, 2, 3, 1]);
        assert_eq!(at(Direction::Out), [4, 5]);
        assert_eq!(at(Direction::Both), [4, 2, 3, 5, 1]);
        let related = related_tools(&graph, 0, |tool| tool != Node::tool(2));
        let shown: Vec<_> = related.iter().map(|related| (related.tool, related.relation.name())).collect();
        let expected = [(4, "often_before"), (3, "often_before"), (4, "often_after"), (5, "often_after")];
        assert_eq!(shown, expected.map(|(position, name)| (Node::tool(position), name)));
    }
}
