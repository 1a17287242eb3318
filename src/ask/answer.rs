//! Wire types of the answers to `discover` and its deprecated predecessors (S4 AC4).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::handles::{Handles, Mentions};
use super::{is_offered, only_name};
use crate::core::event::Json;
use crate::core::graph::measures::Measures;
use crate::core::graph::{Node, NodeKind};
use crate::core::rank::discover::{Discovery, Hit, ItemFilter};
use crate::core::rank::search::{FoundTools, ToolHit};
use crate::core::state::State;

/// The answer to `discover`: ranked tools and capabilities.
#[derive(Serialize, JsonSchema)]
pub struct DiscoverAnswer {
    results: Vec<ItemDto>,
    meta: MetaDto,
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DiscoverMeta")]
struct MetaDto {
    query: String,
    filter_type: &'static str,
    /// The number of items that passed the filter; `returned_count` of them are returned.
    total_found: usize,
    returned_count: usize,
    tools_count: usize,
    capabilities_count: usize,
    /// The `offset` of the next page; missing on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DiscoverItem")]
struct ItemDto {
    r#type: &'static str,
    id: String,
    /// The readable name of a capability, which is accepted wherever its id is.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    /// False for a tool that was called and never registered.
    registered: bool,
    name: String,
    description: String,
    score: f64,
    /// What each signal adds; the values add up to the score.
    signals: BTreeMap<&'static str, f64>,
    semantic_score: f64,
    success_rate: f64,
    usage_count: u64,
    /// The most similar past intent that succeeded with this item.
    #[serde(skip_serializing_if = "Option::is_none")]
    similar_intent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related_tools: Option<Vec<RelatedToolDto>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_snippet: Option<String>,
    /// The callees of a capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DiscoverRelatedTool")]
struct RelatedToolDto {
    tool_id: String,
    relation: &'static str,
    /// The share of the calls of this tool that it came before or after: `times` of `of`.
    score: f64,
    times: u64,
    of: u64,
}

impl DiscoverAnswer {
    pub(super) fn new(state: &State, query: &str, only: ItemFilter, found: &Discovery, measures: Option<&Measures>) -> Self {
        let mentions = Mentions::new(state);
        let results: Vec<ItemDto> = found.hits.iter().map(|hit| ItemDto::new(&mentions, hit, measures)).collect();
        let meta = MetaDto {
            query: query.to_owned(),
            filter_type: only_name(only),
            total_found: found.tools + found.capabilities,
            returned_count: results.len(),
            tools_count: found.tools,
            capabilities_count: found.capabilities,
            next_offset: None,
            based_on_seq: state.applied().0,
        };
        Self { results, meta, handles: mentions.handles(), deprecated: None }.beginning_at(0)
    }

    /// Says where the next page begins, for a page that begins at `offset`.
    pub(super) fn beginning_at(mut self, offset: usize) -> Self {
        let next = offset + self.results.len();
        self.meta.next_offset = (!self.results.is_empty() && next < self.meta.total_found).then_some(next);
        self
    }

    /// Replaces the signals of every result.
    pub(super) fn with_signals(mut self, signals: &BTreeMap<&'static str, f64>) -> Self {
        self.results.iter_mut().for_each(|result| result.signals.clone_from(signals));
        self
    }

    pub(super) fn deprecated(self, instead: &'static str) -> Self {
        Self { deprecated: Some(instead), ..self }
    }
}

impl ItemDto {
    fn new(mentions: &Mentions<'_>, hit: &Hit, measures: Option<&Measures>) -> Self {
        let mut item = Self {
            r#type: "tool",
            id: String::new(),
            handle: None,
            registered: true,
            name: String::new(),
            description: String::new(),
            score: hit.score,
            signals: hit.signals().into_iter().collect(),
            semantic_score: hit.semantic,
            success_rate: hit.success_rate,
            usage_count: 0,
            similar_intent: hit.similar_intent.clone(),
            server_id: None,
            input_schema: None,
            related_tools: None,
            code_snippet: None,
            tools: None,
        };
        match hit.node.kind() {
            NodeKind::Tool(position) => item.describe_tool(mentions.state, position, measures),
            NodeKind::Capability(position) => item.describe_capability(mentions, position),
        }
        item
    }

    fn describe_tool(&mut self, state: &State, position: u32, measures: Option<&Measures>) {
        let tool = state.tools.at(position);
        self.id = tool.id.to_string();
        self.server_id = Some(tool.id.server().to_owned());
        tool.id.name().clone_into(&mut self.name);
        self.registered = !tool.is_stub();
        self.usage_count = tool.calls;
        if let Some(registration) = &tool.registration {
            self.description.clone_from(&registration.description);
            self.input_schema = registration.input_schema.as_ref().map(parsed);
        }
        self.related_tools = measures.map(|measures| related(state, measures, Node::tool(position)));
    }

    fn describe_capability(&mut self, mentions: &Mentions<'_>, position: u32) {
        let capability = mentions.state.capabilities.at(position);
        self.r#type = "capability";
        self.id = capability.id.to_string();
        self.handle = Some(capability.handle.to_string());
        self.name.clone_from(&capability.name);
        self.description.clone_from(&capability.description);
        self.usage_count = capability.usage;
        self.code_snippet.clone_from(&capability.code);
        self.input_schema = capability.parameters_schema.as_ref().map(parsed);
        self.tools = Some(mentions.nodes(&capability.members));
    }
}

/// Parses JSON that the state keeps as text; it was checked when it came in.
fn parsed(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or(Value::Null)
}

fn related(state: &State, measures: &Measures, node: Node) -> Vec<RelatedToolDto> {
    let related = measures.related_tools(node, |node| is_offered(state, node));
    let dto = related.into_iter().map(|related| {
        let (times, of) = super::related::evidence(state, node, related.times);
        let (tool_id, relation) = (state.callee(related.tool).to_string(), related.relation.name());
        RelatedToolDto { tool_id, relation, score: super::related::share(times, of), times, of }
    });
    dto.collect()
}

/// The answer to the deprecated `search_tools`.
#[derive(Serialize, JsonSchema)]
pub struct SearchToolsAnswer {
    tools: Vec<ToolDto>,
    meta: SearchMetaDto,
    deprecated: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SearchMeta")]
struct SearchMetaDto {
    query: String,
    /// The weight of the text; the rest is the weight of the proximity to the tools in use.
    alpha: f64,
    total_found: usize,
    returned_count: usize,
    based_on_seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FoundTool")]
struct ToolDto {
    tool_id: String,
    server_id: String,
    description: String,
    final_score: f64,
    semantic_score: f64,
    graph_score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related_tools: Option<Vec<RelatedToolDto>>,
}

impl SearchToolsAnswer {
    pub(super) fn new(state: &State, query: &str, found: &FoundTools, measures: &Measures, with_related: bool) -> Self {
        let mentions = Mentions::new(state);
        let tool = |ToolHit { hit, graph, score }: &ToolHit| {
            let item = ItemDto::new(&mentions, hit, with_related.then_some(measures));
            ToolDto {
                tool_id: item.id,
                server_id: item.server_id.unwrap_or_default(),
                description: item.description,
                final_score: *score,
                semantic_score: hit.semantic,
                graph_score: *graph,
                input_schema: item.input_schema,
                related_tools: item.related_tools,
            }
        };
        let tools: Vec<ToolDto> = found.hits.iter().map(tool).collect();
        let meta = SearchMetaDto {
            query: query.to_owned(),
            alpha: found.alpha,
            total_found: found.total,
            returned_count: tools.len(),
            based_on_seq: state.applied().0,
        };
        Self { tools, meta, deprecated: "use discover" }
    }
}
