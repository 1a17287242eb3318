//! The expected quality of a candidate plan: the F1 score of its tools, estimated from how likely they are, where the plan comes from
//! and whether other candidates agree. The estimate is fitted to past intents, so it can be read as a confidence.

use std::collections::BTreeSet;

use super::candidates::{Candidate, PlanOrigin};
use super::probability::{ToolProbability, expected_f1};
use super::regression::Linear;
use crate::graph::Node;

pub(super) const QUALITY_FEATURES: usize = 13;

/// The weights before anything was fitted: mostly the expected F1, a little the agreement of the candidates.
pub(super) const QUALITY_PRIOR: Linear<QUALITY_FEATURES> =
    Linear([0.0, 0.7, 0.0, 0.05, 0.0, 0.05, 0.02, 0.0, 0.0, 0.0, 0.0, 0.2, 0.0]);

/// The features of every candidate.
pub(super) fn quality_features(
    candidates: &[Candidate],
    probabilities: &[ToolProbability],
    caution: f64,
) -> Vec<[f64; QUALITY_FEATURES]> {
    let total: f64 = probabilities.iter().map(|tool| tool.p).sum();
    let p = |node: &Node| probabilities.iter().find(|tool| tool.tool == *node).map_or(0.0, |tool| tool.p);
    let features = |(at, candidate): (usize, &Candidate)| {
        let ps: Vec<f64> = candidate.nodes.iter().map(p).collect();
        let (inside, size) = (ps.iter().sum::<f64>(), real(ps.len()));
        let others = candidates.iter().enumerate().filter(|(other, _)| *other != at);
        let agreement: Vec<f64> = others.map(|(_, other)| f1(&candidate.nodes, &other.nodes)).collect();
        let (memory, beam) = match candidate.origin {
            PlanOrigin::Memory { similarity, .. } => (Some(similarity), None),
            PlanOrigin::Beam { log_p } => (None, Some(libm::exp(log_p / (size + 1.0)))),
            PlanOrigin::Tools | PlanOrigin::Capability { .. } | PlanOrigin::Prerequisites { .. } => (None, None),
        };
        [
            1.0,
            expected_f1(inside, ps.len(), total, caution).min(1.0),
            flag(memory.is_some()),
            memory.unwrap_or(0.0),
            flag(beam.is_some()),
            beam.unwrap_or(0.0),
            flag(candidate.origin == PlanOrigin::Tools),
            size / 10.0,
            inside / size,
            ps.iter().copied().fold(1.0, f64::min),
            (total - inside).clamp(0.0, 5.0),
            agreement.iter().sum::<f64>() / real(agreement.len().max(1)),
            agreement.iter().copied().fold(0.0, f64::max),
        ]
    };
    candidates.iter().enumerate().map(features).collect()
}

/// The F1 score of a set against another: 1 if they are equal, 0 if they share nothing.
pub(super) fn f1<T: Ord>(one: &[T], other: &[T]) -> f64 {
    let (one, other): (BTreeSet<&T>, BTreeSet<&T>) = (one.iter().collect(), other.iter().collect());
    if one.is_empty() && other.is_empty() {
        return 1.0;
    }
    2.0 * real(one.intersection(&other).count()) / real(one.len() + other.len())
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[expect(clippy::cast_precision_loss, reason = "plans are small")]
fn real(count: usize) -> f64 {
    count as f64
}
