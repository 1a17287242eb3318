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
        Err(_) => Err(call::failure(
            "timeout",
            format!("the capability did not end within {} ms", limit.as_millis()),
            driver.redactor(),
        )),
    };
    let duration_ms = clock.uptime().millis_since(began);
    Called { started, ended: clock.now(), duration_ms, attempts: 1, outcome }
}

async fn run(driver: &Driver, own: &ProgramRun, id: CapabilityId, arguments: &Map<String, Value>) -> Result<Value, Failure> {
    let runner = Runner(Arc::clone(&driver.shared));
    let failed = |error: RunError| call::failure("capability", error.to_string(), driver.redactor());
    if own.depth + 1 >= DEPTH_MAX {
        return Err(call::failure(
            "capability",
            format!("capabilities call each other more than {DEPTH_MAX} levels deep"),
            driver.redactor(),
        ));
    }
    let view = driver.shared.parts.views.current();
    let capability = view
        .capabilities
        .get(id)
        .ok_or_else(|| call::failure("capability", format!("no capability {id}"), driver.redactor()))?;
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
            Err(call::failure("capability", problem(&status), driver.redactor()))
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
    let mut tools = reached_tools(&parts.views.current(), callee);
    tools.retain(|tool| {
        let needs =
            parts.upstreams.tool(tool).is_ok_and(|tool| needs_approval(tool.annotations.as_ref(), parts.settings.approval));
        needs && !own.is_approved(tool)
    });
    tools
}

/// The tools that a call reaches within [`DEPTH_MAX`] levels. Level by level and each capability once: the ways through capabilities that
/// call each other several times are too many to be walked.
fn reached_tools(state: &State, callee: &Callee) -> BTreeSet<ToolId> {
    let (mut tools, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut level = vec![callee];
    for _ in 0..=DEPTH_MAX {
        let mut below = Vec::new();
        for callee in level {
            match callee {
                Callee::Tool(tool) => {
                    tools.insert(tool.clone());
                }
                Callee::Capability(id) => {
                    let capability = if seen.insert(*id) { state.capabilities.get(*id) } else { None };
                    below.extend(capability.into_iter().flat_map(|capability| &capability.structure.calls));
                }
            }
        }
        level = below;
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::capability::Structure;
    use crate::core::event::{CapabilityDeclared, DeclaredStructure, Event, NewRecord, Record, StructureNode};
    use crate::core::id::RecordId;
    use crate::core::time::Timestamp;

    /// Declares a capability that calls `callee` fifty times.
    fn declare(state: &mut State, callee: &Callee) -> Callee {
        let node = |n: usize| StructureNode { id: format!("n{n}").parse().unwrap(), callee: callee.clone() };
        let structure = DeclaredStructure { nodes: (0..50).map(node).collect(), edges: Vec::new() };
        let id = Structure::declared(&structure).0;
        let (name, description) = (id.to_string(), String::new());
        let event = CapabilityDeclared { name, description, structure, code: None, parameters_schema: None };
        let (seq, at) = (state.applied().next(), Timestamp::from_micros(0));
        let fact = NewRecord {
            id: RecordId::from_bits(u128::from(seq.0)),
            time: at,
            source: "test".into(),
            causation: None,
            envelope: None,
            event: Event::CapabilityDeclared(event),
        };
        state.apply(&Record { seq, recorded_at: at, fact: Arc::new(fact) });
        Callee::Capability(id)
    }

    #[test]
    fn the_tools_below_capabilities_that_call_each_other_often_are_found_at_once() {
        let mut state = State::default();
        let tool: ToolId = "x:tool".parse().unwrap();
        let mut callee = Callee::Tool(tool.clone());
        for level in 1..=DEPTH_MAX {
            callee = declare(&mut state, &callee);
            assert_eq!(reached_tools(&state, &callee), BTreeSet::from([tool.clone()]), "level {level}");
        }
        callee = declare(&mut state, &callee);
        assert!(reached_tools(&state, &callee).is_empty(), "nothing is called so deep");
    }
}
