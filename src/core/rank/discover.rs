//! discover: one ranked list of tools and capabilities for an intent (S4).

use super::Question;
use super::blend::{SIGNALS, Signal};
use super::index::Index;
use super::reliability::{self, SCORE_MAX};
use super::signals::Signals;
use crate::core::graph::{Node, NodeKind};

/// Which items are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    #[default]
    All,
    Tools,
    Capabilities,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub only: Only,
    pub score_min: f64,
    pub limit: usize,
}

/// One answer. The contributions add up to the score.
#[derive(Clone, Debug)]
pub struct Hit {
    pub node: Node,
    pub score: f64,
    /// Before reliability and the cap.
    pub semantic: f64,
    /// What each signal added, in the order of [`Signal::ALL`].
    pub contributions: [f64; SIGNALS],
    /// What the success rate added (or took), and what the cap took.
    pub reliability: f64,
    pub cap: f64,
    pub success_rate: f64,
    /// The nearest past intent that succeeded with this item.
    pub like: Option<String>,
}

impl Hit {
    /// Names and values, largest first, without those that are 0. They add up to the score.
    pub fn signals(&self) -> Vec<(&'static str, f64)> {
        let mut signals: Vec<(&'static str, f64)> =
            Signal::ALL.iter().map(|signal| (signal.name(), self.contributions[*signal as usize])).collect();
        signals.extend([("reliability", self.reliability), ("cap", self.cap)]);
        signals.retain(|(_, value)| *value != 0.0);
        signals.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        signals
    }
}

#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The best first, cut to the limit.
    pub hits: Vec<Hit>,
    /// How many passed the filter, of either kind.
    pub tools: usize,
    pub capabilities: usize,
}

/// Everything that is known, ranked for the question.
pub fn discover(index: &Index, question: &Question, wanted: Wanted) -> Found {
    let signals = Signals::of(index, question, None);
    let weights = index.weights().at(f64::from(signals.confidence), signals.speaks());
    let documents = index.documents();
    let mut found = Found::default();
    let mut shortlist = Shortlist { index, limit: wanted.limit, kept: Vec::new(), bar: f64::MIN };
    for (slot, semantic) in signals.blend(&weights).into_iter().enumerate() {
        // What cannot be used, or does not fit at all.
        let Some(success_rate) = documents.success_rate(slot).filter(|_| semantic > 0.0) else { continue };
        let node = documents.node(slot);
        let counter = match node.kind() {
            NodeKind::Tool(_) if wanted.only != Only::Capabilities => &mut found.tools,
            NodeKind::Capability(_) if wanted.only != Only::Tools => &mut found.capabilities,
            _ => continue,
        };
        let candidate =
            Candidate { slot, node, semantic, success_rate, uncapped: semantic * reliability::factor(success_rate) };
        if candidate.score() >= wanted.score_min {
            *counter += 1;
            shortlist.offer(candidate);
        }
    }
    found.hits = shortlist.best().into_iter().map(|candidate| candidate.into_hit(index, &signals, &weights)).collect();
    found
}

/// The best candidates so far, and some that may turn out not to be.
struct Shortlist<'a> {
    index: &'a Index,
    limit: usize,
    kept: Vec<Candidate>,
    /// Whoever is below is not among the best.
    bar: f64,
}

impl Shortlist<'_> {
    /// Candidates kept beyond twice the limit, so that a small limit does not mean sorting all the time.
    const SLACK: usize = 64;

    fn offer(&mut self, candidate: Candidate) {
        if candidate.uncapped < self.bar {
            return;
        }
        self.kept.push(candidate);
        if self.kept.len() >= self.limit.saturating_mul(2).saturating_add(Self::SLACK) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.limit && self.limit > 0 {
            self.kept.select_nth_unstable_by(self.limit - 1, |a, b| a.compare(b, self.index));
            self.bar = self.kept[self.limit - 1].uncapped;
        }
        self.kept.truncate(self.limit);
    }

    /// The best first.
    fn best(mut self) -> Vec<Candidate> {
        self.cut();
        self.kept.sort_by(|a, b| a.compare(b, self.index));
        self.kept
    }
}

struct Candidate {
    slot: usize,
    node: Node,
    semantic: f64,
    success_rate: f64,
    /// The score without the cap, so that the cap makes no ties.
    uncapped: f64,
}

impl Candidate {
    fn score(&self) -> f64 {
        self.uncapped.min(SCORE_MAX)
    }

    fn compare(&self, other: &Self, index: &Index) -> std::cmp::Ordering {
        let by_score = other.uncapped.total_cmp(&self.uncapped).then(other.semantic.total_cmp(&self.semantic));
        // Ids are made only for ties.
        by_score.then_with(|| index.state().callee(self.node).cmp(&index.state().callee(other.node)))
    }

    fn into_hit(self, index: &Index, signals: &Signals, weights: &[f64; SIGNALS]) -> Hit {
        let recall = index.recall();
        let has_it = |entry: usize| recall.entry(entry).used.binary_search_by_key(&self.node, |(node, _)| *node).is_ok();
        let like = signals.neighbours.iter().find(|neighbour| has_it(neighbour.entry));
        Hit {
            node: self.node,
            score: self.score(),
            semantic: self.semantic,
            contributions: contributions(signals, weights, self.slot),
            reliability: self.uncapped - self.semantic,
            cap: self.score() - self.uncapped,
            success_rate: self.success_rate,
            like: like.map(|neighbour| recall.entry(neighbour.entry).intent.to_string()),
        }
    }
}

fn contributions(signals: &Signals, weights: &[f64; SIGNALS], slot: usize) -> [f64; SIGNALS] {
    let values = signals.at(slot);
    std::array::from_fn(|signal| weights[signal] * f64::from(values[signal]))
}
