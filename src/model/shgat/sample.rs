//! Random hypergraphs and traces with a seed, for measurements and tests.

use ndarray::Array2;

use super::features::{CapabilityFeatures, Features, ToolFeatures};
use super::forward::Vectors;
use super::hypergraph::{Hypergraph, Node};
use super::trace::Trace;
use crate::random::Random;

/// The sizes of a random hypergraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub tools: usize,
    pub capabilities: usize,
    /// The number of members drawn for a capability; one drawn twice counts once.
    pub members: usize,
    pub dim: usize,
}

/// A hypergraph with vectors and features.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub graph: Hypergraph,
    pub vectors: Vectors,
    pub features: Features,
}

impl Sample {
    /// One capability in ten contains a capability made before it; the others contain tools only.
    pub fn new(sizes: Sizes, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut graph = Hypergraph::new(sizes.tools);
        for capability in 0..sizes.capabilities {
            let mut members: Vec<Node> = (0..sizes.members).map(|_| Node::Tool(random.below(sizes.tools))).collect();
            if capability > 0 && random.below(10) == 0 {
                members[0] = Node::Capability(random.below(capability));
            }
            graph.add_capability(&members).expect("members that were made before");
        }
        let vectors = Vectors {
            tools: unit_rows(sizes.tools, sizes.dim, &mut random),
            capabilities: unit_rows(sizes.capabilities, sizes.dim, &mut random),
        };
        let features = Features {
            tools: (0..sizes.tools).map(|_| tool_features(&mut random)).collect(),
            capabilities: (0..sizes.capabilities).map(|_| capability_features(&mut random)).collect(),
        };
        Self { graph, vectors, features }
    }

    /// Traces whose path is a capability and its tools, and whose intent is the capability's vector with noise. One in ten fails.
    pub fn traces(&self, count: usize, seed: u64) -> (Array2<f32>, Vec<Trace>) {
        let mut random = Random::new(seed);
        let dim = self.vectors.capabilities.ncols();
        let mut intents = unit_rows(count, dim, &mut random);
        let mut traces = Vec::with_capacity(count);
        for intent in 0..count {
            let capability = random.below(self.graph.capabilities());
            let own = self.vectors.capabilities.row(capability);
            intents.row_mut(intent).iter_mut().zip(own).for_each(|(noise, own)| *noise = own + 0.5 * *noise);
            let tools = self.graph.members(capability).filter(|member| matches!(member, Node::Tool(_)));
            let path = std::iter::once(Node::Capability(capability)).chain(tools).collect();
            traces.push(Trace { id: intent as u128, intent, path, succeeded: random.below(10) > 0 });
        }
        (intents, traces)
    }
}

fn unit_rows(rows: usize, dim: usize, random: &mut Random) -> Array2<f32> {
    let mut matrix = Array2::from_shape_simple_fn((rows, dim), || random.normal());
    for mut row in matrix.rows_mut() {
        super::logits::normalise(row.as_slice_mut().expect("a new array"));
    }
    matrix
}

fn tool_features(random: &mut Random) -> ToolFeatures {
    let [page_rank, adamic_adar, cooccurrence, recency] = std::array::from_fn(|_| random.uniform());
    ToolFeatures { page_rank, adamic_adar, cooccurrence, recency }
}

fn capability_features(random: &mut Random) -> CapabilityFeatures {
    let [hypergraph_page_rank, adamic_adar, recency, heat] = std::array::from_fn(|_| random.uniform());
    CapabilityFeatures { hypergraph_page_rank, adamic_adar, recency, heat }
}
