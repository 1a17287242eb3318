//! The remembered runs as plans: their tools in order and the data flow between them, and how often one tool came before another or
//! fed it. Derived from the memory and the kept traces; follows them entry by entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::TraceCompleted;
use crate::graph::Node;
use crate::memory::{CallSequence, PastIntent};
use crate::state::State;

/// Runs of one call sequence that count, at most: a cron job is not evidence a thousand times over.
const RUNS_COUNTED: f64 = 8.0;
/// What a failed run counts beside a successful one (ALGORITHMS 14).
const FAILED: f64 = 0.5;

/// One remembered call sequence as a plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PastRun {
    /// The nodes called, each once, in the order of their first calls.
    pub(super) nodes: Vec<Node>,
    /// Data flow between nodes, sorted; from a node to itself if it was called again with its own output. `None` if the trace is no
    /// longer kept.
    pub(super) flow: Option<Vec<(Node, Node)>>,
    /// What it counts: its runs, failed ones by half, at most [`RUNS_COUNTED`].
    weight: f64,
    pub(super) succeeded: bool,
}

/// How often a node came before another, and how often it fed it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PairCount {
    /// Runs with both in this order.
    pub(super) before: f64,
    /// Runs with both in this order whose data flow is known, and those of them with flow between the two.
    pub(super) known: f64,
    pub(super) fed: f64,
}

/// The runs of every remembered intent, and the counts over all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct PastRuns {
    /// By number of the intent in the memory.
    intents: BTreeMap<u64, (Arc<PastIntent>, Vec<PastRun>)>,
    pairs: BTreeMap<(Node, Node), PairCount>,
}

impl PastRuns {
    /// Brings the runs up to `state`: entries that changed, are new or were forgotten. O(remembered intents), and O(calls^2) for each
    /// that changed.
    pub(super) fn update(&mut self, state: &State) {
        let forgotten: Vec<u64> = self.intents.keys().copied().filter(|number| state.memory.get(*number).is_none()).collect();
        for number in forgotten {
            self.replace(number, None);
        }
        for (number, entry) in state.memory.iter() {
            if self.intents.get(&number).is_none_or(|(known, _)| !Arc::ptr_eq(known, entry)) {
                let runs = entry.sequences.iter().map(|sequence| past_run(state, sequence)).collect();
                self.replace(number, Some((Arc::clone(entry), runs)));
            }
        }
    }

    fn replace(&mut self, number: u64, entry: Option<(Arc<PastIntent>, Vec<PastRun>)>) {
        let before = self.intents.remove(&number);
        for run in before.iter().flat_map(|(_, runs)| runs) {
            self.count(run, -1.0);
        }
        for run in entry.iter().flat_map(|(_, runs)| runs) {
            self.count(run, 1.0);
        }
        if let Some(entry) = entry {
            self.intents.insert(number, entry);
        }
    }

    fn count(&mut self, run: &PastRun, sign: f64) {
        for (pair, count) in pairs_of(run) {
            let known = self.pairs.entry(pair).or_default();
            known.add(count, sign);
            if known.before <= 0.0 {
                self.pairs.remove(&pair);
            }
        }
    }

    /// The runs of an intent, the latest last.
    pub(super) fn runs(&self, number: u64) -> &[PastRun] {
        self.intents.get(&number).map_or(&[], |(_, runs)| runs)
    }

    /// The counts of an ordered pair, without the runs of the intent `except`.
    pub(super) fn pair(&self, from: Node, to: Node, except: Option<u64>) -> PairCount {
        let mut count = self.pairs.get(&(from, to)).copied().unwrap_or_default();
        for run in except.into_iter().flat_map(|number| self.runs(number)) {
            if let Some(own) = run.pair(from, to) {
                count.add(own, -1.0);
            }
        }
        count
    }
}

impl PairCount {
    fn add(&mut self, other: Self, sign: f64) {
        self.before += sign * other.before;
        self.known += sign * other.known;
        self.fed += sign * other.fed;
    }
}

impl PastRun {
    /// What this run adds to the counts of an ordered pair or of a node with itself; `None` if it does not have both in this order.
    pub(super) fn pair(&self, from: Node, to: Node) -> Option<PairCount> {
        let at = |node: Node| self.nodes.iter().position(|other| *other == node);
        let (first, second) = (at(from)?, at(to)?);
        (first <= second).then(|| {
            let times = self.weight;
            let flow = self.flow.as_ref();
            let fed = flow.is_some_and(|flow| flow.binary_search(&(from, to)).is_ok());
            let when = |holds: bool| if holds { times } else { 0.0 };
            PairCount { before: times, known: when(flow.is_some()), fed: when(fed) }
        })
    }
}

fn pairs_of(run: &PastRun) -> impl Iterator<Item = ((Node, Node), PairCount)> {
    let ordered = run.nodes.iter().enumerate().flat_map(|(at, from)| run.nodes[at..].iter().map(move |to| (*from, *to)));
    ordered.filter_map(|(from, to)| Some(((from, to), run.pair(from, to)?)))
}

fn past_run(state: &State, sequence: &CallSequence) -> PastRun {
    let mut nodes: Vec<Node> = Vec::with_capacity(sequence.calls.len());
    for call in sequence.calls.iter() {
        if !nodes.contains(call) {
            nodes.push(*call);
        }
    }
    let flow = state.executions.trace(&sequence.execution).map(|trace| flow(state, &trace));
    let failed = f64::from(sequence.times.saturating_sub(sequence.succeeded));
    let weight = (f64::from(sequence.succeeded) + FAILED * failed).min(RUNS_COUNTED);
    PastRun { nodes, flow, weight, succeeded: sequence.succeeded > 0 }
}

/// The data flow of a trace between nodes, sorted, each pair once.
fn flow(state: &State, trace: &TraceCompleted) -> Vec<(Node, Node)> {
    let node = |tool| state.find(tool);
    let mut flow: Vec<(Node, Node)> = Vec::new();
    for step in &trace.steps {
        let feeding = trace.steps.iter().filter(|other| step.depends_on.contains(&other.step));
        flow.extend(feeding.filter_map(|other| node(&other.tool).zip(node(&step.tool))));
    }
    flow.sort_unstable();
    flow.dedup();
    flow
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;

    #[test]
    fn counts_follow_the_memory_and_leave_out_what_is_asked_about() {
        let mut history = History::new(
            "run ok one: a:a, b:b < a:a, c:c
             run ok two: a:a, b:b",
        );
        let mut runs = PastRuns::default();
        runs.update(&history.state);
        let (a, b, c) = (history.node("a:a"), history.node("b:b"), history.node("c:c"));
        assert_eq!(runs.pair(a, b, None), PairCount { before: 2.0, known: 2.0, fed: 1.0 });
        assert_eq!(runs.pair(a, b, Some(0)), PairCount { before: 1.0, known: 1.0, fed: 0.0 });
        assert_eq!(runs.pair(b, a, None), PairCount::default());
        history.line("run ok two: c:c, a:a < c:c");
        runs.update(&history.state);
        let mut fresh = PastRuns::default();
        fresh.update(&history.state);
        assert_eq!(runs.pairs, fresh.pairs);
        assert_eq!(runs.pair(c, a, None), PairCount { before: 1.0, known: 1.0, fed: 1.0 });
    }
}
