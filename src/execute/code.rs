//! Runs of programs (code mode): the program of an agent, or of a capability, runs in a child process (`crate::code::sandbox`), and its
//! calls are made here, by the same means as those of workflows.
//!
//! The tasks of such a run are the calls that the program makes. A call that needs approval ends the child process; when somebody has
//! approved it, or after an interruption, the program is run from its beginning, and the calls that had ended are answered with what came
//! of them (`past`). A program is a function of its arguments and of these answers: its clock stands still and its random numbers follow
//! from a seed. What a run teaches is in `learn`.

mod calls;
mod drive;
mod learn;
mod nested;
mod past;
mod program;
mod run;

use std::sync::Arc;

use super::run::{Run, RunHead};
use super::{INTENT_BYTES_MAX, RunError, RunOptions, RunState, Runner};
use crate::code::structure::Callee;
use crate::core::id::{ExecutionId, StepId};
use crate::core::redact;
use crate::core::workflow::{Workflow, capability};
pub(super) use drive::drive;
pub(super) use learn::NewPrograms;
pub use nested::Within;
pub(super) use past::CalledLine;
pub use program::Program;
pub(super) use program::ProgramLine;
pub(super) use run::ProgramRun;
pub use run::ProgramStatus;

/// The name of a program's result among the results of its run.
pub(super) const RESULT: &str = "result";

/// Checks the program and starts it.
pub(super) fn start(runner: &Runner, program: Program, options: RunOptions) -> Result<ExecutionId, RunError> {
    let parts = &runner.0.parts;
    check_calls(runner, &program)?;
    let reused = options.reuse.as_ref().map(|run| runner.find(run)).transpose()?;
    if let Some(reused) = reused.as_ref().filter(|reused| reused.state() == RunState::Running) {
        return Err(RunError::UnderWay(reused.head.id.clone()));
    }
    let mut intent = options.intent.filter(|intent| !intent.trim().is_empty()).unwrap_or_else(|| program.summary());
    redact::cut(&mut intent, INTENT_BYTES_MAX);
    let id = format!("run-{}", parts.clock.fresh_id());
    let (depth, caller) = options.within.map_or((0, None), |within| (within.depth, Some(within.run)));
    let head = RunHead {
        id: id.parse().expect("a word and a ULID are an execution id"),
        workflow: Workflow::default(),
        program: Some(ProgramRun::new(program, options.approved, depth)),
        capability: options.capability,
        intent,
        session: options.session,
        agent: options.agent,
        parent: caller.or(options.reuse),
        created: parts.clock.now(),
    };
    let run = Arc::new(Run::new(head, RunState::Running, options.plan));
    runner.shelve(&run)?;
    if let Some(reused) = reused {
        run.take_over_calls(&reused);
    }
    runner.drive(&run);
    Ok(run.head.id.clone())
}

/// Refuses a program that calls a tool or capability that is not there.
fn check_calls(runner: &Runner, program: &Program) -> Result<(), RunError> {
    let parts = &runner.0.parts;
    for (at, call) in program.reading.calls.iter().enumerate() {
        match &call.callee {
            Callee::Tool(tool) => {
                let checked = parts.upstreams.tool(tool);
                checked.map_err(|source| RunError::Tool { task: step_id(at), source })?;
            }
            Callee::Capability(name) => {
                capability::find(&parts.views.current(), name)?;
            }
            Callee::Computed => {}
        }
    }
    Ok(())
}

/// The id of the first step of a call of the reading.
fn step_id(at: usize) -> StepId {
    format!("c{}", at + 1).parse().expect("a letter and digits are a step id")
}
