//! Runs as events, with ids that follow from the content: reading twice changes nothing, and a run that has grown adds only what is new.

use pml_core::event::{Event, ExecutionFinished, ExecutionStarted, NewRecord, StepFinished};
use pml_core::id::{Callee, RecordId};
use pml_core::time::Timestamp;

use crate::run::{Basis, Run, Step};

/// The source of events that readers make.
pub const SOURCE: &str = "pml/learn";

/// Returns the events of a run, which ends with them: one that may still go on ([`Basis::Open`]) is not published until it was left. Events
/// that the log gives no time get `now`, one microsecond apart.
pub fn events(run: &Run, now: Timestamp) -> Vec<NewRecord> {
    let record = |parts: &[&str], time: Timestamp, event: Event| NewRecord {
        id: RecordId::derived(Timestamp::from_micros(0), parts),
        time,
        source: SOURCE.into(),
        causation: None,
        envelope: None,
        event,
    };
    let id = run.execution.as_str();
    let mut time = run.started.unwrap_or(now);
    let started = ExecutionStarted {
        execution: run.execution.clone(),
        intent: run.intent.clone(),
        session: run.session.clone(),
        agent: Some(run.agent.to_string()),
        parent: run.parent.clone(),
    };
    let mut events = vec![record(&["started", id], time, Event::ExecutionStarted(started))];
    for step in &run.steps {
        // Times within an execution order its steps, so they increase.
        time = step.time.filter(|given| *given > time).unwrap_or_else(|| time.plus_micros(1));
        events.push(record(&["step", id, step.id.as_str()], time, Event::StepFinished(finished(run, step))));
    }
    let end = run.ended.filter(|ended| *ended > time).unwrap_or_else(|| time.plus_micros(1));
    let error = (!run.ending.success && run.ending.basis != Basis::Recorded).then(|| {
        format!("{}: {}", if run.ending.basis.is_inferred() { "inferred" } else { "recorded" }, run.ending.basis.name())
    });
    let ended = ExecutionFinished { execution: run.execution.clone(), success: run.ending.success, error, code: None };
    events.push(record(&["finished", id], end, Event::ExecutionFinished(ended)));
    events
}

fn finished(run: &Run, step: &Step) -> StepFinished {
    StepFinished {
        execution: run.execution.clone(),
        step: step.id.clone(),
        tool: Callee::Tool(step.tool.clone()),
        depends_on: step.depends_on.clone(),
        success: step.success,
        duration_ms: step.duration_ms,
        error_kind: step.error_kind.clone(),
        arguments: step.arguments.clone(),
        result_summary: step.error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::format::Format;
    use crate::pieces::Layout;
    use crate::reader::Reader;

    const SESSION: &str = include_str!("samples/claude_code.jsonl");

    /// The events of the runs that have ended, or of all.
    fn ids(text: &str, with_open: bool) -> BTreeSet<RecordId> {
        let mut reader = Reader::new(Format::ClaudeCode, Layout::Lines, std::sync::Arc::default());
        let mut runs = reader.feed(text.as_bytes());
        runs.extend(reader.finish());
        let now = Timestamp::from_micros(1);
        let taken = runs.iter().filter(|run| with_open || run.ending.basis != Basis::Open);
        taken.flat_map(|run| events(run, now)).map(|event| event.id).collect()
    }

    #[test]
    fn a_file_that_grows_only_adds_events() {
        let whole = ids(SESSION, true);
        assert!(whole.len() > 10);
        let mut before = BTreeSet::new();
        for end in SESSION.match_indices('\n').map(|(at, _)| at + 1) {
            let now = ids(&SESSION[..end], false);
            assert!(before.is_subset(&now) && now.is_subset(&whole), "after {end} bytes");
            before = now;
        }
    }

    #[test]
    fn times_increase_within_a_run() {
        let mut reader = Reader::new(Format::ClaudeCode, Layout::Lines, std::sync::Arc::default());
        let mut runs = reader.feed(SESSION.as_bytes());
        runs.extend(reader.finish());
        for run in runs {
            let times: Vec<Timestamp> = events(&run, Timestamp::from_micros(1)).iter().map(|event| event.time).collect();
            assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
        }
    }
}
