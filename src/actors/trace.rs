//! trace: assembles executions from the log and closes them: soon after they finished, later if a step is still out, and as
//! abandoned when nobody finishes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, ResponseFuture};
use tokio::sync::watch;

use super::follow::follow;
use super::graph_sync::Views;
use super::{Failure, Records};
use crate::clock::Clock;
use crate::config;
use crate::core::event::{Event, NewRecord, Record};
use crate::core::id::{ExecutionId, RecordId, Seq};
use crate::core::time::Timestamp;
use crate::core::trace::{Executions, OpenExecution};
use crate::failpoint;
use crate::log::{AppendError, Appended, SharedLog};

const SOURCE: &str = "pml/trace";
/// Records handled between two looks at what is due.
const BATCH_RECORDS_MAX: usize = 4_096;
/// Pause before an append that found the log's queue full is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub(crate) struct TraceParts {
    pub(crate) log: SharedLog,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) settings: config::Trace,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life of the actor: starts from the open executions of the newest view and follows the log from there.
pub(crate) async fn run(parts: TraceParts) -> Result<(), Failure> {
    let view = parts.views.current();
    let now = parts.clock.now();
    let (log, stop) = (Arc::clone(&parts.log), parts.stop.clone());
    let actor = Trace::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let mut trace = Trace {
            executions: view.executions.clone(),
            heard: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            log: parts.log,
            clock: parts.clock,
            settings: parts.settings,
        };
        for (execution, open) in view.executions.iter() {
            // How long the log had been silent about it is not known here; the wait begins anew.
            let look_at = now.plus_millis(trace.wait_ms(open));
            trace.schedule(execution, Heard { last: now, look_at, order: view.applied(), finished: open.has_finished() });
        }
        trace
    });
    follow(log, view.applied(), BATCH_RECORDS_MAX, actor, stop).await
}

struct Trace {
    executions: Executions,
    /// The open executions that are not being closed.
    heard: BTreeMap<ExecutionId, Heard>,
    /// The `look_at` and `order` of every member of `heard`, soonest first.
    deadlines: BTreeSet<(Timestamp, Seq, ExecutionId)>,
    log: SharedLog,
    clock: Clock,
    settings: config::Trace,
}

#[derive(Clone, Copy)]
struct Heard {
    /// When its last event arrived.
    last: Timestamp,
    /// When to look whether it is due; it may turn out to be due later, never sooner.
    look_at: Timestamp,
    /// Executions due at the same time are closed in this order: as they ended in the log.
    order: Seq,
    /// `execution.finished` is among its events.
    finished: bool,
}

impl Actor for Trace {
    type Context = Context<Self>;
}

impl Handler<Records> for Trace {
    type Result = ResponseFuture<Result<(), Failure>>;

    fn handle(&mut self, Records(records): Records, _: &mut Context<Self>) -> Self::Result {
        let now = self.clock.now();
        for record in &records {
            failpoint::pass("trace.record");
            self.hear(record, now);
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
    fn hear(&mut self, record: &Record, now: Timestamp) {
        let (fact, order) = (&record.fact, record.seq);
        let Some(execution) = fact.event.execution() else { return };
        if !self.executions.apply(fact) {
            return;
        }
        if matches!(fact.event, Event::StepStarted(_) | Event::StepFinished(_))
            && let Some(heard) = self.heard.get_mut(execution)
            && !heard.finished
        {
            // Most events: a step of a running execution only moves its end further away. The deadline that stands is looked at
            // in time.
            heard.last = now;
            return;
        }
        match self.executions.get(execution) {
            Some(open) => {
                let look_at = now.plus_millis(self.wait_ms(open));
                let finished = open.has_finished();
                self.schedule(execution, Heard { last: now, look_at, order, finished });
            }
            None => self.forget(execution),
        }
    }

    fn wait_ms(&self, open: &OpenExecution) -> u64 {
        match (open.has_finished(), open.awaits_steps()) {
            (true, false) => self.settings.settle_ms,
            (true, true) => self.settings.late_ms,
            (false, _) => self.settings.abandon_ms,
        }
    }

    fn schedule(&mut self, execution: &ExecutionId, heard: Heard) {
        self.forget(execution);
        self.deadlines.insert((heard.look_at, heard.order, execution.clone()));
        self.heard.insert(execution.clone(), heard);
    }

    fn forget(&mut self, execution: &ExecutionId) {
        if let Some(heard) = self.heard.remove(execution) {
            self.deadlines.remove(&(heard.look_at, heard.order, execution.clone()));
        }
    }

    /// The traces of all executions that are due. They stay in `executions` until the log gives the closing back.
    fn close_due(&mut self, now: Timestamp) -> Vec<Arc<NewRecord>> {
        let mut traces = Vec::new();
        while let Some((.., execution)) = self.deadlines.first().filter(|(at, ..)| *at <= now).cloned() {
            let open = self.executions.get(&execution).expect("what has a deadline is open");
            let heard = self.heard[&execution];
            let due = heard.last.plus_millis(self.wait_ms(open));
            if due <= now {
                traces.push(Arc::new(trace_record(&execution, open)));
                self.forget(&execution);
            } else {
                self.schedule(&execution, Heard { look_at: due, ..heard });
            }
        }
        traces
    }
}

/// The record that closes an execution. Its id follows from the execution's, so that closing twice is one record.
fn trace_record(execution: &ExecutionId, open: &OpenExecution) -> NewRecord {
    let trace = open.complete(execution, !open.has_finished());
    let cause = open.started_by();
    let cause_text = cause.map(|id| id.to_string()).unwrap_or_default();
    NewRecord {
        id: RecordId::derived(trace.started, &["trace.completed", execution.as_str(), &cause_text]),
        time: trace.ended,
        source: SOURCE.into(),
        causation: cause,
        event: Event::TraceCompleted(trace),
    }
}

/// A full queue is waited out; anything else ends this life of the actor, and the next one closes again under the same ids.
pub(super) async fn append_patiently(log: &SharedLog, facts: Vec<Arc<NewRecord>>) -> Result<Vec<Appended>, Failure> {
    loop {
        match log.append(facts.clone()).await {
            Ok(appended) => return Ok(appended),
            Err(AppendError::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}
