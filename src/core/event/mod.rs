//! The facts pml keeps, as a closed enum. Names are past participles: an event happened and cannot be refused any more.
//!
//! Domain types here, wire types in `wire`, the way between them in `codec`, the CloudEvents envelope in `cloud`, JSON Schemas in
//! `schema`. A released wire version is frozen: change means a new version, an upcast and a new sample in `schemas/event/`.

pub mod cloud;
pub mod codec;
pub mod kind;
pub mod schema;
pub mod stored;
pub(crate) mod wire;

use std::fmt;
use std::sync::Arc;

use super::graph::edge::EdgeKind;
use super::id::{Callee, ExecutionId, RecordId, Seq, SessionId, StepId, ToolId};
use super::time::Timestamp;
pub use kind::Kind;

/// A fact on its way into the log.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub id: RecordId,
    /// When it happened, by the producer's clock.
    pub time: Timestamp,
    /// Who says so: a URI reference, as CloudEvents has it.
    pub source: Arc<str>,
    /// The record that caused this one.
    pub causation: Option<RecordId>,
    pub event: Event,
}

/// A fact in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub seq: Seq,
    /// When the log took it, by the log's clock. The fold never looks at it.
    pub recorded_at: Timestamp,
    /// Shared: the log, the folds and the readers all hold the same copy.
    pub fact: Arc<NewRecord>,
}

impl Record {
    pub fn event(&self) -> &Event {
        &self.fact.event
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    ToolRegistered(ToolRegistered),
    ToolRemoved(ToolRemoved),
    ExecutionStarted(ExecutionStarted),
    StepStarted(StepStarted),
    StepFinished(StepFinished),
    ExecutionFinished(ExecutionFinished),
    CapabilityDeclared(CapabilityDeclared),
    FeedbackGiven(FeedbackGiven),
    TemplateLoaded(TemplateLoaded),
    TraceCompleted(TraceCompleted),
    EmbeddingComputed(EmbeddingComputed),
    PredictionServed(PredictionServed),
}

impl Event {
    pub fn kind(&self) -> Kind {
        match self {
            Self::ToolRegistered(_) => Kind::ToolRegistered,
            Self::ToolRemoved(_) => Kind::ToolRemoved,
            Self::ExecutionStarted(_) => Kind::ExecutionStarted,
            Self::StepStarted(_) => Kind::StepStarted,
            Self::StepFinished(_) => Kind::StepFinished,
            Self::ExecutionFinished(_) => Kind::ExecutionFinished,
            Self::CapabilityDeclared(_) => Kind::CapabilityDeclared,
            Self::FeedbackGiven(_) => Kind::FeedbackGiven,
            Self::TemplateLoaded(_) => Kind::TemplateLoaded,
            Self::TraceCompleted(_) => Kind::TraceCompleted,
            Self::EmbeddingComputed(_) => Kind::EmbeddingComputed,
            Self::PredictionServed(_) => Kind::PredictionServed,
        }
    }

    /// The execution this event belongs to, if it belongs to one.
    pub fn execution(&self) -> Option<&ExecutionId> {
        match self {
            Self::ExecutionStarted(event) => Some(&event.execution),
            Self::StepStarted(event) => Some(&event.execution),
            Self::StepFinished(event) => Some(&event.execution),
            Self::ExecutionFinished(event) => Some(&event.execution),
            Self::TraceCompleted(event) => Some(&event.execution),
            Self::PredictionServed(event) => event.execution.as_ref(),
            Self::ToolRegistered(_)
            | Self::ToolRemoved(_)
            | Self::CapabilityDeclared(_)
            | Self::FeedbackGiven(_)
            | Self::TemplateLoaded(_)
            | Self::EmbeddingComputed(_) => None,
        }
    }
}

/// Valid JSON in compact form. The core carries it and never looks inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// The caller has parsed and printed it.
    pub(crate) fn from_valid(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
