//! Evidence: what the memory and the tools' texts say about one intent, the same for every step of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::corpus::{Corpus, largest};
use super::parts::{HeadScores, IntentVectors, LOG_MIN};
use super::shgat::TargetScores;
use crate::graph::{Node, NodeKind};
use crate::memory::{CallSequence, PastIntent};
use crate::rank::bm25::divide_by_largest;
use crate::rank::{Clause, Question};
use crate::state::State;

/// Past intents used, the nearest ones.
const NEAR: usize = 48;
/// Candidate tools per text (the intent and each clause), the most similar ones.
const SIMILAR: usize = 16;
/// Candidate tools by words, those with the best BM25 scores.
const WORDED: usize = 8;
/// The total weight of past intents at which their votes count half.
pub(super) const VOTES_PRIOR: f64 = 0.3;

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

/// A text that is asked about, with its vector if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedText<'a> {
    pub text: &'a str,
    pub vector: Option<&'a [f32]>,
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
    /// BM25 score of the whole intent divided by the best one, by position of the tool.
    words: Vec<f32>,
    /// The best of the same over the clauses; over the whole intent if it is one clause.
    clause_words: Vec<f32>,
    /// The positions of the tools most similar to the intent and to each clause, by vector or words, sorted, each once.
    similar_tools: Vec<u32>,
    /// The vectors of the intent, for the recurrent encoder; none if the intent has no vector.
    vectors: Option<IntentVectors>,
    /// What the intent head says; empty without a head.
    head: HeadScores,
    /// What SHGAT says; empty without SHGAT.
    target: TargetScores,
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
        let whole = AskedText { text: &question.intent, vector: question.vector.as_deref() };
        let clauses = question.clauses.iter().map(|Clause { text, vector }| AskedText { text, vector: vector.as_deref() });
        let clauses: Vec<AskedText<'_>> = clauses.collect();
        let mut evidence = Self::compute(state, whole, &clauses, &Excluded::default());
        evidence.vectors = question.vectors();
        if let Some(vectors) = &evidence.vectors {
            let parts = &state.predictor.parts;
            let (head, target) = (parts.head_scores(state, vectors), parts.target_scores(state, vectors));
            evidence.add_head(head);
            evidence.add_target(target);
        }
        evidence
    }

    /// Adds the vectors of the intent, which the recurrent encoder needs.
    pub(crate) fn add_vectors(&mut self, vectors: Option<IntentVectors>) {
        self.vectors = vectors;
    }

    /// Adds the scores of the intent head; the tools that it likes best become candidates.
    pub(crate) fn add_head(&mut self, scores: HeadScores) {
        self.add_likeliest(&scores.tools);
        self.head = scores;
    }

    /// Adds the scores of SHGAT; the tools that it likes best become candidates.
    pub(crate) fn add_target(&mut self, scores: TargetScores) {
        self.add_likeliest(&scores.tools);
        self.add_likeliest(&scores.mass);
        self.target = scores;
    }

    /// Makes the tools with the largest logarithms candidates.
    fn add_likeliest(&mut self, logarithms: &[f32]) {
        let above_least: Vec<f32> = logarithms.iter().map(|score| score - LOG_MIN).collect();
        self.similar_tools.extend(largest(&above_least, SIMILAR));
        self.similar_tools.sort_unstable();
        self.similar_tools.dedup();
    }

    /// The same for an intent and its clauses, without the intent in `excluded`.
    pub(crate) fn compute(state: &State, intent: AskedText<'_>, parts: &[AskedText<'_>], excluded: &Excluded) -> Self {
        let corpus = &state.predictor.corpus;
        let whole = intent.vector;
        let vectors: Vec<&[f32]> = whole.into_iter().chain(parts.iter().filter_map(|part| part.vector)).collect();
        let mut similarities = corpus.tool_similarities(&vectors).into_iter();
        let near = whole.map(|vector| corpus.nearest_intents(vector, &state.memory, NEAR, excluded.number)).unwrap_or_default();
        let entry = |(number, similarity)| Some(NearIntent::new(Arc::clone(state.memory.get(number)?), similarity));
        let near: Vec<NearIntent> = near.into_iter().filter_map(entry).collect();
        let whole = whole.and_then(|_| similarities.next()).unwrap_or_default();
        let mut clauses: Vec<Vec<f32>> = similarities.collect();
        if clauses.is_empty() && !whole.is_empty() {
            clauses.push(whole.clone());
        }
        let words = relative_words(corpus, intent.text);
        let mut clause_words = if parts.is_empty() { words.clone() } else { vec![0.0; words.len()] };
        for part in parts {
            for (best, score) in clause_words.iter_mut().zip(relative_words(corpus, part.text)) {
                *best = best.max(score);
            }
        }
        let similar_tools = similar_tools(&whole, &clauses, &words);
        let votes = votes(state, &near);
        Self {
            votes,
            near,
            whole,
            clauses,
            words,
            clause_words,
            similar_tools,
            vectors: None,
            head: HeadScores::default(),
            target: TargetScores::default(),
        }
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

    /// The positions of the tools most similar to the intent or to one of its clauses, by vector or words.
    pub fn similar_tools(&self) -> &[u32] {
        &self.similar_tools
    }

    /// The similarity of the whole intent and a tool, at least 0.
    pub fn intent_similarity(&self, position: u32) -> f64 {
        at(&self.whole, position)
    }

    /// The BM25 score of a tool's text for the whole intent, divided by the best one.
    pub fn word_score(&self, position: u32) -> f64 {
        at(&self.words, position)
    }

    /// The same for the clause in which the tool does best.
    pub fn clause_word_score(&self, position: u32) -> f64 {
        at(&self.clause_words, position)
    }

    /// The vectors of the intent.
    pub fn vectors(&self) -> Option<&IntentVectors> {
        self.vectors.as_ref()
    }

    /// Whether an intent head scored the tools.
    pub fn has_head(&self) -> bool {
        !self.head.tools.is_empty()
    }

    /// The intent head's logarithm of the probability of a tool; `None` without a head.
    pub fn head_score(&self, position: u32) -> Option<f64> {
        self.head.tools.get(position as usize).map(|score| f64::from(*score))
    }

    /// The clause that a tool answers: by the intent head, without one the most similar clause.
    pub fn answered_clause(&self, position: u32) -> Option<usize> {
        let by_head = self.head.clauses.get(position as usize).map(|clause| usize::from(*clause));
        by_head.or_else(|| self.best_clause(position).map(|(clause, _)| clause))
    }

    /// The scores of the intent head and of SHGAT; empty without them.
    pub(crate) fn parts(&self) -> (&HeadScores, &TargetScores) {
        (&self.head, &self.target)
    }

    /// Whether SHGAT scored the tools.
    pub fn has_target(&self) -> bool {
        !self.target.tools.is_empty()
    }

    /// The capabilities that the intent may aim at, each with a share of 1: by SHGAT, without it those that near past intents used.
    pub fn aims(&self) -> Vec<(Node, f64)> {
        if !self.target.aims.is_empty() {
            return self.target.aims.iter().map(|(node, share)| (*node, f64::from(*share))).collect();
        }
        self.votes().filter(|(node, _)| matches!(node.kind(), NodeKind::Capability(_))).collect()
    }

    /// SHGAT's logarithms of the probability of a tool and of its target mass; `None` without SHGAT.
    pub fn target_score(&self, position: u32) -> Option<(f64, f64)> {
        let at = position as usize;
        Some((f64::from(*self.target.tools.get(at)?), f64::from(*self.target.mass.get(at)?)))
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

/// Sums the votes: each past intent divides its weight by its number of runs. The votes for a capability count for the one that it was
/// merged into, and those for a retired one for none.
fn votes(state: &State, near: &[NearIntent]) -> BTreeMap<Node, f64> {
    let mut votes: BTreeMap<Node, f64> = BTreeMap::new();
    let total: f64 = near.iter().map(|near| near.weight_usual).sum();
    for near in near {
        let weight = near.weight_usual / (total + VOTES_PRIOR) / f64::from(near.entry.runs);
        for (node, times) in &near.entry.used {
            if let Some(node) = state.capabilities.offered_node(*node) {
                *votes.entry(node).or_default() += weight * f64::from(*times);
            }
        }
    }
    votes
}

/// O(tools + postings of the words).
fn relative_words(corpus: &Corpus, text: &str) -> Vec<f32> {
    let mut scores = corpus.tool_words(text);
    divide_by_largest(&mut scores);
    scores
}

/// O(tools * clauses).
fn similar_tools(whole: &[f32], clauses: &[Vec<f32>], words: &[f32]) -> Vec<u32> {
    let several = clauses.iter().filter(|_| clauses.len() > 1).map(Vec::as_slice);
    let by_vector = std::iter::once(whole).chain(several).flat_map(|similarities| largest(similarities, SIMILAR));
    let mut positions: Vec<u32> = by_vector.chain(largest(words, WORDED)).collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

fn at(similarities: &[f32], position: u32) -> f64 {
    similarities.get(position as usize).map_or(0.0, |similarity| f64::from(similarity.max(0.0)))
}
