//! Which outcomes are weighed: what followed before, what past intents near this one used, what reads like the intent, and the end.

use std::collections::BTreeSet;

use super::chances::Chances;
use super::corpus::top;
use super::evidence::Evidence;
use crate::core::event::Outcome;
use crate::core::graph::transition::Symbol;
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;

/// At most this many from each source: what followed most often, ever and in the near past; and the tools of near intents.
const SUCCESSORS: usize = 24;
const REMEMBERED: usize = 24;

/// A call, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Candidate {
    Call(Node),
    Done,
}

impl Candidate {
    pub fn symbol(self) -> Symbol {
        match self {
            Self::Call(node) => Symbol::call(node),
            Self::Done => Symbol::END,
        }
    }

    /// The candidate that an outcome names, if the state knows it.
    pub fn find(state: &State, outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Call(callee) => state.find(callee).map(Self::Call),
            Outcome::Done => Some(Self::Done),
        }
    }

    /// The position of the tool it calls.
    pub fn tool(self) -> Option<u32> {
        match self {
            Self::Call(node) => match node.kind() {
                NodeKind::Tool(position) => Some(position),
                NodeKind::Capability(_) => None,
            },
            Self::Done => None,
        }
    }

    pub(super) fn outcome(self, state: &State) -> Outcome {
        match self {
            Self::Call(node) => Outcome::Call(state.callee(node)),
            Self::Done => Outcome::Done,
        }
    }
}

/// In the order of the nodes, the end last.
pub fn of(state: &State, evidence: &Evidence, chances: &Chances<'_>) -> Vec<Candidate> {
    let mut nodes: BTreeSet<Node> = BTreeSet::new();
    let mut add = |best: Vec<(Node, f64)>| nodes.extend(best.into_iter().map(|(node, _)| node));
    add(top(chances.followed(), SUCCESSORS));
    add(top(chances.recalled(), SUCCESSORS));
    // A capability is a step only where one called it: most of those that past intents went by were never called.
    add(top(evidence.votes().filter(|(node, _)| matches!(node.kind(), NodeKind::Tool(_))), REMEMBERED));
    nodes.extend(evidence.alike().iter().map(|position| Node::tool(*position)));
    nodes.retain(|node| is_offered(state, *node));
    nodes.into_iter().map(Candidate::Call).chain([Candidate::Done]).collect()
}

fn is_offered(state: &State, node: Node) -> bool {
    match node.kind() {
        NodeKind::Tool(position) => !state.tools.at(position).removed,
        NodeKind::Capability(_) => true,
    }
}
