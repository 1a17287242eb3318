//! What the product serves as the next step, and the plain baselines it is compared with. All score every tool by position.

use crate::core::graph::measures::Measures;
use crate::core::graph::transition::Symbol;
use crate::core::graph::{Node, NodeKind};
use crate::core::predict::candidates::Candidate;
use crate::core::predict::chances::{Chance, Chances};
use crate::core::predict::evidence::{Evidence, Excluded};
use crate::core::predict::probabilities;
use crate::core::state::State;

/// Weights of the source documents (S3 2.2), and the day within which a use counts as recent.
const FORMULA: [f64; 4] = [0.6, 0.3, 0.1, 0.1];
const DAY_MS: f64 = 24.0 * 3_600_000.0;
/// What decides where a memory has nothing to say: what followed, then what is popular.
const BEHIND: f64 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRanker {
    Pml,
    Popularity,
    Markov1,
    Markov2,
    /// What came after the same call in the runs of past intents near this one.
    Memory,
    /// The source documents' hand weights.
    Formula,
}

/// Where a run stands, with what every baseline needs to know about every tool.
pub struct Place<'a> {
    state: &'a State,
    measures: &'a Measures,
    evidence: &'a Evidence,
    context: &'a [Option<Node>],
    /// By position.
    chances: Vec<Chance>,
}

impl<'a> Place<'a> {
    pub fn new(state: &'a State, measures: &'a Measures, evidence: &'a Evidence, context: &'a [Option<Node>]) -> Self {
        let excluded = Excluded::default();
        let chances = Chances::new(state, evidence, context, &excluded);
        let tools = (0..).take(state.tools.len()).map(Node::tool);
        let chances = tools.map(|node| chances.chance(Candidate::Call(node))).collect();
        Self { state, measures, evidence, context, chances }
    }
}

impl NextRanker {
    pub const ALL: [Self; 6] = [Self::Pml, Self::Popularity, Self::Markov1, Self::Markov2, Self::Memory, Self::Formula];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pml => "pml",
            Self::Popularity => "popularity",
            Self::Markov1 => "markov1",
            Self::Markov2 => "markov2",
            Self::Memory => "memory",
            Self::Formula => "formula",
        }
    }

    pub fn scores(self, place: &Place<'_>) -> Vec<f64> {
        let each = |score: fn(&Chance) -> f64| place.chances.iter().map(score).collect();
        match self {
            Self::Pml => served(place),
            Self::Popularity => each(|chance| chance.any),
            Self::Markov1 => each(|chance| chance.last),
            Self::Markov2 => each(|chance| chance.two),
            Self::Memory => {
                let votes = followed(place).into_iter().zip(&place.chances);
                votes.map(|(vote, chance)| vote + BEHIND * chance.last).collect()
            }
            Self::Formula => formula(place),
        }
    }
}

/// What predict answers, without being done; tools it does not weigh have probability 0.
fn served(place: &Place<'_>) -> Vec<f64> {
    let mut scores = vec![0.0; place.state.tools.len()];
    for (candidate, p) in probabilities(place.state, place.evidence, place.context) {
        if let Candidate::Call(node) = candidate
            && let NodeKind::Tool(position) = node.kind()
        {
            scores[position as usize] = p;
        }
    }
    scores
}

fn followed(place: &Place<'_>) -> Vec<f64> {
    let mut votes = vec![0.0; place.state.tools.len()];
    let last = place.context.last().map_or(Some(Symbol::START), |node| node.map(Symbol::call));
    for near in &place.evidence.near {
        for sequence in &near.entry.sequences {
            for pair in sequence.symbols().windows(2).filter(|pair| Some(pair[0]) == last) {
                if let Some(node) = pair[1].node().filter(|node| matches!(node.kind(), NodeKind::Tool(_))) {
                    votes[index(node)] += near.weight_usual * f64::from(sequence.times);
                }
            }
        }
    }
    votes
}

/// Used tools are left out, as in the source documents.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since a use")]
fn formula(place: &Place<'_>) -> Vec<f64> {
    let tools = &place.state.tools;
    let latest = tools.iter().filter_map(|tool| tool.last_used).max();
    let active = place.context.last().copied().flatten().and_then(|last| place.measures.community(last));
    let score = |(position, chance): (u32, &Chance)| {
        let node = Node::tool(position);
        if place.context.contains(&Some(node)) {
            return 0.0;
        }
        let together = active.is_some() && place.measures.community(node) == active;
        let used = latest.zip(tools.at(position).last_used);
        let recency = used.map_or(0.0, |(latest, used)| (-(latest.millis_since(used) as f64) / DAY_MS).exp());
        let values = [chance.last, f64::from(u8::from(together)), recency, place.measures.pagerank(node)];
        FORMULA.iter().zip(values).map(|(weight, value)| weight * value).sum()
    };
    (0..).zip(&place.chances).map(score).collect()
}

fn index(node: Node) -> usize {
    match node.kind() {
        NodeKind::Tool(position) | NodeKind::Capability(position) => position as usize,
    }
}
