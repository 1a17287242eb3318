//! The events of a run. Their ids follow from the run and the task, so recording one again is a duplicate.

use super::run::Run;
use crate::core::event::{
    CapabilityDeclared, Event, ExecutionFinished, ExecutionStarted, Json, NewRecord, StepFinished, StepSpeculated, StepStarted,
};
use crate::core::id::{Callee, RecordId};
use crate::core::time::Timestamp;
use crate::core::workflow::Task;
use crate::recorder;

/// Largest arguments that are recorded, in bytes of JSON.
const ARGUMENTS_BYTES_MAX: usize = 64 << 10;

/// How a call of a task ended.
pub(super) struct StepOutcome {
    pub(super) ended: Timestamp,
    pub(super) duration_ms: u64,
    /// A stable word, if it failed.
    pub(super) error_kind: Option<String>,
    pub(super) summary: String,
}

pub(super) fn started(run: &Run) -> NewRecord {
    let event = Event::ExecutionStarted(ExecutionStarted {
        execution: run.head.id.clone(),
        intent: run.head.intent.clone(),
        session: run.head.session.clone(),
        agent: run.head.agent.clone(),
        parent: run.head.parent.clone(),
    });
    fact(run, run.head.created, &["execution.started"], event)
}

pub(super) fn step_started(run: &Run, task: &Task, arguments: String, at: Timestamp) -> NewRecord {
    let event = Event::StepStarted(StepStarted {
        execution: run.head.id.clone(),
        step: task.id.clone(),
        tool: Callee::Tool(task.tool.clone()),
        arguments: (arguments.len() <= ARGUMENTS_BYTES_MAX).then(|| Json::from_valid(arguments)),
    });
    fact(run, at, &["step.started", task.id.as_str()], event)
}

pub(super) fn step_finished(run: &Run, task: &Task, outcome: StepOutcome) -> NewRecord {
    let event = Event::StepFinished(StepFinished {
        execution: run.head.id.clone(),
        step: task.id.clone(),
        tool: Callee::Tool(task.tool.clone()),
        depends_on: task.depends_on.clone(),
        success: outcome.error_kind.is_none(),
        duration_ms: Some(outcome.duration_ms),
        error_kind: outcome.error_kind,
        arguments: None,
        result_summary: Some(outcome.summary),
    });
    fact(run, outcome.ended, &["step.finished", task.id.as_str()], event)
}

/// A capability that the run's program is.
pub(super) fn declared(run: &Run, event: CapabilityDeclared, at: Timestamp) -> NewRecord {
    fact(run, at, &["capability.declared"], Event::CapabilityDeclared(event))
}

/// A call that was made before its step came, and whether the step took its result.
pub(super) fn speculated(run: &Run, task: &Task, (success, duration_ms, used): (bool, u64, bool), at: Timestamp) -> NewRecord {
    let event = Event::StepSpeculated(StepSpeculated {
        execution: run.head.id.clone(),
        step: task.id.clone(),
        tool: task.tool.clone(),
        success,
        duration_ms,
        used,
    });
    fact(run, at, &["step.speculated", task.id.as_str()], event)
}

pub(super) fn finished(run: &Run, success: bool, error: Option<String>, at: Timestamp) -> NewRecord {
    let event = Event::ExecutionFinished(ExecutionFinished { execution: run.head.id.clone(), success, error, code: None });
    fact(run, at, &["execution.finished"], event)
}

fn fact(run: &Run, at: Timestamp, parts: &[&str], event: Event) -> NewRecord {
    let parts: Vec<&str> = [run.head.id.as_str()].into_iter().chain(parts.iter().copied()).collect();
    recorder::fact(RecordId::derived(run.head.created, &parts), at, event)
}
