//! What is learnt from: traces, with the hypergraph they are compared with.

use ndarray::Array2;

use super::features::Features;
use super::forward::Vectors;
use super::hypergraph::{Hypergraph, Node};

/// One trace: an intent, the nodes that were used for it, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// A stable number, by which its priority is kept.
    pub id: u128,
    /// The row of its intent in [`Part::intents`].
    pub intent: usize,
    /// Every node is an example; together they weigh as much as any other trace.
    pub path: Vec<Node>,
    pub succeeded: bool,
}

/// Traces with the hypergraph they are compared with. Several parts allow cross-fitting: capabilities whose vectors come from past
/// intents should be trained on other intents than those.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub graph: &'a Hypergraph,
    pub vectors: &'a Vectors,
    pub features: &'a Features,
    pub intents: &'a Array2<f32>,
    pub traces: &'a [Trace],
}

/// The number of traces that could not be learnt from, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The path is empty.
    pub no_path: usize,
    /// A node of the path is not in the hypergraph.
    pub unknown_node: usize,
    /// The intent has no vector: a row of zeros, or none.
    pub no_vector: usize,
}

/// Why a trace cannot be learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoPath,
    UnknownNode,
    NoVector,
}

impl Part<'_> {
    pub(crate) fn refusal(&self, trace: &Trace) -> Option<Refusal> {
        let has_vector = |row: usize| row < self.intents.nrows() && self.intents.row(row).iter().any(|value| *value != 0.0);
        match trace {
            _ if trace.path.is_empty() => Some(Refusal::NoPath),
            _ if trace.path.iter().any(|node| !self.graph.has(*node)) => Some(Refusal::UnknownNode),
            _ if !has_vector(trace.intent) => Some(Refusal::NoVector),
            _ => None,
        }
    }
}
