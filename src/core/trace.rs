//! From the events of one execution to one trace. Late, duplicated and out-of-order events are ordinary input: the trace is a
//! function of the set of events, not of the order they came in.
//!
//! Two owners keep [`Executions`] of their own, each from the log: the execution actor (to admit) and the state (to answer about live
//! executions, and for the trace actor to close them from a view).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, Vector};

use super::digest::{Digestible, Writer};
use super::event::{
    Event, ExecutionFinished, ExecutionStarted, NewRecord, StepFinished, StepStarted, TraceCompleted, TraceStep,
};
use super::id::{Callee, ExecutionId, OwnHash, RecordId, SessionId, StepId};
use super::time::Timestamp;

/// Completed traces kept, the latest ones: to answer questions about them, and to tell what comes too late from what never began.
/// Part of the fold, hence constant.
pub const TRACES_KEPT: usize = 100_000;

/// `error_kind` of a step that was started and never finished.
pub const UNFINISHED: &str = "unfinished";

/// Where a claim came from. Of two claims about the same thing the smaller stamp holds, whichever arrived first.
type Stamp = (Timestamp, RecordId);

fn stamp(fact: &NewRecord) -> Stamp {
    (fact.time, fact.id)
}

fn keep_earlier(slot: &mut Option<Arc<NewRecord>>, fact: &Arc<NewRecord>) {
    if slot.as_ref().is_none_or(|known| stamp(fact) < stamp(known)) {
        *slot = Some(Arc::clone(fact));
    }
}

#[derive(Clone, Debug)]
pub struct OpenStep {
    id: StepId,
    tool: Callee,
    started: Option<Stamp>,
    finished: Option<Arc<NewRecord>>,
}

impl OpenStep {
    pub fn id(&self) -> &StepId {
        &self.id
    }

    pub fn tool(&self) -> &Callee {
        self.finish().map_or(&self.tool, |finished| &finished.tool)
    }

    pub fn has_started(&self) -> bool {
        self.started.is_some()
    }

    pub fn has_finished(&self) -> bool {
        self.finished.is_some()
    }

    pub fn depends_on(&self) -> &[StepId] {
        self.finish().map_or(&[], |finished| &finished.depends_on)
    }

    fn finish(&self) -> Option<&StepFinished> {
        self.finished.as_ref().map(|fact| match &fact.event {
            Event::StepFinished(event) => event,
            other => unreachable!("a step is finished by step.finished, not by {}", other.kind()),
        })
    }

    /// When it began, as far as anybody said.
    fn time(&self) -> Timestamp {
        let finished = self.finished.as_ref().map(|fact| fact.time);
        self.started.map(|(time, _)| time).or(finished).expect("a step was started or finished")
    }
}

/// What is known so far about one execution.
#[derive(Clone, Debug, Default)]
pub struct OpenExecution {
    started: Option<Arc<NewRecord>>,
    /// Sorted by step id.
    steps: Vec<OpenStep>,
    finished: Option<Arc<NewRecord>>,
}

impl OpenExecution {
    pub fn has_started(&self) -> bool {
        self.started.is_some()
    }

    pub fn has_finished(&self) -> bool {
        self.finished.is_some()
    }

    /// What it is to achieve and where it belongs, once that is known.
    pub fn intent(&self) -> Option<&str> {
        self.start().map(|event| event.intent.as_str())
    }

    pub fn session(&self) -> Option<&SessionId> {
        self.start().and_then(|event| event.session.as_ref())
    }

    /// The record that started it.
    pub fn started_by(&self) -> Option<RecordId> {
        self.started.as_ref().map(|fact| fact.id)
    }

    /// Whether some step was started and has not been reported finished.
    pub fn awaits_steps(&self) -> bool {
        self.steps.iter().any(|step| !step.has_finished())
    }

    pub fn steps(&self) -> impl ExactSizeIterator<Item = &OpenStep> {
        self.steps.iter()
    }

    pub fn step(&self, id: &StepId) -> Option<&OpenStep> {
        self.steps.binary_search_by(|step| step.id.cmp(id)).ok().map(|at| &self.steps[at])
    }

    /// How many steps had finished with the record `cause`, and whether this has gone on since. All that are known, if `cause` is
    /// none of its records.
    pub fn since(&self, cause: Option<RecordId>) -> (usize, bool) {
        let finished = || self.steps.iter().filter_map(|step| step.finished.as_ref()).chain(&self.finished);
        let facts = finished().chain(&self.started);
        let cause = facts.filter(|fact| Some(fact.id) == cause).map(|fact| stamp(fact)).next();
        let later = |fact: &&Arc<NewRecord>| cause.is_some_and(|cause| stamp(fact) > cause);
        let steps = self.steps.iter().filter_map(|step| step.finished.as_ref()).filter(|fact| !later(fact)).count();
        (steps, self.finished.is_some() || finished().any(|fact| later(&fact)))
    }

    /// Whether `fact` is the one that finished the step: not one that came again with another id.
    pub fn is_finished_by(&self, step: &StepId, fact: RecordId) -> bool {
        self.step(step).and_then(|step| step.finished.as_ref()).is_some_and(|finished| finished.id == fact)
    }

    fn step_mut(&mut self, id: &StepId, tool: &Callee) -> &mut OpenStep {
        let at = self.steps.binary_search_by(|step| step.id.cmp(id)).unwrap_or_else(|at| {
            self.steps.insert(at, OpenStep { id: id.clone(), tool: tool.clone(), started: None, finished: None });
            at
        });
        &mut self.steps[at]
    }

    fn step_started(&mut self, stamp: Stamp, event: &StepStarted) {
        let step = self.step_mut(&event.step, &event.tool);
        if step.started.is_none_or(|known| stamp < known) {
            step.started = Some(stamp);
            step.tool = event.tool.clone();
        }
    }

    fn step_finished(&mut self, fact: &Arc<NewRecord>, event: &StepFinished) {
        keep_earlier(&mut self.step_mut(&event.step, &event.tool).finished, fact);
    }

    /// Takes note of a fact about this execution.
    pub fn note(&mut self, fact: &Arc<NewRecord>) {
        match &fact.event {
            Event::ExecutionStarted(_) => keep_earlier(&mut self.started, fact),
            Event::StepStarted(event) => self.step_started(stamp(fact), event),
            Event::StepFinished(event) => self.step_finished(fact, event),
            Event::ExecutionFinished(_) => keep_earlier(&mut self.finished, fact),
            other => debug_assert!(false, "{} says nothing about an open execution", other.kind()),
        }
    }

    /// What was called and has returned, in the order the trace will have.
    pub fn calls(&self) -> Vec<Callee> {
        let finished = self.order().into_iter().filter(|(at, _)| self.steps[*at].has_finished());
        finished.map(|(at, _)| self.steps[at].tool().clone()).collect()
    }

    fn start(&self) -> Option<&ExecutionStarted> {
        self.started.as_ref().map(|fact| match &fact.event {
            Event::ExecutionStarted(event) => event,
            other => unreachable!("an execution is started by execution.started, not by {}", other.kind()),
        })
    }

    fn finish(&self) -> Option<&ExecutionFinished> {
        self.finished.as_ref().map(|fact| match &fact.event {
            Event::ExecutionFinished(event) => event,
            other => unreachable!("an execution is finished by execution.finished, not by {}", other.kind()),
        })
    }

    /// The finished trace. Steps are in data-flow order, then by time, then by id; dependencies that nobody reported are dropped.
    pub fn complete(&self, execution: &ExecutionId, abandoned: bool) -> TraceCompleted {
        let first = self.steps.iter().map(OpenStep::time).min();
        let last = self.steps.iter().filter_map(|step| step.finished.as_ref().map(|fact| fact.time)).max();
        let started = self.started.as_ref().map(|fact| fact.time).or(first);
        let ended = self.finished.as_ref().map(|fact| fact.time).or(last).or(started);
        let head = self.start();
        let outcome = self.finish();
        TraceCompleted {
            execution: execution.clone(),
            session: head.and_then(|event| event.session.clone()),
            agent: head.and_then(|event| event.agent.clone()),
            intent: head.map_or_else(String::new, |event| event.intent.clone()),
            steps: self.ordered_steps(),
            success: outcome.is_some_and(|outcome| outcome.success),
            started: started.or(ended).unwrap_or(Timestamp::from_micros(0)),
            ended: ended.or(started).unwrap_or(Timestamp::from_micros(0)),
            abandoned,
            code: outcome.and_then(|outcome| outcome.code.clone()),
        }
    }

    fn ordered_steps(&self) -> Vec<TraceStep> {
        let step = |(at, needs): (usize, Vec<usize>)| {
            trace_step(&self.steps[at], needs.into_iter().map(|on| self.steps[on].id.clone()).collect())
        };
        self.order().into_iter().map(step).collect()
    }

    /// Positions of the steps with those they depend on. Kahn's algorithm, the earliest ready step first. A dependency on a step
    /// placed later (only possible in a log that was not written by pml) is dropped rather than trusted.
    fn order(&self) -> Vec<(usize, Vec<usize>)> {
        let position = |id: &StepId| self.steps.binary_search_by(|step| step.id.cmp(id)).ok();
        let mut needs: Vec<Vec<usize>> =
            self.steps.iter().map(|step| step.depends_on().iter().filter_map(position).collect()).collect();
        let mut waiting: BTreeSet<(Timestamp, usize)> =
            self.steps.iter().enumerate().map(|(at, step)| (step.time(), at)).collect();
        let mut placed = vec![false; self.steps.len()];
        let mut ordered = Vec::with_capacity(self.steps.len());
        while let Some(&next) =
            waiting.iter().find(|(_, at)| needs[*at].iter().all(|&on| placed[on])).or_else(|| waiting.first())
        {
            waiting.remove(&next);
            let at = next.1;
            let mut depends_on = std::mem::take(&mut needs[at]);
            depends_on.retain(|on| placed[*on]);
            ordered.push((at, depends_on));
            placed[at] = true;
        }
        ordered
    }
}

fn trace_step(step: &OpenStep, depends_on: Vec<StepId>) -> TraceStep {
    let finished = step.finish();
    TraceStep {
        step: step.id.clone(),
        tool: step.tool().clone(),
        depends_on,
        success: finished.is_some_and(|finished| finished.success),
        duration_ms: finished.and_then(|finished| finished.duration_ms),
        error_kind: match finished {
            Some(finished) => finished.error_kind.clone(),
            None => Some(UNFINISHED.to_owned()),
        },
    }
}

/// A persistent hash map, because every event looks its execution up. Nothing may depend on its order.
type ByExecution<V> = GenericHashMap<ExecutionId, V, BuildHasherDefault<OwnHash>, DefaultSharedPtr>;

/// The executions under way, and those closed last.
#[derive(Clone, Debug, Default)]
pub struct Executions {
    open: ByExecution<Arc<OpenExecution>>,
    /// With the fact that closed it, a completed trace.
    closed: ByExecution<Arc<NewRecord>>,
    /// The keys of `closed`, oldest first.
    closed_order: Vector<ExecutionId>,
}

impl Executions {
    /// Takes note of a fact. `false` if it belongs to an execution that is already closed and changes nothing.
    pub fn apply(&mut self, fact: &Arc<NewRecord>) -> bool {
        match &fact.event {
            Event::ExecutionStarted(ExecutionStarted { execution, .. })
            | Event::StepStarted(StepStarted { execution, .. })
            | Event::StepFinished(StepFinished { execution, .. })
            | Event::ExecutionFinished(ExecutionFinished { execution, .. }) => self.update(execution, |open| open.note(fact)),
            Event::TraceCompleted(event) => self.close(&event.execution, fact),
            Event::ToolRegistered(_)
            | Event::ToolRemoved(_)
            | Event::CapabilityDeclared(_)
            | Event::FeedbackGiven(_)
            | Event::TemplateLoaded(_)
            | Event::EmbeddingComputed(_)
            | Event::PredictionServed(_)
            | Event::LogForked(_) => true,
        }
    }

    fn update(&mut self, execution: &ExecutionId, change: impl FnOnce(&mut OpenExecution)) -> bool {
        if let Some(open) = self.open.get_mut(execution) {
            change(Arc::make_mut(open));
            return true;
        }
        if self.closed.contains_key(execution) {
            return false;
        }
        let mut open = OpenExecution::default();
        change(&mut open);
        self.open.insert(execution.clone(), Arc::new(open));
        true
    }

    fn close(&mut self, execution: &ExecutionId, trace: &Arc<NewRecord>) -> bool {
        if self.open.remove(execution).is_none() && self.closed.contains_key(execution) {
            return false;
        }
        self.closed.insert(execution.clone(), Arc::clone(trace));
        self.closed_order.push_back(execution.clone());
        if self.closed_order.len() > TRACES_KEPT {
            let oldest = self.closed_order.pop_front().expect("more than TRACES_KEPT entries");
            self.closed.remove(&oldest);
        }
        true
    }

    /// The trace of an execution closed lately.
    pub fn trace(&self, execution: &ExecutionId) -> Option<&TraceCompleted> {
        self.closed.get(execution).map(|fact| match &fact.event {
            Event::TraceCompleted(trace) => trace,
            other => unreachable!("an execution is closed by trace.completed, not by {}", other.kind()),
        })
    }

    /// How many traces are kept.
    pub fn traces_len(&self) -> usize {
        self.closed.len()
    }

    /// Forgets an execution that turned out not to exist: its start was a late copy of a record closed long ago.
    pub fn discard(&mut self, execution: &ExecutionId) {
        self.open.remove(execution);
    }

    pub fn get(&self, execution: &ExecutionId) -> Option<&OpenExecution> {
        self.open.get(execution).map(Arc::as_ref)
    }

    pub fn is_closed(&self, execution: &ExecutionId) -> bool {
        self.closed.contains_key(execution)
    }

    /// In no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&ExecutionId, &OpenExecution)> {
        self.open.iter().map(|(execution, open)| (execution, open.as_ref()))
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Digestible for Executions {
    fn digest(&self, writer: &mut Writer) {
        let write_stamp = |writer: &mut Writer, (time, id): Stamp| {
            writer.i64(time.micros()).u128(id.to_bits());
        };
        let ordered: BTreeMap<&ExecutionId, &OpenExecution> = self.iter().collect();
        writer.len(ordered.len());
        for (execution, open) in ordered {
            writer.text(execution.as_str());
            // A fact is identified by its stamp; what it says is the content of the record with that id.
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
        writer.len(self.closed_order.len());
        for execution in &self.closed_order {
            writer.text(execution.as_str());
        }
    }
}
