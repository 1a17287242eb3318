//! The expected quality of a candidate plan: the F1 score of its tools, estimated from how likely they are, where the plan comes from
//! and whether other candidates agree. The estimate is fitted to past intents, so it can be read as a confidence.

use super::candidates::{Candidate, Support};
use super::probability::{ToolProbability, expected_f1};
use super::regression::Linear;
use crate::graph::Node;

/// Probability from which a tool outside a set speaks against it, and the least probability that is told from none.
const LIKELY: f64 = 0.2;
const LIKELIHOOD_MIN: f64 = 0.01;

pub(super) const QUALITY_FEATURES: usize = 16;

/// The names of the features, under which their weights are stored.
pub(super) const QUALITY_NAMES: [&str; QUALITY_FEATURES] = [
    "bias",
    "expected_f1",
    "memory",
    "similarity",
    "beam",
    "beam_p",
    "tools",
    "size",
    "mean_p",
    "least_p",
    "outside",
    "agreement",
    "agreement_max",
    "agreement_beam",
    "likelihood",
    "votes",
];

/// The weights before anything was fitted: mostly the expected F1, a little the agreement of the candidates.
pub(super) const QUALITY_PRIOR: Linear<QUALITY_FEATURES> =
    Linear([0.0, 0.7, 0.0, 0.05, 0.0, 0.05, 0.02, 0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.0]);

/// The features of every candidate.
pub(super) fn quality_features(
    candidates: &[Candidate],
    probabilities: &[ToolProbability],
    caution: f64,
) -> Vec<[f64; QUALITY_FEATURES]> {
    let total: f64 = probabilities.iter().map(|tool| tool.p).sum();
    let p = |node: &Node| probabilities.iter().find(|tool| tool.tool == *node).map_or(0.0, |tool| tool.p);
    let beams: Vec<&[Node]> = candidates
        .iter()
        .filter(|candidate| candidate.support.beam_p.is_some())
        .map(|candidate| candidate.nodes.as_slice())
        .collect();
    let features = |(at, candidate): (usize, &Candidate)| {
        let ps: Vec<f64> = candidate.nodes.iter().map(p).collect();
        let (inside, size) = (ps.iter().sum::<f64>(), real(ps.len()));
        let others = candidates.iter().enumerate().filter(|(other, _)| *other != at);
        let agreement: Vec<f64> = others.map(|(_, other)| f1(&candidate.nodes, &other.nodes)).collect();
        let Support { similarity, votes, beam_p, is_best_set } = candidate.support;
        [
            1.0,
            expected_f1(inside, ps.len(), total, caution).min(1.0),
            flag(votes > 0),
            similarity,
            flag(beam_p.is_some()),
            beam_p.unwrap_or(0.0),
            flag(is_best_set),
            size / 10.0,
            inside / size,
            ps.iter().copied().fold(1.0, f64::min),
            (total - inside).clamp(0.0, 5.0),
            agreement.iter().sum::<f64>() / real(agreement.len().max(1)),
            agreement.iter().copied().fold(0.0, f64::max),
            beams.iter().map(|beam| f1(&candidate.nodes, beam)).fold(0.0, f64::max),
            likelihood(candidate, probabilities),
            libm::log1p(f64::from(votes)),
        ]
    };
    candidates.iter().enumerate().map(features).collect()
}

/// The probability of exactly these tools, by their own probabilities: the geometric mean over the tools of the set and the likely
/// ones outside.
fn likelihood(candidate: &Candidate, probabilities: &[ToolProbability]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for tool in probabilities {
        let inside = candidate.nodes.contains(&tool.tool);
        if inside || tool.p > LIKELY {
            sum += libm::log(if inside { tool.p } else { 1.0 - tool.p }.max(LIKELIHOOD_MIN));
            count += 1.0;
        }
    }
    if count > 0.0 { libm::exp(sum / count) } else { 0.0 }
}

/// The F1 score of a set, each item once, against another: 1 if they are equal, 0 if they share nothing. Plans are small, so a search
/// takes less than building a set.
pub(super) fn f1<T: PartialEq>(one: &[T], other: &[T]) -> f64 {
    if one.is_empty() && other.is_empty() {
        return 1.0;
    }
    2.0 * real(one.iter().filter(|item| other.contains(item)).count()) / real(one.len() + other.len())
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[expect(clippy::cast_precision_loss, reason = "plans are small")]
fn real(count: usize) -> f64 {
    count as f64
}
