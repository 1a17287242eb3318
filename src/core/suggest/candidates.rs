//! Candidate plans: runs of near past intents, beam search with the ranker, the tools with the highest expected F1, capabilities that
//! match the intent, and the prerequisites of the best of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::asked::Asked;
use super::beam::BeamPlan;
use super::probability::{ToolProbability, expected_f1};
use crate::graph::{Node, NodeKind};
use crate::paths::PathIndex;
use crate::paths::prerequisites::Measure;
use crate::paths::procedure::Procedure;
use crate::rank::Index;
use crate::rank::signals::Signals;

/// Past intents whose runs are copied, the nearest ones, and the similarity below which none is.
const COPIED: usize = 12;
const SIMILARITY_MIN: f32 = 0.3;
/// Matching capabilities looked at, and the votes or match below which one is not.
const CAPABILITIES: usize = 3;
const MATCH_MIN: f64 = 0.2;
/// Tools of a plan, at most.
pub(super) const TOOLS_MAX: usize = 15;

/// How a plan was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlanOrigin {
    /// A run of the remembered intent with this number, which is this similar.
    Memory { number: u64, similarity: f64 },
    /// Step by step with the ranker; the logarithm of the probability of the whole.
    Beam { log_p: f64 },
    /// The tools with the highest expected F1.
    Tools,
    /// The members of a capability that matches the intent this well.
    Capability { capability: Node, fit: f64 },
    /// The prerequisites of a capability that matches the intent.
    Prerequisites { capability: Node },
}

impl PlanOrigin {
    /// The name in answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::Beam { .. } => "beam",
            Self::Tools => "tools",
            Self::Capability { .. } => "capability",
            Self::Prerequisites { .. } => "prerequisites",
        }
    }
}

/// A set of tools that may serve the intent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Each once; in order if the origin has one.
    pub(super) nodes: Vec<Node>,
    pub(super) is_ordered: bool,
    /// The first origin that found the set.
    pub(super) origin: PlanOrigin,
    pub(super) support: Support,
}

/// What speaks for a set of tools: all origins that found it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Support {
    /// The similarity of the nearest past intent with this set, and the number of near ones that have it.
    pub(super) similarity: f64,
    pub(super) votes: u32,
    /// The probability of the beam's plan with this set, as the mean of a step.
    pub(super) beam_p: Option<f64>,
    pub(super) is_best_set: bool,
}

impl Candidate {
    fn new(nodes: Vec<Node>, is_ordered: bool, origin: PlanOrigin) -> Self {
        let mut support = Support::default();
        match origin {
            PlanOrigin::Memory { similarity, .. } => (support.similarity, support.votes) = (similarity, 1),
            PlanOrigin::Beam { log_p } => support.beam_p = Some(libm::exp(log_p / real(nodes.len() + 1))),
            PlanOrigin::Tools => support.is_best_set = true,
            PlanOrigin::Capability { .. } | PlanOrigin::Prerequisites { .. } => {}
        }
        Self { nodes, is_ordered, origin, support }
    }
}

impl Support {
    fn add(&mut self, other: Self) {
        self.similarity = self.similarity.max(other.similarity);
        self.votes += other.votes;
        self.beam_p = self.beam_p.into_iter().chain(other.beam_p).reduce(f64::max);
        self.is_best_set |= other.is_best_set;
    }
}

/// The candidates that need no capability: copied runs, beam search, and the likeliest tools.
pub(super) fn collect(
    asked: &Asked<'_>,
    beams: &[BeamPlan],
    probabilities: &[ToolProbability],
    caution: f64,
) -> Vec<Candidate> {
    let beam = |plan: &BeamPlan| Candidate::new(plan.nodes.clone(), true, PlanOrigin::Beam { log_p: plan.log_p });
    let mut found: Vec<Candidate> = beams.iter().map(beam).collect();
    found.extend(copied_runs(asked));
    found.push(Candidate::new(best_set(probabilities, caution), false, PlanOrigin::Tools));
    found
}

/// Each set of tools once, by the first origin that found it, with what all of them say for it; without empty ones.
pub(super) fn distinct_sets(found: Vec<Candidate>) -> Vec<Candidate> {
    let mut places: BTreeMap<Vec<Node>, usize> = BTreeMap::new();
    let mut distinct: Vec<Candidate> = Vec::new();
    for mut candidate in found {
        candidate.nodes.truncate(TOOLS_MAX);
        let mut set = candidate.nodes.clone();
        set.sort_unstable();
        if set.is_empty() {
            continue;
        }
        match places.entry(set) {
            Entry::Occupied(place) => distinct[*place.get()].support.add(candidate.support),
            Entry::Vacant(place) => {
                place.insert(distinct.len());
                distinct.push(candidate);
            }
        }
    }
    distinct
}

/// The set with the highest expected F1: the likeliest tools, as many as pay.
pub(super) fn best_set(probabilities: &[ToolProbability], caution: f64) -> Vec<Node> {
    let total: f64 = probabilities.iter().map(|tool| tool.p).sum();
    let (mut inside, mut best, mut size) = (0.0, f64::MIN, 0);
    for (at, tool) in probabilities.iter().take(TOOLS_MAX).enumerate() {
        inside += tool.p;
        let expected = expected_f1(inside, at + 1, total, caution);
        if expected > best {
            (best, size) = (expected, at + 1);
        }
    }
    probabilities[..size].iter().map(|tool| tool.tool).collect()
}

/// The latest good run of each near past intent.
fn copied_runs(asked: &Asked<'_>) -> Vec<Candidate> {
    let mut copied = Vec::new();
    for past in asked.evidence.near.iter().take(COPIED).filter(|past| past.similarity >= SIMILARITY_MIN) {
        let Some(number) = asked.state.memory.number(past.entry.hash) else { continue };
        let runs = asked.runs.runs(number);
        let Some(run) = runs.iter().rev().find(|run| run.succeeded).or(runs.last()) else { continue };
        let nodes: Vec<Node> = run.nodes.iter().copied().filter(|node| asked.is_open(*node)).collect();
        let origin = PlanOrigin::Memory { number, similarity: past.similarity.into() };
        copied.push(Candidate::new(nodes, true, origin));
    }
    copied
}

/// The capabilities that match best, with the blended score of discover.
pub(super) fn matching_capabilities(index: &Index, signals: &Signals) -> Vec<(Node, f64)> {
    let weights = index.serving_weights().interpolate(f64::from(signals.confidence), signals.active());
    let documents = index.documents();
    let fits = signals.blend(&weights).into_iter().enumerate().filter_map(|(slot, fit)| {
        let node = documents.node(slot);
        let is_usable = matches!(node.kind(), NodeKind::Capability(_)) && documents.success_rate(slot).is_some();
        (is_usable && fit >= MATCH_MIN).then_some((node, fit))
    });
    let mut fits: Vec<(Node, f64)> = fits.collect();
    fits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    fits.truncate(CAPABILITIES);
    fits
}

/// The members of matching capabilities, and the prerequisites of the first.
pub(super) fn capabilities(asked: &Asked<'_>, paths: &PathIndex, fits: &[(Node, f64)]) -> Vec<Candidate> {
    let state = asked.state;
    let mut found = Vec::new();
    for (capability, fit) in fits {
        let NodeKind::Capability(position) = capability.kind() else { continue };
        let Some(procedure) = Procedure::new(state, state.capabilities.at(position)) else { continue };
        let nodes = distinct(procedure.calls.into_iter().filter(|node| asked.is_open(*node)));
        let origin = PlanOrigin::Capability { capability: *capability, fit: *fit };
        found.push(Candidate::new(nodes, false, origin));
    }
    if let Some((capability, _)) = fits.first() {
        let plan = paths.prerequisites(*capability, &asked.context, Measure::Work);
        let nodes = distinct(plan.tasks.into_iter().map(|task| task.node).filter(|node| asked.is_open(*node)));
        found.push(Candidate::new(nodes, true, PlanOrigin::Prerequisites { capability: *capability }));
    }
    found
}

fn distinct(nodes: impl Iterator<Item = Node>) -> Vec<Node> {
    let mut seen = BTreeSet::new();
    nodes.filter(|node| seen.insert(*node)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "plans are small")]
fn real(count: usize) -> f64 {
    count as f64
}
