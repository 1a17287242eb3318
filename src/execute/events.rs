//! The events of a run. Their ids follow from the run and the task, so recording one again is a duplicate.

use serde_json::Value;

use super::call::{Called, Failure};
use super::run::{Run, json_len};
use crate::core::event::{
    CapabilityDeclared, Event, ExecutionFinished, ExecutionStarted, Json, NewRecord, StepFinished, StepSpeculated, StepStarted,
};
use crate::core::id::{Callee, CapabilityId, RecordId};
use crate::core::redact;
use crate::core::shape::Shape;
use crate::core::time::Timestamp;
use crate::core::workflow::Task;
use crate::recorder;

/// Largest arguments that are recorded, in bytes of JSON.
const ARGUMENTS_BYTES_MAX: usize = 64 << 10;
/// Bytes of a shape in the summary of a result.
const SUMMARY_BYTES_MAX: usize = 500;

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

pub(super) fn step_finished(run: &Run, task: &Task, called: &Called) -> NewRecord {
    let (error_kind, summary) = match &called.outcome {
        Ok(result) => (None, summary(result)),
        Err(Failure { kind, problem }) => (Some(kind.clone()), problem.clone()),
    };
    let event = Event::StepFinished(StepFinished {
        execution: run.head.id.clone(),
        step: task.id.clone(),
        tool: Callee::Tool(task.tool.clone()),
        depends_on: task.depends_on.clone(),
        success: error_kind.is_none(),
        duration_ms: Some(called.duration_ms),
        error_kind,
        arguments: None,
        result_summary: Some(summary),
    });
    fact(run, called.ended, &["step.finished", task.id.as_str()], event)
}

/// The shape and the size of a result, and no value.
fn summary(result: &Value) -> String {
    let mut shape = Shape::from_value(result).to_schema().to_string();
    redact::cut(&mut shape, SUMMARY_BYTES_MAX);
    format!("{shape} {} bytes", json_len(result))
}

/// A capability that the run's program is.
pub(super) fn declared(run: &Run, event: CapabilityDeclared, at: Timestamp) -> NewRecord {
    fact(run, at, &["capability.declared"], Event::CapabilityDeclared(event))
}

/// A call that was made before its step came, in a run that was created at that time. A run that goes on may call the same task again.
pub(super) fn speculated(event: StepSpeculated, created: Timestamp, began: Timestamp, at: Timestamp) -> NewRecord {
    let began = began.micros().to_string();
    let id = RecordId::derived(created, &[event.execution.as_str(), "step.speculated", event.step.as_str(), &began]);
    recorder::fact(id, at, Event::StepSpeculated(event))
}

/// The end of a run; `ran` is the capability for which it counts.
pub(super) fn finished(run: &Run, ran: Option<CapabilityId>, success: bool, error: Option<String>, at: Timestamp) -> NewRecord {
    let code = ran.map(|id| Callee::Capability(id).to_string());
    let event = Event::ExecutionFinished(ExecutionFinished { execution: run.head.id.clone(), success, error, code });
    fact(run, at, &["execution.finished"], event)
}

fn fact(run: &Run, at: Timestamp, parts: &[&str], event: Event) -> NewRecord {
    let parts: Vec<&str> = [run.head.id.as_str()].into_iter().chain(parts.iter().copied()).collect();
    recorder::fact(RecordId::derived(run.head.created, &parts), at, event)
}
