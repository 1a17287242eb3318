//! The execution of workflows: [`Runner`] is the handle with which gateways start, follow and end runs.
//!
//! A run calls the tools of a workflow (`core::workflow`) as soon as their dependencies have finished, records every step as an event,
//! and keeps results for a while. A run that waits for approval or was interrupted by the end of its process is kept in a file of the
//! data directory and goes on from its first unfinished task.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::core::id::{ExecutionId, SessionId, StepId, ToolId};
use crate::core::workflow::{Workflow, WorkflowError};
use crate::upstream::CallError;

/// How a run is started.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// What the run is for, in words. Without it, the run is not learnt from as an intent of its own: the tools' names stand in.
    pub intent: Option<String>,
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    /// Approves the calls of this run beforehand.
    pub approved: bool,
    /// An earlier run: its finished tasks with the same id and tool are taken over instead of called (resume, replan).
    pub reuse: Option<ExecutionId>,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// Nothing runs until somebody continues with the token; `tasks` need the approval.
    ApprovalRequired { token: String, tasks: Vec<StepId> },
    Succeeded,
    /// At least one task failed; those that did not depend on it were run.
    Failed,
    Aborted,
    /// Its process ended; it can be resumed.
    Interrupted,
}

/// The state of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    Waiting,
    Running,
    Succeeded,
    Failed { kind: String, problem: String },
    /// Not run, because a task it depends on failed, or the run was aborted.
    Skipped,
}

/// One task of a run.
#[derive(Clone, Debug)]
pub struct TaskStatus {
    pub task: StepId,
    pub tool: ToolId,
    pub depends_on: Vec<StepId>,
    pub state: TaskState,
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
    pub state: RunState,
    /// In the order of the workflow.
    pub tasks: Vec<TaskStatus>,
}

/// Why a run could not be started, continued or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error("task '{task}': {source}")]
    Tool { task: StepId, source: CallError },
    #[error("no run '{0}' is kept; `pml executions show {0}` shows what the log holds of it")]
    UnknownRun(ExecutionId),
    #[error("no run waits for this approval: the token is wrong, was used, or the run has ended")]
    UnknownToken,
    #[error("run '{0}' is still under way")]
    UnderWay(ExecutionId),
    #[error("{max} runs are under way, the limit (execute.runs_max); try again in a moment")]
    TooManyRuns { max: usize },
    #[error("the run's file cannot be written: {0}")]
    File(String),
    #[error("workflows are executed by another process: the role 'upstream' belongs to {}", .0.as_deref().unwrap_or("none at the moment"))]
    Elsewhere(Option<String>),
}

/// A piece of a result.
#[derive(Clone, Debug)]
pub struct ResultPage {
    /// Text of the result as JSON, from `offset`.
    pub text: String,
    /// Where the next piece begins; `None` at the end.
    pub next: Option<usize>,
    pub total: usize,
}

/// The handle to the runs. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    runs: Arc<()>,
}

impl Runner {
    /// Checks the workflow and starts it. Returns its id, which is also the id of its execution in the log.
    pub async fn start(&self, _workflow: Workflow, _options: RunOptions) -> Result<ExecutionId, RunError> {
        drop(Arc::clone(&self.runs));
        std::future::ready(Err(RunError::Elsewhere(None))).await
    }

    /// Waits until the run has ended or needs approval.
    pub async fn wait(&self, run: &ExecutionId) -> Result<Arc<RunStatus>, RunError> {
        std::future::ready(Err(RunError::UnknownRun(run.clone()))).await
    }

    pub fn status(&self, run: &ExecutionId) -> Result<Arc<RunStatus>, RunError> {
        Err(RunError::UnknownRun(run.clone()))
    }

    /// Every change of the run's status; a slow reader sees the newest only.
    pub fn progress(&self, run: &ExecutionId) -> Result<watch::Receiver<Arc<RunStatus>>, RunError> {
        Err(RunError::UnknownRun(run.clone()))
    }

    /// Approves what the run waits for, and lets it go on. Returns its id.
    pub async fn approve(&self, _token: &str) -> Result<ExecutionId, RunError> {
        std::future::ready(Err(RunError::UnknownToken)).await
    }

    /// Goes on with an interrupted or failed run from its first unfinished task. The id is a new one if the log has closed the old run.
    pub async fn resume(&self, run: &ExecutionId) -> Result<ExecutionId, RunError> {
        std::future::ready(Err(RunError::UnknownRun(run.clone()))).await
    }

    /// Ends a run: calls under way are cancelled, finished results are kept. Also refuses an approval.
    pub async fn abort(&self, run: &ExecutionId) -> Result<(), RunError> {
        std::future::ready(Err(RunError::UnknownRun(run.clone()))).await
    }

    /// The result of a finished task, as JSON: its structured content, or the text of its content blocks.
    pub fn result(&self, run: &ExecutionId, _task: &StepId) -> Result<Arc<Value>, RunError> {
        Err(RunError::UnknownRun(run.clone()))
    }

    /// A piece of the result's text, at most `bytes_max` long, cut between characters.
    pub fn result_page(
        &self,
        run: &ExecutionId,
        _task: &StepId,
        _offset: usize,
        _bytes_max: usize,
    ) -> Result<ResultPage, RunError> {
        Err(RunError::UnknownRun(run.clone()))
    }
}
