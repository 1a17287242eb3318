//! The graph measures at 10,000 tools and 100,000 edges: each by itself, and all of them as the server computes them.
//!
//! `cargo bench --bench graph`

#![expect(clippy::unwrap_used, reason = "a benchmark whose input is wrong must stop")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pml::core::event::ToolRegistered;
use pml::core::graph::Node;
use pml::core::graph::adamic_adar::relatedness;
use pml::core::graph::adjacency::Adjacency;
use pml::core::graph::cold_start::{ColdEdges, ColdStart};
use pml::core::graph::community::louvain;
use pml::core::graph::edge::EdgeKind;
use pml::core::graph::measures::Measures;
use pml::core::graph::neighbours::related_tools;
use pml::core::graph::pagerank::pagerank;
use pml::core::graph::path::shortest;
use pml::core::id::Seq;
use pml::core::state::State;

const TOOLS: u32 = 10_000;
const EDGES: usize = 100_000;
const SERVERS: u32 = 400;
const DIMENSIONS: usize = 256;
const ALL: ColdStart = ColdStart { category_edges: true, similar_edges: true };

/// Noise that is the same in every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).unwrap()
    }
}

/// Tools of 400 servers. Three edges of four stay near their tool, as workflows do; some tools are far more popular than others.
fn state() -> State {
    let mut state = State::default();
    for number in 0..TOOLS {
        let id = format!("server{}:tool{number}", number % SERVERS);
        state.tools.register(ToolRegistered {
            tool: id.parse().unwrap(),
            name: id,
            description: "Does one thing and does it well".to_owned(),
            input_schema: None,
            output_schema: None,
            annotations: None,
        });
    }
    let mut noise = Noise(1);
    while state.graph.edge_count() < EDGES {
        let from = noise.below(TOOLS);
        let near = (from + 1 + noise.below(40)) % TOOLS;
        let popular = noise.below(TOOLS).min(noise.below(TOOLS)).min(noise.below(TOOLS));
        let to = if noise.below(4) == 0 { popular } else { near };
        let kind = if noise.below(2) == 0 { EdgeKind::Provides } else { EdgeKind::Sequence };
        for _ in 0..=noise.below(3) {
            state.graph.observe((Node::tool(from), Node::tool(to), kind), true, Seq(1));
        }
    }
    state
}

/// A tenth of the tools are near copies of another.
fn vectors() -> Vec<Vec<f32>> {
    let mut noise = Noise(2);
    let mut value = || f32::from(u16::try_from(noise.below(2_000)).unwrap()) / 1_000.0 - 1.0;
    let mut vectors: Vec<Vec<f32>> = (0..TOOLS).map(|_| (0..DIMENSIONS).map(|_| value()).collect()).collect();
    for at in (0..vectors.len()).step_by(10) {
        vectors[at] = vectors[at + 1].iter().map(|near| near + 0.2 * value()).collect();
    }
    vectors
}

fn measures(criterion: &mut Criterion) {
    let state = state();
    let vectors = vectors();
    let vectors: Vec<Option<&[f32]>> = vectors.iter().map(|vector| Some(vector.as_slice())).collect();
    let cold = ColdEdges::compute(&state, ALL, &vectors, None);
    let adjacency = Adjacency::from_state(&state, &cold.guesses);
    let known = Measures::compute(&state, None, ALL, &vectors);
    let ranks = pagerank(&adjacency, None).ranks;
    let mut noise = Noise(3);
    let mut any = move || noise.below(TOOLS);

    let mut group = criterion.benchmark_group("graph_10k_tools_100k_edges");
    group.sample_size(10);
    group.bench_function("adjacency", |bench| bench.iter(|| Adjacency::from_state(black_box(&state), &cold.guesses)));
    group.bench_function("pagerank_cold", |bench| bench.iter(|| pagerank(black_box(&adjacency), None)));
    group.bench_function("pagerank_warm", |bench| bench.iter(|| pagerank(black_box(&adjacency), Some(ranks.clone()))));
    group.bench_function("communities", |bench| bench.iter(|| louvain(black_box(&adjacency))));
    group.bench_function("cold_start_edges", |bench| bench.iter(|| ColdEdges::compute(black_box(&state), ALL, &vectors, None)));
    group.bench_function("compute_first", |bench| bench.iter(|| Measures::compute(black_box(&state), None, ALL, &vectors)));
    group.bench_function("compute_again", |bench| {
        bench.iter(|| Measures::compute(black_box(&state), Some(&known), ALL, &vectors));
    });
    group.sample_size(100);
    group.bench_function("relatedness_to_5", |bench| {
        bench.iter_batched(
            || [any(), any(), any(), any(), any(), any()],
            |[node, context @ ..]| relatedness(&adjacency, node, &context),
            criterion::BatchSize::SmallInput,
        );
    });
    group.bench_function("related_tools", |bench| {
        bench.iter_batched(&mut any, |node| related_tools(&adjacency, node, |_| true), criterion::BatchSize::SmallInput);
    });
    group.bench_function("shortest_path", |bench| {
        bench.iter_batched(|| (any(), any()), |(from, to)| shortest(&adjacency, from, to), criterion::BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group!(benches, measures);
criterion_main!(benches);
