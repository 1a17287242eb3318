//! The rankers that next-step prediction is evaluated with: what pml serves, and plain baselines. Each scores every tool.

use crate::core::graph::measures::Measures;
use crate::core::graph::transition::Symbol;
use crate::core::graph::{Node, NodeKind};
use crate::core::predict::candidates::Candidate;
use crate::core::predict::chances::{Chance, Chances};
use crate::core::predict::evidence::{Evidence, Excluded};
use crate::core::predict::probabilities;
use crate::core::state::State;

/// Weights of the source documents' formula (S3 2.2): transition, community, recency, page rank.
const FORMULA: [f64; 4] = [0.6, 0.3, 0.1, 0.1];
/// Time constant of the recency, one day.
const DAY_MS: f64 = 24.0 * 3_600_000.0;
/// Weight of the transition probability in the baseline `memory`: it matters only where the votes are nearly equal.
const TIE_WEIGHT: f64 = 1e-3;

/// A ranker of tools for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRanker {
    Pml,
    Popularity,
    Markov1,
    Markov2,
    /// Votes of the calls that followed the same call in runs of similar past intents.
    Memory,
    /// The source documents' formula with weights set by hand.
    Formula,
}

/// `StepContext` is the context of one step: the calls before it, the evidence, and the transition probabilities of every tool.
pub struct StepContext<'a> {
    state: &'a State,
    measures: &'a Measures,
    evidence: &'a Evidence,
    context: &'a [Option<Node>],
    /// By tool position.
    chances: Vec<Chance>,
}

impl<'a> StepContext<'a> {
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

    /// Returns a score for every tool, by position.
    pub fn scores(self, step: &StepContext<'_>) -> Vec<f64> {
        let each = |score: fn(&Chance) -> f64| step.chances.iter().map(score).collect();
        match self {
            Self::Pml => served(step),
            Self::Popularity => each(|chance| chance.any),
            Self::Markov1 => each(|chance| chance.last),
            Self::Markov2 => each(|chance| chance.two),
            Self::Memory => {
                let votes = followed(step).into_iter().zip(&step.chances);
                votes.map(|(vote, chance)| vote + TIE_WEIGHT * chance.last).collect()
            }
            Self::Formula => formula(step),
        }
    }
}

/// Returns the probabilities that `predict` answers; tools that are no candidates have 0.
fn served(step: &StepContext<'_>) -> Vec<f64> {
    let mut scores = vec![0.0; step.state.tools.len()];
    for (candidate, p) in probabilities(step.state, step.evidence, step.context) {
        if let Candidate::Call(node) = candidate
            && let NodeKind::Tool(position) = node.kind()
        {
            scores[position as usize] = p;
        }
    }
    scores
}

/// Counts what followed the last call in the runs of similar past intents, weighted by similarity.
fn followed(step: &StepContext<'_>) -> Vec<f64> {
    let mut votes = vec![0.0; step.state.tools.len()];
    let last = step.context.last().map_or(Some(Symbol::START), |node| node.map(Symbol::call));
    for near in &step.evidence.near {
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

/// Scores by the source documents' formula, which leaves out tools already called.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since a use")]
fn formula(step: &StepContext<'_>) -> Vec<f64> {
    let tools = &step.state.tools;
    let latest = tools.iter().filter_map(|tool| tool.last_used).max();
    let active = step.context.last().copied().flatten().and_then(|last| step.measures.community(last));
    let score = |(position, chance): (u32, &Chance)| {
        let node = Node::tool(position);
        if step.context.contains(&Some(node)) {
            return 0.0;
        }
        let together = active.is_some() && step.measures.community(node) == active;
        let used = latest.zip(tools.at(position).last_used);
        let recency = used.map_or(0.0, |(latest, used)| (-(latest.millis_since(used) as f64) / DAY_MS).exp());
        let values = [chance.last, f64::from(u8::from(together)), recency, step.measures.pagerank(node)];
        FORMULA.iter().zip(values).map(|(weight, value)| weight * value).sum()
    };
    (0..).zip(&step.chances).map(score).collect()
}

fn index(node: Node) -> usize {
    match node.kind() {
        NodeKind::Tool(position) | NodeKind::Capability(position) => position as usize,
    }
}
