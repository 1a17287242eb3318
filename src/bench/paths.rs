//! Measures shortest hyperpaths while hyperedges change, and plans. The floor of an update is Dijkstra from scratch on the same
//! hypergraph, that of a query from a pinned source is a search, and that of a plan is one discover of the same size.

use std::sync::Arc;

use super::discover::{micros, percentile};
use super::predict::{INTENTS, build_state};
use super::{Case, Stopwatch};
use crate::ask::question;
use crate::config::Config;
use crate::core::graph::Node;
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::core::hash::mix;
use crate::core::paths::dr_dsp::DrDsp;
use crate::core::paths::hyperedge::{Hyperedge, Origin};
use crate::core::rank::Index;
use crate::core::rank::discover::{DiscoverOptions, ItemFilter, discover};
use crate::core::suggest::planner::Planner;
use crate::core::time::Timestamp;
use crate::dataset::Dataset;
use crate::embed;

/// Names of the cases of one size.
struct CaseNames {
    /// A changed cost, with one pinned source.
    update: &'static str,
    /// A path from the pinned source; the floor is a search from scratch that ends at the target.
    query: &'static str,
}

const SIZES: [(CaseNames, u64); 3] = [
    (CaseNames { update: "update_1k", query: "query_1k" }, 1_000),
    (CaseNames { update: "update_10k", query: "query_10k" }, 10_000),
    (CaseNames { update: "update_50k", query: "query_50k" }, 50_000),
];
const UPDATES: u64 = 400;
const QUERIES: u64 = 400;
/// Hyperedges per node.
const DENSITY: u64 = 4;
const COST_MAX: u64 = 2_000_000;

const TOOLS: usize = 10_000;
const CAPABILITIES: usize = 1_000;
const QUESTIONS: usize = 300;

/// Measures all cases.
pub fn run(config: &Config) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (names, edges) in SIZES {
        cases.extend(shortest_paths(&names, edges)?);
    }
    cases.extend(plans(config)?);
    Ok(cases)
}

fn shortest_paths(names: &CaseNames, edges: u64) -> anyhow::Result<[Case; 2]> {
    let mut graph = hypergraph(edges);
    let (source, origins) = (node(0), graph.edges().map(|(origin, _)| origin).collect::<Vec<_>>());
    let mut from_scratch = graph.clone();
    graph.pin(source);
    let (mut updates, mut floors) = (Vec::new(), Vec::new());
    for number in 0..UPDATES {
        let origin = origins[usize::try_from(mix(number) % edges)?];
        let cost = cost(edges + number);
        let watch = Stopwatch::start();
        graph.set_cost(origin, cost);
        updates.push(micros(&watch));
        from_scratch.set_cost(origin, cost);
        let watch = Stopwatch::start();
        from_scratch.pin(source);
        floors.push(micros(&watch));
        from_scratch.unpin(source);
    }
    let (mut queries, mut searches) = (Vec::new(), Vec::new());
    for number in 0..QUERIES {
        let target = node(mix(number) % (edges / DENSITY));
        let watch = Stopwatch::start();
        let kept = graph.path(source, target);
        queries.push(micros(&watch));
        let watch = Stopwatch::start();
        let found = from_scratch.path(source, target);
        searches.push(micros(&watch));
        anyhow::ensure!(kept == found, "the path from a pinned source is not the one from scratch");
    }
    Ok([case(names.update, &updates, &floors, 0.5), case(names.query, &queries, &searches, 0.5)])
}

fn case(name: &'static str, times: &[f64], floors: &[f64], share: f64) -> Case {
    let (value, floor) = (percentile(&mut times.to_vec(), share), percentile(&mut floors.to_vec(), share));
    Case { case: name, value, unit: "us", floor: Some(floor), ratio: Some(floor / value) }
}

fn node(number: u64) -> Node {
    Node::tool(u32::try_from(number).expect("the hypergraphs are small"))
}

fn cost(number: u64) -> u64 {
    1_000 + mix(number) % COST_MAX
}

/// A random hypergraph: each hyperedge leads from one to three nodes to one or two others; every node can be reached from the first.
fn hypergraph(edges: u64) -> DrDsp {
    let (mut graph, nodes) = (DrDsp::default(), edges / DENSITY);
    for number in 0..edges {
        let random = |salt: u64| mix(number * 8 + salt);
        let distinct = |salt: u64, count: u64| {
            let mut chosen: Vec<Node> = (0..count).map(|at| node(random(salt + at) % nodes)).collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        let (tails, heads) = match number {
            // A random tree over all nodes comes first.
            child if child > 0 && child < nodes => (vec![node(random(1) % child)], vec![node(child)]),
            _ => (distinct(1, 1 + random(0) % 3), distinct(5, 1 + random(7) % 2)),
        };
        let capability = u32::try_from(number).expect("the hypergraphs are small");
        graph.insert(Origin::Whole { capability }, Hyperedge { tails, heads, cost: cost(number) });
    }
    graph
}

fn plans(config: &Config) -> anyhow::Result<[Case; 2]> {
    let (embedder, demo) = (embed::builtin(), Dataset::demo(Timestamp::from_micros(0)));
    let state = build_state(&demo, TOOLS, (CAPABILITIES, INTENTS), &*embedder)?;
    let index = Arc::new(Index::default().update(Arc::new(state)).calibrated());
    let measures = Measures::compute(index.state(), None, (&config.graph).into(), &tool_vectors(index.state()));
    let planner = Planner::default().update(Arc::clone(&index));
    let (mut times, mut floors) = (Vec::new(), Vec::new());
    for trace in demo.traces.iter().rev().take(QUESTIONS) {
        let watch = Stopwatch::start();
        let asked = question(Some(&*embedder), trace.intent.clone())?;
        let found = discover(&index, &asked, DiscoverOptions { only: ItemFilter::All, score_min: 0.0, limit: 10 });
        floors.push(micros(&watch));
        let watch = Stopwatch::start();
        let asked = question(Some(&*embedder), trace.intent.clone())?;
        let suggestion = planner.suggest(measures.adjacency(), &asked, &[]);
        times.push(micros(&watch));
        anyhow::ensure!(suggestion.best.is_some() && !found.hits.is_empty(), "a question has no answer");
    }
    Ok([case("suggest_10k", &times, &floors, 0.5), case("suggest_10k_p99", &times, &floors, 0.99)])
}
