//! Admission of events to their executions: whether an event may follow what is already known about its execution.

use std::collections::{BTreeMap, VecDeque};

use super::event::{Event, ExecutionFinished, ExecutionStarted, StepFinished, StepStarted, beside_executions};
use super::id::{ExecutionId, StepId};
use super::intake::{Limits, count};
use super::refusal::Refusal;
use super::trace::{Executions, OpenExecution, OpenStep};

/// Decides whether an event may be appended. The event must have passed `intake::check`.
pub fn admit(executions: &Executions, event: &Event, limits: &Limits) -> Result<(), Refusal> {
    match event {
        Event::ExecutionStarted(started) => admit_start(executions, started, limits),
        Event::StepStarted(step) => admit_step_start(executions, step, limits),
        Event::StepFinished(step) => admit_step_finish(executions, step, limits),
        Event::ExecutionFinished(finished) => admit_finish(executions, finished),
        Event::TraceCompleted(_) | Event::PredictionServed(_) | Event::StepSpeculated(_) | beside_executions!() => Ok(()),
    }
}

fn admit_start(executions: &Executions, event: &ExecutionStarted, limits: &Limits) -> Result<(), Refusal> {
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

fn admit_step_start(executions: &Executions, event: &StepStarted, limits: &Limits) -> Result<(), Refusal> {
    let open = find(executions, &event.execution)?;
    match open.step(&event.step) {
        Some(step) if step.has_started() => Err(Refusal::StepAlreadyStarted { step: event.step.clone() }),
        Some(_) => Ok(()),
        None => check_step_limit(open, limits),
    }
}

fn admit_step_finish(executions: &Executions, event: &StepFinished, limits: &Limits) -> Result<(), Refusal> {
    let open = find(executions, &event.execution)?;
    match open.step(&event.step) {
        Some(step) if step.has_finished() => return Err(Refusal::StepAlreadyFinished { step: event.step.clone() }),
        Some(step) if *step.tool() != event.tool => {
            return Err(Refusal::StepChangedTool { step: event.step.clone(), started_with: step.tool().to_string() });
        }
        Some(_) => {}
        None => check_step_limit(open, limits)?,
    }
    if let Some(on) = event.depends_on.iter().find(|on| open.step(on).is_none()) {
        return Err(Refusal::UnknownDependency { on: on.clone() });
    }
    if event.depends_on.is_empty() {
        return Ok(());
    }
    check_dependency_limit(open, event, limits)?;
    match closed_cycle(open, event) {
        Some(path) => {
            let path: Vec<_> = path.into_iter().map(StepId::as_str).collect();
            Err(Refusal::DependencyCycle { path: path.join(" -> ") })
        }
        None => Ok(()),
    }
}

/// Returns the cycle that the dependencies of `event` close, as a path that begins and ends with the same step. O(1) if the step is
/// new, one pass over the dependencies of the execution if no step depends on it, as is usual; else O(dependencies x log steps).
fn closed_cycle<'a>(open: &'a OpenExecution, event: &'a StepFinished) -> Option<Vec<&'a StepId>> {
    let step = &event.step;
    // There was no cycle before, so a new one leads through a step that depends on this one.
    let is_needed = |other: &OpenStep| other.depends_on().contains(step);
    if !event.depends_on.contains(step) && (open.step(step).is_none() || !open.steps().any(is_needed)) {
        return None;
    }
    // Breadth-first search along the dependencies. `needed_by` holds the predecessor of each step found.
    let mut needed_by: BTreeMap<&StepId, Option<&StepId>> = event.depends_on.iter().map(|on| (on, None)).collect();
    let mut waiting: VecDeque<&StepId> = event.depends_on.iter().collect();
    while let Some(next) = waiting.pop_front() {
        if next == step {
            let mut path: Vec<&StepId> = std::iter::successors(Some(next), |at| needed_by[*at]).collect();
            path.insert(0, path[path.len() - 1]);
            return Some(path);
        }
        for on in open.step(next).map_or(&[][..], OpenStep::depends_on) {
            needed_by.entry(on).or_insert_with(|| {
                waiting.push_back(on);
                Some(next)
            });
        }
    }
    None
}

fn check_dependency_limit(open: &OpenExecution, event: &StepFinished, limits: &Limits) -> Result<(), Refusal> {
    let known: usize = open.steps().map(|step| step.depends_on().len()).sum();
    count("data.depends_on", known + event.depends_on.len(), limits.dependencies_max, "limits.dependencies_max")
}

fn admit_finish(executions: &Executions, event: &ExecutionFinished) -> Result<(), Refusal> {
    if find(executions, &event.execution)?.has_finished() {
        return Err(Refusal::AlreadyFinished { execution: event.execution.clone() });
    }
    Ok(())
}

fn find<'a>(executions: &'a Executions, execution: &ExecutionId) -> Result<&'a OpenExecution, Refusal> {
    if let Some(open) = executions.get(execution) {
        return Ok(open);
    }
    let execution = execution.clone();
    Err(if executions.is_closed(&execution) { Refusal::Closed { execution } } else { Refusal::UnknownExecution { execution } })
}

fn check_step_limit(open: &OpenExecution, limits: &Limits) -> Result<(), Refusal> {
    if open.steps().len() < limits.steps_max { Ok(()) } else { Err(Refusal::TooManySteps { max: limits.steps_max }) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{NewRecord, TraceCompleted};
    use crate::id::RecordId;
    use crate::redact::Redactor;
    use crate::time::Timestamp;

    const LIMITS: Limits = Limits {
        redactor: Redactor::builtin(),
        default_server: None,
        intent_bytes_max: 100,
        text_bytes_max: 100,
        json_bytes_max: 100,
        string_bytes_max: 100,
        steps_max: 3,
        dependencies_max: 3,
        open_executions_max: 2,
    };

    fn start(execution: &str) -> Event {
        let execution = execution.parse().unwrap();
        Event::ExecutionStarted(ExecutionStarted {
            execution,
            intent: "x".to_owned(),
            session: None,
            agent: None,
            parent: None,
        })
    }

    /// Starts a step of execution e1.
    fn step(step: &str, tool: &str) -> Event {
        let (step, tool) = (step.parse().unwrap(), tool.parse().unwrap());
        Event::StepStarted(StepStarted { execution: execution("e1"), step, tool, arguments: None })
    }

    /// Finishes a step of execution e1 that calls a:x.
    fn done(step: &str, depends_on: &[&str]) -> Event {
        Event::StepFinished(StepFinished {
            execution: execution("e1"),
            step: step.parse().unwrap(),
            tool: "a:x".parse().unwrap(),
            depends_on: depends_on.iter().map(|on| on.parse().unwrap()).collect(),
            success: true,
            duration_ms: None,
            error_kind: None,
            arguments: None,
            result_summary: None,
        })
    }

    fn finish() -> Event {
        Event::ExecutionFinished(ExecutionFinished { execution: execution("e1"), success: true, error: None, code: None })
    }

    fn close() -> Event {
        Event::TraceCompleted(TraceCompleted {
            execution: execution("e1"),
            session: None,
            agent: None,
            intent: "x".to_owned(),
            steps: Vec::new(),
            success: true,
            started: Timestamp::from_micros(0),
            ended: Timestamp::from_micros(0),
            abandoned: false,
            code: None,
        })
    }

    fn execution(id: &str) -> ExecutionId {
        id.parse().unwrap()
    }

    fn id(step: &str) -> StepId {
        step.parse().unwrap()
    }

    fn fact(number: i64, event: &Event) -> Arc<NewRecord> {
        let time = Timestamp::from_micros(number);
        let id = RecordId::derived(time, &[&number.to_string()]);
        Arc::new(NewRecord { id, time, source: "test".into(), causation: None, envelope: None, event: event.clone() })
    }

    fn known(given: &[Event]) -> Executions {
        let mut executions = Executions::default();
        for (number, event) in (0..).zip(given) {
            executions.apply(&fact(number, event));
        }
        executions
    }

    /// Checks whether `event` is admitted after the events `given`.
    #[expect(clippy::needless_pass_by_value, reason = "a row of a table reads better without a reference")]
    fn check(given: &[Event], event: &Event, expected: Result<(), Refusal>) {
        let executions = known(given);
        assert_eq!(admit(&executions, event, &LIMITS), expected, "given {given:?} when {event:?}");
    }

    #[test]
    fn an_event_that_was_taken_back_leaves_no_trace() {
        let begun = [start("e1"), step("s1", "a:x")];
        for given in [&[][..], &begun[..1], &begun, &[start("e1"), done("s1", &[])]] {
            for event in [start("e1"), step("s1", "a:x"), step("s2", "a:x"), done("s1", &[]), done("s2", &[]), finish()] {
                let (before, mut after) = (known(given), known(given));
                if admit(&after, &event, &LIMITS).is_ok() {
                    let taken = fact(100, &event);
                    after.apply(&taken);
                    after.take_back(&taken);
                }
                let seen = |executions: &Executions| {
                    (executions.len(), executions.finished_len(), format!("{:?}", executions.get(&execution("e1"))))
                };
                assert_eq!(seen(&after), seen(&before), "given {given:?} when {event:?}");
            }
        }
    }

    #[test]
    fn an_execution_starts_once_while_there_is_room() {
        check(&[], &start("e1"), Ok(()));
        check(&[start("e1")], &start("e1"), Err(Refusal::AlreadyStarted { execution: execution("e1") }));
        check(&[start("e1"), close()], &start("e1"), Err(Refusal::Closed { execution: execution("e1") }));
        check(&[start("e1"), start("e2")], &start("e3"), Err(Refusal::TooManyOpen { max: 2 }));
        check(&[start("e1"), start("e2"), close()], &start("e3"), Ok(()));
        // A log not written by pml may hold the step before the start, which then needs no further room.
        check(&[start("e2"), done("s1", &[])], &start("e1"), Ok(()));
    }

    #[test]
    fn nothing_joins_an_execution_that_is_unknown_or_closed() {
        for event in [step("s1", "a:x"), done("s1", &[]), finish()] {
            check(&[start("e2")], &event, Err(Refusal::UnknownExecution { execution: execution("e1") }));
            check(&[start("e1"), close()], &event, Err(Refusal::Closed { execution: execution("e1") }));
            check(&[start("e1")], &event, Ok(()));
        }
    }

    #[test]
    fn an_execution_finishes_once_and_takes_late_steps_until_it_is_closed() {
        check(&[start("e1"), finish()], &finish(), Err(Refusal::AlreadyFinished { execution: execution("e1") }));
        check(&[start("e1"), finish()], &done("s1", &[]), Ok(()));
    }

    #[test]
    fn a_step_starts_once_and_finishes_once_in_either_order() {
        let begun = [start("e1"), step("s1", "a:x")];
        check(&begun, &step("s1", "a:x"), Err(Refusal::StepAlreadyStarted { step: id("s1") }));
        check(&begun, &done("s1", &[]), Ok(()));
        let ended = [start("e1"), done("s1", &[])];
        check(&ended, &done("s1", &[]), Err(Refusal::StepAlreadyFinished { step: id("s1") }));
        check(&ended, &step("s1", "a:x"), Ok(()));
    }

    #[test]
    fn a_step_finishes_with_the_tool_it_started_with() {
        let refusal = Refusal::StepChangedTool { step: id("s1"), started_with: "b:x".to_owned() };
        check(&[start("e1"), step("s1", "b:x")], &done("s1", &[]), Err(refusal));
    }

    #[test]
    fn steps_beyond_the_limit_are_refused_and_known_ones_go_on() {
        let full = [start("e1"), step("s1", "a:x"), done("s2", &[]), step("s3", "a:x")];
        check(&full, &step("s4", "a:x"), Err(Refusal::TooManySteps { max: 3 }));
        check(&full, &done("s4", &[]), Err(Refusal::TooManySteps { max: 3 }));
        check(&full, &done("s1", &[]), Ok(()));
        check(&full, &step("s2", "a:x"), Ok(()));
    }

    #[test]
    fn dependencies_beyond_the_limit_are_refused_with_the_field_and_the_key() {
        let given = [start("e1"), done("s1", &[]), done("s2", &["s1"])];
        check(&given, &done("s3", &["s1", "s2"]), Ok(()));
        let given = [start("e1"), step("s1", "a:x"), done("s2", &["s1"]), done("s3", &["s1", "s2"])];
        let (field, key) = ("data.depends_on".to_owned(), "limits.dependencies_max");
        check(&given, &done("s1", &["s2"]), Err(Refusal::TooMany { field, count: 4, max: 3, key }));
        check(&given, &done("s1", &[]), Ok(()));
    }

    #[test]
    fn a_step_depends_on_known_steps_only() {
        let given = [start("e1"), done("s1", &[]), step("s2", "a:x")];
        check(&given, &done("s3", &["s1", "s2"]), Ok(()));
        check(&given, &done("s3", &["s1", "s9"]), Err(Refusal::UnknownDependency { on: id("s9") }));
        check(&given, &done("s3", &["s3"]), Err(Refusal::UnknownDependency { on: id("s3") }));
    }

    #[test]
    fn a_cycle_is_refused_with_its_path() {
        let begun = [start("e1"), step("s1", "a:x"), step("s2", "a:x"), step("s3", "a:x")];
        let cycle = |path: &str| Err(Refusal::DependencyCycle { path: path.to_owned() });
        check(&begun, &done("s1", &["s1"]), cycle("s1 -> s1"));
        let chain = [&begun[..], &[done("s2", &["s1"]), done("s3", &["s2"])]].concat();
        check(&chain, &done("s1", &["s3"]), cycle("s3 -> s1 -> s2 -> s3"));
        check(&chain, &done("s1", &["s2"]), cycle("s2 -> s1 -> s2"));
        let fork = [&begun[..], &[done("s2", &["s1"])]].concat();
        check(&fork, &done("s1", &["s3"]), Ok(()));
        check(&chain[..5], &done("s3", &["s1", "s2"]), Ok(()));
    }
}
