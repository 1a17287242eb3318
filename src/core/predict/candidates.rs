//! The candidates of a prediction: what followed the last call before, what near past intents used, tools whose text is similar to
//! the intent, and the end.

use std::collections::BTreeSet;

use pml_model::Next;

use super::chances::Chances;
use super::corpus::top;
use super::evidence::Evidence;
use crate::event::Outcome;
use crate::graph::transition::Symbol;
use crate::graph::{Node, NodeKind};
use crate::state::State;

/// Candidates per source, at most: the most frequent followers, of all runs and of near past intents; and the tools of the latter.
const SUCCESSORS: usize = 24;
const VOTED: usize = 24;
/// Candidates of the recurrent encoder, the likeliest ones.
const RECURRENT: usize = 8;

/// An outcome that is ranked: a call, or the end.
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

    /// The candidate for an outcome; `None` if the state does not know its callee.
    pub fn find(state: &State, outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Call(callee) => state.find(callee).map(Self::Call),
            Outcome::Done => Some(Self::Done),
        }
    }

    /// The position of the tool; `None` for a capability and the end.
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

/// Collects the candidates, in the order of the nodes, the end last.
pub fn collect(state: &State, evidence: &Evidence, chances: &Chances<'_>, next: Option<&Next>) -> Vec<Candidate> {
    let mut nodes: BTreeSet<Node> = BTreeSet::new();
    let mut add = |best: Vec<(Node, f64)>| nodes.extend(best.into_iter().map(|(node, _)| node));
    add(top(chances.followers(), SUCCESSORS));
    add(top(chances.near_followers(), SUCCESSORS));
    // Only tools: most capabilities that past intents used were never called as a step.
    add(top(evidence.votes().filter(|(node, _)| matches!(node.kind(), NodeKind::Tool(_))), VOTED));
    nodes.extend(evidence.similar_tools().iter().map(|position| Node::tool(*position)));
    let likeliest = next.map(|next| top((0..).zip(next.tools.iter().copied()), RECURRENT)).unwrap_or_default();
    nodes.extend(likeliest.into_iter().map(|(position, _)| Node::tool(position)));
    let offered: BTreeSet<Node> = nodes.into_iter().filter_map(|node| offered(state, node)).collect();
    offered.into_iter().map(Candidate::Call).chain([Candidate::Done]).collect()
}

/// What may be called in place of a node: itself, or the capability that it was merged into.
fn offered(state: &State, node: Node) -> Option<Node> {
    match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).is_offered().then_some(node),
        NodeKind::Capability(_) => state.capabilities.offered_node(node),
    }
}
