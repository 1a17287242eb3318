//! Executions under way, as seen by whoever tells them what comes next: which of them waits for a prediction, and after which record.
//!
//! An execution waits from a step until it is served. Further steps meanwhile replace what it waits for and leave it its place, so a
//! flood costs predictions, not order or memory. What is predicted from is a [`Moment`]: a function of the records of the execution
//! up to the one that caused it, whoever computes it and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{Event, NewRecord, Record};
use super::id::{Callee, ExecutionId, RecordId, Seq, SessionId};
use super::time::Timestamp;
use super::trace::{Executions, OpenExecution};

/// Where an execution stands after one of its records.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub execution: ExecutionId,
    pub session: Option<SessionId>,
    pub intent: String,
    /// What was called and has returned, in order.
    pub calls: Vec<Callee>,
    /// The record after which this is so, and when that happened.
    pub cause: RecordId,
    pub time: Timestamp,
}

impl Moment {
    /// `open` holds the records of `execution` up to `cause`.
    pub fn of(execution: &ExecutionId, open: &OpenExecution, cause: &NewRecord) -> Self {
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

/// Whether something follows that can be predicted: the execution has begun, or a step has ended.
pub fn calls_for_a_prediction(event: &Event) -> bool {
    matches!(event, Event::ExecutionStarted(_) | Event::StepFinished(_))
}

#[derive(Debug)]
pub struct Live {
    open: BTreeMap<ExecutionId, Entry>,
    /// By place: the position of the record since which the execution waits.
    waiting: BTreeMap<Seq, ExecutionId>,
    waiting_max: usize,
}

#[derive(Debug, Default)]
struct Entry {
    so_far: OpenExecution,
    /// Its place in `waiting`, and the newest record that calls for a prediction.
    waits: Option<(Seq, Arc<NewRecord>)>,
}

impl Live {
    /// Those that are open in a view, none of them waiting: what happened before is not live.
    pub fn new(executions: &Executions, waiting_max: usize) -> Self {
        let entry = |(execution, open): (&ExecutionId, &OpenExecution)| {
            (execution.clone(), Entry { so_far: open.clone(), waits: None })
        };
        let running = executions.iter().filter(|(_, open)| !open.has_finished());
        Self { open: running.map(entry).collect(), waiting: BTreeMap::new(), waiting_max }
    }

    /// Takes note of a record. `wanted` says whether its execution is served; it is asked only where there is something to serve.
    /// Returns how many predictions will not be made: replaced by a newer one, ended with their execution, or too many.
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
        // What comes after the end is late and changes nothing.
        let Some(entry) = self.open.get_mut(execution) else { return 0 };
        entry.so_far.note(&record.fact);
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

    fn end(&mut self, execution: &ExecutionId) -> u64 {
        let waited = self.open.remove(execution).and_then(|entry| entry.waits);
        waited.map_or(0, |(place, _)| {
            self.waiting.remove(&place);
            1
        })
    }

    /// What to predict from, for up to `max` of those that have waited longest.
    pub fn take(&mut self, max: usize) -> Vec<Moment> {
        let mut moments = Vec::new();
        while moments.len() < max
            && let Some((_, execution)) = self.waiting.pop_first()
        {
            let entry = self.open.get_mut(&execution).expect("whoever waits is open");
            let (_, cause) = entry.waits.take().expect("whoever has a place waits");
            moments.push(Moment::of(&execution, &entry.so_far, &cause));
        }
        moments
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many are under way.
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
    use crate::core::event::{ExecutionFinished, ExecutionStarted, StepFinished};

    fn record(seq: u64, event: Event) -> Record {
        let time = Timestamp::from_micros(i64::try_from(seq).unwrap());
        let id = RecordId::from_parts(time, u128::from(seq));
        let fact = Arc::new(NewRecord { id, time, source: "test".into(), causation: None, event });
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
        let text = |moment: Moment| {
            let calls = moment.calls.iter().map(ToString::to_string).collect();
            (moment.execution.to_string(), calls, moment.time.micros())
        };
        live.take(usize::MAX).into_iter().map(text).collect()
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
        let moments = live.take(1);
        assert_eq!((moments[0].intent.as_str(), live.waiting()), ("do b", 1), "whoever waits longest comes first");
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
    fn who_is_finished_or_not_wanted_is_not_served() {
        let mut live = live(9);
        let unwanted = started(1, "a");
        assert_eq!(live.note(&unwanted, |_, open| open.session().is_none()), 0);
        assert_eq!(note(&mut live, &[started(2, "b"), finished(3, "b"), step(4, "b", "x:late")]), 1);
        assert_eq!((taken(&mut live), live.len()), (vec![], 1), "only the first is under way");
    }

    #[test]
    fn those_who_wait_are_bounded() {
        let mut live = live(2);
        assert_eq!(note(&mut live, &[started(1, "a"), started(2, "b"), started(3, "c")]), 1);
        let waiting: Vec<String> = taken(&mut live).into_iter().map(|(execution, _, _)| execution).collect();
        assert_eq!(waiting, ["b", "c"]);
        assert_eq!(note(&mut live, &[step(4, "a", "x:1")]), 0);
        assert_eq!(taken(&mut live).len(), 1, "the one that was dropped comes back with its next step");
    }

    #[test]
    fn an_actor_that_starts_anew_sees_the_same_moments() {
        let records = [started(1, "a"), step(2, "a", "x:1"), step(3, "a", "x:2")];
        let mut executions = Executions::default();
        for record in &records[..2] {
            executions.apply(&record.fact);
        }
        let (mut whole, mut again) = (live(9), Live::new(&executions, 9));
        note(&mut whole, &records);
        note(&mut again, &records[2..]);
        assert_eq!(whole.take(1), again.take(1));
    }
}
