//! Every signal of every item for one question.

use super::Question;
use super::blend::{SIGNALS, Signal};
use super::index::Index;
use super::recall::{CLAUSE, NEAR, Neighbour, WIDE};

/// By signal, then by slot.
#[derive(Clone, Debug)]
pub struct Signals {
    columns: [Vec<f32>; SIGNALS],
    items: usize,
    /// How sure the memory is: the largest share of votes any item got.
    pub confidence: f32,
    /// The past intents that voted, nearest first.
    pub neighbours: Vec<Neighbour>,
}

impl Signals {
    /// O(items * dim + past clauses * dim) per clause of the question. `except` is a past intent to leave out, so that a question
    /// from the past is not answered by itself.
    pub fn of(index: &Index, question: &Question, except: Option<usize>) -> Self {
        let documents = index.documents();
        let items = documents.len();
        let columns = std::array::from_fn(|_| Vec::new());
        let mut signals = Self { columns, items, confidence: 0.0, neighbours: Vec::new() };
        signals.set(Signal::Words, documents.words(&question.intent));
        signals.set(Signal::Popularity, index.popularity(except));
        signals.compare(index, question);
        if !index.recall().is_empty() {
            signals.recall(index, question, except);
        }
        signals
    }

    /// With the items' texts. An intent of one clause is its own best clause.
    fn compare(&mut self, index: &Index, question: &Question) {
        let vectors: Vec<&[f32]> = question.vector.as_deref().into_iter().chain(question.clause_vectors()).collect();
        let mut cosines = index.documents().cosines(&vectors).into_iter();
        let whole = question.vector.as_ref().and_then(|_| cosines.next()).unwrap_or_default();
        let best = if question.clauses.is_empty() { whole.clone() } else { best(cosines) };
        self.set(Signal::Dense, whole);
        self.set(Signal::Clause, best);
    }

    /// With past intents and their clauses.
    fn recall(&mut self, index: &Index, question: &Question, except: Option<usize>) {
        let (recall, documents) = (index.recall(), index.documents());
        if let Some(vector) = &question.vector {
            let [near, wide] = recall.near(vector, [NEAR, WIDE], except);
            let votes = recall.votes(&near, documents);
            self.confidence = votes.iter().copied().fold(0.0, f32::max).min(1.0);
            self.set(Signal::Memory, votes);
            self.set(Signal::MemoryWide, recall.votes(&wide, documents));
            self.neighbours = near;
        }
        let own: Vec<&[f32]> = question.clause_vectors().collect();
        let vectors = if question.clauses.is_empty() { question.vector.as_deref().into_iter().collect() } else { own };
        let near = recall.near_clauses(&vectors, CLAUSE, except);
        self.set(Signal::MemoryClause, best(near.iter().map(|near| recall.votes(near, documents))));
    }

    fn set(&mut self, signal: Signal, mut by_slot: Vec<f32>) {
        for value in &mut by_slot {
            *value = value.clamp(0.0, 1.0);
        }
        self.columns[signal as usize] = by_slot;
    }

    /// Which signals say anything about any item.
    pub fn speaks(&self) -> [bool; SIGNALS] {
        std::array::from_fn(|signal| self.columns[signal].iter().any(|value| *value > 0.0))
    }

    /// By slot: the signals times the weights, added up in the order of the signals.
    pub fn blend(&self, weights: &[f64; SIGNALS]) -> Vec<f64> {
        let mut sums = vec![0.0; self.items];
        for (column, weight) in self.columns.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            for (sum, value) in sums.iter_mut().zip(column) {
                *sum += weight * f64::from(*value);
            }
        }
        sums
    }

    pub fn at(&self, slot: usize) -> [f32; SIGNALS] {
        std::array::from_fn(|signal| self.value(signal, slot))
    }

    /// Of one signal; 0 where it is silent.
    pub fn value(&self, signal: usize, slot: usize) -> f32 {
        self.columns[signal].get(slot).copied().unwrap_or(0.0)
    }

    pub fn len(&self) -> usize {
        self.items
    }

    pub fn is_empty(&self) -> bool {
        self.items == 0
    }
}

/// The best of several values by slot.
fn best(mut lists: impl Iterator<Item = Vec<f32>>) -> Vec<f32> {
    let mut best = lists.next().unwrap_or_default();
    for list in lists {
        for (best, value) in best.iter_mut().zip(list) {
            *best = best.max(value);
        }
    }
    best
}
