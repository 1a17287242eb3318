//! A run as JSON: the same document over HTTP, MCP, NATS and the command line.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::code::RESULT;
use super::request::plan_json;
use super::{RunState, RunStatus, Runner, TaskState, TaskStatus};
use crate::ask::handles::{Handles, Mentions};
use crate::core::id::{Callee, StepId};
use crate::core::name::handle;
use crate::core::redact;

/// A run with the results of its tasks, as far as they are small.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub struct RunDto {
    run: String,
    /// running, `approval_required`, succeeded, failed, aborted or interrupted.
    status: &'static str,
    intent: String,
    /// The suggestion that it follows: `suggestion` (its id), confidence, threshold and whether it is sure.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Value>,
    /// The token with which the run is continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The tasks that need approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approve: Vec<String>,
    tasks: Vec<TaskDto>,
    /// The handles of the capabilities among the tools.
    #[serde(skip_serializing_if = "Handles::is_empty")]
    handles: Handles,
    #[serde(flatten)]
    program: Option<ProgramDto>,
}

/// What came of a program. The results of its calls are not part of the answer: it returns what matters.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunOfProgram")]
struct ProgramDto {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// Bytes of a result that is too large for this answer; it is fetched like that of a task, by the name `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
    #[serde(skip_serializing_if = "String::is_empty")]
    console: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorDto>,
    /// The capability that it is, and its readable name, as soon as it is learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    capability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunTask")]
struct TaskDto {
    id: String,
    tool: String,
    depends_on: Vec<String>,
    /// waiting, running, succeeded, failed or skipped.
    status: &'static str,
    /// Whether the result comes from a call that was made before its turn.
    #[serde(skip_serializing_if = "is_false")]
    speculated: bool,
    #[serde(skip_serializing_if = "is_at_most_one")]
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorDto>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// Bytes of a result that is too large for this answer; it is fetched by its own route, in pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TaskError")]
struct ErrorDto {
    kind: String,
    message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_at_most_one(attempts: &u32) -> bool {
    *attempts <= 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl RunDto {
    /// The document of a run, with results of at most `result_bytes_max` each.
    pub fn new(status: &RunStatus, runner: &Runner, result_bytes_max: usize) -> Self {
        let view = runner.view();
        let mentions = Mentions::new(&view);
        let (token, approve) = match &status.state {
            RunState::ApprovalRequired { token, tasks } => {
                (Some(token.clone()), tasks.iter().map(ToString::to_string).collect())
            }
            _ => (None, Vec::new()),
        };
        let small = |task: &StepId, bytes: Option<usize>| {
            let is_small = bytes.is_some_and(|bytes| bytes <= result_bytes_max);
            is_small.then(|| runner.result(&status.run, task).ok()).flatten().map(|value| Value::clone(&value))
        };
        let result = |task: &TaskStatus| small(&task.task, task.result_bytes.filter(|_| status.program.is_none()));
        let program = status.program.as_ref().map(|program| {
            let result = small(&RESULT.parse().expect("a word is a step id"), program.result_bytes);
            let mut console = program.console.clone();
            redact::cut(&mut console, result_bytes_max);
            ProgramDto {
                result_bytes: program.result_bytes.filter(|_| result.is_none()),
                result,
                console,
                error: program.error.clone().map(|(kind, message)| ErrorDto { kind, message }),
                capability: program.capability.map(|id| id.to_string()),
                handle: program.capability.and_then(|id| handle(&view, view.find(&Callee::Capability(id))?)).map(str::to_owned),
            }
        });
        Self {
            run: status.run.to_string(),
            status: status.state.name(),
            intent: status.intent.clone(),
            plan: status.plan.as_ref().map(plan_json),
            token,
            approve,
            tasks: status.tasks.iter().map(|task| TaskDto::new(task, result(task), &mentions)).collect(),
            program,
            handles: mentions.handles(),
        }
    }
}

impl TaskDto {
    fn new(task: &TaskStatus, result: Option<Value>, mentions: &Mentions<'_>) -> Self {
        let error = match &task.state {
            TaskState::Failed { kind, problem } => Some(ErrorDto { kind: kind.clone(), message: problem.clone() }),
            _ => None,
        };
        Self {
            id: task.task.to_string(),
            tool: mentions.callee(&task.tool),
            depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
            status: task.state.name(),
            speculated: task.speculated,
            attempts: task.attempts,
            duration_ms: task.duration_ms,
            error,
            result_bytes: task.result_bytes.filter(|_| result.is_none()),
            result,
        }
    }
}
