//! Builders of facts and histories: a test says only what it is about.

use std::sync::Arc;

use pml::core::capability::Capability;
use pml::core::event::{
    CapabilityDeclared, DeclaredStructure, EmbeddingComputed, Event, ExecutionFinished, ExecutionStarted, FeedbackGiven,
    FeedbackTarget, FeedbackVerdict, NewRecord, Outcome, PredictionServed, RankedOutcome, Record, StepFinished, StepStarted,
    StructureEdge, StructureNode, TemplateLoaded, ToolRegistered, ToolRemoved,
};
use pml::core::graph::edge::EdgeKind;
use pml::core::id::{RecordId, Seq};
use pml::core::state::{Notice, State};
use pml::core::time::Timestamp;
use pml::core::vectors::TextHash;

pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_769_860_800_000_000).plus_millis(second * 1_000)
}

/// A fact with an id and a time of its own: `number` seconds after noon.
pub(crate) fn fact(number: u64, event: Event) -> Arc<NewRecord> {
    let id = RecordId::from_parts(at(number), number.into());
    Arc::new(NewRecord { id, time: at(number), source: "urn:test".into(), causation: None, envelope: None, event })
}

pub(crate) fn record(seq: u64, fact: &Arc<NewRecord>) -> Record {
    Record { seq: Seq(seq), recorded_at: at(0), fact: Arc::clone(fact) }
}

pub(crate) fn registered(tool: &str, description: &str) -> Event {
    Event::ToolRegistered(ToolRegistered {
        tool: tool.parse().unwrap(),
        name: tool.to_owned(),
        description: description.to_owned(),
        input_schema: None,
        output_schema: None,
        annotations: None,
    })
}

pub(crate) fn removed(tool: &str) -> Event {
    Event::ToolRemoved(ToolRemoved { tool: tool.parse().unwrap() })
}

pub(crate) fn started(execution: &str) -> Event {
    Event::ExecutionStarted(ExecutionStarted {
        execution: execution.parse().unwrap(),
        intent: format!("do {execution}"),
        session: None,
        agent: None,
        parent: None,
    })
}

pub(crate) fn step_started(execution: &str, step: &str, tool: &str) -> Event {
    Event::StepStarted(StepStarted {
        execution: execution.parse().unwrap(),
        step: step.parse().unwrap(),
        tool: tool.parse().unwrap(),
        arguments: None,
    })
}

pub(crate) fn step_finished(execution: &str, step: &str, tool: &str, depends_on: &[&str], success: bool) -> Event {
    Event::StepFinished(StepFinished {
        execution: execution.parse().unwrap(),
        step: step.parse().unwrap(),
        tool: tool.parse().unwrap(),
        depends_on: depends_on.iter().map(|on| on.parse().unwrap()).collect(),
        success,
        duration_ms: Some(7),
        error_kind: (!success).then(|| "timeout".to_owned()),
        arguments: None,
        result_summary: None,
    })
}

pub(crate) fn finished(execution: &str, success: bool) -> Event {
    Event::ExecutionFinished(ExecutionFinished { execution: execution.parse().unwrap(), success, error: None, code: None })
}

/// The end of an execution that ran a program.
pub(crate) fn finished_program(execution: &str, success: bool, code: &str) -> Event {
    let (execution, code) = (execution.parse().unwrap(), Some(code.to_owned()));
    Event::ExecutionFinished(ExecutionFinished { execution, success, error: None, code })
}

pub(crate) fn template(name: &str, edges: &[(&str, &str)]) -> Event {
    Event::TemplateLoaded(TemplateLoaded {
        name: name.to_owned(),
        description: String::new(),
        edges: edges.iter().map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap())).collect(),
        checksum: format!("{edges:?}"),
    })
}

/// A prediction with the id that [`feedback`] of the same number is about; no tool means done.
pub(crate) fn prediction_served(number: u64, execution: Option<&str>, ranked: &[(Option<&str>, f64)]) -> Event {
    let outcome = |tool: Option<&str>| tool.map_or(Outcome::Done, |tool| Outcome::Call(tool.parse().unwrap()));
    Event::PredictionServed(PredictionServed {
        prediction: RecordId::from_parts(at(number), 7_000_000 + u128::from(number)),
        execution: execution.map(|execution| execution.parse().unwrap()),
        based_on_seq: Seq(number),
        model: "m".to_owned(),
        ranked: ranked.iter().map(|(tool, p)| RankedOutcome { outcome: outcome(*tool), probability: *p }).collect(),
        threshold: 0.5,
    })
}

pub(crate) fn feedback(number: u64, verdict: FeedbackVerdict) -> Event {
    let target = FeedbackTarget::Prediction(RecordId::from_parts(at(number), 7_000_000 + u128::from(number)));
    Event::FeedbackGiven(FeedbackGiven { target, verdict })
}

/// Feedback on a plan that was suggested.
pub(crate) fn plan_feedback(number: u64, verdict: FeedbackVerdict) -> Event {
    let target = FeedbackTarget::Suggestion(RecordId::from_parts(at(number), 9_000_000 + u128::from(number)));
    Event::FeedbackGiven(FeedbackGiven { target, verdict })
}

pub(crate) fn embedded(model: &str, text: &str, vector: &[f32]) -> Event {
    let text_hash = TextHash::compute(text).to_string();
    Event::EmbeddingComputed(EmbeddingComputed { text_hash, model: model.to_owned(), vector: vector.to_vec() })
}

/// A declared chain: each tool uses the output of the one before.
pub(crate) fn declared(name: &str, tools: &[&str]) -> Event {
    let id = |at: usize| format!("n{at}").parse().unwrap();
    let node = |(at, tool): (usize, &&str)| StructureNode { id: id(at), callee: tool.parse().unwrap() };
    let edge = |to: usize| StructureEdge { from: id(to - 1), to: id(to), kind: EdgeKind::Provides };
    Event::CapabilityDeclared(CapabilityDeclared {
        name: name.to_owned(),
        description: String::new(),
        structure: DeclaredStructure {
            nodes: tools.iter().enumerate().map(node).collect(),
            edges: (1..tools.len()).map(edge).collect(),
        },
        code: None,
        parameters_schema: None,
    })
}

/// One call of a run: step, tool, the steps it depends on, success.
pub(crate) type Call<'a> = (&'a str, &'a str, &'a [&'a str], bool);

pub(crate) const fn ok<'a>(step: &'a str, tool: &'a str, depends_on: &'a [&'a str]) -> Call<'a> {
    (step, tool, depends_on, true)
}

pub(crate) const fn failed<'a>(step: &'a str, tool: &'a str, depends_on: &'a [&'a str]) -> Call<'a> {
    (step, tool, depends_on, false)
}

/// A state and the log it came from, as far as its length goes.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) state: State,
    len: u64,
}

impl History {
    pub(crate) fn append(&mut self, event: Event) -> Vec<Notice> {
        self.len += 1;
        self.state.apply(&record(self.len, &fact(self.len, event)))
    }

    /// Closes an execution the way the trace actor does.
    pub(crate) fn close(&mut self, execution: &str) -> Vec<Notice> {
        let id = execution.parse().unwrap();
        let trace = self.state.executions.get(&id).unwrap().complete(&id, false);
        self.append(Event::TraceCompleted(trace))
    }

    /// A whole execution, from its start to its trace.
    pub(crate) fn run(&mut self, execution: &str, calls: &[Call<'_>], success: bool) -> Vec<Notice> {
        self.append(started(execution));
        for &(step, tool, depends_on, success) in calls {
            self.append(step_finished(execution, step, tool, depends_on, success));
        }
        self.append(finished(execution, success));
        self.close(execution)
    }

    /// Every edge as `from -kind-> to (source)`.
    pub(crate) fn edges(&self) -> Vec<String> {
        let text = |node| self.state.callee(node).to_string();
        let mut edges: Vec<String> = (self.state.graph.edges())
            .map(|(&(from, to, kind), counter)| {
                format!("{} -{}-> {} ({})", text(from), kind.name(), text(to), counter.source().name())
            })
            .collect();
        edges.sort_unstable();
        edges
    }

    pub(crate) fn only_capability(&self) -> &Capability {
        assert_eq!(self.state.capabilities.len(), 1);
        self.state.capabilities.at(0)
    }
}
