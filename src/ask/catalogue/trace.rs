//! One execution, open or among the latest traces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Refused;
use crate::ask::handles::{Handles, Mentions};
use crate::core::event::{TraceCompleted, TraceStep};
use crate::core::id::ExecutionId;
use crate::core::state::State;
use crate::core::trace::OpenExecution;

/// A question for one execution.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceQuery {
    pub(crate) execution: String,
}

pub(crate) fn trace(view: &State, query: &TraceQuery) -> Result<Value, Refused> {
    let execution: ExecutionId = query.execution.parse().map_err(|problem| Refused::invalid("execution", problem))?;
    if let Some(trace) = view.executions.trace(&execution) {
        return Ok(json!(TraceDto::completed(view, &execution, &trace)));
    }
    match view.executions.get(&execution) {
        Some(open) => Ok(json!(TraceDto::open(view, &execution, open))),
        None => Err(Refused::unknown("execution", format!("'{execution}' is neither open nor among the latest traces"))),
    }
}

/// One execution, open or closed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trace")]
pub(crate) struct TraceDto<'a> {
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
    /// The handles of the capabilities that stand in the answer by id alone.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TraceStep")]
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

impl StepDto {
    fn new(step: &TraceStep, mentions: &Mentions<'_>) -> Self {
        Self {
            step: step.step.to_string(),
            tool: mentions.callee(&step.tool),
            depends_on: step.depends_on.iter().map(ToString::to_string).collect(),
            success: step.success,
            duration_ms: step.duration_ms,
            error_kind: step.error_kind.clone(),
        }
    }
}

impl<'a> TraceDto<'a> {
    fn completed(view: &State, execution: &'a ExecutionId, trace: &TraceCompleted) -> Self {
        let mentions = Mentions::new(view);
        Self {
            execution: execution.as_str(),
            status: if trace.abandoned { "abandoned" } else { "completed" },
            intent: trace.intent.clone(),
            success: Some(trace.success),
            started: trace.started.to_string(),
            ended: Some(trace.ended.to_string()),
            steps: trace.steps.iter().map(|step| StepDto::new(step, &mentions)).collect(),
            handles: mentions.handles(),
        }
    }

    /// Creates it from an open execution, in the form that it would have if it were closed now.
    fn open(view: &State, execution: &'a ExecutionId, open: &OpenExecution) -> Self {
        let so_far = open.complete(execution, true);
        Self { status: "open", success: None, ended: None, ..Self::completed(view, execution, &so_far) }
    }
}
