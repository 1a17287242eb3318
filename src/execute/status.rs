//! What callers see of a run, and why one was refused.

use serde_json::Value;

use super::code::ProgramStatus;
use super::request::FollowedPlan;
use crate::code::ReadError;
use crate::core::id::{Callee, ExecutionId, StepId};
use crate::core::workflow::WorkflowError;
use crate::core::workflow::capability::CapabilityError;
use crate::upstream::CallError;

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// Somebody has to approve the calls of `tasks` with the token. Of a workflow, nothing has run; of a program, the calls before.
    ApprovalRequired {
        token: String,
        tasks: Vec<StepId>,
    },
    Succeeded,
    /// At least one task failed; those that did not depend on it were run.
    Failed,
    Aborted,
    /// Its process ended; it can be resumed.
    Interrupted,
}

impl RunState {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::ApprovalRequired { .. } => "approval_required",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The state of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    Waiting,
    Running,
    Succeeded,
    /// A stable word for the failure, and what was said, redacted.
    Failed {
        kind: String,
        problem: String,
    },
    /// Not run, because a task it depends on failed, or the run was aborted.
    Skipped,
}

impl TaskState {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One task of a run.
#[derive(Clone, Debug)]
pub struct TaskStatus {
    pub task: StepId,
    pub tool: Callee,
    pub depends_on: Vec<StepId>,
    pub state: TaskState,
    /// Whether its result comes from a call that was made before its turn.
    pub speculated: bool,
    pub attempts: u32,
    pub duration_ms: Option<u64>,
    /// Bytes of the result as JSON.
    pub result_bytes: Option<usize>,
}

/// A run as it is at the moment.
#[derive(Clone, Debug)]
pub struct RunStatus {
    pub run: ExecutionId,
    pub intent: String,
    /// The suggestion that the run follows, if it was asked for by its intent alone.
    pub plan: Option<FollowedPlan>,
    pub state: RunState,
    /// In the order of the workflow, or of the calls of a program.
    pub tasks: Vec<TaskStatus>,
    /// What came of the program, if it runs one.
    pub program: Option<ProgramStatus>,
}

/// Why a run could not be started, continued or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("{field}: {problem}")]
    Request { field: &'static str, problem: String },
    #[error("intent: nothing is known that fits; `pml discover` searches for tools")]
    NoPlan,
    #[error("the server is stopping")]
    Stopping,
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    #[error("code: {0}")]
    Code(#[from] ReadError),
    #[error("arguments are missing: {}", .0.join(", "))]
    MissingArguments(Vec<String>),
    #[error("task '{task}': {source}")]
    Tool { task: StepId, source: CallError },
    #[error("no run '{0}' is kept; `pml executions show {0}` shows what the log holds of it")]
    UnknownRun(ExecutionId),
    #[error("run '{0}' has no result of task '{1}': it has not succeeded, or is no task of the run")]
    NoResult(ExecutionId, StepId),
    #[error("no run waits for this approval: the token is wrong, was used, or the run has ended")]
    UnknownToken,
    #[error("run '{0}' is still under way")]
    UnderWay(ExecutionId),
    #[error("run '{0}' cannot be resumed: it has succeeded, was aborted, or waits for approval")]
    NotResumable(ExecutionId),
    #[error("{max} runs are under way, the limit (execute.runs_max); try again in a moment")]
    TooManyRuns { max: usize },
    #[error("{max} programs are running, the limit (code.processes_max); try again in a moment")]
    TooManyPrograms { max: usize },
    #[error("the run's journal cannot be written: {0}")]
    File(String),
    #[error("workflows are executed by another process: the role 'upstream' belongs to {}", .0.as_deref().unwrap_or("none at the moment"))]
    Elsewhere(Option<String>),
}

impl RunError {
    /// The HTTP status code of the error, which NATS answers carry too.
    pub fn status(&self) -> u16 {
        match self {
            Self::Request { .. }
            | Self::Workflow(_)
            | Self::Capability(_)
            | Self::Code(_)
            | Self::MissingArguments(_)
            | Self::Tool { .. } => 400,
            Self::NoPlan | Self::UnknownRun(_) | Self::UnknownToken | Self::NoResult(..) => 404,
            Self::UnderWay(_) | Self::NotResumable(_) | Self::Elsewhere(_) => 409,
            Self::TooManyRuns { .. } | Self::TooManyPrograms { .. } => 429,
            Self::File(_) => 500,
            Self::Stopping => 503,
        }
    }
}

/// A piece of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPage {
    /// Text of the result as JSON, from the offset.
    pub text: String,
    /// Where the next piece begins; `None` at the end.
    pub next: Option<usize>,
    /// Bytes of the whole text.
    pub total: usize,
}

impl ResultPage {
    pub(super) fn cut(result: &Value, offset: usize, bytes_max: usize) -> Self {
        let text = result.to_string();
        let begin = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let end = (begin..=begin.saturating_add(bytes_max).min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let end = end.unwrap_or(text.len());
        // At least one character, or a page of a few bytes would never end.
        let end = if end == begin { text[begin..].chars().next().map_or(begin, |c| begin + c.len_utf8()) } else { end };
        Self { text: text[begin..end].to_owned(), next: (end < text.len()).then_some(end), total: text.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_result_are_its_text() {
        let result = serde_json::json!({"text": "a\u{e4}\u{1f600}b".repeat(20)});
        for bytes_max in [1, 2, 3, 7, 1_000] {
            let (mut text, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let page = ResultPage::cut(&result, offset, bytes_max);
                text.push_str(&page.text);
                at = page.next;
            }
            assert_eq!(text, result.to_string(), "{bytes_max}");
        }
        assert_eq!(ResultPage::cut(&result, 10_000, 5).text, "");
    }
}
