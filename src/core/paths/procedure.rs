//! The structure of a capability in terms of nodes: which calls feed which, where it starts and where it ends.

use crate::capability::{Capability, Status};
use crate::graph::Node;
use crate::state::State;

/// The calls of a capability as nodes, and the data flow between their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// By position in the structure. A node that is called twice stands twice.
    pub calls: Vec<Node>,
    /// Sorted by the call it comes from.
    pub flow: Vec<(usize, usize)>,
    /// By position: the longest chain of data flow that ends there.
    depths: Vec<usize>,
}

impl Procedure {
    /// The procedure of a capability; `None` for a stub.
    pub fn new(state: &State, capability: &Capability) -> Option<Self> {
        if capability.status == Status::Stub {
            return None;
        }
        let structure = &capability.structure;
        let calls: Option<Vec<Node>> = structure.calls.iter().map(|callee| state.find(callee)).collect();
        let flow = structure.flow.iter().map(|&(from, to)| (usize::from(from), usize::from(to))).collect();
        Some(Self { calls: calls?, flow, depths: structure.depths() })
    }

    /// The nodes whose output a call uses, sorted, each once; without the called node itself.
    pub fn feeding(&self, call: usize) -> Vec<Node> {
        let feeding = self.flow.iter().filter(|(_, to)| *to == call).map(|(from, _)| self.calls[*from]);
        sorted(feeding.filter(|node| *node != self.calls[call]).collect())
    }

    /// The nodes whose output no other call uses, sorted, each once: what the capability leaves behind.
    pub fn exits(&self) -> Vec<Node> {
        let is_exit = |call: &usize| !self.flow.iter().any(|(from, _)| from == call);
        sorted((0..self.calls.len()).filter(is_exit).map(|call| self.calls[call]).collect())
    }

    /// The first call of a node: the one with the shortest chain of data flow before it.
    pub fn first_call(&self, node: Node) -> Option<usize> {
        (0..self.calls.len()).filter(|call| self.calls[*call] == node).min_by_key(|call| (self.depths[*call], *call))
    }

    /// What the first call of a node needs; empty if the procedure may start with it. Following these needs never leads back to the
    /// node, because every step shortens the chain.
    pub fn needs(&self, node: Node) -> Vec<Node> {
        let Some(call) = self.first_call(node) else { return Vec::new() };
        // In a loop of declared data flow no call comes first; then nothing is known to be needed.
        if self.depths[call] == self.calls.len() { Vec::new() } else { self.feeding(call) }
    }
}

fn sorted(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
