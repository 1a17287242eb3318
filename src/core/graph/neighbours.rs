//! Who stands next to a node, the strongest first, and which tools often come before and after it (ALGORITHMS 2 and 3).
//! O(degree log degree).

use super::adjacency::{Adjacency, Link};
use super::{Node, NodeKind};

/// Related tools per side (S0).
pub const RELATED_MAX: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    /// Distinct, each with the stronger direction.
    Both,
}

/// By weight, then by how often it was seen, then by id.
pub fn neighbours(graph: &Adjacency, node: u32, direction: Direction) -> Vec<Link> {
    let mut links = match direction {
        Direction::In => graph.incoming(node),
        Direction::Out => graph.outgoing(node),
        Direction::Both => graph.both(node),
    }
    .to_vec();
    links.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(b.observations.cmp(&a.observations)).then(a.to.cmp(&b.to)));
    links
}

/// On which side of a tool a related one stands.
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Related {
    pub tool: Node,
    pub relation: Relation,
    /// Weight of the edge.
    pub score: f64,
}

/// The best two tools on each side that `wanted` lets through. Only edges that put their ends in an order count: a member of a
/// capability or a similar tool comes neither before nor after.
pub fn related_tools(graph: &Adjacency, node: u32, wanted: impl Fn(Node) -> bool) -> Vec<Related> {
    let side = |direction, relation| {
        let is_tool = |tool: &Node| matches!(tool.kind(), NodeKind::Tool(_)) && wanted(*tool);
        let ordered = neighbours(graph, node, direction).into_iter().filter(|link| link.order > 0.0);
        let related = ordered.map(|link| Related { tool: graph.node(link.to), relation, score: link.weight });
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
