//! Executions, and the trace that the events of one execution become. Late, duplicate and out-of-order events are ordinary input: the
//! trace is a function of the set of events, not of their order.
//!
//! The execution actor and the state each fold their own [`Executions`] from the log: the actor admits events by it; the state answers
//! about live executions, and the trace actor closes them from a view.

pub mod closed;
mod numbers;
mod open;

use std::collections::BTreeMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;

use super::digest::{DigestWriter, Digestible};
use super::event::{
    Event, ExecutionFinished, ExecutionStarted, NewRecord, StepFinished, StepStarted, TraceCompleted, beside_executions,
};
use super::hash::PrecomputedHash;
use super::id::{ExecutionId, StepId};
use closed::ClosedExecutions;
pub(crate) use open::Stamp;
use open::stamp;
pub use open::{OpenExecution, OpenStep, UNFINISHED};

/// The number of completed traces kept, the latest ones: to answer questions about them, and to distinguish late events from events
/// of unknown executions. Part of the fold, hence constant.
pub const TRACES_KEPT: usize = 100_000;

/// Steps up to which looking through all of them is faster than building a map of them.
const SHORT_TRACE_STEPS: usize = 16;

/// A persistent hash map by execution: every event looks its execution up. Nothing may depend on its order.
type ByExecution<V> = GenericHashMap<ExecutionId, V, BuildHasherDefault<PrecomputedHash>, DefaultSharedPtr>;

/// `Executions` holds the open executions and the latest closed ones.
#[derive(Clone, Debug, Default)]
pub struct Executions {
    open: ByExecution<Arc<OpenExecution>>,
    /// The number of open executions that have finished and wait to be closed.
    finished: usize,
    closed: ClosedExecutions,
}

impl Executions {
    /// The same executions for deciding on events: traces of executions that are closed from now on are not kept, their ids are.
    #[must_use]
    pub fn without_traces(mut self) -> Self {
        self.closed.keep_ids_only();
        self
    }

    /// Applies a fact. Returns `false` if its execution is already closed; then nothing changes.
    pub fn apply(&mut self, fact: &Arc<NewRecord>) -> bool {
        match &fact.event {
            Event::ExecutionStarted(ExecutionStarted { execution, .. })
            | Event::StepStarted(StepStarted { execution, .. })
            | Event::StepFinished(StepFinished { execution, .. })
            | Event::ExecutionFinished(ExecutionFinished { execution, .. }) => self.update(execution, |open| open.apply(fact)),
            Event::TraceCompleted(event) => self.close(&event.execution, fact),
            Event::PredictionServed(_) | Event::StepSpeculated(_) | beside_executions!() => true,
        }
    }

    fn update(&mut self, execution: &ExecutionId, change: impl FnOnce(&mut OpenExecution)) -> bool {
        if let Some(open) = self.open.get_mut(execution) {
            let was_finished = open.has_finished();
            change(Arc::make_mut(open));
            self.finished += usize::from(open.has_finished() && !was_finished);
            return true;
        }
        if self.closed.contains(execution) {
            return false;
        }
        let mut open = OpenExecution::default();
        change(&mut open);
        self.finished += usize::from(open.has_finished());
        self.open.insert(execution.clone(), Arc::new(open));
        true
    }

    fn close(&mut self, execution: &ExecutionId, trace: &Arc<NewRecord>) -> bool {
        if !self.discard(execution) && self.closed.contains(execution) {
            return false;
        }
        self.closed.push(execution, trace);
        true
    }

    /// Takes back a fact that was the last to be applied for its part of the execution, and that the log did not take.
    pub fn take_back(&mut self, fact: &NewRecord) {
        let Some(execution) = fact.event.execution() else { return };
        let Some(open) = self.open.get_mut(execution) else { return };
        let was_finished = open.has_finished();
        Arc::make_mut(open).take_back(fact);
        self.finished -= usize::from(was_finished && !open.has_finished());
        if open.is_empty() {
            self.open.remove(execution);
        }
    }

    /// Returns the trace of a closed execution, while it is kept.
    pub fn trace(&self, execution: &ExecutionId) -> Option<TraceCompleted> {
        self.closed.get(execution)
    }

    /// Returns the latest closed executions.
    pub fn closed(&self) -> &ClosedExecutions {
        &self.closed
    }

    /// Restores executions from the rows of a snapshot.
    pub fn from_rows(rows: impl IntoIterator<Item = (ExecutionId, OpenExecution)>, closed: ClosedExecutions) -> Self {
        let open: ByExecution<_> = rows.into_iter().map(|(execution, open)| (execution, Arc::new(open))).collect();
        Self { finished: open.values().filter(|open| open.has_finished()).count(), open, closed }
    }

    /// The number of traces kept.
    pub fn traces_len(&self) -> usize {
        self.closed.len()
    }

    /// Removes an open execution. Returns `false` if there is none with this id.
    fn discard(&mut self, execution: &ExecutionId) -> bool {
        let removed = self.open.remove(execution);
        self.finished -= usize::from(removed.as_ref().is_some_and(|open| open.has_finished()));
        removed.is_some()
    }

    /// Returns an open execution.
    pub fn get(&self, execution: &ExecutionId) -> Option<&OpenExecution> {
        self.open.get(execution).map(Arc::as_ref)
    }

    /// Whether the execution is among the closed ones kept.
    pub fn is_closed(&self, execution: &ExecutionId) -> bool {
        self.closed.contains(execution)
    }

    /// Returns the open executions, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&ExecutionId, &OpenExecution)> {
        self.open.iter().map(|(execution, open)| (execution, open.as_ref()))
    }

    /// The number of open executions.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// The number of open executions that have finished and wait to be closed.
    pub fn finished_len(&self) -> usize {
        self.finished
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl TraceCompleted {
    /// The data flow as pairs of step positions. Steps come after the steps they depend on.
    pub fn data_flow(&self) -> Vec<(usize, usize)> {
        let mut flow = Vec::new();
        if self.steps.len() <= SHORT_TRACE_STEPS {
            let from = |on: &StepId, to: usize| self.steps[..to].iter().position(|step| step.step == *on);
            for (to, step) in self.steps.iter().enumerate() {
                flow.extend(step.depends_on.iter().filter_map(|on| from(on, to)).map(|from| (from, to)));
            }
            return flow;
        }
        let mut earlier: BTreeMap<&StepId, usize> = BTreeMap::new();
        for (to, step) in self.steps.iter().enumerate() {
            flow.extend(step.depends_on.iter().filter_map(|on| earlier.get(on)).map(|from| (*from, to)));
            // Step ids repeat only in a log not written by pml; then the first step counts.
            earlier.entry(&step.step).or_insert(to);
        }
        flow
    }
}

impl Digestible for Executions {
    fn digest(&self, writer: &mut DigestWriter) {
        let write_stamp = |writer: &mut DigestWriter, (time, id): Stamp| {
            writer.i64(time.micros()).u128(id.to_bits());
        };
        let ordered: BTreeMap<&ExecutionId, &OpenExecution> = self.iter().collect();
        writer.len(ordered.len());
        for (execution, open) in ordered {
            writer.text(execution.as_str());
            // The stamp identifies a fact, so the digest need not cover its content.
            for fact in [&open.started, &open.finished] {
                writer.optional(fact.as_ref().map(|fact| stamp(fact)), write_stamp);
            }
            writer.len(open.steps.len());
            for step in &open.steps {
                writer.text(step.id.as_str()).text(&step.tool().text());
                writer.optional(step.started, write_stamp);
                writer.optional(step.finished.as_ref().map(|fact| stamp(fact)), write_stamp);
            }
        }
        self.closed.digest(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TraceStep;
    use crate::time::Timestamp;

    /// A trace in which every step depends on the one three before it, on one that comes later, and on `s1`, of which there are two.
    fn trace(steps: usize) -> TraceCompleted {
        let id = |number: usize| -> StepId { format!("s{}", number.max(1)).parse().unwrap() };
        let step = |number: usize| TraceStep {
            step: id(number),
            tool: "a:x".parse().unwrap(),
            depends_on: [number.saturating_sub(3), number + 2, 1].map(id).to_vec(),
            success: true,
            duration_ms: None,
            error_kind: None,
        };
        TraceCompleted {
            execution: "e".parse().unwrap(),
            session: None,
            agent: None,
            intent: String::new(),
            steps: (0..steps).map(step).collect(),
            success: true,
            started: Timestamp::from_micros(0),
            ended: Timestamp::from_micros(0),
            abandoned: false,
            code: None,
        }
    }

    #[test]
    fn the_data_flow_of_a_short_trace_is_that_of_the_beginning_of_a_long_one() {
        assert_eq!(trace(5).data_flow(), [(0, 1), (0, 1), (0, 2), (0, 2), (0, 3), (0, 3), (0, 4), (0, 4)]);
        let beginning = |steps: usize| -> Vec<_> {
            trace(steps).data_flow().into_iter().filter(|(_, to)| *to < SHORT_TRACE_STEPS).collect()
        };
        assert_eq!(beginning(SHORT_TRACE_STEPS), beginning(SHORT_TRACE_STEPS + 1));
        assert_eq!(beginning(SHORT_TRACE_STEPS), beginning(3 * SHORT_TRACE_STEPS));
    }
}
