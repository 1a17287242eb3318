//! The data of each kind of event, in domain types.

mod capability;
mod model;
mod tool;

use super::Json;
use crate::graph::edge::EdgeKind;
use crate::id::{Callee, ExecutionId, RecordId, Seq, SessionId, StepId, ToolId};
use crate::time::Timestamp;
pub use capability::{CapabilityApproved, CapabilityMerged, CapabilityRenamed, CapabilityRetired};
pub use model::{
    CurvePoint, CurveStage, ModelMetric, ModelParameters, ModelPart, ModelPromoted, ModelRolledBack, ModelTrained, ModelVersion,
};
pub use tool::{ToolAnnotations, ToolApproved, ToolOutputInferred, ToolQuarantined, ToolRegistered, ToolRemoved};

/// An agent began to work towards an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionStarted {
    pub execution: ExecutionId,
    pub intent: String,
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    pub parent: Option<ExecutionId>,
}

/// A step called a tool or capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepStarted {
    pub execution: ExecutionId,
    pub step: StepId,
    pub tool: Callee,
    pub arguments: Option<Json>,
}

/// The call of a step returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFinished {
    pub execution: ExecutionId,
    pub step: StepId,
    pub tool: Callee,
    /// Steps whose output this one used (data flow, not order).
    pub depends_on: Vec<StepId>,
    pub success: bool,
    pub duration_ms: Option<u64>,
    pub error_kind: Option<String>,
    pub arguments: Option<Json>,
    pub result_summary: Option<String>,
}

/// pml called a read-only tool for a step of one of its runs before the step came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSpeculated {
    pub execution: ExecutionId,
    pub step: StepId,
    pub tool: ToolId,
    pub success: bool,
    pub duration_ms: u64,
    /// Whether the step came and took the result; otherwise it was dropped.
    pub used: bool,
}

/// The agent finished an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionFinished {
    pub execution: ExecutionId,
    pub success: bool,
    pub error: Option<String>,
    pub code: Option<String>,
}

/// A call of a declared structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureNode {
    pub id: StepId,
    pub callee: Callee,
}

/// A relation between two calls of a declared structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructureEdge {
    pub from: StepId,
    pub to: StepId,
    pub kind: EdgeKind,
}

/// The structure of a declared procedure: its calls and the relations between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredStructure {
    pub nodes: Vec<StructureNode>,
    pub edges: Vec<StructureEdge>,
}

/// A procedure was described before, or besides, its first run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityDeclared {
    pub name: String,
    pub description: String,
    pub structure: DeclaredStructure,
    pub code: Option<String>,
    pub parameters_schema: Option<Json>,
}

/// The prediction or suggestion that feedback is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackTarget {
    Prediction(RecordId),
    Suggestion(RecordId),
}

/// What a user or agent did with a prediction or suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackVerdict {
    Accepted,
    Ignored,
    Rejected,
}

impl FeedbackVerdict {
    /// Whether a prediction was right; `None` if it was ignored: what happens next says as much.
    pub const fn is_right(self) -> Option<bool> {
        match self {
            Self::Accepted => Some(true),
            Self::Rejected => Some(false),
            Self::Ignored => None,
        }
    }
}

/// Feedback about a prediction or suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackGiven {
    pub target: FeedbackTarget,
    pub verdict: FeedbackVerdict,
}

/// A workflow template was read from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateLoaded {
    pub name: String,
    pub description: String,
    /// Pairs of tools: the first comes before the second.
    pub edges: Vec<(ToolId, ToolId)>,
    /// Checksum of the content, so that an edited template is loaded again.
    pub checksum: String,
}

/// One step of a completed execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    pub step: StepId,
    pub tool: Callee,
    pub depends_on: Vec<StepId>,
    pub success: bool,
    pub duration_ms: Option<u64>,
    pub error_kind: Option<String>,
}

/// A completed execution. The record is self-contained: everything learnt from an execution is learnt from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceCompleted {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    pub intent: String,
    /// In the order they ran; `depends_on` holds the data flow.
    pub steps: Vec<TraceStep>,
    pub success: bool,
    pub started: Timestamp,
    pub ended: Timestamp,
    /// Closed by the time limit, not by the agent.
    pub abandoned: bool,
    pub code: Option<String>,
}

/// The vector of a text was computed.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingComputed {
    pub text_hash: String,
    pub model: String,
    pub vector: Vec<f32>,
}

/// What may come next in an execution: a call, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Call(Callee),
    Done,
}

/// An outcome with its predicted probability.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedOutcome {
    pub outcome: Outcome,
    pub probability: f64,
}

/// An impression: a prediction was served.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionServed {
    pub prediction: RecordId,
    pub execution: Option<ExecutionId>,
    pub based_on_seq: Seq,
    pub model: String,
    pub ranked: Vec<RankedOutcome>,
    pub threshold: f64,
}

/// The log was forked: the records before this one were copied from another log, those after it belong to this log alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogForked {
    /// The last copied record; it has the same position in the parent log.
    pub parent_seq: Seq,
    /// Digest of the state up to that record, the same in both logs.
    pub parent_digest: String,
    /// Settings that differ from those of the parent log: key and value.
    pub settings: Vec<(String, String)>,
}
