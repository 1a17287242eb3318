//! The probability of each tool to be part of the plan: a logistic model over the signals of discover and the plans of the beam
//! search, fitted to past intents. The fit decides how much each trained part is trusted.

use std::collections::BTreeSet;

use super::asked::Asked;
use super::beam::BeamPlan;
use super::regression::Linear;
use crate::graph::{Node, NodeKind};
use crate::rank::Index;
use crate::rank::blend::{DiscoverSignal, SIGNALS};
use crate::rank::signals::Signals;

/// The strongest tools of each signal that are looked at.
const STRONGEST: usize = 16;
/// Shares of votes nearer to 0 or 1 than this say no more.
const SHARE_MIN: f64 = 0.02;
/// Discover scales the logarithms of trained parts to 0..1; as features they get some of their spread back.
const LOGARITHMS: f64 = 6.0;

pub(super) const TOOL_FEATURES: usize = 24;

/// The names of the features, under which their weights are stored.
pub(super) const TOOL_NAMES: [&str; TOOL_FEATURES] = [
    "bias",
    "dense",
    "dense_gap",
    "clause",
    "clause_gap",
    "bm25",
    "popularity",
    "memory",
    "memory_gap",
    "memory_wide",
    "memory_clause",
    "memory_clause_gap",
    "confident_memory",
    "doubtful_clause_gap",
    "confidence",
    "several_clauses",
    "head",
    "head_gap",
    "target_mass",
    "target_mass_gap",
    "shgat",
    "shgat_gap",
    "beam",
    "beam_first",
];

/// The weights before anything was fitted: what past intents agree on is likely; a tool that fits a clause as well as any other is
/// plausible.
pub(super) const TOOL_PRIOR: Linear<TOOL_FEATURES> = Linear([
    -0.6, 1.0, 3.0, 1.0, 6.0, 1.0, 0.0, 0.5, 0.0, 0.1, 0.2, 0.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
]);

/// A tool with its features.
pub(super) type ToolFeatures = (Node, [f64; TOOL_FEATURES]);

/// A tool with its probability of being part of the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolProbability {
    pub tool: Node,
    pub p: f64,
}

/// The probabilities of the tools that any signal points at, the likeliest first; ties in node order.
pub(super) fn tool_probabilities(tools: &[ToolFeatures], model: &Linear<TOOL_FEATURES>) -> Vec<ToolProbability> {
    let rated = |(tool, features): &ToolFeatures| ToolProbability { tool: *tool, p: model.probability(features) };
    let mut tools: Vec<ToolProbability> = tools.iter().map(rated).collect();
    tools.sort_by(|a, b| b.p.total_cmp(&a.p).then(a.tool.cmp(&b.tool)));
    tools
}

/// The features of the tools that any signal points at, in node order.
pub(super) fn tool_features(index: &Index, signals: &Signals, asked: &Asked<'_>, beams: &[BeamPlan]) -> Vec<ToolFeatures> {
    let documents = index.documents();
    let is_usable = |slot: usize| documents.success_rate(slot).is_some() && asked.is_open(documents.node(slot));
    let mut picked: BTreeSet<usize> = BTreeSet::new();
    let mut tops = Tops::new(asked);
    for (signal, top) in tops.signals.iter_mut().enumerate() {
        let strongest = signals.strongest(signal, STRONGEST, is_usable);
        *top = strongest.first().map_or(0.0, |slot| f64::from(signals.value(signal, *slot)));
        picked.extend(strongest);
    }
    picked.extend(beams.iter().flat_map(|beam| &beam.nodes).filter_map(|node| documents.slot(*node)));
    let features = |slot: usize| {
        let node = documents.node(slot);
        (node, tops.features(asked, signals, beams, node, slot))
    };
    let mut features: Vec<ToolFeatures> = picked.into_iter().map(features).collect();
    features.sort_unstable_by_key(|(node, _)| *node);
    features
}

/// The largest value of each signal, and the best fit of each clause, among the usable tools.
struct Tops {
    signals: [f64; SIGNALS],
    clauses: Vec<f64>,
}

impl Tops {
    /// Those of the clauses; the signals are set as they are looked at.
    fn new(asked: &Asked<'_>) -> Self {
        let clauses = 0..asked.evidence.clause_count();
        Self { signals: [0.0; SIGNALS], clauses: clauses.map(|clause| asked.evidence.best_fit(clause)).collect() }
    }

    fn features(
        &self,
        asked: &Asked<'_>,
        signals: &Signals,
        beams: &[BeamPlan],
        node: Node,
        slot: usize,
    ) -> [f64; TOOL_FEATURES] {
        let values = signals.values(slot).map(f64::from);
        let value = |signal: DiscoverSignal| values[signal as usize];
        let gap = |signal: DiscoverSignal| value(signal) - self.signals[signal as usize];
        let clause_gap = self.clause_gap(asked, node);
        let confidence = f64::from(signals.confidence);
        let memory = log_odds(value(DiscoverSignal::Memory));
        [
            1.0,
            value(DiscoverSignal::Dense),
            gap(DiscoverSignal::Dense),
            value(DiscoverSignal::Clause),
            clause_gap,
            value(DiscoverSignal::Words),
            value(DiscoverSignal::Popularity),
            memory,
            gap(DiscoverSignal::Memory),
            log_odds(value(DiscoverSignal::MemoryWide)),
            log_odds(value(DiscoverSignal::MemoryClause)),
            gap(DiscoverSignal::MemoryClause),
            confidence * memory,
            (1.0 - confidence) * clause_gap,
            confidence,
            flag(asked.evidence.clause_count() > 1),
            LOGARITHMS * value(DiscoverSignal::Head),
            LOGARITHMS * gap(DiscoverSignal::Head),
            LOGARITHMS * value(DiscoverSignal::Mass),
            LOGARITHMS * gap(DiscoverSignal::Mass),
            LOGARITHMS * value(DiscoverSignal::Shgat),
            LOGARITHMS * gap(DiscoverSignal::Shgat),
            beam_share(beams, node),
            flag(beams.first().is_some_and(|beam| beam.nodes.contains(&node))),
        ]
    }

    /// How much worse the tool fits than the best tool of some clause, at that clause where it falls least behind; 0 if it is the
    /// best of one.
    fn clause_gap(&self, asked: &Asked<'_>, node: Node) -> f64 {
        let NodeKind::Tool(position) = node.kind() else { return -1.0 };
        let gap = |(clause, best): (usize, &f64)| asked.evidence.clause_similarity(clause, position) - best;
        self.clauses.iter().enumerate().map(gap).reduce(f64::max).unwrap_or(-1.0)
    }
}

/// The share of the beam's plans with a node, by their probabilities; as log-odds, 0 without plans.
fn beam_share(beams: &[BeamPlan], node: Node) -> f64 {
    let p = |beam: &BeamPlan| libm::exp(beam.log_p);
    let total: f64 = beams.iter().map(p).sum();
    let with: f64 = beams.iter().filter(|beam| beam.nodes.contains(&node)).map(p).sum();
    if total > 0.0 { log_odds(with / total) } else { 0.0 }
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// The logarithm of the odds of a share.
pub(super) fn log_odds(share: f64) -> f64 {
    let share = share.clamp(SHARE_MIN, 1.0 - SHARE_MIN);
    libm::log(share / (1.0 - share))
}

/// The F1 score that a set of `size` tools with the sum of probabilities `inside` can expect, if all probabilities sum to `total`.
/// `caution` above 1 expects more right tools than the probabilities say, and so prefers larger sets.
pub(super) fn expected_f1(inside: f64, size: usize, total: f64, caution: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "plans are small")]
    let size = size as f64;
    if size == 0.0 { 0.0 } else { 2.0 * inside / (size + caution * total) }
}
