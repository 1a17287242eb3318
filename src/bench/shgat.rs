//! Measures SHGAT: passing messages, scoring from vectors that are kept, and training. The floor is one plain matrix product with as
//! many multiplications as the matrix products of the measured work. Both run on one thread.

use std::ops::ControlFlow;

use ndarray::Array2;
use pml_model::shgat::sample::{Sample, Sizes};
use pml_model::shgat::{Cost, Enriched, Parameters, Part, Priorities, Scorer, Settings, Shape, Switches, rows_times, train};

use super::discover::{micros, percentile};
use super::predict::build_state;
use super::{Case, Stopwatch, median, peak_memory_mb, reset_peak_memory};
use crate::core::predict::targets::Targets;
use crate::core::time::Timestamp;
use crate::core::train::{TrainSettings, seed};
use crate::dataset::Dataset;
use crate::embed;

const DIM: usize = 256;
const HEADS: usize = 8;
/// Members drawn for a capability.
const MEMBERS: usize = 8;
const SEED: u64 = 7;

/// Name, tools, capabilities and number of passes of a size.
const FORWARDS: [(&str, usize, usize, usize); 3] =
    [("forward_500", 500, 100, 40), ("forward_10k", 10_000, 1_000, 9), ("forward_50k", 50_000, 5_000, 3)];

/// Scoring: questions, and results of each kind.
const QUESTIONS: usize = 400;
const RESULTS: usize = 10;

/// Training, as the original was measured: 500 traces, three epochs, batches of 32.
const TRACES: usize = 500;
const EPOCHS: usize = 3;
const BATCH: usize = 32;

/// Declared capabilities and traces of the state whose training is measured; the traces bring capabilities of their own.
const MEMORY_STATE: (usize, usize) = (500, 600);

/// Measures all cases.
pub fn run() -> anyhow::Result<Vec<Case>> {
    let mut cases: Vec<Case> = FORWARDS.into_iter().map(forward).collect();
    cases.extend(score());
    cases.extend(training());
    cases.extend(memory()?);
    Ok(cases)
}

fn sample(tools: usize, capabilities: usize) -> (Sample, Parameters) {
    let sample = Sample::new(Sizes { tools, capabilities, members: MEMBERS, dim: DIM }, SEED);
    let parameters = Parameters::new(Shape::new(DIM, HEADS), sample.graph.level_count());
    (sample, parameters)
}

fn forward((case, tools, capabilities, passes): (&'static str, usize, usize, usize)) -> Case {
    let (sample, parameters) = sample(tools, capabilities);
    let product = Product::new(Cost::new(&sample.graph, DIM).forward());
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..passes {
        let watch = Stopwatch::start();
        std::hint::black_box(Enriched::new(&sample.graph, &sample.vectors, &parameters, 1));
        ours.push(millis(&watch));
        floors.push(product.millis());
    }
    time(case, median(ours), "ms", median(floors))
}

/// The best few of each kind for an intent, at 10,000 tools and 1,000 capabilities. The floor is the product of all vectors with the
/// intent.
fn score() -> [Case; 2] {
    let (sample, parameters) = sample(10_000, 1_000);
    let enriched = Enriched::new(&sample.graph, &sample.vectors, &parameters, 1);
    let scorer = Scorer::new(&sample.graph, &enriched, &sample.features, &parameters, Switches::default());
    let rows = Array2::from_elem((Cost::new(&sample.graph, DIM).score() / DIM, DIM), 0.5);
    let intents = sample.traces(QUESTIONS, SEED).0;
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for intent in intents.rows() {
        let intent = intent.to_vec();
        let watch = Stopwatch::start();
        std::hint::black_box(rows_times(&rows, &intent));
        floors.push(micros(&watch));
        let watch = Stopwatch::start();
        std::hint::black_box((scorer.score_top_tools(&intent, RESULTS), scorer.score_all_capabilities(&intent)));
        ours.push(micros(&watch));
    }
    let mut case = |name, share| time(name, percentile(&mut ours, share), "us", percentile(&mut floors, share));
    [case("score", 0.5), case("score_p99", 0.99)]
}

/// 500 traces, three epochs, at 500 tools and 100 capabilities: the examples per second, one per node of a path, and the whole time.
#[expect(clippy::cast_precision_loss, reason = "a few thousand examples")]
fn training() -> [Case; 2] {
    let (sample, parameters) = sample(500, 100);
    let (intents, traces) = sample.traces(TRACES, SEED);
    let Sample { graph, vectors, features } = &sample;
    let part = Part { graph, vectors, features, intents: &intents, traces: &traces };
    let settings = Settings { epochs: EPOCHS, batch: BATCH, ..Settings::default() };
    let cost = Cost::new(graph, DIM);
    let product = Product::new(EPOCHS * TRACES.div_ceil(BATCH) * cost.batch(BATCH));
    let (mut ours, mut floors, mut examples) = (Vec::new(), Vec::new(), 0);
    for _ in 0..3 {
        let watch = Stopwatch::start();
        let go_on = &mut |_| ControlFlow::Continue(());
        let trained = train(&[part], &[], parameters.clone(), &mut Priorities::default(), &settings, go_on);
        ours.push(millis(&watch));
        floors.push(product.millis());
        examples = trained.examples * EPOCHS;
    }
    let (ours, floor) = (median(ours), median(floors));
    let rate = |millis: f64| examples as f64 / millis * 1e3;
    [
        Case { case: "train", value: rate(ours), unit: "examples/s", floor: Some(rate(floor)), ratio: Some(floor / ours) },
        time("train_run", ours, "ms", floor),
    ]
}

/// The peak memory of a training run of all parts at 10,000 tools and about 1,000 capabilities, above that of serving the same
/// state. One epoch each: more take longer, not more room.
fn memory() -> anyhow::Result<Option<Case>> {
    let (embedder, demo) = (embed::builtin(), Dataset::demo(Timestamp::from_micros(0)));
    let state = build_state(&demo, 10_000, MEMORY_STATE, &*embedder)?;
    let served = Targets::untrained(&state);
    let mut settings = TrainSettings::default();
    (settings.head.epochs_max, settings.encoder.epochs_max, settings.shgat.epochs) = (1, 1, 1);
    reset_peak_memory();
    let before = peak_memory_mb("self");
    crate::core::train::train(&state, &settings, seed(&state), &mut |_| ControlFlow::Continue(()))?;
    let after = peak_memory_mb("self");
    drop(served);
    let case = |(before, after): (f64, f64)| Case {
        case: "train_memory_10k",
        value: after - before,
        unit: "MB",
        floor: None,
        ratio: None,
    };
    Ok(before.zip(after).map(case))
}

/// A case where less is better.
fn time(case: &'static str, value: f64, unit: &'static str, floor: f64) -> Case {
    Case { case, value, unit, floor: Some(floor), ratio: Some(floor / value) }
}

fn millis(watch: &Stopwatch) -> f64 {
    watch.elapsed().as_secs_f64() * 1e3
}

/// A matrix product with a given number of multiplications: rows times a square matrix.
struct Product {
    rows: Array2<f32>,
    matrix: Array2<f32>,
    /// How often the rows are multiplied, so that they need not hold everything at once.
    times: usize,
}

impl Product {
    /// Rows per product, at most.
    const ROWS_MAX: usize = 1 << 16;

    fn new(multiplications: usize) -> Self {
        let rows = multiplications.div_ceil(DIM * DIM);
        let times = rows.div_ceil(Self::ROWS_MAX);
        let rows = Array2::from_elem((rows.div_ceil(times), DIM), 0.5);
        Self { rows, matrix: Array2::from_elem((DIM, DIM), 0.5), times }
    }

    fn millis(&self) -> f64 {
        let watch = Stopwatch::start();
        for _ in 0..self.times {
            std::hint::black_box(self.rows.dot(&self.matrix));
        }
        millis(&watch)
    }
}
