//! The shapes of tools, capabilities and edges in answers. Conversions from the domain stand here and nowhere else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::capability::Capability;
use crate::core::event::{Json, ToolAnnotations, ToolRegistered};
use crate::core::graph::edge::{EdgeCounter, EdgeKind};
use crate::core::graph::{EdgeKey, Node};
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
    intents: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    parameters_schema: Option<&'a RawValue>,
    first_seq: u64,
    last_seq: u64,
}

impl<'a> CapabilityDto<'a> {
    pub(super) fn new(capability: &'a Capability, state: &State) -> Self {
        Self {
            capability: capability.id.to_string(),
            handle: &capability.handle,
            name: &capability.name,
            description: &capability.description,
            status: capability.status.name(),
            level: capability.level,
            usage_count: capability.usage,
            success_rate: capability.success_rate(),
            calls: capability.structure.calls.iter().map(ToString::to_string).collect(),
            flow: &capability.structure.flow,
            parents: capability.parents.iter().map(|parent| state.callee(*parent).to_string()).collect(),
            intents: capability.intents.iter().map(AsRef::as_ref).collect(),
            code: capability.code.as_deref(),
            parameters_schema: raw(capability.parameters_schema.as_ref()),
            first_seq: capability.first_seq.0,
            last_seq: capability.last_seq.0,
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Edge")]
pub(crate) struct EdgeDto {
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
