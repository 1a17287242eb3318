//! What an intent brings to every step of a run: the past intents near it, what they used, and how much each tool reads like it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::corpus::largest;
use crate::core::graph::{Node, NodeKind};
use crate::core::memory::{Remembered, Way};
use crate::core::rank::Question;
use crate::core::state::State;

/// Past intents that are looked at, the nearest ones.
const NEAR: usize = 48;
/// Tools that are weighed because they read like the intent, or like one of its clauses: the nearest ones.
const ALIKE: usize = 16;
/// How much past intents must weigh, in all, for their votes to count half.
const VOTES_PRIOR: f64 = 0.3;

/// A past intent near the question.
#[derive(Clone, Debug)]
pub struct Near {
    pub entry: Arc<Remembered>,
    pub similarity: f32,
    /// The similarity to the power 4, 8 and 16: smooth, usual, sharp.
    pub weight: f64,
    pub weight_usual: f64,
    pub weight_sharp: f64,
}

impl Near {
    fn new(entry: Arc<Remembered>, similarity: f32) -> Self {
        let squared = f64::from(similarity) * f64::from(similarity);
        let weight = squared * squared;
        let weight_usual = weight * weight;
        Self { entry, similarity, weight, weight_usual, weight_sharp: weight_usual * weight_usual }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The nearest first.
    pub near: Vec<Near>,
    /// By node: the share of the past intents that used it, each weighing its similarity.
    votes: BTreeMap<Node, f64>,
    /// Of the whole intent, by position of the tool; none if it has no vector.
    whole: Vec<f32>,
    /// The same for each clause; for the whole intent if it is one clause.
    clauses: Vec<Vec<f32>>,
    /// The positions of the tools nearest to the intent and to each clause, each of them once.
    alike: Vec<u32>,
}

/// What is left out of account when the past is asked about itself: the runs of one remembered intent.
#[derive(Clone, Debug, Default)]
pub struct Less {
    pub number: Option<u64>,
    pub ways: Vec<Way>,
}

impl Less {
    pub fn calls(&self, node: Node) -> f64 {
        let on = |way: &Way| way.calls.iter().filter(|call| **call == node).map(|_| f64::from(way.times)).sum::<f64>();
        self.ways.iter().map(on).sum()
    }

    pub fn ends(&self) -> f64 {
        self.ways.iter().filter(|way| way.ended).map(|way| f64::from(way.times)).sum()
    }

    /// Calls and ends.
    #[expect(clippy::cast_precision_loss, reason = "a way has few calls")]
    pub fn total(&self) -> f64 {
        self.ends() + self.ways.iter().map(|way| f64::from(way.times) * way.calls.len() as f64).sum::<f64>()
    }
}

impl Evidence {
    /// O((tools + remembered intents) * dim), and O(tools * dim) for every clause.
    pub fn of(state: &State, question: &Question) -> Self {
        let clauses: Vec<&[f32]> = question.clauses.iter().filter_map(|clause| clause.vector.as_deref()).collect();
        Self::of_vectors(state, question.vector.as_deref(), &clauses, &Less::default())
    }

    pub(super) fn of_vectors(state: &State, whole: Option<&[f32]>, clauses: &[&[f32]], less: &Less) -> Self {
        let corpus = &state.predictor.corpus;
        let vectors: Vec<&[f32]> = whole.into_iter().chain(clauses.iter().copied()).collect();
        let mut similarities = corpus.tool_similarities(&vectors).into_iter();
        let near = whole.map(|vector| corpus.near(vector, &state.memory, NEAR, less.number)).unwrap_or_default();
        let entry = |(number, similarity)| Some(Near::new(Arc::clone(state.memory.get(number)?), similarity));
        let near: Vec<Near> = near.into_iter().filter_map(entry).collect();
        let whole = whole.and_then(|_| similarities.next()).unwrap_or_default();
        let mut clauses: Vec<Vec<f32>> = similarities.collect();
        if clauses.is_empty() && !whole.is_empty() {
            clauses.push(whole.clone());
        }
        let alike = alike(&whole, &clauses);
        Self { votes: votes(&near), near, whole, clauses, alike }
    }

    pub fn votes(&self) -> impl Iterator<Item = (Node, f64)> {
        self.votes.iter().map(|(node, vote)| (*node, *vote))
    }

    pub fn vote(&self, node: Node) -> f64 {
        self.votes.get(&node).copied().unwrap_or(0.0)
    }

    /// The votes for tools that were not called yet: how much there seems to be left to do.
    pub fn left(&self, context: &[Option<Node>]) -> f64 {
        let open = |(node, _): &(&Node, &f64)| matches!(node.kind(), NodeKind::Tool(_)) && !context.contains(&Some(**node));
        self.votes.iter().filter(open).map(|(_, vote)| vote).sum()
    }

    pub fn alike(&self) -> &[u32] {
        &self.alike
    }

    pub fn whole(&self, position: u32) -> f64 {
        at(&self.whole, position)
    }

    pub fn clauses(&self) -> usize {
        self.clauses.len()
    }

    pub fn clause(&self, clause: usize, position: u32) -> f64 {
        at(&self.clauses[clause], position)
    }

    /// The clause that a tool fits best and how well, the first of equals.
    pub fn best_clause(&self, position: u32) -> Option<(usize, f64)> {
        let fits = (0..self.clauses.len()).map(|clause| (clause, self.clause(clause, position)));
        fits.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// Each past intent shares its weight among its runs.
fn votes(near: &[Near]) -> BTreeMap<Node, f64> {
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
fn alike(whole: &[f32], clauses: &[Vec<f32>]) -> Vec<u32> {
    let several = clauses.iter().filter(|_| clauses.len() > 1).map(Vec::as_slice);
    let mut alike: Vec<u32> =
        std::iter::once(whole).chain(several).flat_map(|similarities| largest(similarities, ALIKE)).collect();
    alike.sort_unstable();
    alike.dedup();
    alike
}

fn at(similarities: &[f32], position: u32) -> f64 {
    similarities.get(position as usize).map_or(0.0, |similarity| f64::from(similarity.max(0.0)))
}
