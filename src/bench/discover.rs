//! Measures the time of `discover`. The floor is the least work of any answer: embedding the question and one product with every
//! item's vector.

use std::sync::Arc;

use ndarray::Array2;
use pml_model::shgat::rows_times;

use super::{Case, Stopwatch};
use crate::ask::question;
use crate::config::{Config, EmbedderKind};
use crate::core::event::{EmbeddingComputed, Event, NewRecord, Record, ToolRegistered};
use crate::core::id::{RecordId, Seq, ToolId};
use crate::core::rank::discover::{DiscoverOptions, ItemFilter, discover};
use crate::core::rank::{Index, Question};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::dataset::{Dataset, TraceLine};
use crate::embed::{self, Embedder};

/// Intents in the memory, from the shipped traces.
const INTENTS: usize = 500;
/// Questions per size: other intents of the shipped traces.
const QUESTIONS: usize = 300;
const SIZES: [(&str, &str, usize); 3] =
    [("tools_500", "tools_500_p99", 500), ("tools_10k", "tools_10k_p99", 10_000), ("tools_100k", "tools_100k_p99", 100_000)];
const WANTED: DiscoverOptions = DiscoverOptions { only: ItemFilter::All, score_min: 0.0, limit: 10 };

/// Measures `discover` at several sizes, then the embedders; the ONNX one only if it is installed.
pub fn run(config: &Config) -> anyhow::Result<Vec<Case>> {
    let embedder = embed::builtin();
    let demo = Dataset::demo(Timestamp::from_micros(0));
    let intents: Vec<&str> = demo.traces.iter().skip(INTENTS).take(QUESTIONS).map(|trace| trace.intent.as_str()).collect();
    let mut cases = Vec::new();
    for (p50, p99, tools) in SIZES {
        let index = build_index(&demo, tools, &*embedder)?;
        cases.extend(measure(p50, p99, &index, &*embedder, &intents)?);
    }
    cases.push(embedding("embed_static", &*embedder, &intents)?);
    let mut onnx = config.embedding.clone();
    onnx.embedder = EmbedderKind::Onnx;
    match embed::open(&onnx) {
        Ok(onnx) => cases.push(embedding("embed_onnx", &*onnx, &intents[..30])?),
        Err(error) => tracing::warn!(%error, "the ONNX embedder is not measured"),
    }
    Ok(cases)
}

fn measure(
    p50: &'static str,
    p99: &'static str,
    index: &Index,
    embedder: &dyn Embedder,
    intents: &[&str],
) -> anyhow::Result<[Case; 2]> {
    let rows = Array2::from_elem((index.documents().len(), embedder.dim()), 0.5);
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for intent in intents {
        let watch = Stopwatch::start();
        let vectors = embedder.embed(&[intent])?;
        let products = rows_times(&rows, &vectors[0]);
        floors.push(micros(&watch));
        std::hint::black_box(products);
        let watch = Stopwatch::start();
        let asked: Question = question(Some(embedder), (*intent).to_owned())?;
        let found = discover(index, &asked, WANTED);
        ours.push(micros(&watch));
        anyhow::ensure!(!found.hits.is_empty(), "nothing was found for '{intent}'");
    }
    let case = |name, share| {
        let (value, floor) = (percentile(&mut ours.clone(), share), percentile(&mut floors.clone(), share));
        Case { case: name, value, unit: "us", floor: Some(floor), ratio: Some(floor / value) }
    };
    Ok([case(p50, 0.5), case(p99, 0.99)])
}

fn embedding(name: &'static str, embedder: &dyn Embedder, intents: &[&str]) -> anyhow::Result<Case> {
    let mut times = Vec::new();
    for intent in intents {
        let watch = Stopwatch::start();
        std::hint::black_box(embedder.embed(&[intent])?);
        times.push(micros(&watch));
    }
    Ok(Case { case: name, value: percentile(&mut times, 0.5), unit: "us", floor: None, ratio: None })
}

pub(super) fn micros(watch: &Stopwatch) -> f64 {
    watch.elapsed().as_secs_f64() * 1e6
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a short list"
)]
pub(super) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// Builds an index over `tools` tools and the first shipped traces by folding records, as the program does.
fn build_index(demo: &Dataset, tools: usize, embedder: &dyn Embedder) -> anyhow::Result<Index> {
    let mut state = State::default();
    let mut seq = Seq::ZERO;
    let mut apply = |state: &mut State, fact: NewRecord| {
        seq = seq.next();
        state.apply(&Record { seq, recorded_at: Timestamp::from_micros(0), fact: Arc::new(fact) });
    };
    for number in 0..tools {
        apply(&mut state, tool(demo, number)?);
    }
    for trace in demo.traces.iter().take(INTENTS) {
        apply(&mut state, trace_completed(trace)?);
    }
    loop {
        let lacking = state.vectors.lacking(embedder.model().as_str(), 1_024);
        if lacking.is_empty() {
            break;
        }
        let texts: Vec<&str> = lacking.iter().map(|(_, text)| &**text).collect();
        for ((hash, _), vector) in lacking.iter().zip(embedder.embed(&texts)?) {
            let model = embedder.model().to_string();
            let id = RecordId::derived(Timestamp::from_micros(0), &[&hash.to_string()]);
            apply(
                &mut state,
                fact(id, Event::EmbeddingComputed(EmbeddingComputed { text_hash: hash.to_string(), model, vector })),
            );
        }
    }
    Ok(Index::default().update(Arc::new(state)))
}

/// The registration of tool `number`: first the shipped tools, then variants with the descriptions of two of them.
pub(super) fn tool(demo: &Dataset, number: usize) -> anyhow::Result<NewRecord> {
    let description = |at: usize| match &demo.tools[at % demo.tools.len()].event {
        Event::ToolRegistered(tool) => (tool.tool.clone(), tool.description.clone()),
        other => unreachable!("a dataset's tools are registrations, not {}", other.kind()),
    };
    let (id, text) = description(number);
    let (_, other) = description(number / demo.tools.len() * 7 + number);
    let copy = number / demo.tools.len();
    let tool: ToolId = if copy == 0 { id } else { format!("copy{copy}-{id}").parse()? };
    let description = if copy == 0 { text } else { format!("{text} {other}") };
    let event = ToolRegistered {
        name: tool.name().to_owned(),
        description,
        input_schema: None,
        output_schema: None,
        annotations: None,
        tool,
    };
    let id = RecordId::derived(Timestamp::from_micros(0), &["tool", &number.to_string()]);
    Ok(fact(id, Event::ToolRegistered(event)))
}

/// The `trace.completed` fact of a trace.
pub(super) fn trace_completed(trace: &TraceLine) -> anyhow::Result<NewRecord> {
    let mut executions = crate::core::trace::Executions::default();
    let events = trace.events(Timestamp::from_micros(0)).map_err(|problem| anyhow::anyhow!(problem))?;
    let execution = events[0].event.execution().expect("a trace begins with its start").clone();
    for fact in events {
        executions.apply(&Arc::new(fact));
    }
    let open = executions.get(&execution).expect("it was just applied");
    let id = RecordId::derived(Timestamp::from_micros(0), &["trace", execution.as_str()]);
    Ok(fact(id, Event::TraceCompleted(open.complete(&execution, false))))
}

pub(super) fn fact(id: RecordId, event: Event) -> NewRecord {
    NewRecord { id, time: Timestamp::from_micros(0), source: "bench".into(), causation: None, envelope: None, event }
}
