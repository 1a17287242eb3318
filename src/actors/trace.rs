//! The trace actor closes executions by appending their trace: soon after they finished, later if a step has not finished, and as
//! abandoned when they never finish.
//!
//! It follows the log only for the time of the last event of each execution. The trace itself is built from the newest view, so no
//! execution is assembled twice, and none is closed before the view holds its last event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use actix::{Actor, Context, Handler, ResponseFuture};
use tokio::sync::watch;

use super::burst::Burst;
use super::follow::{Pace, follow};
use super::{ActorFailure, Records};
use crate::clock::{Clock, Uptime};
use crate::config;
use crate::core::event::{Event, NewRecord, Record};
use crate::core::hash::PrecomputedHash;
use crate::core::id::{ExecutionId, Seq};
use crate::core::invariant::executions_are_closed_once;
use crate::core::trace::OpenExecution;
use crate::failpoint;
use crate::log::{SharedLog, append_patiently};
use crate::views::Views;

/// Records handled between two checks of the deadlines: few enough that the allocator reuses the memory of a batch.
const BATCH_RECORDS_MAX: usize = 2_048;
/// Executions closed at once. Many are due after a pause, and their traces must not delay the events of publishers.
const CLOSED_AT_ONCE_MAX: usize = 1_024;
/// Superseded deadlines are removed when there are about this many more of them than executions.
const SUPERSEDED_DEADLINES_MAX: usize = 1_024;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct TraceParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) settings: config::Trace,
    pub(crate) burst: Burst,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`, from the open executions of the newest view and its position in the log.
pub(crate) async fn run(parts: TraceParts) -> Result<(), ActorFailure> {
    let view = parts.views.current();
    let now = parts.clock.uptime();
    let (log, burst, stop) = (Arc::clone(&parts.log), parts.burst.clone(), parts.stop.clone());
    let actor = Trace::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let mut trace = Trace {
            executions: ByExecution::default(),
            deadlines: BinaryHeap::new(),
            log: parts.log,
            views: parts.views,
            clock: parts.clock,
            settings: parts.settings,
        };
        for (execution, open) in view.executions.iter() {
            // The time of its last event is not known here, so the wait starts again.
            trace.record_activity(execution, open.has_finished(), view.applied(), now);
        }
        trace
    });
    let pace = Pace { batch_max: BATCH_RECORDS_MAX, gather: Pace::GATHER, burst: Some(burst) };
    follow(log, view.applied(), pace, actor, stop).await
}

#[expect(clippy::disallowed_types, reason = "every event looks its execution up; nothing iterates over the map")]
type ByExecution<V> = std::collections::HashMap<ExecutionId, V, BuildHasherDefault<PrecomputedHash>>;

struct Trace {
    /// The open executions whose trace was not appended yet.
    executions: ByExecution<Activity>,
    /// Soonest first. Every entry of `executions` has a deadline here; deadlines that match no entry are superseded and ignored.
    deadlines: BinaryHeap<Reverse<Deadline>>,
    log: SharedLog,
    views: Views,
    clock: Clock,
    settings: config::Trace,
}

/// The activity of an open execution: its last event, and its current deadline.
struct Activity {
    /// When the last event arrived here.
    last: Uptime,
    /// The position of the last event in the log.
    last_seq: Seq,
    /// Whether `execution.finished` is among the events.
    finished: bool,
    /// The time of the current deadline.
    check_at: Uptime,
    /// The order of the current deadline.
    order: Seq,
}

/// The time to check whether an execution is due. It may turn out to be due later, never sooner. Executions with the same time are
/// closed in the order in which they ended in the log.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    check_at: Uptime,
    order: Seq,
    execution: ExecutionId,
}

impl Actor for Trace {
    type Context = Context<Self>;
}

impl Handler<Records> for Trace {
    type Result = ResponseFuture<Result<(), ActorFailure>>;

    fn handle(&mut self, Records(records): Records, _: &mut Context<Self>) -> Self::Result {
        let now = self.clock.uptime();
        for record in &records {
            failpoint::pass("trace.record");
            self.apply(record, now);
        }
        let traces = self.close_due(now);
        let log = Arc::clone(&self.log);
        Box::pin(async move {
            if !traces.is_empty() {
                debug_assert_eq!(executions_are_closed_once(traces.iter().map(Arc::as_ref)), Ok(()));
                append_patiently(&log, traces).await?;
            }
            Ok(())
        })
    }
}

impl Trace {
    fn apply(&mut self, record: &Record, now: Uptime) {
        let event = record.event();
        let Some(execution) = event.execution() else { return };
        match event {
            Event::TraceCompleted(_) => {
                self.executions.remove(execution);
            }
            // A prediction or a call ahead shows that an open execution is at work; it opens none.
            Event::PredictionServed(_) | Event::StepSpeculated(_) if !self.executions.contains_key(execution) => {}
            _ => self.record_activity(execution, matches!(event, Event::ExecutionFinished(_)), record.seq, now),
        }
    }

    /// Records that an event of `execution` arrived, at position `seq`; `finishes` says whether it ends the execution. An event after
    /// the trace leaves an entry that has no effect and is removed when it is due.
    fn record_activity(&mut self, execution: &ExecutionId, finishes: bool, seq: Seq, now: Uptime) {
        let check_at = if let Some(activity) = self.executions.get_mut(execution) {
            activity.last = now;
            activity.last_seq = seq;
            activity.finished |= finishes;
            if !activity.finished {
                // Most events: a step of a running execution only makes it due later, and the current deadline is early enough.
                return;
            }
            activity.order = seq;
            activity.check_at = activity.earliest_due(&self.settings);
            activity.check_at
        } else {
            let mut activity = Activity { last: now, last_seq: seq, finished: finishes, check_at: now, order: seq };
            activity.check_at = activity.earliest_due(&self.settings);
            let check_at = activity.check_at;
            self.executions.insert(execution.clone(), activity);
            check_at
        };
        self.deadlines.push(Reverse(Deadline { check_at, order: seq, execution: execution.clone() }));
        self.drop_superseded();
    }

    /// Removes superseded deadlines when they are many. Executions end long before they would be abandoned, so most deadlines are
    /// superseded. Amortised, the cost is constant per pushed deadline.
    fn drop_superseded(&mut self) {
        if self.deadlines.len() > 2 * self.executions.len() + SUPERSEDED_DEADLINES_MAX {
            let executions = &self.executions;
            self.deadlines.retain(|Reverse(deadline)| {
                executions.get(&deadline.execution).is_some_and(|activity| deadline.is_current(activity))
            });
        }
    }

    /// Closes the executions that are due and returns their traces. Those that the view does not hold completely, and those beyond
    /// [`CLOSED_AT_ONCE_MAX`], are checked again with the next records or tick.
    fn close_due(&mut self, now: Uptime) -> Vec<Arc<NewRecord>> {
        let mut traces = Vec::new();
        if self.deadlines.peek().is_none_or(|Reverse(soonest)| soonest.check_at > now) {
            return traces;
        }
        let view = self.views.current();
        while traces.len() < CLOSED_AT_ONCE_MAX
            && let Some(Reverse(soonest)) = self.deadlines.peek().filter(|Reverse(soonest)| soonest.check_at <= now)
        {
            let Some(activity) = self.executions.get_mut(&soonest.execution).filter(|activity| soonest.is_current(activity))
            else {
                self.deadlines.pop();
                continue;
            };
            let earliest = activity.earliest_due(&self.settings);
            if earliest <= now && view.applied() < activity.last_seq {
                break; // The view is behind; the executions due after this one had events about as recently.
            }
            let Some(Reverse(mut deadline)) = self.deadlines.pop() else { break };
            // Not open in the view: it was closed meanwhile, and its trace has not arrived here yet.
            let open = view.executions.get(&deadline.execution);
            let due = open.map_or(earliest, |open| earliest.max(activity.last.plus_millis(open_for_ms(open, &self.settings))));
            if due > now {
                activity.check_at = due;
                deadline.check_at = due;
                self.deadlines.push(Reverse(deadline));
            } else {
                traces.extend(open.map(|open| Arc::new(open.closing_record(&deadline.execution))));
                self.executions.remove(&deadline.execution);
            }
        }
        traces
    }
}

impl Activity {
    /// The earliest time at which the execution can be due, without knowledge of its steps.
    fn earliest_due(&self, settings: &config::Trace) -> Uptime {
        self.last.plus_millis(if self.finished { settings.settle_ms } else { settings.abandon_ms })
    }
}

impl Deadline {
    /// Whether it is the current deadline of the execution with this activity.
    fn is_current(&self, activity: &Activity) -> bool {
        (self.check_at, self.order) == (activity.check_at, activity.order)
    }
}

/// How long an execution stays open after its last event, in milliseconds.
fn open_for_ms(open: &OpenExecution, settings: &config::Trace) -> u64 {
    match (open.has_finished(), open.awaits_steps()) {
        (true, false) => settings.settle_ms,
        (true, true) => settings.late_ms,
        (false, _) => settings.abandon_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::core::event::{ExecutionFinished, ExecutionStarted};
    use crate::core::id::RecordId;
    use crate::core::state::State;
    use crate::core::time::Timestamp;
    use crate::log::MemoryLog;

    const SETTLED_MS: u64 = 100_000_000;

    /// The records of `runs` executions, each started and finished.
    fn history(runs: u64) -> Vec<Record> {
        let events = (0..runs).flat_map(|run| {
            let execution: ExecutionId = format!("e{run}").parse().unwrap();
            let intent = "x".to_owned();
            let started = ExecutionStarted { execution: execution.clone(), intent, session: None, agent: None, parent: None };
            let finished = ExecutionFinished { execution, success: true, error: None, code: None };
            [Event::ExecutionStarted(started), Event::ExecutionFinished(finished)]
        });
        let record = |(seq, event)| {
            let time = Timestamp::from_micros(0);
            let id = RecordId::from_parts(time, u128::from(seq));
            let fact = Arc::new(NewRecord { id, time, source: "test".into(), causation: None, envelope: None, event });
            Record { seq: Seq(seq), recorded_at: time, fact }
        };
        (1_u64..).zip(events).map(record).collect()
    }

    fn fold(records: &[Record]) -> Arc<State> {
        let mut state = State::default();
        for record in records {
            state.apply(record);
        }
        Arc::new(state)
    }

    fn trace() -> (watch::Sender<Arc<State>>, Trace) {
        let (sender, views) = Views::channel(State::default());
        let clock = Clock::system();
        let log: SharedLog = Arc::new(MemoryLog::new(clock.clone()));
        let settings = Config::load(None, []).unwrap().trace;
        (sender, Trace { executions: ByExecution::default(), deadlines: BinaryHeap::new(), log, views, clock, settings })
    }

    #[test]
    fn nothing_is_closed_before_a_view_holds_its_last_event() {
        let (views, mut trace) = trace();
        let (records, now) = (history(2), Uptime::ZERO);
        for record in &records {
            trace.apply(record, now);
        }
        assert_eq!(trace.close_due(now).len(), 0, "late events may still come");
        let later = now.plus_millis(trace.settings.settle_ms);
        assert_eq!(trace.close_due(later).len(), 0, "the view holds nothing");
        views.send_replace(fold(&records[..3]));
        assert_eq!(trace.close_due(later).len(), 1, "the view does not hold the end of the second");
        views.send_replace(fold(&records));
        assert_eq!(trace.close_due(later).len(), 1);
        assert_eq!((trace.close_due(later).len(), trace.executions.len()), (0, 0), "each is closed once");
    }

    #[test]
    fn superseded_deadlines_do_not_pile_up() {
        let (views, mut trace) = trace();
        let (records, mut now) = (history(10 * SUPERSEDED_DEADLINES_MAX as u64), Uptime::ZERO);
        views.send_replace(fold(&records));
        for run in records.chunks(2) {
            for record in run {
                trace.apply(record, now);
            }
            now = now.plus_millis(trace.settings.settle_ms);
            assert_eq!(trace.close_due(now).len(), 1);
        }
        assert!(trace.deadlines.len() <= SUPERSEDED_DEADLINES_MAX + 2, "{} wait", trace.deadlines.len());
        assert_eq!(trace.close_due(now.plus_millis(SETTLED_MS)).len(), 0);
        assert!(trace.deadlines.is_empty());
    }
}
