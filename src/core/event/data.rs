//! What each kind of event says, in the domain's own types.

use super::Json;
use crate::core::graph::edge::EdgeKind;
use crate::core::id::{Callee, ExecutionId, RecordId, Seq, SessionId, StepId, ToolId};
use crate::core::time::Timestamp;

/// What MCP servers say about a tool's behaviour; each hint may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    pub title: Option<String>,
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRegistered {
    pub tool: ToolId,
    /// What people call it; often the second half of the id.
    pub name: String,
    pub description: String,
    pub input_schema: Option<Json>,
    pub output_schema: Option<Json>,
    pub annotations: Option<ToolAnnotations>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRemoved {
    pub tool: ToolId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionStarted {
    pub execution: ExecutionId,
    pub intent: String,
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    pub parent: Option<ExecutionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepStarted {
    pub execution: ExecutionId,
    pub step: StepId,
    pub tool: Callee,
    pub arguments: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFinished {
    pub execution: ExecutionId,
    pub step: StepId,
    pub tool: Callee,
    /// Steps whose output this one used: data flow, not mere order.
    pub depends_on: Vec<StepId>,
    pub success: bool,
    pub duration_ms: Option<u64>,
    pub error_kind: Option<String>,
    pub arguments: Option<Json>,
    pub result_summary: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionFinished {
    pub execution: ExecutionId,
    pub success: bool,
    pub error: Option<String>,
    pub code: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureNode {
    pub id: StepId,
    pub callee: Callee,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureEdge {
    pub from: StepId,
    pub to: StepId,
    pub kind: EdgeKind,
}

/// The shape of a declared procedure: calls, and how they hang together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    pub nodes: Vec<StructureNode>,
    pub edges: Vec<StructureEdge>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityDeclared {
    pub name: String,
    pub description: String,
    pub structure: Structure,
    pub code: Option<String>,
    pub parameters_schema: Option<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackTarget {
    Prediction(RecordId),
    Suggestion(RecordId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Ignored,
    Rejected,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackGiven {
    pub target: FeedbackTarget,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateLoaded {
    pub name: String,
    pub description: String,
    /// The left tool comes before the right one.
    pub edges: Vec<(ToolId, ToolId)>,
    /// Of the template's content, so that an edited template is loaded anew.
    pub checksum: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    pub step: StepId,
    pub tool: Callee,
    pub depends_on: Vec<StepId>,
    pub success: bool,
    pub duration_ms: Option<u64>,
    pub error_kind: Option<String>,
}

/// A finished execution, self-contained: everything learnt from an execution is learnt from this record alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceCompleted {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    pub intent: String,
    /// In the order they ran; `depends_on` carries the data-flow edges.
    pub steps: Vec<TraceStep>,
    pub success: bool,
    pub started: Timestamp,
    pub ended: Timestamp,
    /// Closed by the time limit, not by the agent.
    pub abandoned: bool,
    pub code: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingComputed {
    pub text_hash: String,
    pub model: String,
    pub vector: Vec<f32>,
}

/// What a prediction ranks: a call, or that the work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Call(Callee),
    Done,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RankedOutcome {
    pub outcome: Outcome,
    pub probability: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PredictionServed {
    pub prediction: RecordId,
    pub execution: Option<ExecutionId>,
    pub based_on_seq: Seq,
    pub model: String,
    pub ranked: Vec<RankedOutcome>,
    pub threshold: f64,
}

/// From here on this log goes its own way: what stands before is another log's history, what follows happened here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogForked {
    /// The last record taken over. It stands at the same position in the log this one came from.
    pub parent_seq: Seq,
    /// Digest of the state up to there, the same in both.
    pub parent_digest: String,
    /// Settings this log runs under, other than its parent: key and value.
    pub settings: Vec<(String, String)>,
}
