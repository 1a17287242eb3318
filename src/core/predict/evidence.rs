//! Evidence: what the memory and the tools' texts say about one intent, the same for every step of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::corpus::largest;
use crate::graph::{Node, NodeKind};
use crate::memory::{CallSequence, PastIntent};
use crate::rank::Question;
use crate::state::State;

/// Past intents used, the nearest ones.
const NEAR: usize = 48;
/// Candidate tools per text (the intent and each clause), the most similar ones.
const SIMILAR: usize = 16;
/// The total weight of past intents at which their votes count half.
const VOTES_PRIOR: f64 = 0.3;

/// A past intent near the question.
#[derive(Clone, Debug)]
pub struct NearIntent {
    pub entry: Arc<PastIntent>,
    pub similarity: f32,
    /// The similarity to the power 4, 8 and 16.
    pub weight_smooth: f64,
    pub weight_usual: f64,
    pub weight_sharp: f64,
}

impl NearIntent {
    fn new(entry: Arc<PastIntent>, similarity: f32) -> Self {
        let squared = f64::from(similarity) * f64::from(similarity);
        let weight_smooth = squared * squared;
        let weight_usual = weight_smooth * weight_smooth;
        Self { entry, similarity, weight_smooth, weight_usual, weight_sharp: weight_usual * weight_usual }
    }
}

/// `Evidence` holds the near past intents, their votes, and the similarity of every tool with the intent and its clauses.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The nearest first.
    pub near: Vec<NearIntent>,
    /// By node: the share of the near past intents that used it, weighted by similarity.
    votes: BTreeMap<Node, f64>,
    /// Similarity of the whole intent, by position of the tool; empty if it has no vector.
    whole: Vec<f32>,
    /// The same for each clause; for the whole intent if it is one clause.
    clauses: Vec<Vec<f32>>,
    /// The positions of the tools most similar to the intent and to each clause, sorted, each once.
    similar_tools: Vec<u32>,
}

/// `Excluded` holds the runs that counts leave out: those of the remembered intent that a lesson asks about, or none.
#[derive(Clone, Debug, Default)]
pub struct Excluded {
    /// The number of the intent in the memory.
    pub number: Option<u64>,
    pub sequences: Vec<CallSequence>,
}

impl Excluded {
    /// How often `node` was called.
    pub fn calls(&self, node: Node) -> f64 {
        let count = |sequence: &CallSequence| {
            sequence.calls.iter().filter(|call| **call == node).map(|_| f64::from(sequence.times)).sum::<f64>()
        };
        self.sequences.iter().map(count).sum()
    }

    /// How many runs ended.
    pub fn ends(&self) -> f64 {
        self.sequences.iter().filter(|sequence| sequence.ended).map(|sequence| f64::from(sequence.times)).sum()
    }

    /// The number of calls and ends.
    #[expect(clippy::cast_precision_loss, reason = "a sequence has at most CALLS_KEPT calls")]
    pub fn total(&self) -> f64 {
        self.ends() + self.sequences.iter().map(|sequence| f64::from(sequence.times) * sequence.calls.len() as f64).sum::<f64>()
    }
}

impl Evidence {
    /// Compares a question with all tools and remembered intents. O((tools + remembered intents) * dim), and O(tools * dim) per
    /// clause.
    pub fn for_question(state: &State, question: &Question) -> Self {
        let clauses: Vec<&[f32]> = question.clauses.iter().filter_map(|clause| clause.vector.as_deref()).collect();
        Self::from_vectors(state, question.vector.as_deref(), &clauses, &Excluded::default())
    }

    /// The same from vectors of the intent and its clauses, without the intent in `excluded`.
    pub(crate) fn from_vectors(state: &State, whole: Option<&[f32]>, clauses: &[&[f32]], excluded: &Excluded) -> Self {
        let corpus = &state.predictor.corpus;
        let vectors: Vec<&[f32]> = whole.into_iter().chain(clauses.iter().copied()).collect();
        let mut similarities = corpus.tool_similarities(&vectors).into_iter();
        let near = whole.map(|vector| corpus.nearest_intents(vector, &state.memory, NEAR, excluded.number)).unwrap_or_default();
        let entry = |(number, similarity)| Some(NearIntent::new(Arc::clone(state.memory.get(number)?), similarity));
        let near: Vec<NearIntent> = near.into_iter().filter_map(entry).collect();
        let whole = whole.and_then(|_| similarities.next()).unwrap_or_default();
        let mut clauses: Vec<Vec<f32>> = similarities.collect();
        if clauses.is_empty() && !whole.is_empty() {
            clauses.push(whole.clone());
        }
        let similar_tools = similar_tools(&whole, &clauses);
        Self { votes: votes(&near), near, whole, clauses, similar_tools }
    }

    /// The share of the near past intents that used each node, in node order.
    pub fn votes(&self) -> impl Iterator<Item = (Node, f64)> {
        self.votes.iter().map(|(node, vote)| (*node, *vote))
    }

    /// The share of the near past intents that used `node`.
    pub fn vote(&self, node: Node) -> f64 {
        self.votes.get(&node).copied().unwrap_or(0.0)
    }

    /// The sum of the votes for tools not called yet: a measure of how much is left to do.
    pub fn remaining_votes(&self, context: &[Option<Node>]) -> f64 {
        let open = |(node, _): &(&Node, &f64)| matches!(node.kind(), NodeKind::Tool(_)) && !context.contains(&Some(**node));
        self.votes.iter().filter(open).map(|(_, vote)| vote).sum()
    }

    /// The positions of the tools most similar to the intent or to one of its clauses.
    pub fn similar_tools(&self) -> &[u32] {
        &self.similar_tools
    }

    /// The similarity of the whole intent and a tool, at least 0.
    pub fn intent_similarity(&self, position: u32) -> f64 {
        at(&self.whole, position)
    }

    pub fn clause_count(&self) -> usize {
        self.clauses.len()
    }

    /// The similarity of one clause and a tool, at least 0.
    pub fn clause_similarity(&self, clause: usize, position: u32) -> f64 {
        at(&self.clauses[clause], position)
    }

    /// The similarity of one clause and the tool most similar to it, at least 0.
    pub fn best_fit(&self, clause: usize) -> f64 {
        self.clauses[clause].iter().fold(0.0, |best: f64, similarity| best.max(f64::from(*similarity)))
    }

    /// The clause most similar to a tool, the first of equals, and the similarity.
    pub fn best_clause(&self, position: u32) -> Option<(usize, f64)> {
        let fits = (0..self.clauses.len()).map(|clause| (clause, self.clause_similarity(clause, position)));
        fits.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// Sums the votes: each past intent divides its weight by its number of runs.
fn votes(near: &[NearIntent]) -> BTreeMap<Node, f64> {
    let mut votes: BTreeMap<Node, f64> = BTreeMap::new();
    let total: f64 = near.iter().map(|near| near.weight_usual).sum();
    for near in near {
        let weight = near.weight_usual / (total + VOTES_PRIOR) / f64::from(near.entry.runs);
        for (node, times) in &near.entry.used {
            *votes.entry(*node).or_default() += weight * f64::from(*times);
        }
    }
    votes
}

/// O(tools * clauses).
fn similar_tools(whole: &[f32], clauses: &[Vec<f32>]) -> Vec<u32> {
    let several = clauses.iter().filter(|_| clauses.len() > 1).map(Vec::as_slice);
    let mut positions: Vec<u32> =
        std::iter::once(whole).chain(several).flat_map(|similarities| largest(similarities, SIMILAR)).collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

fn at(similarities: &[f32], position: u32) -> f64 {
    similarities.get(position as usize).map_or(0.0, |similarity| f64::from(similarity.max(0.0)))
}
