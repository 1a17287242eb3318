//! Predict, then learn, trace by trace: how good the answers would have been all along a history.
//!
//! Before a completed trace is folded in, every ranker is asked what the trace then shows, from what was known at that moment; only
//! then is it learnt. So nothing is held back for testing, and the curve tells how fast pml learns.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::metrics::Means;
use super::next::Found;
use super::next_rankers::{NextRanker, Place};
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

/// What is asked about a trace: which tools it calls, and, after its first step, which comes next.
pub const DISCOVER: &str = "discover";
pub const NEXT: &str = "next";

/// One of the baselines looks at the whole graph, whose measures are taken again when there are this many times as many traces.
const MEASURE_AT_GROWTH: f64 = 1.1;

/// How one ranker did on one trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub question: &'static str,
    pub ranker: &'static str,
    /// Number of the trace among those asked about, from 1.
    pub trace: u32,
    /// Where the trace stands in the log.
    pub seq: Seq,
    /// In the order of [`METRICS`].
    pub values: [f64; 3],
}

/// What is measured.
pub const METRICS: [&str; 3] = ["hit@1", "MRR", "recall@5"];

/// A state that is asked before it learns.
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

    /// The next record of the history.
    pub fn take(&mut self, record: &Record) -> Result<(), EmbedError> {
        match record.event() {
            // What nobody finished shows nothing that could have been asked for.
            Event::TraceCompleted(trace) if !trace.abandoned && !self.state.knows(record.fact.id) => {
                self.ask(trace, record.seq)?;
            }
            _ => {}
        }
        self.state.apply(record);
        Ok(())
    }

    fn ask(&mut self, trace: &TraceCompleted, seq: Seq) -> Result<(), EmbedError> {
        embed_lacking(&mut self.state, self.embedder, self.batch_texts_max)?;
        self.index = self.index.update(Arc::new(self.state.clone()));
        let gold: BTreeSet<&ToolId> = trace.steps.iter().filter_map(|step| self.known_tool(&step.tool)).collect();
        if gold.is_empty() || trace.intent.trim().is_empty() {
            return Ok(());
        }
        self.asked += 1;
        let question = question(Some(self.embedder), trace.intent.clone())?;
        for ranker in Ranker::ALL {
            let ranked = ranker.rank(&self.index, &question);
            let ranks: Vec<usize> = (1..).zip(&ranked).filter(|(_, tool)| gold.contains(tool)).map(|(rank, _)| rank).collect();
            let mut means = Means::default();
            means.add(&ranks);
            self.note(DISCOVER, ranker.name(), seq, &means);
        }
        self.ask_next(trace, seq, &question);
        Ok(())
    }

    /// Every step after the first, given those before it; the trace counts as one answer.
    fn ask_next(&mut self, trace: &TraceCompleted, seq: Seq, question: &Question) {
        if f64::from(self.asked) > f64::from(self.measured_at) * MEASURE_AT_GROWTH {
            self.measures = Measures::compute(&self.state, None, ColdStart::default(), &tool_vectors(&self.state));
            self.measured_at = self.asked;
        }
        let evidence = Evidence::for_question(&self.state, question);
        let by_id: Vec<u32> = self.state.tools.positions().collect();
        let place = |callee: &Callee| self.known_tool(callee).and_then(|tool| self.state.tools.position(tool)).map(Node::tool);
        let calls: Vec<Option<Node>> = trace.steps.iter().map(|step| place(&step.tool)).collect();
        if calls.len() < 2 {
            return;
        }
        let mut means = NextRanker::ALL.map(|ranker| (ranker, Means::default()));
        for at in 1..calls.len() {
            let place = Place::new(&self.state, &self.measures, &evidence, &calls[..at]);
            for (ranker, means) in &mut means {
                means.add(&[Found::of(&ranker.scores(&place), &by_id, calls[at]).rank]);
            }
        }
        for (ranker, means) in means {
            self.note(NEXT, ranker.name(), seq, &means);
        }
    }

    /// A tool nobody had heard of cannot be found: that it was called is not held against anybody.
    fn known_tool<'t>(&self, callee: &'t Callee) -> Option<&'t ToolId> {
        match callee {
            Callee::Tool(tool) => Some(tool).filter(|tool| self.state.tools.position(tool).is_some()),
            Callee::Capability(_) => None,
        }
    }

    fn note(&mut self, question: &'static str, ranker: &'static str, seq: Seq, means: &Means) {
        let told = means.discover();
        let values = [told.hit1, told.mrr, told.recall5];
        self.points.push(Point { question, ranker, trace: self.asked, seq, values });
    }

    /// How many traces were asked about.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    pub fn finish(self) -> Vec<Point> {
        self.points
    }
}

/// The records that a pml would have for a dataset: tools, then every trace as an agent tells it, closed at once.
pub fn records_of(dataset: Dataset, start: Timestamp) -> impl Iterator<Item = Record> {
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

/// What a state still knows of its history, as records: the tools as they are described, then the traces it keeps.
pub fn records_of_state(state: &State) -> impl Iterator<Item = Record> {
    let registered = |tool: &Tool| tool.registration.as_ref().map(|known| Event::ToolRegistered(ToolRegistered::clone(known)));
    let tools = state.tools.iter().filter_map(registered);
    let traces = state.executions.closed().all().map(|trace| Event::TraceCompleted(trace.into_owned()));
    (1..).zip(tools.chain(traces)).map(|(seq, event)| {
        let time = Timestamp::from_micros(0);
        let id = RecordId::from_parts(time, u128::from(seq));
        let fact = NewRecord { id, time, source: "pml/snapshot".into(), causation: None, event };
        Record { seq: Seq(seq), recorded_at: time, fact: Arc::new(fact) }
    })
}

/// What closes the execution that this fact finishes.
fn closing(fact: &NewRecord, open: &Executions) -> Option<NewRecord> {
    let Event::ExecutionFinished(finished) = &fact.event else { return None };
    Some(open.get(&finished.execution)?.closing_record(&finished.execution))
}
