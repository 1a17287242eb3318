//! The shapes HTTP answers have. Conversions from the domain stand here and nowhere else.

pub(crate) mod related;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::actors::execution::Verdict;
use crate::core::capability::Capability;
use crate::core::event::{Json, TraceCompleted, TraceStep};
use crate::core::graph::edge::{EdgeCounter, EdgeKind};
use crate::core::graph::{EdgeKey, Node};
use crate::core::id::ExecutionId;
use crate::core::state::State;
use crate::core::tool::Tool;
use crate::core::trace::OpenExecution;
use crate::dead::DeadLetter;

#[derive(Serialize)]
pub(super) struct PublishAnswer {
    accepted: usize,
    duplicate: usize,
    refused: usize,
    /// One per event, in the order they were sent.
    results: Vec<PublishResult>,
}

#[derive(Serialize)]
struct PublishResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<RefusalDto>>,
}

#[derive(Serialize)]
struct RefusalDto {
    reason: &'static str,
    field: String,
    message: String,
}

impl PublishAnswer {
    pub(super) fn new(ids: Vec<Option<String>>, verdicts: Vec<Verdict>) -> Self {
        let count = |status: &str, results: &[PublishResult]| results.iter().filter(|result| result.status == status).count();
        let results: Vec<PublishResult> =
            ids.into_iter().zip(verdicts).map(|(id, verdict)| publish_result(id, &verdict)).collect();
        Self {
            accepted: count("accepted", &results),
            duplicate: count("duplicate", &results),
            refused: count("refused", &results),
            results,
        }
    }
}

fn publish_result(id: Option<String>, verdict: &Verdict) -> PublishResult {
    let (status, seq, error) = match verdict {
        Verdict::Accepted { seq } => ("accepted", Some(seq.0), None),
        Verdict::Duplicate { seq } => ("duplicate", Some(seq.0), None),
        Verdict::Refused(refusal) => {
            let (reason, field) = (refusal.reason(), refusal.field().to_owned());
            ("refused", None, Some(Box::new(RefusalDto { reason, field, message: refusal.to_string() })))
        }
    };
    PublishResult { id, status, seq, error }
}

#[derive(Serialize)]
pub(super) struct ToolDto<'a> {
    tool: &'a str,
    server: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    /// Called before it was registered.
    stub: bool,
    removed: bool,
    calls: u64,
    success_rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
}

impl<'a> From<&'a Tool> for ToolDto<'a> {
    fn from(tool: &'a Tool) -> Self {
        let registration = tool.registration.as_deref();
        Self {
            tool: tool.id.as_str(),
            server: tool.id.server(),
            name: registration.map_or(tool.id.name(), |registration| &registration.name),
            description: registration.map(|registration| registration.description.as_str()),
            input_schema: registration.and_then(|registration| raw(registration.input_schema.as_ref())),
            stub: tool.is_stub(),
            removed: tool.removed,
            calls: tool.calls,
            success_rate: tool.success_rate(),
            mean_duration_ms: tool.duration_total_ms.checked_div(tool.timed_calls),
            last_used: tool.last_used.map(|at| at.to_string()),
        }
    }
}

fn raw(json: Option<&Json>) -> Option<&RawValue> {
    json.map(|json| serde_json::from_str(json.as_str()).expect("Json holds valid JSON"))
}

#[derive(Serialize)]
pub(super) struct CapabilityDto<'a> {
    capability: String,
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
    parameters_schema: Option<&'a RawValue>,
    first_seq: u64,
    last_seq: u64,
}

impl<'a> CapabilityDto<'a> {
    pub(super) fn new(capability: &'a Capability, state: &State) -> Self {
        Self {
            capability: capability.id.to_string(),
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

#[derive(Serialize)]
pub(super) struct EdgeDto {
    from: String,
    to: String,
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

#[derive(Serialize)]
pub(super) struct TraceDto<'a> {
    execution: &'a str,
    /// open, completed or abandoned.
    status: &'static str,
    intent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    steps: Vec<StepDto>,
}

#[derive(Serialize)]
struct StepDto {
    step: String,
    tool: String,
    depends_on: Vec<String>,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<String>,
}

impl From<&TraceStep> for StepDto {
    fn from(step: &TraceStep) -> Self {
        Self {
            step: step.step.to_string(),
            tool: step.tool.to_string(),
            depends_on: step.depends_on.iter().map(ToString::to_string).collect(),
            success: step.success,
            duration_ms: step.duration_ms,
            error_kind: step.error_kind.clone(),
        }
    }
}

impl<'a> TraceDto<'a> {
    pub(super) fn completed(execution: &'a ExecutionId, trace: &TraceCompleted) -> Self {
        Self {
            execution: execution.as_str(),
            status: if trace.abandoned { "abandoned" } else { "completed" },
            intent: trace.intent.clone(),
            success: Some(trace.success),
            started: trace.started.to_string(),
            ended: Some(trace.ended.to_string()),
            steps: trace.steps.iter().map(Into::into).collect(),
        }
    }

    /// What is known so far, in the form it would have if it were closed here.
    pub(super) fn open(execution: &'a ExecutionId, open: &OpenExecution) -> Self {
        let so_far = open.complete(execution, true);
        Self { status: "open", success: None, ended: None, ..Self::completed(execution, &so_far) }
    }
}

#[derive(Serialize)]
pub(crate) struct DeadLetterDto {
    number: u64,
    at: String,
    reason: String,
    field: String,
    message: String,
    origin: String,
    /// The event as received, without its secrets; bytes that are not UTF-8 are shown as replacement characters.
    event: String,
    /// How many bytes it had, if it was cut. It cannot be sent again then.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_from: Option<u64>,
}

impl From<DeadLetter> for DeadLetterDto {
    fn from(DeadLetter { number, at, letter }: DeadLetter) -> Self {
        Self {
            number,
            at: at.to_string(),
            reason: letter.reason,
            field: letter.field,
            message: letter.message,
            origin: letter.origin,
            event: String::from_utf8_lossy(&letter.bytes).into_owned(),
            cut_from: letter.cut_from,
        }
    }
}
