//! The JSON types of HTTP responses, with the conversions from domain types.

use serde::Serialize;

use crate::core::event::{TraceCompleted, TraceStep};
use crate::core::id::ExecutionId;
use crate::core::trace::OpenExecution;
use crate::log::DeadLetter;
use crate::publisher::Verdict;

/// The response to published events.
#[derive(Serialize)]
pub(super) struct PublishAnswer {
    accepted: usize,
    duplicate: usize,
    refused: usize,
    /// One per event, in the order they were sent.
    results: Vec<PublishResult>,
}

/// The response to a whole run: its id, and the results of its events.
#[derive(Serialize)]
pub(super) struct RunAnswer {
    pub(super) execution: String,
    #[serde(flatten)]
    pub(super) events: PublishAnswer,
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

/// One execution, open or closed.
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

    /// Creates it from an open execution, in the form that it would have if it were closed now.
    pub(super) fn open(execution: &'a ExecutionId, open: &OpenExecution) -> Self {
        let so_far = open.complete(execution, true);
        Self { status: "open", success: None, ended: None, ..Self::completed(execution, &so_far) }
    }
}

/// A dead letter.
#[derive(Serialize)]
pub(crate) struct DeadLetterDto {
    number: u64,
    at: String,
    reason: String,
    field: String,
    message: String,
    origin: String,
    /// The event as received, with secrets redacted; bytes that are not UTF-8 are shown as replacement characters.
    event: String,
    /// Bytes of the whole event, if it was cut. A cut event cannot be sent again.
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
