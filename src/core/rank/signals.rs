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
        if let Some(vector) = &question.vector {
            let dense = documents.cosines(vector);
            signals.set(Signal::Dense, &dense);
            signals.set(Signal::Clause, &dense);
            signals.recall(index, vector, except);
        }
        signals.recall_clauses(index, question, except);
        signals
    }

    fn recall(&mut self, index: &Index, vector: &[f32], except: Option<usize>) {
        let (recall, documents) = (index.recall(), index.documents());
        if recall.is_empty() {
            return;
        }
        self.neighbours = recall.near(vector, NEAR, except);
        let votes = recall.votes(&self.neighbours, documents);
        self.confidence = votes.iter().copied().fold(0.0, f32::max).min(1.0);
        self.set(Signal::Memory, &votes);
        self.set(Signal::MemoryWide, &recall.votes(&recall.near(vector, WIDE, except), documents));
    }

    /// The best clause counts. An intent of one clause is its own.
    fn recall_clauses(&mut self, index: &Index, question: &Question, except: Option<usize>) {
        let (recall, documents) = (index.recall(), index.documents());
        let own: Vec<&Vec<f32>> = question.clauses.iter().filter_map(|clause| clause.vector.as_ref()).collect();
        let vectors = if question.clauses.is_empty() { question.vector.iter().collect() } else { own };
        let mut dense = vec![0.0_f32; documents.len()];
        let mut votes = vec![0.0_f32; documents.len()];
        for vector in vectors {
            if !question.clauses.is_empty() {
                raise(&mut dense, &documents.cosines(vector));
            }
            if !recall.is_empty() {
                raise(&mut votes, &recall.votes(&recall.near_clause(vector, CLAUSE, except), documents));
            }
        }
        if !question.clauses.is_empty() {
            self.set(Signal::Clause, &dense);
        }
        self.set(Signal::MemoryClause, &votes);
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

fn raise(best: &mut [f32], values: &[f32]) {
    for (best, value) in best.iter_mut().zip(values) {
        *best = best.max(*value);
    }
}
