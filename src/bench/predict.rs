//! Measures the time of a prediction. The floor is the least work of any answer: embedding the question and one product with the
//! vector of every tool and every past intent. The floor of a prediction while a model is trained is one without training.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ndarray::Array2;
use pml_model::shgat::rows_times;
use tokio::sync::watch;

use super::discover::{fact, micros, percentile, tool, trace_completed};
use super::{Case, Stopwatch};
use crate::actors::trainer::throttle::Throttle;
use crate::ask::question;
use crate::config;
use crate::core::event::{
    CapabilityDeclared, DeclaredStructure, EmbeddingComputed, Event, NewRecord, Record, StructureEdge, StructureNode,
};
use crate::core::graph::edge::EdgeKind;
use crate::core::id::{Callee, RecordId, Seq, ToolId};
use crate::core::predict::evidence::Evidence;
use crate::core::predict::threshold::Mode;
use crate::core::predict::{PredictionQuery, predict, predict_with};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::core::train::{self, TrainSettings};
use crate::dataset::{Dataset, TraceLine};
use crate::embed::{self, Embedder};

/// Intents in the memory, from the shipped traces; the questions are other intents of theirs.
pub(super) const INTENTS: usize = 2_000;
const QUESTIONS: usize = 300;
const CAPABILITIES: usize = 2_000;
/// How long predictions are made while a model is trained, and as long without.
const WHILE_TRAINING: Duration = Duration::from_secs(20);
const EPOCH: Timestamp = Timestamp::from_micros(0);

/// Names of the cases of one size.
struct CaseNames {
    p50: &'static str,
    p99: &'static str,
    /// With the evidence computed before, as for all but the first step of a live execution.
    again: &'static str,
}

const SIZES: [(CaseNames, usize); 2] = [
    (CaseNames { p50: "tools_500", p99: "tools_500_p99", again: "tools_500_again" }, 500),
    (CaseNames { p50: "tools_10k", p99: "tools_10k_p99", again: "tools_10k_again" }, 10_000),
];

/// Measures predictions at several sizes.
pub fn run(settings: &config::Trainer) -> anyhow::Result<Vec<Case>> {
    let embedder = embed::builtin();
    let demo = Dataset::demo(EPOCH);
    let mut cases = Vec::new();
    for (names, tools) in SIZES {
        let state = build_state(&demo, tools, (CAPABILITIES, INTENTS), &*embedder)?;
        anyhow::ensure!(state.tools.len() >= tools && state.capabilities.len() >= CAPABILITIES, "the state is too small");
        let asking: Vec<&TraceLine> = demo.traces.iter().skip(INTENTS).take(QUESTIONS).collect();
        cases.extend(measure(&names, &state, &*embedder, &asking)?);
        if tools == SIZES[0].1 {
            cases.push(while_training(&state, &*embedder, &asking, settings)?);
        }
    }
    Ok(cases)
}

/// The 99th percentile while all parts are trained on the same state, on a thread that keeps to its share of a core as the trainer's
/// does. The floor is the same without training.
fn while_training(
    state: &State,
    embedder: &dyn Embedder,
    asking: &[&TraceLine],
    settings: &config::Trainer,
) -> anyhow::Result<Case> {
    let alone = predictions_for(WHILE_TRAINING, state, embedder, asking)?;
    let is_measured = AtomicBool::new(false);
    let (_running, stop) = watch::channel(false);
    let during = std::thread::scope(|threads| {
        let training = threads.spawn(|| {
            let mut throttle = Throttle::new(settings.core_share, stop);
            let mut observer = |_| {
                throttle.pause();
                if is_measured.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            while train::train(state, &TrainSettings::default(), train::seed(state), &mut observer).is_ok() {}
        });
        let during = predictions_for(WHILE_TRAINING, state, embedder, asking);
        let was_training = !training.is_finished();
        is_measured.store(true, Ordering::Relaxed);
        anyhow::ensure!(was_training, "the training ended before the measurement");
        during
    })?;
    let [value, floor] = [during, alone].map(|mut times| percentile(&mut times, 0.99));
    Ok(Case { case: "tools_500_training_p99", value, unit: "us", floor: Some(floor), ratio: Some(floor / value) })
}

/// How long each prediction took, one after the other, for some time.
fn predictions_for(
    duration: Duration,
    state: &State,
    embedder: &dyn Embedder,
    asking: &[&TraceLine],
) -> anyhow::Result<Vec<f64>> {
    let (whole, mut times) = (Stopwatch::start(), Vec::new());
    for trace in asking.iter().cycle() {
        let seed = RecordId::derived(EPOCH, &[&trace.trace_id]);
        let watch = Stopwatch::start();
        let question = question(Some(embedder), trace.intent.clone())?;
        std::hint::black_box(predict(state, &question, &PredictionQuery { context: &[], k: 5, mode: Mode::Asked, seed }));
        times.push(micros(&watch));
        if whole.elapsed() >= duration {
            break;
        }
    }
    Ok(times)
}

fn measure(names: &CaseNames, state: &State, embedder: &dyn Embedder, asking: &[&TraceLine]) -> anyhow::Result<[Case; 3]> {
    let rows = Array2::from_elem((state.tools.len() + state.memory.len(), embedder.dim()), 0.5);
    let (mut ours, mut floors, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for (number, trace) in asking.iter().enumerate() {
        let watch = Stopwatch::start();
        let vectors = embedder.embed(&[&trace.intent])?;
        std::hint::black_box(rows_times(&rows, &vectors[0]));
        floors.push(micros(&watch));
        let calls: Vec<Callee> = trace.tools().map(Callee::Tool).collect();
        let context = &calls[..number % (calls.len() + 1)];
        let seed = RecordId::derived(EPOCH, &[&trace.trace_id]);
        let asked = PredictionQuery { context, k: 5, mode: Mode::Asked, seed };
        let watch = Stopwatch::start();
        let question = question(Some(embedder), trace.intent.clone())?;
        let prediction = predict(state, &question, &asked);
        ours.push(micros(&watch));
        let evidence = Evidence::for_question(state, &question);
        let watch = Stopwatch::start();
        let same = predict_with(state, &evidence, &asked);
        again.push(micros(&watch));
        anyhow::ensure!(!prediction.ranked.is_empty() && same == prediction, "asking again gives another answer");
    }
    let case = |name, times: &[f64], share| {
        let (value, floor) = (percentile(&mut times.to_vec(), share), percentile(&mut floors.clone(), share));
        Case { case: name, value, unit: "us", floor: Some(floor), ratio: Some(floor / value) }
    };
    Ok([case(names.p50, &ours, 0.5), case(names.p99, &ours, 0.99), case(names.again, &again, 0.5)])
}

/// Builds a state with `tools` tools, some capabilities declared over them and some of the first shipped traces by folding records, as
/// the program does.
pub(super) fn build_state(
    demo: &Dataset,
    tools: usize,
    (capabilities, traces): (usize, usize),
    embedder: &dyn Embedder,
) -> anyhow::Result<State> {
    let mut fold = Fold::default();
    for number in 0..tools {
        fold.apply(tool(demo, number)?);
    }
    for number in 0..capabilities {
        fold.apply(capability(demo, number)?);
    }
    for trace in demo.traces.iter().take(traces) {
        fold.apply(trace_completed(trace)?);
        fold.embed(embedder)?;
    }
    fold.embed(embedder)?;
    Ok(fold.state)
}

#[derive(Default)]
struct Fold {
    state: State,
    seq: Seq,
}

impl Fold {
    fn apply(&mut self, fact: NewRecord) {
        self.seq = self.seq.next();
        self.state.apply(&Record { seq: self.seq, recorded_at: EPOCH, fact: Arc::new(fact) });
    }

    /// Adds the missing vectors, which the program computes soon after their texts.
    fn embed(&mut self, embedder: &dyn Embedder) -> anyhow::Result<()> {
        loop {
            let lacking = self.state.vectors.lacking(embedder.model().as_str(), 1_024);
            if lacking.is_empty() {
                return Ok(());
            }
            let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
            for ((hash, _), vector) in lacking.iter().zip(embedder.embed(&texts)?) {
                let (text_hash, model) = (hash.to_string(), embedder.model().to_string());
                let id = RecordId::derived(EPOCH, &[&text_hash]);
                self.apply(fact(id, Event::EmbeddingComputed(EmbeddingComputed { text_hash, model, vector })));
            }
        }
    }
}

/// The declaration of capability `number`: three shipped tools, each using the output of the one before; all are different.
fn capability(demo: &Dataset, number: usize) -> anyhow::Result<NewRecord> {
    let count = demo.tools.len();
    let picks = [number % count, (number * 7 + number / count + 1) % count, (number * 13 + number / count + 2) % count];
    let node = |(at, pick): (usize, &usize)| {
        let callee: ToolId = match &demo.tools[*pick].event {
            Event::ToolRegistered(tool) => tool.tool.clone(),
            other => unreachable!("a dataset's tools are registrations, not {}", other.kind()),
        };
        Ok(StructureNode { id: format!("n{at}").parse()?, callee: Callee::Tool(callee) })
    };
    let nodes = picks.iter().enumerate().map(node).collect::<anyhow::Result<Vec<_>>>()?;
    let edge = |at: usize| StructureEdge { from: nodes[at].id.clone(), to: nodes[at + 1].id.clone(), kind: EdgeKind::Provides };
    let structure = DeclaredStructure { edges: vec![edge(0), edge(1)], nodes };
    let declared = CapabilityDeclared {
        name: format!("procedure {number}"),
        description: format!("{} then {}", structure.nodes[0].callee, structure.nodes[2].callee),
        structure,
        code: None,
        parameters_schema: None,
    };
    let id = RecordId::derived(EPOCH, &["capability", &number.to_string()]);
    Ok(fact(id, Event::CapabilityDeclared(declared)))
}
