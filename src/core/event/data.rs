//! The data of each kind of event, in domain types.

mod tool;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::Json;
use crate::graph::edge::EdgeKind;
use crate::id::{Callee, ExecutionId, RecordId, Seq, SessionId, StepId, ToolId};
use crate::time::Timestamp;
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

/// A part of the model that is trained, promoted and rolled back by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelPart {
    /// The intent head: how well a tool fits an intent.
    Head,
    /// The recurrent encoder: which call follows the calls so far.
    Encoder,
    /// SHGAT: which capability an intent is about.
    Shgat,
    /// The weights that join all signals into one score.
    Ranker,
}

impl ModelPart {
    pub const ALL: [Self; 4] = [Self::Head, Self::Encoder, Self::Shgat, Self::Ranker];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Encoder => "encoder",
            Self::Shgat => "shgat",
            Self::Ranker => "ranker",
        }
    }
}

impl fmt::Display for ModelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ModelPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|part| part.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a part of the model: head, encoder, shgat or ranker"))
    }
}

/// The name of one trained version of a part: `head-` and the first digits of the digest of its parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelVersion(Arc<str>);

impl ModelVersion {
    /// Hexadecimal digits of the digest in a version.
    const DIGITS: usize = 12;

    /// The version of parameters with this digest.
    pub fn new(part: ModelPart, digest: &str) -> Self {
        Self(format!("{part}-{}", digest.get(..Self::DIGITS).unwrap_or(digest)).into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn part(&self) -> ModelPart {
        let name = self.0.split('-').next().unwrap_or_default();
        name.parse().expect("a version was checked when it was made")
    }
}

impl fmt::Display for ModelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ModelVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (part, digits) = text.split_once('-').ok_or("must be a part, '-' and digits of a digest")?;
        part.parse::<ModelPart>()?;
        let is_hex = digits.len() == Self::DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex { Ok(Self(text.into())) } else { Err(format!("'{digits}' is not {} hexadecimal digits", Self::DIGITS)) }
    }
}

/// One measured number of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelMetric {
    pub name: String,
    pub value: f64,
    /// The number of samples it is a mean of.
    pub n: u64,
}

/// A part of the model was trained and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTrained {
    pub version: ModelVersion,
    /// The version that served while it was trained.
    pub parent: Option<ModelVersion>,
    pub seed: u64,
    /// The last record that it was trained on.
    pub through_seq: Seq,
    /// The number that the next new intent of the memory had: intents with this number or a higher one are unseen.
    pub intents_end: u64,
    /// The embedding model whose vectors it takes; none if it takes no vectors.
    pub embedding_model: Option<String>,
    /// Examples learnt from, and runs that gave none.
    pub examples: u64,
    pub skipped: u64,
    /// Name and value of every setting.
    pub settings: Vec<(String, String)>,
    pub metrics: Vec<ModelMetric>,
    /// Lower-case hexadecimal BLAKE3 of the parameters, and their length in bytes.
    pub digest: String,
    pub size: u64,
    /// Whether the gate let it in, and why or why not.
    pub accepted: bool,
    pub reason: String,
}

/// A piece of the parameters of a promoted version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelParameters {
    pub version: ModelVersion,
    /// The number of this piece, from 0, and of all pieces.
    pub piece: u32,
    pub pieces: u32,
    pub bytes: Arc<[u8]>,
}

/// A trained version began to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPromoted {
    pub version: ModelVersion,
    pub reason: String,
}

/// A part went back to an earlier version, or to none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRolledBack {
    pub part: ModelPart,
    /// The version that serves from now on.
    pub to: Option<ModelVersion>,
    pub reason: String,
}
