//! Plans by beam search: the ranker of the next call is asked again and again until it says that nothing is left to do.

use super::asked::Asked;
use crate::graph::Node;
use crate::predict::candidates::Candidate;

/// Unfinished plans kept after each step, and finished ones returned.
const WIDTH: usize = 3;
/// Steps of a plan, at most.
const STEPS_MAX: usize = 12;
/// Continuations that are less likely than this are not followed.
const P_MIN: f64 = 0.02;

/// A finished plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BeamPlan {
    pub(super) nodes: Vec<Node>,
    /// Logarithm of the probability of the steps and of the end.
    pub(super) log_p: f64,
}

/// The likeliest plans, at most [`WIDTH`], the likeliest first; ties in the order they were found.
pub(super) fn search(asked: &Asked<'_>) -> Vec<BeamPlan> {
    let mut open = vec![BeamPlan { nodes: Vec::new(), log_p: 0.0 }];
    let mut finished: Vec<BeamPlan> = Vec::new();
    for _ in 0..=STEPS_MAX {
        let mut next: Vec<BeamPlan> = Vec::new();
        for plan in &open {
            extend(asked, plan, &mut next, &mut finished);
        }
        finished.sort_by(|a, b| b.log_p.total_cmp(&a.log_p));
        finished.truncate(WIDTH);
        let enough = finished.get(WIDTH - 1).map_or(f64::MIN, |last| last.log_p);
        next.retain(|plan| plan.log_p > enough && plan.nodes.len() <= STEPS_MAX);
        next.sort_by(|a, b| b.log_p.total_cmp(&a.log_p));
        next.truncate(WIDTH);
        if next.is_empty() {
            break;
        }
        open = next;
    }
    finished
}

/// Adds the likely continuations of a plan. A node is planned once, so the probability of calling it again is shared by the others.
fn extend(asked: &Asked<'_>, plan: &BeamPlan, next: &mut Vec<BeamPlan>, finished: &mut Vec<BeamPlan>) {
    let is_new = |candidate: &Candidate| match candidate {
        Candidate::Done => !plan.nodes.is_empty(),
        Candidate::Call(node) => !plan.nodes.contains(node) && asked.is_open(*node),
    };
    let outcomes: Vec<(Candidate, f64)> =
        asked.next_calls(&plan.nodes).into_iter().filter(|(candidate, _)| is_new(candidate)).collect();
    let total: f64 = outcomes.iter().map(|(_, p)| p).sum();
    for (candidate, p) in outcomes.into_iter().take(2 * WIDTH).map(|(candidate, p)| (candidate, p / total)) {
        let log_p = plan.log_p + libm::log(p);
        match candidate {
            _ if p < P_MIN => {}
            Candidate::Done => finished.push(BeamPlan { nodes: plan.nodes.clone(), log_p }),
            Candidate::Call(node) => {
                let nodes = plan.nodes.iter().copied().chain([node]).collect();
                next.push(BeamPlan { nodes, log_p });
            }
        }
    }
}
