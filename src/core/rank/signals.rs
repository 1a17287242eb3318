//! Every signal of every item for one question.

use super::Question;
use super::blend::{SIGNALS, Signal};
use super::index::Index;
use super::recall::{CLAUSE, NEAR, Neighbour, WIDE};

/// By slot.
#[derive(Clone, Debug)]
pub struct Signals {
    values: Vec<[f32; SIGNALS]>,
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
        let mut signals = Self { values: vec![[0.0; SIGNALS]; documents.len()], confidence: 0.0, neighbours: Vec::new() };
        signals.set(Signal::Words, &documents.words(&question.intent));
        signals.set(Signal::Popularity, &index.popularity(except));
        signals.compare(index, question);
        if !index.recall().is_empty() {
            signals.recall(index, question, except);
        }
        signals
    }

    /// With the items' texts. An intent of one clause is its own best clause.
    fn compare(&mut self, index: &Index, question: &Question) {
        let vectors: Vec<&[f32]> = question.vector.as_deref().into_iter().chain(question.clause_vectors()).collect();
        let cosines = index.documents().cosines(&vectors);
        let (whole, clauses) = cosines.split_at(usize::from(question.vector.is_some()));
        if let Some(whole) = whole.first() {
            self.set(Signal::Dense, whole);
        }
        let best = if question.clauses.is_empty() { best(whole) } else { best(clauses) };
        self.set(Signal::Clause, &best);
    }

    /// With past intents and their clauses.
    fn recall(&mut self, index: &Index, question: &Question, except: Option<usize>) {
        let (recall, documents) = (index.recall(), index.documents());
        if let Some(vector) = &question.vector {
            let [near, wide] = recall.near(vector, [NEAR, WIDE], except);
            let votes = recall.votes(&near, documents);
            self.confidence = votes.iter().copied().fold(0.0, f32::max).min(1.0);
            self.set(Signal::Memory, &votes);
            self.set(Signal::MemoryWide, &recall.votes(&wide, documents));
            self.neighbours = near;
        }
        let own: Vec<&[f32]> = question.clause_vectors().collect();
        let vectors = if question.clauses.is_empty() { question.vector.as_deref().into_iter().collect() } else { own };
        let near = recall.near_clauses(&vectors, CLAUSE, except);
        let votes: Vec<Vec<f32>> = near.iter().map(|near| recall.votes(near, documents)).collect();
        self.set(Signal::MemoryClause, &best(&votes));
    }

    fn set(&mut self, signal: Signal, by_slot: &[f32]) {
        for (values, value) in self.values.iter_mut().zip(by_slot) {
            values[signal as usize] = value.clamp(0.0, 1.0);
        }
    }

    /// Which signals say anything about any item.
    pub fn speaks(&self) -> [bool; SIGNALS] {
        let mut speaks = [false; SIGNALS];
        for values in &self.values {
            for (speaks, value) in speaks.iter_mut().zip(values) {
                *speaks |= *value > 0.0;
            }
        }
        speaks
    }

    pub fn at(&self, slot: usize) -> &[f32; SIGNALS] {
        &self.values[slot]
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The best of several values by slot.
fn best(lists: &[Vec<f32>]) -> Vec<f32> {
    let mut lists = lists.iter();
    let mut best = lists.next().cloned().unwrap_or_default();
    for list in lists {
        for (best, value) in best.iter_mut().zip(list) {
            *best = best.max(*value);
        }
    }
    best
}
