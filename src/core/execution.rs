//! Which events fit the execution they belong to: the decision of the execution actor, as a function of what is open.

use super::event::{Event, ExecutionFinished, ExecutionStarted, StepFinished, StepStarted};
use super::graph::cycle;
use super::id::{ExecutionId, StepId};
use super::intake::Limits;
use super::refusal::Refusal;
use super::trace::{OpenExecution, OpenExecutions};

/// `Ok` if the event may be appended. The event has passed `intake::check`.
pub fn admit(executions: &OpenExecutions, event: &Event, limits: &Limits) -> Result<(), Refusal> {
    match event {
        Event::ExecutionStarted(started) => admit_start(executions, started, limits),
        Event::StepStarted(step) => admit_step_start(executions, step, limits),
        Event::StepFinished(step) => admit_step_finish(executions, step, limits),
        Event::ExecutionFinished(finished) => admit_finish(executions, finished),
        Event::ToolRegistered(_)
        | Event::ToolRemoved(_)
        | Event::CapabilityDeclared(_)
        | Event::FeedbackGiven(_)
        | Event::TemplateLoaded(_)
        | Event::TraceCompleted(_)
        | Event::EmbeddingComputed(_)
        | Event::PredictionServed(_) => Ok(()),
    }
}

fn admit_start(executions: &OpenExecutions, event: &ExecutionStarted, limits: &Limits) -> Result<(), Refusal> {
    let execution = event.execution.clone();
    if executions.is_closed(&execution) {
        return Err(Refusal::Closed { execution });
    }
    match executions.get(&execution) {
        Some(open) if open.has_started() => Err(Refusal::AlreadyStarted { execution }),
        None if executions.len() >= limits.open_executions_max => Err(Refusal::TooManyOpen { max: limits.open_executions_max }),
        _ => Ok(()),
    }
}

fn admit_step_start(executions: &OpenExecutions, event: &StepStarted, limits: &Limits) -> Result<(), Refusal> {
    let open = find(executions, &event.execution)?;
    match open.step(&event.step) {
        Some(step) if step.has_started() => Err(Refusal::StepAlreadyStarted { step: event.step.clone() }),
        Some(_) => Ok(()),
        None => room_for_step(open, limits),
    }
}

fn admit_step_finish(executions: &OpenExecutions, event: &StepFinished, limits: &Limits) -> Result<(), Refusal> {
    let open = find(executions, &event.execution)?;
    match open.step(&event.step) {
        Some(step) if step.has_finished() => return Err(Refusal::StepAlreadyFinished { step: event.step.clone() }),
        Some(step) if *step.tool() != event.tool => {
            return Err(Refusal::StepChangedTool { step: event.step.clone(), started_with: step.tool().to_string() });
        }
        Some(_) => {}
        None => room_for_step(open, limits)?,
    }
    if let Some(on) = event.depends_on.iter().find(|on| open.step(on).is_none()) {
        return Err(Refusal::UnknownDependency { on: on.clone() });
    }
    // A step nobody knew cannot be depended on yet, so only a known one can close a cycle.
    if open.step(&event.step).is_some() && !event.depends_on.is_empty() {
        let known = open.steps().flat_map(|step| step.depends_on().iter().map(move |on| (on, step.id())));
        let added = event.depends_on.iter().map(|on| (on, &event.step));
        if let Some(path) = cycle::find(known.chain(added)) {
            let path: Vec<_> = path.into_iter().map(StepId::as_str).collect();
            return Err(Refusal::DependencyCycle { path: path.join(" -> ") });
        }
    }
    Ok(())
}

fn admit_finish(executions: &OpenExecutions, event: &ExecutionFinished) -> Result<(), Refusal> {
    if find(executions, &event.execution)?.has_finished() {
        return Err(Refusal::AlreadyFinished { execution: event.execution.clone() });
    }
    Ok(())
}

fn find<'a>(executions: &'a OpenExecutions, execution: &ExecutionId) -> Result<&'a OpenExecution, Refusal> {
    if let Some(open) = executions.get(execution) {
        return Ok(open);
    }
    let execution = execution.clone();
    Err(if executions.is_closed(&execution) { Refusal::Closed { execution } } else { Refusal::UnknownExecution { execution } })
}

fn room_for_step(open: &OpenExecution, limits: &Limits) -> Result<(), Refusal> {
    if open.steps().len() < limits.steps_max { Ok(()) } else { Err(Refusal::TooManySteps { max: limits.steps_max }) }
}
