//! The signals of all items for one question.

use super::Question;
use super::blend::{DiscoverSignal, SIGNALS};
use super::index::Index;
use super::intent_index::{CLAUSE, NEAR, Neighbour, WIDE};
use crate::graph::{Node, NodeKind};
use crate::predict::corpus::largest_of;
use crate::predict::parts::{HeadScores, LOG_MIN};
use crate::predict::shgat::TargetScores;

/// One column per signal, with a value per slot.
#[derive(Clone, Debug)]
pub struct Signals {
    columns: [Vec<f32>; SIGNALS],
    items: usize,
    /// Confidence of the memory, 0..1: the largest share of the votes that any item got.
    pub confidence: f32,
    /// The past intents that voted, nearest first.
    pub neighbours: Vec<Neighbour>,
}

impl Signals {
    /// Computes all signals. `except` is a past intent to leave out, so that a question from the past is not answered by itself.
    /// O(items * dim + past clauses * dim) per clause of the question.
    pub fn compute(index: &Index, question: &Question, except: Option<usize>) -> Self {
        let mut signals = Self::without_parts(index, question, except);
        // The served parts were trained on the past intents: about those they say too much.
        if let (Some(vectors), None) = (question.vectors(), except) {
            let state = index.state();
            let parts = &state.predictor.parts;
            signals.add_parts(index, &parts.head_scores(state, &vectors), &parts.target_scores(state, &vectors));
        }
        signals
    }

    /// All signals but those of trained parts.
    pub(crate) fn without_parts(index: &Index, question: &Question, except: Option<usize>) -> Self {
        let documents = index.documents();
        let items = documents.len();
        let columns = std::array::from_fn(|_| Vec::new());
        let mut signals = Self { columns, items, confidence: 0.0, neighbours: Vec::new() };
        signals.set(DiscoverSignal::Words, documents.words(&question.intent));
        signals.set(DiscoverSignal::Popularity, index.popularity(except));
        signals.add_text_signals(index, question);
        if !index.intents().is_empty() {
            signals.add_memory_signals(index, question, except);
        }
        signals
    }

    /// Sets the scores of the intent head and of SHGAT, as far as there are any.
    pub(crate) fn add_parts(&mut self, index: &Index, head: &HeadScores, target: &TargetScores) {
        self.add_logarithms(index, DiscoverSignal::Head, &head.tools);
        self.add_logarithms(index, DiscoverSignal::Mass, &target.mass);
        self.add_logarithms(index, DiscoverSignal::Shgat, &target.tools);
    }

    /// Sets a signal from logarithms of probabilities, given by position of the tool; none if it is empty.
    fn add_logarithms(&mut self, index: &Index, signal: DiscoverSignal, scores: &[f32]) {
        if scores.is_empty() {
            return;
        }
        let (documents, state) = (index.documents(), index.state());
        let scaled = |node: &Node| match node.kind() {
            NodeKind::Tool(position) => scores.get(position as usize).map(|score| 1.0 - score / LOG_MIN),
            NodeKind::Capability(_) => None,
        };
        let value = |slot: usize| match documents.node(slot).kind() {
            NodeKind::Tool(_) => scaled(&documents.node(slot)).unwrap_or(0.0),
            NodeKind::Capability(position) => mean(state.capabilities.at(position).members.iter().filter_map(scaled)),
        };
        self.set(signal, (0..self.items).map(value).collect());
    }

    /// Sets the cosines with the items' texts. An intent of one clause is its own best clause.
    fn add_text_signals(&mut self, index: &Index, question: &Question) {
        let vectors: Vec<&[f32]> = question.vector.as_deref().into_iter().chain(question.clause_vectors()).collect();
        let mut cosines = index.documents().cosines(&vectors).into_iter();
        let whole = question.vector.as_ref().and_then(|_| cosines.next()).unwrap_or_default();
        let best = if question.clauses.is_empty() { whole.clone() } else { best(cosines) };
        self.set(DiscoverSignal::Dense, whole);
        self.set(DiscoverSignal::Clause, best);
    }

    /// Sets the votes of the past intents and of their clauses, the confidence and the neighbours.
    fn add_memory_signals(&mut self, index: &Index, question: &Question, except: Option<usize>) {
        let (intents, documents) = (index.intents(), index.documents());
        if let Some(vector) = &question.vector {
            let [near, wide] = intents.nearest(vector, [NEAR, WIDE], except);
            let votes = intents.votes(&near, documents);
            self.confidence = votes.iter().copied().fold(0.0, f32::max).min(1.0);
            self.set(DiscoverSignal::Memory, votes);
            self.set(DiscoverSignal::MemoryWide, intents.votes(&wide, documents));
            self.neighbours = near;
        }
        let own: Vec<&[f32]> = question.clause_vectors().collect();
        let vectors = if question.clauses.is_empty() { question.vector.as_deref().into_iter().collect() } else { own };
        let near = intents.nearest_by_clause(&vectors, CLAUSE, except);
        self.set(DiscoverSignal::MemoryClause, best(near.iter().map(|near| intents.votes(near, documents))));
    }

    fn set(&mut self, signal: DiscoverSignal, mut by_slot: Vec<f32>) {
        for value in &mut by_slot {
            *value = value.clamp(0.0, 1.0);
        }
        self.columns[signal as usize] = by_slot;
    }

    /// Which signals are above 0 for at least one item.
    pub fn active(&self) -> [bool; SIGNALS] {
        std::array::from_fn(|signal| self.columns[signal].iter().any(|value| *value > 0.0))
    }

    /// The weighted sum of the signals of every slot, added in the order of the signals.
    pub fn blend(&self, weights: &[f64; SIGNALS]) -> Vec<f64> {
        let mut sums = vec![0.0; self.items];
        for (column, weight) in self.columns.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            for (sum, value) in sums.iter_mut().zip(column) {
                *sum += weight * f64::from(*value);
            }
        }
        sums
    }

    /// All signals of a slot.
    pub fn values(&self, slot: usize) -> [f32; SIGNALS] {
        std::array::from_fn(|signal| self.value(signal, slot))
    }

    /// One signal of a slot; 0 if the signal was not computed.
    pub fn value(&self, signal: usize, slot: usize) -> f32 {
        self.columns[signal].get(slot).copied().unwrap_or(0.0)
    }

    /// The slots with the largest values of a signal above 0, of those that `wanted` accepts, at most `keep`, the largest first; of
    /// equals the earlier ones.
    pub(crate) fn strongest(&self, signal: usize, keep: usize, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let found = largest_of(&self.columns[signal], keep, |slot| wanted(slot as usize));
        found.into_iter().map(|slot| slot as usize).collect()
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items
    }

    pub fn is_empty(&self) -> bool {
        self.items == 0
    }
}

#[expect(clippy::cast_precision_loss, reason = "a capability has few members")]
fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    sum / count.max(1) as f32
}

/// The largest value of each slot over several lists.
fn best(mut lists: impl Iterator<Item = Vec<f32>>) -> Vec<f32> {
    let mut best = lists.next().unwrap_or_default();
    for list in lists {
        for (best, value) in best.iter_mut().zip(list) {
            *best = best.max(value);
        }
    }
    best
}
