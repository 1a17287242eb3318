//! trace: closes executions with their trace: soon after they finished, later if a step is still out, and as abandoned when nobody
//! finishes them.
//!
//! It follows the log only to know when each execution was heard of last. What happened in it is taken from the newest view when it
//! is due, so nothing is assembled twice, and an execution is never closed before the fold knows what the closing rests on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use actix::{Actor, Context, Handler, ResponseFuture};
use tokio::sync::watch;

use super::burst::Burst;
use super::follow::follow;
use super::{ActorFailure, Records};
use crate::clock::{Clock, Uptime};
use crate::config;
use crate::core::event::{Event, NewRecord, Record};
use crate::core::id::{ExecutionId, PrecomputedHash, Seq};
use crate::core::trace::OpenExecution;
use crate::failpoint;
use crate::log::{SharedLog, append_patiently};
use crate::views::Views;

/// Records handled between two looks at what is due: few enough that a batch is memory the allocator has at hand.
const BATCH_RECORDS_MAX: usize = 2_048;
/// Executions closed at once: what is due after a pause must not hold up those who publish.
const CLOSED_AT_ONCE_MAX: usize = 1_024;
/// Deadlines that no longer hold are removed when there are this many more of them than executions.
const STALE_DEADLINES_MAX: usize = 1_024;

#[derive(Clone)]
pub(crate) struct TraceParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) settings: config::Trace,
    pub(crate) burst: Burst,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life of the actor: starts from the open executions of the newest view and follows the log from there.
pub(crate) async fn run(parts: TraceParts) -> Result<(), ActorFailure> {
    let view = parts.views.current();
    let now = parts.clock.uptime();
    let (log, burst, stop) = (Arc::clone(&parts.log), parts.burst.clone(), parts.stop.clone());
    let actor = Trace::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let mut trace = Trace {
            heard: ByExecution::default(),
            deadlines: BinaryHeap::new(),
            log: parts.log,
            views: parts.views,
            clock: parts.clock,
            settings: parts.settings,
        };
        for (execution, open) in view.executions.iter() {
            // How long the log had been silent about it is not known here; the wait begins anew.
            trace.hear(execution, open.has_finished(), view.applied(), now);
        }
        trace
    });
    follow(log, view.applied(), BATCH_RECORDS_MAX, actor, Some(burst), stop).await
}

#[expect(clippy::disallowed_types, reason = "every event looks its execution up; nothing walks through the map")]
type ByExecution<V> = std::collections::HashMap<ExecutionId, V, BuildHasherDefault<PrecomputedHash>>;

struct Trace {
    /// The open executions that are not being closed.
    heard: ByExecution<Heard>,
    /// Soonest first. Every member of `heard` has one here; those that agree with no member any more mean nothing.
    deadlines: BinaryHeap<Reverse<Deadline>>,
    log: SharedLog,
    views: Views,
    clock: Clock,
    settings: config::Trace,
}

struct Heard {
    /// When its last event arrived, and where that stands in the log.
    last: Uptime,
    last_seq: Seq,
    /// `execution.finished` is among its events.
    finished: bool,
    /// The deadline that holds.
    look_at: Uptime,
    order: Seq,
}

/// When to look whether an execution is due; it may turn out to be due later, never sooner. Those due at the same time are closed as
/// they ended in the log.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    look_at: Uptime,
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
            self.note(record, now);
        }
        let traces = self.close_due(now);
        let log = Arc::clone(&self.log);
        Box::pin(async move {
            if !traces.is_empty() {
                append_patiently(&log, traces).await?;
            }
            Ok(())
        })
    }
}

impl Trace {
    fn note(&mut self, record: &Record, now: Uptime) {
        let event = record.event();
        let Some(execution) = event.execution() else { return };
        match event {
            Event::TraceCompleted(_) => {
                self.heard.remove(execution);
            }
            // Says that somebody works on an open execution, and opens none.
            Event::PredictionServed(_) if !self.heard.contains_key(execution) => {}
            _ => self.hear(execution, matches!(event, Event::ExecutionFinished(_)), record.seq, now),
        }
    }

    /// An event of `execution` arrived, at `seq` of the log; `finishes` says whether it ends the execution. One that comes after the
    /// closing leaves an entry behind that means nothing and goes when it is due.
    fn hear(&mut self, execution: &ExecutionId, finishes: bool, seq: Seq, now: Uptime) {
        let look_at = if let Some(heard) = self.heard.get_mut(execution) {
            heard.last = now;
            heard.last_seq = seq;
            heard.finished |= finishes;
            if !heard.finished {
                // Most events: a step of a running execution only moves its end further away. The deadline that stands is looked
                // at in time.
                return;
            }
            heard.order = seq;
            heard.look_at = heard.due_from(&self.settings);
            heard.look_at
        } else {
            let mut heard = Heard { last: now, last_seq: seq, finished: finishes, look_at: now, order: seq };
            heard.look_at = heard.due_from(&self.settings);
            let look_at = heard.look_at;
            self.heard.insert(execution.clone(), heard);
            look_at
        };
        self.deadlines.push(Reverse(Deadline { look_at, order: seq, execution: execution.clone() }));
        self.drop_stale();
    }

    /// Executions end long before they would count as abandoned, so most of what waits in `deadlines` may mean nothing. Each call
    /// that removes anything is paid for by at least as many pushes.
    fn drop_stale(&mut self) {
        if self.deadlines.len() > 2 * self.heard.len() + STALE_DEADLINES_MAX {
            let heard = &self.heard;
            self.deadlines
                .retain(|Reverse(deadline)| heard.get(&deadline.execution).is_some_and(|heard| deadline.holds(heard)));
        }
    }

    /// The traces of the executions that are due. What the view does not show yet, and what is too much at once, is looked at again
    /// with the next records or tick.
    fn close_due(&mut self, now: Uptime) -> Vec<Arc<NewRecord>> {
        let mut traces = Vec::new();
        if self.deadlines.peek().is_none_or(|Reverse(soonest)| soonest.look_at > now) {
            return traces;
        }
        let view = self.views.current();
        while traces.len() < CLOSED_AT_ONCE_MAX
            && let Some(Reverse(soonest)) = self.deadlines.peek().filter(|Reverse(soonest)| soonest.look_at <= now)
        {
            let Some(heard) = self.heard.get_mut(&soonest.execution).filter(|heard| soonest.holds(heard)) else {
                self.deadlines.pop();
                continue;
            };
            let at_least = heard.due_from(&self.settings);
            if at_least <= now && view.applied() < heard.last_seq {
                break; // The view is behind; what is due after this one was heard of about as lately.
            }
            let Some(Reverse(mut deadline)) = self.deadlines.pop() else { break };
            // Not open: closed meanwhile, and its closing is still on its way here.
            let open = view.executions.get(&deadline.execution);
            let due = open.map_or(at_least, |open| at_least.max(heard.last.plus_millis(wait_ms(open, &self.settings))));
            if due > now {
                heard.look_at = due;
                deadline.look_at = due;
                self.deadlines.push(Reverse(deadline));
            } else {
                traces.extend(open.map(|open| Arc::new(open.closing_record(&deadline.execution))));
                self.heard.remove(&deadline.execution);
            }
        }
        traces
    }
}

impl Heard {
    /// When it is due at the earliest, as far as can be told without knowing its steps.
    fn due_from(&self, settings: &config::Trace) -> Uptime {
        self.last.plus_millis(if self.finished { settings.settle_ms } else { settings.abandon_ms })
    }
}

impl Deadline {
    fn holds(&self, heard: &Heard) -> bool {
        (self.look_at, self.order) == (heard.look_at, heard.order)
    }
}

/// How long an execution stays open after its last event.
fn wait_ms(open: &OpenExecution, settings: &config::Trace) -> u64 {
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
            let fact = Arc::new(NewRecord { id, time, source: "test".into(), causation: None, event });
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
        (sender, Trace { heard: ByExecution::default(), deadlines: BinaryHeap::new(), log, views, clock, settings })
    }

    #[test]
    fn nothing_is_closed_before_a_view_holds_its_last_event() {
        let (views, mut trace) = trace();
        let (records, now) = (history(2), Uptime::ZERO);
        for record in &records {
            trace.note(record, now);
        }
        assert_eq!(trace.close_due(now).len(), 0, "late events may still come");
        let later = now.plus_millis(trace.settings.settle_ms);
        assert_eq!(trace.close_due(later).len(), 0, "the view holds nothing");
        views.send_replace(fold(&records[..3]));
        assert_eq!(trace.close_due(later).len(), 1, "the view does not hold the end of the second");
        views.send_replace(fold(&records));
        assert_eq!(trace.close_due(later).len(), 1);
        assert_eq!((trace.close_due(later).len(), trace.heard.len()), (0, 0), "each is closed once");
    }

    #[test]
    fn deadlines_that_hold_no_more_do_not_pile_up() {
        let (views, mut trace) = trace();
        let (records, mut now) = (history(10 * STALE_DEADLINES_MAX as u64), Uptime::ZERO);
        views.send_replace(fold(&records));
        for run in records.chunks(2) {
            for record in run {
                trace.note(record, now);
            }
            now = now.plus_millis(trace.settings.settle_ms);
            assert_eq!(trace.close_due(now).len(), 1);
        }
        assert!(trace.deadlines.len() <= STALE_DEADLINES_MAX + 2, "{} wait", trace.deadlines.len());
        assert_eq!(trace.close_due(now.plus_millis(SETTLED_MS)).len(), 0);
        assert!(trace.deadlines.is_empty());
    }
}
