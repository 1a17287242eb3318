//! Which outcomes are weighed: what followed before, what past intents near this one used, what reads like the intent, and the end.

use std::collections::BTreeSet;

use super::chances::Chances;
use super::evidence::Evidence;
use crate::core::event::Outcome;
use crate::core::graph::transition::Symbol;
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;

/// At most this many from each source: the likeliest successors, the tools of near intents, and the tools nearest to the intent and
/// to each of its clauses.
const SUCCESSORS: usize = 24;
const REMEMBERED: usize = 24;
const SIMILAR: usize = 16;

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
    nodes.extend(best(chances.successors(), SUCCESSORS));
    nodes.extend(best(evidence.votes(), REMEMBERED));
    for similarities in evidence.similarities() {
        let by_position = similarities.iter().enumerate().filter(|(_, similarity)| **similarity > 0.0);
        let tool = |position: usize| Node::tool(u32::try_from(position).expect("positions are 32 bits wide"));
        nodes.extend(best(by_position.map(|(position, similarity)| (tool(position), f64::from(*similarity))), SIMILAR));
    }
    nodes.retain(|node| is_offered(state, *node));
    nodes.into_iter().map(Candidate::Call).chain([Candidate::Done]).collect()
}

fn is_offered(state: &State, node: Node) -> bool {
    match node.kind() {
        NodeKind::Tool(position) => !state.tools.at(position).removed,
        NodeKind::Capability(_) => true,
    }
}

/// The nodes with the largest values; ties by node.
fn best(valued: impl Iterator<Item = (Node, f64)>, keep: usize) -> impl Iterator<Item = Node> {
    let mut valued: Vec<(Node, f64)> = valued.collect();
    let better = |a: &(Node, f64), b: &(Node, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if valued.len() > keep {
        valued.select_nth_unstable_by(keep, better);
        valued.truncate(keep);
    }
    valued.into_iter().map(|(node, _)| node)
}
