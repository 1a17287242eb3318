//! `pml_execute` and `pml_continue`: runs of workflows, and the rests of long answers.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::parsed;
use super::{Caller, Mcp};
use crate::config::Scope;
use crate::core::id::{ExecutionId, StepId};
use crate::execute::dto::RunDto;
use crate::execute::{Begun, ExecuteRequest, RunError, RunState, RunStatus};

/// How long a call waits for its run. Clients give up after a minute; a run goes on and is asked for again with `pml_continue`.
const RUN_WAIT: Duration = Duration::from_secs(45);

/// The arguments of `pml_execute`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteArguments {
    tasks: Option<Value>,
    code: Option<String>,
    capability: Option<String>,
    #[serde(default)]
    arguments: JsonObject,
    intent: Option<String>,
    /// An earlier run whose finished tasks are taken over.
    reuse: Option<String>,
}

/// The arguments of `pml_continue`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContinueArguments {
    token: Option<String>,
    run: Option<String>,
    #[serde(default)]
    abort: bool,
    /// The task whose result is read.
    task: Option<String>,
    #[serde(default)]
    offset: usize,
    cursor: Option<String>,
}

impl Mcp {
    pub(super) async fn execute(&self, caller: &Caller, arguments: JsonObject) -> Result<Value, String> {
        let ExecuteArguments { tasks, code, capability, arguments, intent, reuse } = parsed(arguments)?;
        let request = ExecuteRequest {
            workflow: tasks.map(|tasks| json!({ "tasks": tasks })),
            code,
            capability,
            arguments,
            intent,
            session: Some(caller.session.to_string()),
            agent: caller.agent.clone(),
            reuse,
            ..ExecuteRequest::default()
        };
        match self.parts().runner.begin(request).await.map_err(told)? {
            Begun::Run(run) => self.awaited(&run).await,
            Begun::Incomplete(plan) => {
                let mut answer = plan.to_json();
                self.0.outgoing.clean_json(&mut answer);
                answer["next"] = json!("call pml_execute with the same intent and `arguments`, or with the tasks filled in");
                Ok(answer)
            }
        }
    }

    /// Continues a run or an answer.
    pub(super) async fn go_on(&self, caller: &Caller, arguments: JsonObject) -> Result<Value, String> {
        let ContinueArguments { token, run, abort, task, offset, cursor } = parsed(arguments)?;
        let runner = &self.parts().runner;
        if let Some(cursor) = cursor {
            let gone = || "cursor: is not known, or its text was dropped (mcp.pages_bytes_max); make the call again".to_owned();
            return self.0.outgoing.page(&cursor).ok_or_else(gone);
        }
        if let Some(token) = token {
            caller.needs(Scope::Approve)?;
            let run = runner.approve(&token).map_err(told)?;
            return self.awaited(&run).await;
        }
        let run = run.ok_or("token: give the token of an approval, the id of a run, or the cursor of an answer")?;
        let run: ExecutionId = run.parse().map_err(|problem| format!("run: {problem}"))?;
        if let Some(task) = task {
            let task: StepId = task.parse().map_err(|problem| format!("task: {problem}"))?;
            let page = runner.result_page(&run, &task, offset, self.settings().answer_bytes_max).map_err(told)?;
            return Ok(json!({"text": page.text, "offset": page.next, "total_bytes": page.total}));
        }
        if abort {
            runner.abort(&run).await.map_err(told)?;
            return self.awaited(&run).await;
        }
        match runner.status(&run).map_err(told)?.state {
            RunState::Failed | RunState::Interrupted => {
                let resumed = runner.resume(&run).map_err(told)?;
                self.awaited(&resumed).await
            }
            _ => self.awaited(&run).await,
        }
    }

    /// The run once it has ended or needs approval, or as it is after [`RUN_WAIT`].
    async fn awaited(&self, run: &ExecutionId) -> Result<Value, String> {
        let runner = &self.parts().runner;
        let status = match tokio::time::timeout(RUN_WAIT, runner.wait(run)).await {
            Ok(status) => status,
            Err(_) => runner.status(run),
        };
        Ok(self.described_run(&status.map_err(told)?))
    }

    /// A run as JSON. The results share the length of an answer.
    fn described_run(&self, status: &Arc<RunStatus>) -> Value {
        // A program answers with its result and its console, a workflow with the results of its tasks.
        let shares = if status.program.is_some() { 2 } else { status.tasks.len().max(1) };
        let share = self.settings().answer_bytes_max / shares;
        let mut answer = json!(RunDto::new(status, &self.parts().runner, share));
        // The token is for the caller; its name would make it a secret.
        let token = answer["token"].take();
        self.0.outgoing.clean_run(&mut answer);
        if !token.is_null() {
            answer["token"] = token;
        }
        if let Some(hint) = hint(status) {
            answer["next"] = json!(hint);
        }
        answer
    }
}

/// What the caller can do with a run that has not ended well.
fn hint(status: &RunStatus) -> Option<String> {
    let run = json!({"run": status.run.as_str()});
    match &status.state {
        RunState::Running => Some(format!("still running; call pml_continue with {run}")),
        RunState::ApprovalRequired { .. } => {
            Some("show the user what needs approval; if they agree, call pml_continue with the token".to_owned())
        }
        RunState::Failed | RunState::Interrupted => {
            Some(format!("to go on from the first unfinished task, call pml_continue with {run}"))
        }
        RunState::Succeeded | RunState::Aborted => None,
    }
}

fn told(error: impl Into<RunError>) -> String {
    error.into().to_string()
}
