//! The answer to "what stands next to this tool?".

use serde::Serialize;

use crate::core::graph::adjacency::Link;
use crate::core::graph::measures::Measures;
use crate::core::graph::neighbours::Direction;
use crate::core::graph::{Node, NodeKind};
use crate::core::id::Callee;
use crate::core::state::State;

#[derive(Serialize)]
pub(crate) struct RelatedDto {
    tool: String,
    /// Of all ranks, which sum to 1.
    pagerank: f64,
    /// Called after its smallest member; missing while the tool is newer than the measures.
    community: Option<String>,
    /// Members of the community, this one included; `community_mates` may be cut.
    community_size: usize,
    community_mates: Vec<String>,
    related_tools: Vec<RelatedToolDto>,
    neighbours: NeighboursDto,
    /// The way that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathDto>,
    /// The last record that the measures know of.
    based_on_seq: u64,
}

#[derive(Serialize)]
struct RelatedToolDto {
    tool: String,
    relation: &'static str,
    score: f64,
}

#[derive(Serialize)]
struct NeighboursDto {
    r#in: Vec<NeighbourDto>,
    out: Vec<NeighbourDto>,
}

#[derive(Serialize)]
struct NeighbourDto {
    tool: String,
    kind: &'static str,
    source: &'static str,
    weight: f64,
    observations: u32,
}

#[derive(Serialize)]
struct PathDto {
    to: String,
    /// From the first to the last; empty if no ordered way leads there.
    steps: Vec<String>,
    cost: Option<f64>,
}

/// The node of a tool or capability that the state knows.
pub(crate) fn node(state: &State, callee: &Callee) -> Option<Node> {
    match callee {
        Callee::Tool(id) => state.tools.position(id).map(Node::tool),
        Callee::Capability(id) => state.capabilities.position(*id).map(Node::capability),
    }
}

impl RelatedDto {
    /// `limit` cuts the neighbours of each direction and the mates. Withdrawn tools are not recommended, but shown as neighbours.
    pub(crate) fn new(state: &State, measures: &Measures, node: Node, to: Option<Node>, limit: usize) -> Self {
        let name = |node: Node| state.callee(node).to_string();
        let offered = |node: Node| matches!(node.kind(), NodeKind::Tool(position) if state.tools.at(position).is_offered());
        let neighbour = |(node, link): (Node, Link)| NeighbourDto {
            tool: name(node),
            kind: link.kind.name(),
            source: link.source.name(),
            weight: link.weight,
            observations: link.observations,
        };
        let neighbours =
            |direction| measures.neighbours(node, direction).into_iter().take(limit).map(neighbour).collect::<Vec<_>>();
        let related = measures.related_tools(node, offered).into_iter();
        let mates = measures.community_mates(node);
        let path = |to: Node| {
            let (nodes, cost) = measures.shortest_path(node, to).map(|way| (way.nodes, way.cost)).unzip();
            PathDto { to: name(to), steps: nodes.into_iter().flatten().map(name).collect(), cost }
        };
        let community = measures.community(node).map(name);
        Self {
            tool: name(node),
            pagerank: measures.pagerank(node),
            community_size: mates.len() + usize::from(community.is_some()),
            community,
            community_mates: mates.into_iter().take(limit).map(name).collect(),
            related_tools: related
                .map(|found| RelatedToolDto { tool: name(found.tool), relation: found.relation.name(), score: found.score })
                .collect(),
            neighbours: NeighboursDto { r#in: neighbours(Direction::In), out: neighbours(Direction::Out) },
            path: to.map(path),
            based_on_seq: measures.applied().0,
        }
    }
}
