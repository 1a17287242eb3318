//! Evaluation of next-step prediction: the rank that each ranker gives to the tool of every step of the test traces, from the intent
//! and the tools called before it. First steps are scored apart from the others, and so are traces whose call sequence is not among
//! the training traces.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Split;
use super::next_rankers::{NextRanker, StepContext};
use crate::ask::question;
use crate::core::event::Outcome;
use crate::core::graph::Node;
use crate::core::graph::measures::Measures;
use crate::core::id::{Callee, RecordId, ToolId};
use crate::core::predict::evidence::Evidence;
use crate::core::predict::metrics::{Rank, StepMetrics, StepScore, hit, reciprocal};
use crate::core::predict::threshold::Mode;
use crate::core::predict::{PredictionQuery, predict_with};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::embed::{EmbedError, Embedder};

/// Half the width of a 95 % confidence interval, in standard errors.
const SIGMAS: f64 = 1.96;

/// Means over the steps that one ranker was asked about.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Scores {
    pub hit1: f64,
    pub hit3: f64,
    pub mrr: f64,
    /// Share of steps where the first tool is that of any remaining step whose dependencies have been called.
    pub ready1: f64,
    pub n: usize,
    /// Half the width of the 95 % confidence intervals, clustered by trace.
    pub hit1_ci: f64,
    pub mrr_ci: f64,
}

/// Quality of the served probabilities after at least one step; the end of a trace is an outcome too.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Calibration {
    /// Expected calibration error of the first outcome, 10 bins.
    pub ece: f64,
    pub log_loss: f64,
    pub n: usize,
}

impl Calibration {
    fn from_scores(served: &[StepScore]) -> Self {
        let StepMetrics { n, log_loss, calibration_error: ece, .. } = StepMetrics::from_scores(served.iter().copied());
        Self { ece, log_loss, n }
    }
}

/// The scores of one ranker.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct NextScores {
    /// Steps after the first.
    #[serde(flatten)]
    pub all: Scores,
    pub first: Scores,
    /// Steps after the first, in traces whose call sequence is not among the training traces.
    pub unseen: Scores,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// Sums over the steps of one trace: hit@1, hit@3, reciprocal rank, ready@1, in that order.
#[derive(Clone, Copy, Debug, Default)]
struct TraceSums {
    values: [f64; 4],
    n: f64,
}

impl TraceSums {
    fn add(&mut self, rank: Rank, ready: bool) {
        let values = [hit(rank, 1), hit(rank, 3), reciprocal(rank), f64::from(u8::from(ready))];
        for (sum, value) in self.values.iter_mut().zip(values) {
            *sum += value;
        }
        self.n += 1.0;
    }
}

/// Means over the steps of all traces. Traces are the independent samples, so the confidence intervals are clustered by trace.
fn scores(traces: &[TraceSums]) -> Scores {
    let n: f64 = traces.iter().map(|sums| sums.n).sum();
    if n == 0.0 {
        return Scores::default();
    }
    let [hit1, hit3, mrr, ready1] = [0, 1, 2, 3].map(|at: usize| traces.iter().map(|sums| sums.values[at]).sum::<f64>() / n);
    let half_width = |at: usize, mean: f64| {
        let squares: f64 = traces.iter().map(|sums| sums.values[at] - mean * sums.n).map(|rest| rest * rest).sum();
        SIGMAS * squares.sqrt() / n
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of ones")]
    let steps = n as usize;
    Scores { hit1, hit3, mrr, ready1, n: steps, hit1_ci: half_width(0, hit1), mrr_ci: half_width(2, mrr) }
}

/// The sums of one ranker, by trace.
#[derive(Default)]
struct RankerSums {
    all: Vec<TraceSums>,
    first: Vec<TraceSums>,
    unseen: Vec<TraceSums>,
}

/// Scores rankers on every step of the test traces.
pub fn next(
    state: &State,
    measures: &Measures,
    embedder: &dyn Embedder,
    split: &Split,
    rankers: &[NextRanker],
) -> Result<BTreeMap<&'static str, NextScores>, EmbedError> {
    let learnt: BTreeSet<Vec<ToolId>> = split.train.iter().map(|trace| trace.tools().collect()).collect();
    let by_id: Vec<u32> = state.tools.positions().collect();
    let mut by_ranker: BTreeMap<&'static str, RankerSums> = BTreeMap::new();
    let mut served: Vec<StepScore> = Vec::new();
    for trace in &split.test {
        let tools: Vec<ToolId> = trace.tools().collect();
        let evidence = Evidence::for_question(state, &question(Some(embedder), trace.intent.clone())?);
        let context: Vec<Option<Node>> = tools.iter().map(|tool| state.tools.position(tool).map(Node::tool)).collect();
        let steps: Vec<StepContext<'_>> =
            (0..tools.len()).map(|at| StepContext::new(state, measures, &evidence, &context[..at])).collect();
        for ranker in rankers {
            let (mut first, mut rest) = (TraceSums::default(), TraceSums::default());
            for (at, step) in steps.iter().enumerate() {
                let found = ToolRank::compute(&ranker.scores(step), &by_id, context[at]);
                let trace_sums = if at == 0 { &mut first } else { &mut rest };
                trace_sums
                    .add(found.rank, found.top.is_some_and(|top| trace.ready(at).any(|tool| tool == state.tools.at(top).id)));
            }
            let sums = by_ranker.entry(ranker.name()).or_default();
            sums.first.push(first);
            sums.all.push(rest);
            if !learnt.contains(&tools) {
                sums.unseen.push(rest);
            }
        }
        served.extend((1..=tools.len()).map(|at| served_score(state, &evidence, &tools, at)));
    }
    let result = |(name, sums): (&'static str, RankerSums)| {
        let [all, first, unseen] = [&sums.all, &sums.first, &sums.unseen].map(|sums| scores(sums));
        let calibration = (name == NextRanker::Pml.name()).then(|| Calibration::from_scores(&served));
        (name, NextScores { all, first, unseen, calibration })
    };
    Ok(by_ranker.into_iter().map(result).collect())
}

/// The rank of the right tool in a ranking, and the tool ranked first. Ties are broken by tool id.
pub(super) struct ToolRank {
    /// `None` for a tool that the state does not know.
    pub(super) rank: Rank,
    top: Option<u32>,
}

impl ToolRank {
    /// `scores` are by tool position, `by_id` are the positions in the order of the tool ids.
    pub(super) fn compute(scores: &[f64], by_id: &[u32], right: Option<Node>) -> Self {
        let score = |position: u32| scores[position as usize];
        let top = by_id.iter().copied().reduce(|best, next| if score(next) > score(best) { next } else { best });
        let right = right.and_then(|right| by_id.iter().position(|position| Node::tool(*position) == right));
        let rank = right.map(|at| {
            let own = score(by_id[at]);
            let before = by_id.iter().enumerate().filter(|(other, position)| {
                score(**position) > own || (*other < at && score(**position).total_cmp(&own).is_eq())
            });
            before.count() + 1
        });
        Self { rank, top }
    }
}

/// Scores the served prediction after the first `at` tools by what came next: a tool, or the end.
fn served_score(state: &State, evidence: &Evidence, tools: &[ToolId], at: usize) -> StepScore {
    let context: Vec<Callee> = tools[..at].iter().cloned().map(Callee::Tool).collect();
    let seed = RecordId::from_parts(Timestamp::from_micros(0), 0);
    let prediction =
        predict_with(state, evidence, &PredictionQuery { context: &context, k: usize::MAX, mode: Mode::Asked, seed });
    let right = tools.get(at).map_or(Outcome::Done, |tool| Outcome::Call(Callee::Tool(tool.clone())));
    let position = prediction.ranked.iter().position(|ranked| ranked.outcome == right);
    StepScore {
        rank: position.map(|position| position + 1),
        p_first: prediction.ranked[0].p,
        p_right: position.map_or(0.0, |position| prediction.ranked[position].p),
    }
}

/// Means over the folds of a cross-validation, all with equal weight.
pub fn mean(folds: &[BTreeMap<&'static str, NextScores>]) -> BTreeMap<&'static str, NextScores> {
    let names: BTreeSet<&'static str> = folds.iter().flat_map(BTreeMap::keys).copied().collect();
    let mean_of = |name: &'static str| {
        let parts: Vec<NextScores> = folds.iter().filter_map(|fold| fold.get(name).copied()).collect();
        let mean = |scores: fn(&NextScores) -> Scores| mean_scores(&parts.iter().map(scores).collect::<Vec<_>>());
        let (all, first, unseen) = (mean(|part| part.all), mean(|part| part.first), mean(|part| part.unseen));
        NextScores { all, first, unseen, calibration: mean_calibration(&parts) }
    };
    names.into_iter().map(|name| (name, mean_of(name))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a handful of folds")]
fn mean_scores(parts: &[Scores]) -> Scores {
    let count = parts.len().max(1) as f64;
    let mean = |value: fn(&Scores) -> f64| parts.iter().map(value).sum::<f64>() / count;
    // The folds are independent of each other: the squares of their errors add up.
    let error = |value: fn(&Scores) -> f64| parts.iter().map(|part| value(part).powi(2)).sum::<f64>().sqrt() / count;
    Scores {
        hit1: mean(|part| part.hit1),
        hit3: mean(|part| part.hit3),
        mrr: mean(|part| part.mrr),
        ready1: mean(|part| part.ready1),
        n: parts.iter().map(|part| part.n).sum(),
        hit1_ci: error(|part| part.hit1_ci),
        mrr_ci: error(|part| part.mrr_ci),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of folds")]
fn mean_calibration(parts: &[NextScores]) -> Option<Calibration> {
    let parts: Vec<Calibration> = parts.iter().filter_map(|part| part.calibration).collect();
    let mean = |value: fn(&Calibration) -> f64| parts.iter().map(value).sum::<f64>() / parts.len() as f64;
    let n = parts.iter().map(|part| part.n).sum();
    (!parts.is_empty()).then(|| Calibration { ece: mean(|part| part.ece), log_loss: mean(|part| part.log_loss), n })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_break_ties_by_id() {
        let by_id = [2, 0, 1];
        let check = |scores: [f64; 3], right: u32, rank: usize, top: u32| {
            let found = ToolRank::compute(&scores, &by_id, Some(Node::tool(right)));
            assert_eq!((found.rank, found.top), (Some(rank), Some(top)), "{scores:?}");
        };
        check([0.5, 0.5, 0.5], 1, 3, 2);
        check([0.5, 0.9, 0.5], 0, 3, 1);
        check([0.1, 0.9, 0.5], 1, 1, 1);
        assert_eq!(ToolRank::compute(&[0.0; 3], &by_id, None).rank, None);
    }

    #[test]
    fn confidence_intervals_are_clustered_by_trace() {
        let hit = |hits: f64| TraceSums { values: [hits; 4], n: 2.0 };
        let Scores { hit1, n, hit1_ci, .. } = scores(&[hit(2.0), hit(0.0), hit(2.0), hit(0.0)]);
        assert!((hit1 - 0.5).abs() < 1e-12 && n == 8);
        assert!((hit1_ci - SIGMAS * 2.0 / 8.0).abs() < 1e-12, "{hit1_ci}");
        assert_eq!(scores(&[]).n, 0);
    }
}
