//! Live executions and their queue for predictions: which execution waits for one, and after which record.
//!
//! An execution waits from a step until its prediction is made. A further step meanwhile replaces the record that it waits for and
//! keeps its place in the queue, so under load predictions are skipped, the order stays and memory is bounded. Predictions are made
//! from a [`LiveContext`]: a function of the records of the execution up to its cause, whichever process computes it and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{Event, NewRecord, Record};
use super::id::{Callee, ExecutionId, RecordId, Seq, SessionId};
use super::time::Timestamp;
use super::trace::{Executions, OpenExecution};

/// The intent and calls of a live execution after one of its records: what a prediction is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveContext {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    pub intent: String,
    /// The calls that have ended, in order.
    pub calls: Vec<Callee>,
    /// The last record of the execution included, and the time of that event.
    pub cause: RecordId,
    pub time: Timestamp,
}

impl LiveContext {
    /// The context of `execution`, of which `open` holds the records up to `cause`.
    pub fn from_execution(execution: &ExecutionId, open: &OpenExecution, cause: &NewRecord) -> Self {
        Self {
            execution: execution.clone(),
            session: open.session().cloned(),
            intent: open.intent().unwrap_or_default().to_owned(),
            calls: open.calls(),
            cause: cause.id,
            time: cause.time,
        }
    }
}

/// Whether a prediction is made after `event`: an execution has started, or a step has ended.
pub fn calls_for_a_prediction(event: &Event) -> bool {
    matches!(event, Event::ExecutionStarted(_) | Event::StepFinished(_))
}

/// `Live` holds the open executions and the queue of those that wait for a prediction, at most `waiting_max`.
#[derive(Debug)]
pub struct Live {
    open: BTreeMap<ExecutionId, Entry>,
    /// The queue, by the position of the record since which the execution waits.
    waiting: BTreeMap<Seq, ExecutionId>,
    waiting_max: usize,
}

#[derive(Debug, Default)]
struct Entry {
    so_far: OpenExecution,
    /// Its key in `waiting`, and the newest record that calls for a prediction.
    waits: Option<(Seq, Arc<NewRecord>)>,
}

impl Live {
    /// Starts with the executions open in a view. None of them waits: their records came before this process was live.
    pub fn new(executions: &Executions, waiting_max: usize) -> Self {
        let entry = |(execution, open): (&ExecutionId, &OpenExecution)| {
            (execution.clone(), Entry { so_far: open.clone(), waits: None })
        };
        let running = executions.iter().filter(|(_, open)| !open.has_finished());
        Self { open: running.map(entry).collect(), waiting: BTreeMap::new(), waiting_max }
    }

    /// Applies a record. `wanted` says whether its execution is served; it is called only when a prediction is due.
    /// Returns how many predictions will not be made: replaced by a newer one, ended with their execution, or over the limit.
    pub fn note(&mut self, record: &Record, wanted: impl FnOnce(&ExecutionId, &OpenExecution) -> bool) -> u64 {
        let event = record.event();
        let Some(execution) = event.execution() else { return 0 };
        match event {
            Event::ExecutionFinished(_) | Event::TraceCompleted(_) => return self.end(execution),
            Event::ExecutionStarted(_) | Event::StepStarted(_) | Event::StepFinished(_) => {}
            _ => return 0,
        }
        let starts = matches!(event, Event::ExecutionStarted(_));
        if starts && !self.open.contains_key(execution) {
            self.open.insert(execution.clone(), Entry::default());
        }
        // A record after the end of its execution is late and changes nothing.
        let Some(entry) = self.open.get_mut(execution) else { return 0 };
        entry.so_far.apply(&record.fact);
        if !calls_for_a_prediction(event) || !wanted(execution, &entry.so_far) {
            return 0;
        }
        if let Some((_, newest)) = &mut entry.waits {
            *newest = Arc::clone(&record.fact);
            return 1;
        }
        entry.waits = Some((record.seq, Arc::clone(&record.fact)));
        self.waiting.insert(record.seq, execution.clone());
        if self.waiting.len() <= self.waiting_max {
            return 0;
        }
        let (_, oldest) = self.waiting.pop_first().expect("more than waiting_max wait");
        if let Some(entry) = self.open.get_mut(&oldest) {
            entry.waits = None;
        }
        1
    }

    /// Returns the context after `fact`, which is on its way into the log, if a prediction will be due. Changes nothing, because the fact
    /// may never come. `None` also if the execution is unknown or the fact was noted already.
    pub fn context_after(
        &self,
        fact: &Arc<NewRecord>,
        wanted: impl FnOnce(&ExecutionId, &OpenExecution) -> bool,
    ) -> Option<LiveContext> {
        let execution = fact.event.execution()?;
        let known = self.open.get(execution).map(|entry| &entry.so_far);
        let mut open = match &fact.event {
            Event::ExecutionStarted(_) if known.is_none() => OpenExecution::default(),
            Event::StepFinished(step) => known.filter(|open| !open.is_finished_by(&step.step, fact.id))?.clone(),
            _ => return None,
        };
        open.apply(fact);
        wanted(execution, &open).then(|| LiveContext::from_execution(execution, &open, fact))
    }

    fn end(&mut self, execution: &ExecutionId) -> u64 {
        let waited = self.open.remove(execution).and_then(|entry| entry.waits);
        waited.map_or(0, |(since, _)| {
            self.waiting.remove(&since);
            1
        })
    }

    /// Removes up to `max` executions from the queue, the longest waiting first, and returns their contexts.
    pub fn next_contexts(&mut self, max: usize) -> Vec<LiveContext> {
        let mut contexts = Vec::new();
        while contexts.len() < max
            && let Some((_, execution)) = self.waiting.pop_first()
        {
            let entry = self.open.get_mut(&execution).expect("a waiting execution is open");
            let (_, cause) = entry.waits.take().expect("an execution in the queue waits");
            contexts.push(LiveContext::from_execution(&execution, &entry.so_far, &cause));
        }
        contexts
    }

    /// The number of executions that wait for a prediction.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of open executions.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ExecutionFinished, ExecutionStarted, StepFinished};

    fn record(seq: u64, event: Event) -> Record {
        let time = Timestamp::from_micros(i64::try_from(seq).unwrap());
        let id = RecordId::from_parts(time, u128::from(seq));
        let fact = Arc::new(NewRecord { id, time, source: "test".into(), causation: None, envelope: None, event });
        Record { seq: Seq(seq), recorded_at: time, fact }
    }

    fn started(seq: u64, execution: &str) -> Record {
        let session = Some("s".parse().unwrap());
        let started = ExecutionStarted {
            execution: execution.parse().unwrap(),
            intent: format!("do {execution}"),
            session,
            agent: None,
            parent: None,
        };
        record(seq, Event::ExecutionStarted(started))
    }

    fn step(seq: u64, execution: &str, tool: &str) -> Record {
        let finished = StepFinished {
            execution: execution.parse().unwrap(),
            step: format!("step{seq}").parse().unwrap(),
            tool: tool.parse().unwrap(),
            depends_on: Vec::new(),
            success: true,
            duration_ms: None,
            error_kind: None,
            arguments: None,
            result_summary: None,
        };
        record(seq, Event::StepFinished(finished))
    }

    fn finished(seq: u64, execution: &str) -> Record {
        let execution = execution.parse().unwrap();
        record(seq, Event::ExecutionFinished(ExecutionFinished { execution, success: true, error: None, code: None }))
    }

    fn live(waiting_max: usize) -> Live {
        Live::new(&Executions::default(), waiting_max)
    }

    fn note(live: &mut Live, records: &[Record]) -> u64 {
        records.iter().map(|record| live.note(record, |_, _| true)).sum()
    }

    /// Execution, calls and number of the causing record.
    fn taken(live: &mut Live) -> Vec<(String, Vec<String>, i64)> {
        let text = |context: LiveContext| {
            let calls = context.calls.iter().map(ToString::to_string).collect();
            (context.execution.to_string(), calls, context.time.micros())
        };
        live.next_contexts(usize::MAX).into_iter().map(text).collect()
    }

    #[test]
    fn the_start_and_every_step_call_for_a_prediction() {
        let mut live = live(9);
        note(&mut live, &[started(1, "a")]);
        assert_eq!(taken(&mut live), [("a".to_owned(), vec![], 1)]);
        note(&mut live, &[step(2, "a", "fs:read")]);
        assert_eq!(taken(&mut live), [("a".to_owned(), vec!["fs:read".to_owned()], 2)]);
        assert_eq!(taken(&mut live), [], "once");
        note(&mut live, &[started(3, "b"), step(4, "a", "fs:write")]);
        let contexts = live.next_contexts(1);
        assert_eq!((contexts[0].intent.as_str(), live.waiting()), ("do b", 1), "the longest waiting comes first");
    }

    #[test]
    fn a_flood_leaves_the_newest_step_of_each_execution() {
        let mut live = live(9);
        let dropped =
            note(&mut live, &[started(1, "a"), started(2, "b"), step(3, "b", "x:1"), step(4, "a", "x:1"), step(5, "a", "x:2")]);
        assert_eq!(dropped, 3);
        let expected = [("a", 2, 5), ("b", 1, 3)];
        let found = taken(&mut live);
        let found: Vec<_> = found.iter().map(|(execution, calls, cause)| (execution.as_str(), calls.len(), *cause)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn executions_that_finished_or_are_not_wanted_are_not_served() {
        let mut live = live(9);
        let unwanted = started(1, "a");
        assert_eq!(live.note(&unwanted, |_, open| open.session().is_none()), 0);
        assert_eq!(note(&mut live, &[started(2, "b"), finished(3, "b"), step(4, "b", "x:late")]), 1);
        assert_eq!((taken(&mut live), live.len()), (vec![], 1), "only the first is under way");
    }

    #[test]
    fn waiting_executions_are_bounded() {
        let mut live = live(2);
        assert_eq!(note(&mut live, &[started(1, "a"), started(2, "b"), started(3, "c")]), 1);
        let waiting: Vec<String> = taken(&mut live).into_iter().map(|(execution, _, _)| execution).collect();
        assert_eq!(waiting, ["b", "c"]);
        assert_eq!(note(&mut live, &[step(4, "a", "x:1")]), 0);
        assert_eq!(taken(&mut live).len(), 1, "the one that was dropped comes back with its next step");
    }

    #[test]
    fn the_context_after_a_fact_is_known_before_the_fact_is_noted() {
        let mut live = live(9);
        for record in [started(1, "a"), step(2, "a", "x:1"), step(3, "a", "x:2")] {
            let ahead = live.context_after(&record.fact, |_, _| true);
            assert!(ahead.is_some() && live.waiting() == 0, "nothing waits before it is noted");
            assert_eq!(live.context_after(&record.fact, |_, _| false), None, "it is not wanted");
            note(&mut live, std::slice::from_ref(&record));
            assert_eq!(live.context_after(&record.fact, |_, _| true), None, "it was noted");
            assert_eq!(live.next_contexts(1).pop(), ahead);
        }
        assert_eq!(live.context_after(&step(4, "b", "x:1").fact, |_, _| true), None, "its start is not known");
        assert_eq!(live.context_after(&finished(5, "a").fact, |_, _| true), None, "nothing follows the end");
    }

    #[test]
    fn an_actor_that_starts_anew_sees_the_same_contexts() {
        let records = [started(1, "a"), step(2, "a", "x:1"), step(3, "a", "x:2")];
        let mut executions = Executions::default();
        for record in &records[..2] {
            executions.apply(&record.fact);
        }
        let (mut whole, mut again) = (live(9), Live::new(&executions, 9));
        note(&mut whole, &records);
        note(&mut again, &records[2..]);
        assert_eq!(whole.next_contexts(1), again.next_contexts(1));
    }
}
