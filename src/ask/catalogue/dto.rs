//! The shapes of tools, capabilities and edges in answers. Conversions from the domain stand here and nowhere else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ask::handles::Mentions;
use crate::core::capability::Capability;
use crate::core::event::{Json, ToolAnnotations, ToolRegistered};
use crate::core::graph::edge::{EdgeCounter, EdgeKind};
use crate::core::graph::{EdgeKey, Node, NodeKind};
use crate::core::state::State;
use crate::core::tool::Tool;
use crate::core::tool::latency::{BOUNDS_MS, BUCKETS, Latency};

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub(crate) struct ToolDto<'a> {
    tool: &'a str,
    server: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    input_schema: Option<&'a RawValue>,
    /// Of its server, or inferred from what it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    output_schema: Option<&'a RawValue>,
    /// The hints of its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<AnnotationsDto>,
    /// Called before it was registered.
    stub: bool,
    removed: bool,
    /// How its server lists it while it is in quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined: Option<QuarantineDto<'a>>,
    calls: u64,
    errors: u64,
    success_rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_duration_ms: Option<u64>,
    /// The calls by duration; missing while none reported one.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<LatencyDto>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
}

/// What a tool's server says about its effects; a hint that it does not give is absent.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Annotations")]
pub(crate) struct AnnotationsDto {
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destructive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_world: Option<bool>,
}

impl From<&ToolAnnotations> for AnnotationsDto {
    fn from(hints: &ToolAnnotations) -> Self {
        let ToolAnnotations { read_only, destructive, idempotent, open_world, title: _ } = *hints;
        Self { read_only, destructive, idempotent, open_world }
    }
}

impl From<AnnotationsDto> for ToolAnnotations {
    fn from(dto: AnnotationsDto) -> Self {
        let AnnotationsDto { read_only, destructive, idempotent, open_world } = dto;
        Self { title: None, read_only, destructive, idempotent, open_world }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quarantine")]
struct QuarantineDto<'a> {
    /// What an approval names.
    definition: String,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    input_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    output_schema: Option<&'a RawValue>,
}

impl<'a> From<&'a ToolRegistered> for QuarantineDto<'a> {
    fn from(listed: &'a ToolRegistered) -> Self {
        Self {
            definition: listed.definition(),
            description: &listed.description,
            input_schema: raw(listed.input_schema.as_ref()),
            output_schema: raw(listed.output_schema.as_ref()),
        }
    }
}

/// A histogram of durations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Latency")]
pub(crate) struct LatencyDto {
    /// Upper bounds of the buckets in milliseconds; the last bucket has none.
    bounds_ms: [u64; BOUNDS_MS.len()],
    /// The calls in each bucket, not cumulated.
    calls: [u32; BUCKETS],
}

impl LatencyDto {
    /// The histogram; `None` if it counts no call.
    pub(crate) fn new(latency: &Latency) -> Option<Self> {
        let calls = *latency.counts();
        calls.iter().any(|count| *count > 0).then_some(Self { bounds_ms: BOUNDS_MS, calls })
    }
}

impl<'a> From<&'a Tool> for ToolDto<'a> {
    fn from(tool: &'a Tool) -> Self {
        let registration = tool.registration.as_deref();
        Self {
            tool: tool.id.as_str(),
            server: tool.id.server(),
            name: registration.map_or(tool.id.name(), |registration| &registration.name),
            description: registration.map(|registration| registration.description.as_str()),
            input_schema: raw(tool.input_schema()),
            output_schema: raw(tool.output_schema()),
            annotations: registration.and_then(|registration| registration.annotations.as_ref()).map(Into::into),
            stub: tool.is_stub(),
            removed: tool.removed,
            quarantined: tool.listed.as_deref().map(Into::into),
            calls: tool.calls,
            errors: tool.calls - tool.successes,
            success_rate: tool.success_rate(),
            mean_duration_ms: tool.duration_total_ms.checked_div(tool.timed_calls),
            latency: LatencyDto::new(&tool.latency),
            last_used: tool.last_used.map(|at| at.to_string()),
        }
    }
}

fn raw(json: Option<&Json>) -> Option<&RawValue> {
    json.map(|json| serde_json::from_str(json.as_str()).expect("Json holds valid JSON"))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Capability")]
pub(crate) struct CapabilityDto<'a> {
    capability: String,
    /// The readable name, which is accepted wherever the id is.
    handle: &'a str,
    name: &'a str,
    description: &'a str,
    status: &'static str,
    level: u32,
    usage_count: u64,
    success_rate: f64,
    /// Calls in canonical order; `flow` joins their positions.
    calls: Vec<String>,
    flow: &'a [(u16, u16)],
    parents: Vec<String>,
    /// What it, and those merged into it, were used for, the latest last.
    intents: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    parameters_schema: Option<&'a RawValue>,
    /// The name that it has by itself, while a person gave it another.
    #[serde(skip_serializing_if = "Option::is_none")]
    own_name: Option<&'a str>,
    /// Approved by a person.
    approved: bool,
    /// Retired by a person: not offered any more.
    retired: bool,
    /// The capability that stands for this one too, by a person's decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_into: Option<String>,
    first_seq: u64,
    last_seq: u64,
}

impl<'a> CapabilityDto<'a> {
    pub(super) fn new(capability: &'a Capability, mentions: &Mentions<'_>) -> Self {
        Self {
            capability: capability.id.to_string(),
            handle: &capability.handle,
            name: &capability.name,
            description: &capability.description,
            status: capability.status.name(),
            level: capability.level,
            usage_count: capability.usage,
            success_rate: capability.success_rate(),
            calls: capability.structure.calls.iter().map(|call| mentions.callee(call)).collect(),
            flow: &capability.structure.flow,
            parents: mentions.nodes(&capability.parents),
            intents: mentions.state.capabilities.intents(capability.id).iter().map(ToString::to_string).collect(),
            code: capability.code.as_deref(),
            parameters_schema: raw(capability.parameters_schema.as_ref()),
            own_name: capability.decided.own_name.as_deref(),
            approved: capability.decided.own_status.is_some(),
            retired: capability.decided.retired,
            merged_into: capability.decided.merged_into.map(|into| mentions.node(Node::capability(into))),
            first_seq: capability.first_seq.0,
            last_seq: capability.last_seq.0,
        }
    }
}

/// What the graph says about one node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MeasuredNode")]
pub(crate) struct MeasuredDto {
    node: String,
    /// Of all ranks, which sum to 1.
    pagerank: f64,
    /// Called after its smallest member.
    community: String,
    /// Of a capability: 0 if it calls tools only, else one more than the highest level among those it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u32>,
}

impl MeasuredDto {
    pub(super) fn new(mentions: &Mentions<'_>, node: Node, community: Node, pagerank: f64) -> Self {
        let level = match node.kind() {
            NodeKind::Tool(_) => None,
            NodeKind::Capability(position) => Some(mentions.state.capabilities.at(position).level),
        };
        Self { node: mentions.node(node), pagerank, community: mentions.node(community), level }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Edge")]
pub(crate) struct EdgeDto {
    #[serde(skip)]
    pub(super) ends: [Node; 2],
    pub(super) from: String,
    pub(super) to: String,
    kind: &'static str,
    source: &'static str,
    pub(super) weight: f64,
    pub(super) observations: u32,
    successes: u32,
    last_seq: u64,
}

impl EdgeDto {
    pub(super) fn new(state: &State, (from, to, kind): EdgeKey, counter: &EdgeCounter) -> Self {
        Self {
            ends: [from, to],
            from: state.callee(from).to_string(),
            to: state.callee(to).to_string(),
            kind: kind.name(),
            source: counter.source().name(),
            weight: counter.weight(kind),
            observations: counter.observations,
            successes: counter.successes,
            last_seq: counter.last_seq.0,
        }
    }

    /// Membership, which the state keeps in the capability itself, as an edge.
    pub(super) fn contains(state: &State, capability: &Capability, member: Node) -> Self {
        let position = state.capabilities.position(capability.id).expect("it is in the state");
        Self::new(state, (Node::capability(position), member, EdgeKind::Contains), &capability.membership())
    }
}
