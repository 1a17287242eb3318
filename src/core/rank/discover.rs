//! `discover`: the tools and capabilities that fit an intent, as one ranked list (S4).

use super::Question;
use super::blend::{DiscoverSignal, SIGNALS};
use super::index::Index;
use super::reliability::{self, SCORE_MAX};
use super::signals::Signals;
use crate::graph::{Node, NodeKind};

/// Which kinds of items an answer may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemFilter {
    #[default]
    All,
    Tools,
    Capabilities,
}

/// Filters and limit of a `discover` question.
#[derive(Clone, Copy, Debug)]
pub struct DiscoverOptions {
    pub only: ItemFilter,
    pub score_min: f64,
    pub limit: usize,
}

/// One ranked item. The contributions, `reliability` and `cap` add up to the score.
#[derive(Clone, Debug)]
pub struct Hit {
    pub node: Node,
    pub score: f64,
    /// The blend of the signals, before reliability and the cap.
    pub semantic: f64,
    /// What each signal added, in the order of [`DiscoverSignal::ALL`].
    pub contributions: [f64; SIGNALS],
    /// What the success rate added (negative if it took away), and what the cap took (0 or negative).
    pub reliability: f64,
    pub cap: f64,
    pub success_rate: f64,
    /// The nearest past intent that succeeded with this item.
    pub similar_intent: Option<String>,
}

impl Hit {
    /// The parts of the score by name, largest first, without zeros. They add up to the score.
    pub fn signals(&self) -> Vec<(&'static str, f64)> {
        let mut signals: Vec<(&'static str, f64)> =
            DiscoverSignal::ALL.iter().map(|signal| (signal.name(), self.contributions[*signal as usize])).collect();
        signals.extend([("reliability", self.reliability), ("cap", self.cap)]);
        signals.retain(|(_, value)| *value != 0.0);
        signals.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        signals
    }
}

/// The answer to a `discover` question.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The best first, cut to the limit.
    pub hits: Vec<Hit>,
    /// How many items of each kind passed the filters, whatever the limit.
    pub tools: usize,
    pub capabilities: usize,
}

/// Ranks all usable items for the question.
pub fn discover(index: &Index, question: &Question, options: DiscoverOptions) -> Discovery {
    let signals = Signals::compute(index, question, None);
    let weights = index.serving_weights().interpolate(f64::from(signals.confidence), signals.active());
    let documents = index.documents();
    let mut discovery = Discovery::default();
    let mut shortlist = Shortlist { index, limit: options.limit, kept: Vec::new(), bar: f64::MIN };
    for (slot, semantic) in signals.blend(&weights).into_iter().enumerate() {
        // Skips items that cannot be used or do not match at all.
        let Some(success_rate) = documents.success_rate(slot).filter(|_| semantic > 0.0) else { continue };
        let node = documents.node(slot);
        let counter = match node.kind() {
            NodeKind::Tool(_) if options.only != ItemFilter::Capabilities => &mut discovery.tools,
            NodeKind::Capability(_) if options.only != ItemFilter::Tools => &mut discovery.capabilities,
            _ => continue,
        };
        let item = ScoredItem { slot, node, semantic, success_rate, uncapped: semantic * reliability::factor(success_rate) };
        if item.score() >= options.score_min {
            *counter += 1;
            shortlist.offer(item);
        }
    }
    discovery.hits = shortlist.into_sorted().into_iter().map(|item| item.into_hit(index, &signals, &weights)).collect();
    discovery
}

/// The best `limit` items so far, plus up to `limit` + [`Shortlist::SLACK`] more that the next cut drops.
struct Shortlist<'a> {
    index: &'a Index,
    limit: usize,
    kept: Vec<ScoredItem>,
    /// Items with a lower uncapped score are not among the best.
    bar: f64,
}

impl Shortlist<'_> {
    /// Items kept beyond twice the limit, so that a small limit does not cut at every offer.
    const SLACK: usize = 64;

    fn offer(&mut self, item: ScoredItem) {
        if item.uncapped < self.bar {
            return;
        }
        self.kept.push(item);
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
    fn into_sorted(mut self) -> Vec<ScoredItem> {
        self.cut();
        self.kept.sort_by(|a, b| a.compare(b, self.index));
        self.kept
    }
}

/// An item that passed the filters.
struct ScoredItem {
    slot: usize,
    node: Node,
    semantic: f64,
    success_rate: f64,
    /// The score before the cap; items are ordered by it, so that the cap makes no ties.
    uncapped: f64,
}

impl ScoredItem {
    fn score(&self) -> f64 {
        self.uncapped.min(SCORE_MAX)
    }

    fn compare(&self, other: &Self, index: &Index) -> std::cmp::Ordering {
        let by_score = other.uncapped.total_cmp(&self.uncapped).then(other.semantic.total_cmp(&self.semantic));
        // Ids are allocated, so they are compared only for ties.
        by_score.then_with(|| index.state().callee(self.node).cmp(&index.state().callee(other.node)))
    }

    fn into_hit(self, index: &Index, signals: &Signals, weights: &[f64; SIGNALS]) -> Hit {
        let intents = index.intents();
        let is_it = |node: Node| index.documents().counted_slot(node) == Some(self.slot);
        let has_it = |entry: usize| intents.entry(entry).used.iter().any(|(node, _)| is_it(*node));
        let neighbour = signals.neighbours.iter().find(|neighbour| has_it(neighbour.entry));
        Hit {
            node: self.node,
            score: self.score(),
            semantic: self.semantic,
            contributions: contributions(signals, weights, self.slot),
            reliability: self.uncapped - self.semantic,
            cap: self.score() - self.uncapped,
            success_rate: self.success_rate,
            similar_intent: neighbour.map(|neighbour| intents.entry(neighbour.entry).intent.to_string()),
        }
    }
}

fn contributions(signals: &Signals, weights: &[f64; SIGNALS], slot: usize) -> [f64; SIGNALS] {
    let values = signals.values(slot);
    std::array::from_fn(|signal| weights[signal] * f64::from(values[signal]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::given::History;

    #[test]
    fn a_retired_capability_is_not_found_and_a_merged_one_finds_the_other_by_its_intents() {
        let mut history = History::new(
            "run ok alpha: a:a, b:b < a:a
             run ok beta: c:c, d:d < c:c",
        );
        history.embed(|text| match text {
            "alpha" => vec![1.0, 0.0],
            "beta" => vec![0.0, 1.0],
            _ => vec![0.0, 0.0],
        });
        let find = |history: &History| {
            let index = Index::default().update(Arc::new(history.state.clone()));
            let question = Question { intent: "first".to_owned(), vector: Some(vec![1.0, 0.0]), clauses: Vec::new() };
            let options = DiscoverOptions { only: ItemFilter::Capabilities, score_min: 0.0, limit: 10 };
            let found = discover(&index, &question, options).hits;
            found.into_iter().map(|hit| (hit.node, hit.similar_intent)).collect::<Vec<_>>()
        };
        let alpha = Some("alpha".to_owned());
        let before = find(&history);
        assert_eq!(before[0], (Node::capability(0), alpha.clone()));
        history.line("retire 0");
        assert!(find(&history).iter().all(|(node, _)| *node != Node::capability(0)));
        history.line("restore 0");
        history.line("merge 0 1");
        assert_eq!(find(&history), [(Node::capability(1), alpha)], "the intents of the merged one find it");
        history.line("split 0");
        assert_eq!(find(&history), before);
    }
}
