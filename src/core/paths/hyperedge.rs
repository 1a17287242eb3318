//! Hyperedges: several tails lead to several heads at one cost. Each is named by its origin in the state, so that the same state
//! always has the same hyperedges under the same names.

use crate::graph::Node;
use crate::graph::edge::EdgeKind;

/// The part of a state that a hyperedge stands for. It identifies the hyperedge and breaks ties between equal costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A typed edge of the tool graph: from, to, kind.
    Edge(Node, Node, EdgeKind),
    /// Data flow inside a capability: the calls that feed one call, by position in its structure, lead to that call.
    Flow { capability: u32, call: u16 },
    /// A whole capability: the calls whose output it does not use itself lead to the capability.
    Whole { capability: u32 },
}

/// Tails, heads and cost. Neither tails nor heads repeat, and the cost is above 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperedge {
    pub tails: Vec<Node>,
    pub heads: Vec<Node>,
    pub cost: u64,
}

impl Hyperedge {
    /// The pairs of a tail and a head that differ. A node that is both leads nowhere new.
    pub fn pairs(&self) -> impl Iterator<Item = (Node, Node)> {
        let heads = |tail: Node| self.heads.iter().map(move |head| (tail, *head));
        self.tails.iter().flat_map(move |tail| heads(*tail)).filter(|(tail, head)| tail != head)
    }
}
