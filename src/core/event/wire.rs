//! The wire types: version 1 of the data of every kind of event, as JSON on the wire and as postcard in the log. Frozen once
//! released.
//!
//! postcard has no field names, so no field may be skipped or flattened; `codec` drops absent members when it prints JSON. The doc
//! comments become the descriptions in `schemas/`, so they are frozen too.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::whole;

mod capability;
mod carried;
mod model;

pub(crate) use capability::{CapabilityApproved, CapabilityMerged, CapabilityRenamed, CapabilityRetired};
pub(crate) use carried::{JsonText, WireBytes};
pub(crate) use model::{CurvePoint, ModelMetric, ModelParameters, ModelPromoted, ModelRolledBack, ModelTrained};

type WireText<'a> = Cow<'a, str>;

/// A tool exists, or its description changed.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolRegistered<'a> {
    /// `server:name`; `mcp__server__name`, `server__name` and `server.name` are accepted and normalised. A name without a server belongs
    /// to `server`, else to the default server.
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    /// The server of the tool; must agree with the first half of `tool`, if that names one.
    pub(crate) server: Option<WireText<'a>>,
    /// What people call it; the second half of `tool` if left out.
    pub(crate) name: Option<WireText<'a>>,
    #[serde(borrow)]
    pub(crate) description: WireText<'a>,
    /// JSON Schema of the arguments.
    #[serde(borrow)]
    pub(crate) input_schema: Option<JsonText<'a>>,
    /// JSON Schema of the result.
    #[serde(borrow)]
    pub(crate) output_schema: Option<JsonText<'a>>,
    pub(crate) annotations: Option<ToolAnnotations<'a>>,
}

/// MCP's hints about a tool's behaviour.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolAnnotations<'a> {
    pub(crate) title: Option<WireText<'a>>,
    pub(crate) read_only_hint: Option<bool>,
    pub(crate) destructive_hint: Option<bool>,
    pub(crate) idempotent_hint: Option<bool>,
    pub(crate) open_world_hint: Option<bool>,
}

/// Version 0 of `tool.registered`: the shape of the source documents and of dataset directories. Read, never written.
#[derive(Deserialize)]
pub(crate) struct ToolRegisteredV0<'a> {
    #[serde(borrow)]
    pub(crate) tool_id: WireText<'a>,
    pub(crate) server_id: Option<WireText<'a>>,
    pub(crate) name: Option<WireText<'a>>,
    pub(crate) description: Option<WireText<'a>>,
    #[serde(borrow)]
    pub(crate) input_schema: Option<JsonText<'a>>,
}

/// A tool is gone. What was learnt with it stays.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolRemoved<'a> {
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
}

/// A server lists a tool with another definition than the known one. The tool is not offered until it is approved.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct ToolQuarantined<'a>(#[serde(borrow)] pub(crate) ToolRegistered<'a>);

/// A person approved a definition of a tool in quarantine, or its server lists the known definition again.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolApproved<'a> {
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    /// Hash of the approved definition, 32 hexadecimal digits.
    #[serde(borrow)]
    pub(crate) definition: WireText<'a>,
}

/// What a tool answers, as far as its answers so far show.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolOutputInferred<'a> {
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    /// JSON Schema with types and names of members; no values.
    #[serde(borrow)]
    pub(crate) output_schema: JsonText<'a>,
}

/// An agent begins to work towards an intent.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutionStarted<'a> {
    /// Chosen by the agent, unique among its open and recent executions.
    #[serde(borrow)]
    pub(crate) execution: WireText<'a>,
    /// What is wanted, in natural language.
    #[serde(borrow)]
    pub(crate) intent: WireText<'a>,
    pub(crate) session: Option<WireText<'a>>,
    pub(crate) agent: Option<WireText<'a>>,
    /// The execution that started this one.
    pub(crate) parent: Option<WireText<'a>>,
}

/// A tool or capability is being called.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepStarted<'a> {
    #[serde(borrow)]
    pub(crate) execution: WireText<'a>,
    /// Unique within the execution.
    #[serde(borrow)]
    pub(crate) step: WireText<'a>,
    /// A tool, or `capability:<id>`.
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    /// Secrets are redacted before they are stored.
    #[serde(borrow)]
    pub(crate) arguments: Option<JsonText<'a>>,
}

/// A call returned.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepFinished<'a> {
    #[serde(borrow)]
    pub(crate) execution: WireText<'a>,
    #[serde(borrow)]
    pub(crate) step: WireText<'a>,
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    /// Steps whose output this one used.
    #[serde(default, borrow)]
    pub(crate) depends_on: Vec<WireText<'a>>,
    pub(crate) success: bool,
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) duration_ms: Option<u64>,
    /// A short word for the failure: timeout, refused, `not_found`.
    pub(crate) error_kind: Option<WireText<'a>>,
    #[serde(borrow)]
    pub(crate) arguments: Option<JsonText<'a>>,
    pub(crate) result_summary: Option<WireText<'a>>,
}

/// A read-only call of a run was made before its step came.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepSpeculated<'a> {
    #[serde(borrow)]
    pub(crate) execution: WireText<'a>,
    #[serde(borrow)]
    pub(crate) step: WireText<'a>,
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    pub(crate) success: bool,
    pub(crate) duration_ms: u64,
    /// Whether the step took the result; otherwise it was dropped.
    pub(crate) used: bool,
}

/// The agent is done with an execution.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutionFinished<'a> {
    #[serde(borrow)]
    pub(crate) execution: WireText<'a>,
    pub(crate) success: bool,
    pub(crate) error: Option<WireText<'a>>,
    /// The program that was run, or `capability:<id>` of the capability that was, if the execution was one.
    pub(crate) code: Option<WireText<'a>>,
}

/// Somebody describes a procedure before, or beside, its first run.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapabilityDeclared<'a> {
    #[serde(borrow)]
    pub(crate) name: WireText<'a>,
    #[serde(borrow)]
    pub(crate) description: WireText<'a>,
    #[serde(borrow)]
    pub(crate) structure: DeclaredStructure<'a>,
    pub(crate) code: Option<WireText<'a>>,
    #[serde(borrow)]
    pub(crate) parameters_schema: Option<JsonText<'a>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Structure")]
pub(crate) struct DeclaredStructure<'a> {
    #[serde(borrow)]
    pub(crate) nodes: Vec<StructureNode<'a>>,
    #[serde(default, borrow)]
    pub(crate) edges: Vec<StructureEdge<'a>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StructureNode<'a> {
    #[serde(borrow)]
    pub(crate) id: WireText<'a>,
    /// A tool, or `capability:<id>`.
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StructureEdge<'a> {
    #[serde(borrow)]
    pub(crate) from: WireText<'a>,
    #[serde(borrow)]
    pub(crate) to: WireText<'a>,
    pub(crate) kind: StructureEdgeKind,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StructureEdgeKind {
    Sequence,
    Provides,
    Conditional,
    Contains,
}

/// What became of a prediction or suggestion. Exactly one of `prediction` and `suggestion` is given.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeedbackGiven<'a> {
    pub(crate) prediction: Option<WireText<'a>>,
    pub(crate) suggestion: Option<WireText<'a>>,
    pub(crate) verdict: FeedbackVerdict,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Verdict")]
pub(crate) enum FeedbackVerdict {
    Accepted,
    Ignored,
    Rejected,
}

/// A workflow template was read from the configuration. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateLoaded<'a> {
    #[serde(borrow)]
    pub(crate) name: WireText<'a>,
    #[serde(borrow)]
    pub(crate) description: WireText<'a>,
    /// Pairs of tools: the first comes before the second.
    pub(crate) edges: Vec<(WireText<'a>, WireText<'a>)>,
    #[serde(borrow)]
    pub(crate) checksum: WireText<'a>,
}

/// A finished execution, self-contained. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceCompleted<'a> {
    #[serde(borrow)]
    pub(crate) execution: WireText<'a>,
    pub(crate) session: Option<WireText<'a>>,
    pub(crate) agent: Option<WireText<'a>>,
    #[serde(borrow)]
    pub(crate) intent: WireText<'a>,
    /// In the order they ran.
    #[serde(borrow)]
    pub(crate) steps: Vec<TraceStep<'a>>,
    pub(crate) success: bool,
    /// Microseconds since 1970, UTC.
    pub(crate) started_us: i64,
    /// Microseconds since 1970, UTC.
    pub(crate) ended_us: i64,
    /// Closed by the time limit, not by the agent.
    pub(crate) abandoned: bool,
    pub(crate) code: Option<WireText<'a>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceStep<'a> {
    #[serde(borrow)]
    pub(crate) step: WireText<'a>,
    #[serde(borrow)]
    pub(crate) tool: WireText<'a>,
    #[serde(borrow)]
    pub(crate) depends_on: Vec<WireText<'a>>,
    pub(crate) success: bool,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) error_kind: Option<WireText<'a>>,
}

/// The vector of a text. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingComputed<'a> {
    /// Lower-case hexadecimal BLAKE3 of the text.
    #[serde(borrow)]
    pub(crate) text_hash: WireText<'a>,
    #[serde(borrow)]
    pub(crate) model: WireText<'a>,
    /// Length of `vector`.
    pub(crate) dim: u32,
    pub(crate) vector: Vec<f32>,
}

/// A prediction was given to somebody: an impression, needed to measure and to learn. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PredictionServed<'a> {
    #[serde(borrow)]
    pub(crate) prediction: WireText<'a>,
    pub(crate) execution: Option<WireText<'a>>,
    /// The last record the answer rests on.
    pub(crate) based_on_seq: u64,
    #[serde(borrow)]
    pub(crate) model: WireText<'a>,
    #[serde(borrow)]
    pub(crate) ranked: Vec<RankedOutcome<'a>>,
    pub(crate) threshold: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RankedOutcome<'a> {
    /// A tool, `capability:<id>`, or `done`.
    #[serde(borrow)]
    pub(crate) item: WireText<'a>,
    pub(crate) p: f64,
}

/// A log begins as a copy of another up to a moment and goes its own way after it. Written by pml.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogForked<'a> {
    /// The last record taken over; it has the same position in both logs.
    pub(crate) parent_seq: u64,
    /// Digest of the state up to there, the same in both logs.
    #[serde(borrow)]
    pub(crate) parent_digest: WireText<'a>,
    /// Pairs of key and value: what is configured otherwise than in the log it came from.
    pub(crate) settings: Vec<(WireText<'a>, WireText<'a>)>,
}
