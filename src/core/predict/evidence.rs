//! What an intent brings to every step of a run: the past intents near it, and how much each tool reads like it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::graph::Node;
use crate::core::memory::{Remembered, Way};
use crate::core::rank::Question;
use crate::core::state::State;

/// Past intents that are looked at, the nearest ones.
const NEAR: usize = 48;
/// A past intent weighs its similarity to this power.
const POWER: i32 = 8;

#[derive(Clone, Debug)]
pub struct Near {
    pub entry: Arc<Remembered>,
    pub similarity: f32,
    pub weight: f64,
}

#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The nearest first.
    pub near: Vec<Near>,
    /// Of the whole intent, then of its clauses, by position of the tool. None where there is no vector.
    whole: Option<Vec<f32>>,
    clauses: Vec<Vec<f32>>,
}

/// What is left out of account: the runs of one remembered intent, when the past is asked about itself.
#[derive(Clone, Debug, Default)]
pub struct Less {
    pub number: Option<u64>,
    pub ways: Vec<Way>,
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
        let weigh = |(number, similarity): (u64, f32)| {
            let entry = Arc::clone(state.memory.get(number)?);
            Some(Near { entry, similarity, weight: f64::from(similarity).powi(POWER) })
        };
        Self {
            near: near.into_iter().filter_map(weigh).collect(),
            whole: whole.and_then(|_| similarities.next()),
            clauses: similarities.collect(),
        }
    }

    /// What past intents near this one used: each shares its weight among its runs.
    pub fn votes(&self) -> impl Iterator<Item = (Node, f64)> {
        let mut votes: BTreeMap<Node, f64> = BTreeMap::new();
        for near in &self.near {
            for (node, times) in &near.entry.used {
                *votes.entry(*node).or_default() += near.weight * f64::from(*times) / f64::from(near.entry.runs);
            }
        }
        votes.into_iter()
    }

    /// Of the whole intent and of each clause, by position of the tool.
    pub fn similarities(&self) -> impl Iterator<Item = &Vec<f32>> {
        self.whole.iter().chain(&self.clauses)
    }

    pub fn whole(&self, position: u32) -> f64 {
        self.whole.as_ref().map_or(0.0, |whole| at(whole, position))
    }

    /// The clause that fits best; the whole intent if it is one clause.
    pub fn best_clause(&self, position: u32) -> f64 {
        let best = self.clauses.iter().map(|clause| at(clause, position)).reduce(f64::max);
        best.unwrap_or_else(|| self.whole(position))
    }
}

fn at(similarities: &[f32], position: u32) -> f64 {
    similarities.get(position as usize).map_or(0.0, |similarity| f64::from(similarity.max(0.0)))
}
