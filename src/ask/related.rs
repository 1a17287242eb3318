//! The answer to "what stands next to this tool?".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Asker;
use super::catalogue::{PAGE_MAX, Page, Refused};
use super::handles::{Handles, Mentions};
use super::request::named_callee;
use crate::core::graph::adjacency::Link;
use crate::core::graph::measures::Measures;
use crate::core::graph::neighbours::Direction;
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RelatedAnswer")]
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
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
    /// The last record that the measures know of.
    based_on_seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RelatedTool")]
struct RelatedToolDto {
    tool: String,
    relation: &'static str,
    /// The share of the calls of the tool asked about that it came before or after: `times` of `of`.
    score: f64,
    times: u64,
    of: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Neighbours")]
struct NeighboursDto {
    r#in: Vec<NeighbourDto>,
    out: Vec<NeighbourDto>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Neighbour")]
struct NeighbourDto {
    tool: String,
    kind: &'static str,
    source: &'static str,
    weight: f64,
    /// Runs with this edge.
    observations: u32,
    /// Calls of the tool asked about.
    of: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RelatedPath")]
struct PathDto {
    to: String,
    /// From the first to the last; empty if no ordered way leads there.
    steps: Vec<String>,
    cost: Option<f64>,
}

/// How often something came before or after `node`, and of how many of its calls.
pub(super) fn evidence(state: &State, node: Node, times: u32) -> (u64, u64) {
    let of = match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).calls,
        NodeKind::Capability(position) => state.capabilities.at(position).usage,
    };
    (u64::from(times), of)
}

#[expect(clippy::cast_precision_loss, reason = "calls stay far below 2^52")]
pub(super) fn share(times: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { (times as f64 / of as f64).min(1.0) }
}

/// A question for the neighbours of a tool or capability.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RelatedQuery {
    /// A tool or capability: its id, its handle, or the name of a tool that one server has.
    pub(crate) tool: String,
    /// Also the way to this one.
    pub(crate) to: Option<String>,
    pub(crate) limit: Option<usize>,
    /// A moment of the past; HTTP only.
    pub(crate) at: Option<String>,
}

impl Asker {
    /// The neighbours of a tool or capability, by the newest measures.
    pub(crate) fn related(&self, query: &RelatedQuery) -> Result<RelatedDto, Refused> {
        // The measures are read first, because the view must contain every node that they do.
        let measures = self.measures.current();
        related(&self.views.current(), &measures, query)
    }
}

/// Answers from a view and from measures that are not newer than it.
pub(crate) fn related(state: &State, measures: &Measures, query: &RelatedQuery) -> Result<RelatedDto, Refused> {
    let limit = Page { after: None, limit: query.limit }.limit(PAGE_MAX)?;
    let find = |field: &'static str, text: &str| -> Result<Node, Refused> {
        let callee = named_callee(state, field, text)?;
        state.find(&callee).ok_or_else(|| Refused::unknown(field, format!("nothing is known about '{callee}'")))
    };
    let tool = find("tool", &query.tool)?;
    let to = query.to.as_deref().map(|to| find("to", to)).transpose()?;
    Ok(RelatedDto::new(state, measures, tool, to, limit))
}

impl RelatedDto {
    /// `limit` cuts the neighbours of each direction and the mates. Withdrawn tools are not recommended, but shown as neighbours.
    fn new(state: &State, measures: &Measures, node: Node, to: Option<Node>, limit: usize) -> Self {
        let asked = node;
        let mentions = Mentions::new(state);
        let name = |node: Node| mentions.node(node);
        let offered = |node: Node| matches!(node.kind(), NodeKind::Tool(position) if state.tools.at(position).is_offered());
        let neighbour = |(node, link): (Node, Link)| NeighbourDto {
            tool: name(node),
            kind: link.kind.name(),
            source: link.source.name(),
            weight: link.weight,
            observations: link.observations,
            of: evidence(state, asked, link.observations).1,
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
                .map(|found| {
                    let (times, of) = evidence(state, asked, found.times);
                    let (tool, relation) = (name(found.tool), found.relation.name());
                    RelatedToolDto { tool, relation, score: share(times, of), times, of }
                })
                .collect(),
            neighbours: NeighboursDto { r#in: neighbours(Direction::In), out: neighbours(Direction::Out) },
            path: to.map(path),
            // The last to be computed: it has what the others mention.
            handles: mentions.handles(),
            based_on_seq: measures.applied().0,
        }
    }
}
