//! `OpenExecution` collects the events of an execution until it is closed, and builds its trace.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::event::{
    Event, ExecutionFinished, ExecutionStarted, NewRecord, StepFinished, StepStarted, TraceCompleted, TraceStep,
};
use crate::id::{Callee, ExecutionId, RecordId, SessionId, StepId};
use crate::time::Timestamp;

/// The source of the records that close executions.
const SOURCE: &str = "pml/trace";
/// `error_kind` of a step that was started and never finished.
pub const UNFINISHED: &str = "unfinished";

/// Time and id of a fact. Of two facts about the same thing the one with the smaller stamp counts, in whatever order they arrive.
pub(crate) type Stamp = (Timestamp, RecordId);

pub(super) fn stamp(fact: &NewRecord) -> Stamp {
    (fact.time, fact.id)
}

/// Keeps the fact with the smaller stamp.
fn keep_earlier(slot: &mut Option<Arc<NewRecord>>, fact: &Arc<NewRecord>) {
    if slot.as_ref().is_none_or(|known| stamp(fact) < stamp(known)) {
        *slot = Some(Arc::clone(fact));
    }
}

/// `OpenStep` holds the facts about one step: its start, its end, or both.
#[derive(Clone, Debug)]
pub struct OpenStep {
    pub id: StepId,
    /// As first reported. Once the step is finished, the tool of that fact counts instead.
    pub tool: Callee,
    pub started: Option<Stamp>,
    pub finished: Option<Arc<NewRecord>>,
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

    /// The time of its start, or of its end if no start was reported.
    fn time(&self) -> Timestamp {
        let finished = self.finished.as_ref().map(|fact| fact.time);
        self.started.map(|(time, _)| time).or(finished).expect("a step was started or finished")
    }
}

/// `OpenExecution` holds the facts about one execution that is not closed.
#[derive(Clone, Debug, Default)]
pub struct OpenExecution {
    pub started: Option<Arc<NewRecord>>,
    /// Sorted by step id.
    pub steps: Vec<OpenStep>,
    pub finished: Option<Arc<NewRecord>>,
}

impl OpenExecution {
    pub fn has_started(&self) -> bool {
        self.started.is_some()
    }

    pub fn has_finished(&self) -> bool {
        self.finished.is_some()
    }

    /// The intent, once the start is known.
    pub fn intent(&self) -> Option<&str> {
        self.start().map(|event| event.intent.as_str())
    }

    /// The session, if the start is known and names one.
    pub fn session(&self) -> Option<&SessionId> {
        self.start().and_then(|event| event.session.as_ref())
    }

    /// The id of the record that started the execution.
    pub fn started_by(&self) -> Option<RecordId> {
        self.started.as_ref().map(|fact| fact.id)
    }

    /// Whether a step has started and not finished.
    pub fn awaits_steps(&self) -> bool {
        self.steps.iter().any(|step| !step.has_finished())
    }

    pub fn steps(&self) -> impl ExactSizeIterator<Item = &OpenStep> {
        self.steps.iter()
    }

    pub fn step(&self, id: &StepId) -> Option<&OpenStep> {
        self.steps.binary_search_by(|step| step.id.cmp(id)).ok().map(|at| &self.steps[at])
    }

    /// Returns the number of steps that had finished at the record `cause`, and the next fact that ended a step or the execution. If
    /// `cause` is not among the facts, all finished steps count; then the result is `None` if the execution has finished.
    pub fn progress_at(&self, cause: Option<RecordId>) -> Option<(usize, Option<&Arc<NewRecord>>)> {
        let steps = || self.steps.iter().filter_map(|step| step.finished.as_ref());
        let known = || steps().chain(&self.finished).chain(&self.started);
        let Some(at) = known().find(|fact| Some(fact.id) == cause).map(|fact| stamp(fact)) else {
            return (!self.has_finished()).then(|| (steps().count(), None));
        };
        let next = steps().chain(&self.finished).filter(|fact| stamp(fact) > at).min_by_key(|fact| stamp(fact));
        Some((steps().filter(|fact| stamp(fact) <= at).count(), next))
    }

    /// Whether `fact` is the one that finished the step, and not a repetition with another id.
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

    /// Applies a fact about this execution.
    pub fn apply(&mut self, fact: &Arc<NewRecord>) {
        match &fact.event {
            Event::ExecutionStarted(_) => keep_earlier(&mut self.started, fact),
            Event::StepStarted(event) => self.step_started(stamp(fact), event),
            Event::StepFinished(event) => self.step_finished(fact, event),
            Event::ExecutionFinished(_) => keep_earlier(&mut self.finished, fact),
            other => debug_assert!(false, "{} says nothing about an open execution", other.kind()),
        }
    }

    /// Takes back a fact that was applied. Whoever admitted it knows that nothing had been known in its place.
    pub(super) fn take_back(&mut self, fact: &NewRecord) {
        let is_it = |known: &mut Arc<NewRecord>| stamp(known) == stamp(fact);
        match &fact.event {
            Event::ExecutionStarted(_) => drop(self.started.take_if(is_it)),
            Event::ExecutionFinished(_) => drop(self.finished.take_if(is_it)),
            Event::StepStarted(StepStarted { step, .. }) | Event::StepFinished(StepFinished { step, .. }) => {
                let Ok(at) = self.steps.binary_search_by(|known| known.id.cmp(step)) else { return };
                if matches!(fact.event, Event::StepFinished(_)) {
                    drop(self.steps[at].finished.take_if(is_it));
                } else {
                    self.steps[at].started.take_if(|started| *started == stamp(fact));
                }
                if !self.steps[at].has_started() && !self.steps[at].has_finished() {
                    self.steps.remove(at);
                }
            }
            other => debug_assert!(false, "{} says nothing about an open execution", other.kind()),
        }
    }

    /// Whether nothing is known about it.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_started() && !self.has_finished() && self.steps.is_empty()
    }

    /// Returns the callees of the finished steps, in the order of the trace.
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

    /// Builds the trace. Steps are in data-flow order, then by time, then by id; dependencies on unknown steps are dropped.
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

    /// Builds the record that closes this execution. Its id is derived from the execution, so that closing twice gives one record.
    pub fn closing_record(&self, execution: &ExecutionId) -> NewRecord {
        let trace = self.complete(execution, !self.has_finished());
        let cause = self.started_by();
        let cause_text = cause.map(|id| id.to_string()).unwrap_or_default();
        NewRecord {
            id: RecordId::derived(trace.started, &["trace.completed", execution.as_str(), &cause_text]),
            time: trace.ended,
            source: SOURCE.into(),
            causation: cause,
            envelope: None,
            event: Event::TraceCompleted(trace),
        }
    }

    fn ordered_steps(&self) -> Vec<TraceStep> {
        let step = |(at, needs): (usize, Vec<usize>)| {
            trace_step(&self.steps[at], needs.into_iter().map(|on| self.steps[on].id.clone()).collect())
        };
        self.order().into_iter().map(step).collect()
    }

    /// Returns the positions of the steps in the order of the trace, each with the positions it depends on.
    fn order(&self) -> Vec<(usize, Vec<usize>)> {
        let mut needs = self.needs();
        match self.order_by_time(&needs) {
            Some(by_time) => by_time.into_iter().map(|at| (at, std::mem::take(&mut needs[at]))).collect(),
            None => self.order_by_need(needs),
        }
    }

    /// Returns, for each step, the positions of the steps that it depends on.
    fn needs(&self) -> Vec<Vec<usize>> {
        let position = |id: &StepId| self.steps.binary_search_by(|step| step.id.cmp(id)).ok();
        self.steps.iter().map(|step| step.depends_on().iter().filter_map(position).collect()).collect()
    }

    /// Orders the steps by Kahn's algorithm, the earliest ready step first. A dependency that closes a cycle (only in a log that was not
    /// written by pml) is dropped. O((steps + dependencies) log steps).
    fn order_by_need(&self, mut needs: Vec<Vec<usize>>) -> Vec<(usize, Vec<usize>)> {
        let mut needed_by = vec![Vec::new(); self.steps.len()];
        for (at, on) in needs.iter().enumerate().flat_map(|(at, needs)| needs.iter().map(move |on| (at, *on))) {
            needed_by[on].push(at);
        }
        let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
        let timed = |at: usize| (self.steps[at].time(), at);
        let mut waiting: BTreeSet<(Timestamp, usize)> = (0..self.steps.len()).map(timed).collect();
        let mut ready: BTreeSet<(Timestamp, usize)> = waiting.iter().copied().filter(|(_, at)| missing[*at] == 0).collect();
        let mut placed = vec![false; self.steps.len()];
        let mut ordered = Vec::with_capacity(self.steps.len());
        while let Some(next) = ready.pop_first().or_else(|| waiting.first().copied()) {
            waiting.remove(&next);
            let at = next.1;
            let mut depends_on = std::mem::take(&mut needs[at]);
            depends_on.retain(|on| placed[*on]);
            ordered.push((at, depends_on));
            placed[at] = true;
            for &dependent in &needed_by[at] {
                missing[dependent] -= 1;
                if missing[dependent] == 0 && !placed[dependent] {
                    ready.insert(timed(dependent));
                }
            }
        }
        ordered
    }

    /// Returns the positions of the steps in the order of their times, if each comes after those it depends on, as is usual: then the
    /// earliest step that is left is always ready.
    fn order_by_time(&self, needs: &[Vec<usize>]) -> Option<Vec<usize>> {
        let mut by_time: Vec<usize> = (0..self.steps.len()).collect();
        by_time.sort_unstable_by_key(|&at| (self.steps[at].time(), at));
        let mut places = vec![0; by_time.len()];
        for (place, &at) in by_time.iter().enumerate() {
            places[at] = place;
        }
        let in_order = |(at, needs): (usize, &Vec<usize>)| needs.iter().all(|on| places[*on] < places[at]);
        needs.iter().enumerate().all(in_order).then_some(by_time)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Finishes step `number` at `time`; it depends on the steps `on`.
    fn finished(number: usize, time: i64, on: &[usize]) -> Arc<NewRecord> {
        let step = |number: usize| -> StepId { format!("s{number}").parse().unwrap() };
        let event = Event::StepFinished(StepFinished {
            execution: "e".parse().unwrap(),
            step: step(number),
            tool: "a:x".parse().unwrap(),
            depends_on: on.iter().map(|on| step(*on)).collect(),
            success: true,
            duration_ms: None,
            error_kind: None,
            arguments: None,
            result_summary: None,
        });
        let (id, time) = (RecordId::from_bits(number as u128), Timestamp::from_micros(time));
        Arc::new(NewRecord { id, time, source: "test".into(), causation: None, envelope: None, event })
    }

    #[test]
    fn steps_that_come_after_what_they_need_are_ordered_by_time_as_by_need() {
        let (mut by_time, mut others) = (0, 0);
        for seed in 0..500_usize {
            let mut open = OpenExecution::default();
            for number in 0..6 {
                let random = |salt: usize| (seed * 31 + number * 7 + salt).wrapping_mul(2_654_435_761) >> 7;
                // Every second execution has steps that depend on themselves or on later ones.
                let among = number + seed % 2 * 2;
                let on: Vec<usize> = (0..random(1) % 3).filter(|_| among > 0).map(|salt| random(salt + 2) % among).collect();
                open.apply(&finished(number, i64::try_from(number + random(9) % 2).unwrap(), &on));
            }
            match open.order_by_time(&open.needs()) {
                Some(order) => {
                    let expected: Vec<usize> = open.order_by_need(open.needs()).into_iter().map(|(at, _)| at).collect();
                    assert_eq!(order, expected, "seed {seed}");
                    assert_eq!(open.order(), open.order_by_need(open.needs()), "seed {seed}");
                    by_time += 1;
                }
                None => others += 1,
            }
        }
        assert!(by_time > 20 && others > 20, "{by_time} by time, {others} others");
    }
}
