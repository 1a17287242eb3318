//! Capabilities that a program calls: each is a run of its own, whose parent is the run of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::RESULT;
use super::run::ProgramRun;
use crate::core::id::{Callee, CapabilityId, ExecutionId, StepId, ToolId};
use crate::core::state::State;
use crate::execute::call::{self, Called, Failure};
use crate::execute::drive::Driver;
use crate::execute::run::Run;
use crate::execute::work::{Work, words};
use crate::execute::{RunError, RunOptions, RunState, RunStatus, Runner, TaskState, needs_approval};

/// Programs within programs, at most.
const DEPTH_MAX: usize = 8;

/// The run whose program started a run.
#[derive(Clone, Debug)]
pub struct Within {
    pub(super) run: ExecutionId,
    pub(super) depth: usize,
}

impl Within {
    pub(in crate::execute) fn into_caller(self) -> ExecutionId {
        self.run
    }
}

/// Ends the run of a capability when nobody waits for it any more.
struct EndedWithCaller(Arc<Run>);

impl Drop for EndedWithCaller {
    fn drop(&mut self) {
        if self.0.state() == RunState::Running {
            self.0.cancel.send_replace(true);
        }
    }
}

/// Calls a capability for a program.
pub(super) async fn call(
    driver: &Driver,
    own: &ProgramRun,
    id: CapabilityId,
    (arguments, timeout_ms): (&Map<String, Value>, Option<u64>),
) -> Called {
    let clock = &driver.shared.parts.clock;
    let (started, began) = (clock.now(), clock.uptime());
    let limit = timeout_ms.map_or(Duration::MAX, Duration::from_millis);
    let outcome = match tokio::time::timeout(limit, run(driver, own, id, arguments)).await {
        Ok(outcome) => outcome.map(Arc::new),
        Err(_) => Err(call::failure("timeout", format!("the capability did not end within {} ms", limit.as_millis()))),
    };
    let duration_ms = clock.uptime().millis_since(began);
    Called { started, ended: clock.now(), duration_ms, attempts: 1, outcome }
}

async fn run(driver: &Driver, own: &ProgramRun, id: CapabilityId, arguments: &Map<String, Value>) -> Result<Value, Failure> {
    let runner = Runner(Arc::clone(&driver.shared));
    let failed = |error: RunError| call::failure("capability", error.to_string());
    if own.depth + 1 >= DEPTH_MAX {
        return Err(call::failure("capability", format!("capabilities call each other more than {DEPTH_MAX} levels deep")));
    }
    let view = driver.shared.parts.views.current();
    let capability = view.capabilities.get(id).ok_or_else(|| call::failure("capability", format!("no capability {id}")))?;
    let work = Work::found(&view, capability, arguments, driver.shared.parts.tasks_max).map_err(failed)?;
    let interrupted = runner.0.shelf.lock().interrupted_within(&driver.run.head.id, &work);
    let started = if let Some(run) = interrupted {
        runner.resume(&run)
    } else {
        let options = RunOptions {
            intent: Some(words(capability)),
            session: driver.run.head.session.clone(),
            agent: driver.run.head.agent.clone(),
            // What it calls was approved when the program asked for it.
            approved: true,
            plan: None,
            reuse: None,
            capability: Some(id),
            within: Some(Within { run: driver.run.head.id.clone(), depth: own.depth + 1 }),
        };
        runner.start(work, options)
    };
    let run = runner.find(&started.map_err(failed)?).map_err(failed)?;
    let _ended_with_caller = EndedWithCaller(Arc::clone(&run));
    let status = runner.wait(&run.head.id).await.map_err(failed)?;
    match &status.state {
        RunState::Succeeded => result(&runner, &status).map_err(failed),
        // The process stops: so does the program that waits here.
        RunState::Interrupted => std::future::pending().await,
        RunState::Running | RunState::ApprovalRequired { .. } | RunState::Failed | RunState::Aborted => {
            Err(call::failure("capability", problem(&status)))
        }
    }
}

/// The result of a program, or that of the tasks of a workflow on which no other depends: the only one, or an object of them.
fn result(runner: &Runner, status: &RunStatus) -> Result<Value, RunError> {
    let of = |task: &StepId| runner.result(&status.run, task).map(|value| Value::clone(&value));
    if status.program.is_some() {
        return of(&RESULT.parse().expect("a word is a step id"));
    }
    let needed: BTreeSet<&StepId> = status.tasks.iter().flat_map(|task| &task.depends_on).collect();
    let last: Vec<&StepId> = status.tasks.iter().map(|task| &task.task).filter(|task| !needed.contains(task)).collect();
    if let [only] = last[..] {
        return of(only);
    }
    let results: BTreeMap<String, Value> =
        last.into_iter().map(|task| of(task).map(|value| (task.to_string(), value))).collect::<Result<_, _>>()?;
    Ok(Value::Object(results.into_iter().collect()))
}

fn problem(status: &RunStatus) -> String {
    let of_program = status.program.as_ref().and_then(|program| program.error.as_ref()).map(|(_, text)| text.clone());
    let of_task = || {
        status.tasks.iter().find_map(|task| match &task.state {
            TaskState::Failed { problem, .. } => Some(format!("{}: {problem}", task.tool)),
            _ => None,
        })
    };
    of_program.or_else(of_task).unwrap_or_else(|| format!("its run {} {}", status.run, status.state.name()))
}

/// The tools that a call would call, itself or by way of a capability, and that somebody has to approve first.
pub(super) fn unapproved(driver: &Driver, own: &ProgramRun, callee: &Callee) -> BTreeSet<ToolId> {
    let parts = &driver.shared.parts;
    let mut tools = BTreeSet::new();
    gather(&parts.views.current(), callee, DEPTH_MAX, &mut tools);
    tools.retain(|tool| {
        let needs =
            parts.upstreams.tool(tool).is_ok_and(|tool| needs_approval(tool.annotations.as_ref(), parts.settings.approval));
        needs && !own.is_approved(tool)
    });
    tools
}

fn gather(state: &State, callee: &Callee, depth: usize, tools: &mut BTreeSet<ToolId>) {
    match callee {
        Callee::Tool(tool) => {
            tools.insert(tool.clone());
        }
        Callee::Capability(id) if depth > 0 => {
            for call in state.capabilities.get(*id).into_iter().flat_map(|capability| &capability.structure.calls) {
                gather(state, call, depth - 1, tools);
            }
        }
        Callee::Capability(_) => {}
    }
}
