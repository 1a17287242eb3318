//! Prequential evaluation: every ranker is asked about each trace of a history before the trace is learnt.
//!
//! Each answer uses only the records before the trace, so no trace is held back for testing, and the curve of the scores shows how
//! fast pml learns.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::metrics::Means;
use super::next::ToolRank;
use super::next_rankers::{NextRanker, StepContext};
use super::rankers::Ranker;
use crate::ask::{embed_lacking, question};
use crate::core::event::{Event, NewRecord, Record, ToolRegistered, TraceCompleted};
use crate::core::graph::Node;
use crate::core::graph::cold_start::ColdStart;
use crate::core::graph::measures::Measures;
use crate::core::graph::measures::tool_vectors;
use crate::core::id::{Callee, RecordId, Seq, ToolId};
use crate::core::predict::evidence::Evidence;
use crate::core::rank::{Index, Question};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::tool::Tool;
use crate::core::trace::Executions;
use crate::dataset::{Dataset, TraceLine};
use crate::embed::{EmbedError, Embedder};

/// The questions about a trace: which tools it calls, and which tool each step after the first calls.
pub const DISCOVER: &str = "discover";
pub const NEXT: &str = "next";

/// The graph measures, which one baseline needs, are computed again when the number of traces has grown by this factor.
const MEASURE_AT_GROWTH: f64 = 1.1;

/// The scores of one ranker on one question about one trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub question: &'static str,
    pub ranker: &'static str,
    /// The number of the trace among those asked about, from 1.
    pub trace: u32,
    /// The position of the trace in the log.
    pub seq: Seq,
    /// In the order of [`METRICS`].
    pub values: [f64; 3],
}

/// The metrics of a point.
pub const METRICS: [&str; 3] = ["hit@1", "MRR", "recall@5"];

/// `Prequential` folds a history and asks every ranker about each trace before it applies it.
pub struct Prequential<'a> {
    state: State,
    index: Index,
    embedder: &'a dyn Embedder,
    batch_texts_max: usize,
    measures: Measures,
    measured_at: u32,
    asked: u32,
    points: Vec<Point>,
}

impl<'a> Prequential<'a> {
    pub fn new(embedder: &'a dyn Embedder, batch_texts_max: usize) -> Self {
        let (state, index) = (State::default(), Index::default());
        let measures = Measures::default();
        Self { state, index, embedder, batch_texts_max, measures, measured_at: 0, asked: 0, points: Vec::new() }
    }

    /// Applies the next record of the history; asks about it first if it completes a trace.
    pub fn apply(&mut self, record: &Record) -> Result<(), EmbedError> {
        match record.event() {
            // An abandoned trace is not an answer to its intent.
            Event::TraceCompleted(trace) if !trace.abandoned && !self.state.knows(record.fact.id) => {
                self.ask(trace, record.seq)?;
            }
            _ => {}
        }
        self.state.apply(record);
        Ok(())
    }

    /// Asks every ranker which tools the trace calls, then which comes next.
    fn ask(&mut self, trace: &TraceCompleted, seq: Seq) -> Result<(), EmbedError> {
        embed_lacking(&mut self.state, self.embedder, self.batch_texts_max)?;
        self.index = self.index.update(Arc::new(self.state.clone()));
        let right: BTreeSet<&ToolId> = trace.steps.iter().filter_map(|step| self.known_tool(&step.tool)).collect();
        if right.is_empty() || trace.intent.trim().is_empty() {
            return Ok(());
        }
        self.asked += 1;
        let question = question(Some(self.embedder), trace.intent.clone())?;
        for ranker in Ranker::ALL {
            let Some(ranked) = ranker.rank(&self.index, &question) else { continue };
            let ranks: Vec<usize> = (1..).zip(&ranked).filter(|(_, tool)| right.contains(tool)).map(|(rank, _)| rank).collect();
            let mut means = Means::default();
            means.add(&ranks);
            self.push_point(DISCOVER, ranker.name(), seq, &means);
        }
        self.ask_next(trace, seq, &question);
        Ok(())
    }

    /// Asks every ranker about each step after the first, given those before it. The point is the mean over the trace.
    fn ask_next(&mut self, trace: &TraceCompleted, seq: Seq, question: &Question) {
        if f64::from(self.asked) > f64::from(self.measured_at) * MEASURE_AT_GROWTH {
            self.measures = Measures::compute(&self.state, None, ColdStart::default(), &tool_vectors(&self.state));
            self.measured_at = self.asked;
        }
        let evidence = Evidence::for_question(&self.state, question);
        let by_id: Vec<u32> = self.state.tools.positions().collect();
        let node = |callee: &Callee| self.known_tool(callee).and_then(|tool| self.state.tools.position(tool)).map(Node::tool);
        let calls: Vec<Option<Node>> = trace.steps.iter().map(|step| node(&step.tool)).collect();
        if calls.len() < 2 {
            return;
        }
        let mut means = NextRanker::ALL.map(|ranker| (ranker, Means::default()));
        for at in 1..calls.len() {
            let step = StepContext::new(&self.state, &self.measures, &evidence, &calls[..at]);
            for (ranker, means) in &mut means {
                // An unknown tool has no rank and counts as ranked behind all others.
                let rank = ToolRank::compute(&ranker.scores(&step), &by_id, calls[at]).rank;
                means.add(&[rank.unwrap_or(usize::MAX)]);
            }
        }
        for (ranker, means) in means {
            self.push_point(NEXT, ranker.name(), seq, &means);
        }
    }

    /// Returns the tool of a callee if the state knows it: no ranker can answer with an unknown one.
    fn known_tool<'t>(&self, callee: &'t Callee) -> Option<&'t ToolId> {
        match callee {
            Callee::Tool(tool) => Some(tool).filter(|tool| self.state.tools.position(tool).is_some()),
            Callee::Capability(_) => None,
        }
    }

    fn push_point(&mut self, question: &'static str, ranker: &'static str, seq: Seq, means: &Means) {
        let scores = means.scores();
        let values = [scores.hit1, scores.mrr, scores.recall5];
        self.points.push(Point { question, ranker, trace: self.asked, seq, values });
    }

    /// The number of traces asked about.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// Returns the points in the order they were asked.
    pub fn finish(self) -> Vec<Point> {
        self.points
    }
}

/// Returns the records of a dataset: the tools, then the events of every trace, each trace closed when it finishes.
pub fn dataset_records(dataset: Dataset, start: Timestamp) -> impl Iterator<Item = Record> {
    let (mut seq, mut open) = (Seq::ZERO, Executions::default());
    let events = move |trace: TraceLine| trace.events(start).expect("ids were checked when the dataset was read");
    let traces = dataset.traces.into_iter().flat_map(events);
    dataset.tools.into_iter().chain(traces).flat_map(move |fact| {
        let fact = Arc::new(fact);
        open.apply(&fact);
        let closing = closing(&fact, &open).map(Arc::new);
        if let Some(closing) = &closing {
            open.apply(closing);
        }
        [Some(fact), closing]
            .into_iter()
            .flatten()
            .map(|fact| {
                seq = seq.next();
                Record { seq, recorded_at: fact.time, fact }
            })
            .collect::<Vec<_>>()
    })
}

/// Returns the history that a state still holds as records: the registered tools, then the traces kept.
pub fn state_records(state: &State) -> impl Iterator<Item = Record> {
    let registered = |tool: &Tool| tool.registration.as_ref().map(|known| Event::ToolRegistered(ToolRegistered::clone(known)));
    let tools = state.tools.iter().filter_map(registered);
    let traces = state.executions.closed().all().map(Event::TraceCompleted);
    (1..).zip(tools.chain(traces)).map(|(seq, event)| {
        let time = Timestamp::from_micros(0);
        let id = RecordId::from_parts(time, u128::from(seq));
        let fact = NewRecord { id, time, source: "pml/snapshot".into(), causation: None, envelope: None, event };
        Record { seq: Seq(seq), recorded_at: time, fact: Arc::new(fact) }
    })
}

/// Returns the record that closes the execution finished by `fact`.
fn closing(fact: &NewRecord, open: &Executions) -> Option<NewRecord> {
    let Event::ExecutionFinished(finished) = &fact.event else { return None };
    Some(open.get(&finished.execution)?.closing_record(&finished.execution))
}
