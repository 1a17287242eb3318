//! The next step: for every step of a test trace, given the intent and the tools called before it, where each ranker put the tool that
//! came. Steps after the first count as `next`, first ones apart, and once more those of traces whose sequence was never learnt from.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Split;
use super::next_rankers::{NextRanker, Place};
use crate::ask::question;
use crate::core::event::Outcome;
use crate::core::graph::Node;
use crate::core::graph::measures::Measures;
use crate::core::id::{Callee, RecordId, ToolId};
use crate::core::predict::evidence::Evidence;
use crate::core::predict::threshold::Mode;
use crate::core::predict::{PredictionQuery, predict_with};
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::embed::{EmbedError, Embedder};

/// Bins of the calibration error.
const BINS: usize = 10;
/// Half the width of a 95 % interval, in standard errors.
const SIGMAS: f64 = 1.96;

/// How well one ranker names the next step.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Scores {
    pub hit1: f64,
    pub hit3: f64,
    pub mrr: f64,
    /// The first answer is a step that could be taken: any remaining one whose inputs are there.
    pub ready1: f64,
    pub n: usize,
    /// Half the width of the 95 % intervals, with the steps of one trace taken together.
    pub hit1_ci: f64,
    pub mrr_ci: f64,
}

/// Whether probabilities are what they say: of the first outcomes after at least one step, being done included.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Calibration {
    pub ece: f64,
    pub log_loss: f64,
    pub n: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Next {
    #[serde(flatten)]
    pub all: Scores,
    pub first: Scores,
    /// `next` in traces whose sequence of tools was never learnt from.
    pub unseen: Scores,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// What one trace adds to the means: hit@1, hit@3, reciprocal rank, ready@1, in that order.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    values: [f64; 4],
    n: f64,
}

impl Sums {
    #[expect(clippy::cast_precision_loss, reason = "ranks are small")]
    fn add(&mut self, rank: usize, ready: bool) {
        let flag = |holds: bool| f64::from(u8::from(holds));
        let values = [flag(rank == 1), flag(rank <= 3), 1.0 / rank as f64, flag(ready)];
        for (sum, value) in self.values.iter_mut().zip(values) {
            *sum += value;
        }
        self.n += 1.0;
    }
}

/// Means over the steps, and how far they may be off: traces are drawn, not steps, so a trace's steps count together.
fn scores(traces: &[Sums]) -> Scores {
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

#[derive(Default)]
struct Tally {
    all: Vec<Sums>,
    first: Vec<Sums>,
    unseen: Vec<Sums>,
}

/// Asks every ranker about every step of the test traces.
pub fn next(
    state: &State,
    measures: &Measures,
    embedder: &dyn Embedder,
    split: &Split,
) -> Result<BTreeMap<&'static str, Next>, EmbedError> {
    let learnt: BTreeSet<Vec<ToolId>> = split.train.iter().map(|trace| trace.tools().collect()).collect();
    let by_id: Vec<u32> = state.tools.positions().collect();
    let mut tallies: BTreeMap<&'static str, Tally> = BTreeMap::new();
    let mut served: Vec<(f64, bool, f64)> = Vec::new();
    for trace in &split.test {
        let tools: Vec<ToolId> = trace.tools().collect();
        let evidence = Evidence::for_question(state, &question(Some(embedder), trace.intent.clone())?);
        let context: Vec<Option<Node>> = tools.iter().map(|tool| state.tools.position(tool).map(Node::tool)).collect();
        let places: Vec<Place<'_>> =
            (0..tools.len()).map(|at| Place::new(state, measures, &evidence, &context[..at])).collect();
        for ranker in NextRanker::ALL {
            let (mut first, mut rest) = (Sums::default(), Sums::default());
            for (at, place) in places.iter().enumerate() {
                let found = Found::of(&ranker.scores(place), &by_id, context[at]);
                let sums = if at == 0 { &mut first } else { &mut rest };
                sums.add(found.rank, found.top.is_some_and(|top| trace.ready(at).any(|tool| tool == state.tools.at(top).id)));
            }
            let tally = tallies.entry(ranker.name()).or_default();
            tally.first.push(first);
            tally.all.push(rest);
            if !learnt.contains(&tools) {
                tally.unseen.push(rest);
            }
        }
        served.extend((1..=tools.len()).map(|at| confidence(state, &evidence, &tools, at)));
    }
    let result = |(name, tally): (&'static str, Tally)| {
        let [all, first, unseen] = [&tally.all, &tally.first, &tally.unseen].map(|sums| scores(sums));
        let calibration = (name == NextRanker::Pml.name()).then(|| calibration(&served));
        (name, Next { all, first, unseen, calibration })
    };
    Ok(tallies.into_iter().map(result).collect())
}

/// Where the right tool stands, and which stands first; ties by id.
pub(super) struct Found {
    pub(super) rank: usize,
    top: Option<u32>,
}

impl Found {
    pub(super) fn of(scores: &[f64], by_id: &[u32], right: Option<Node>) -> Self {
        let score = |position: u32| scores[position as usize];
        let top = by_id.iter().copied().reduce(|best, next| if score(next) > score(best) { next } else { best });
        let right = right.and_then(|right| by_id.iter().position(|position| Node::tool(*position) == right));
        // A tool nobody ever heard of is never found.
        let rank = right.map_or(usize::MAX, |at| {
            let own = score(by_id[at]);
            let before = by_id.iter().enumerate().filter(|(other, position)| {
                score(**position) > own || (*other < at && score(**position).total_cmp(&own).is_eq())
            });
            before.count() + 1
        });
        Self { rank, top }
    }
}

/// The probability of the first outcome, whether it came, and the probability of what came.
fn confidence(state: &State, evidence: &Evidence, tools: &[ToolId], at: usize) -> (f64, bool, f64) {
    let context: Vec<Callee> = tools[..at].iter().cloned().map(Callee::Tool).collect();
    let seed = RecordId::from_parts(Timestamp::from_micros(0), 0);
    let prediction =
        predict_with(state, evidence, &PredictionQuery { context: &context, k: usize::MAX, mode: Mode::Asked, seed });
    let came = tools.get(at).map_or(Outcome::Done, |tool| Outcome::Call(Callee::Tool(tool.clone())));
    let first = &prediction.ranked[0];
    let p = prediction.ranked.iter().find(|ranked| ranked.outcome == came).map_or(0.0, |ranked| ranked.p);
    (first.p, first.outcome == came, p)
}

/// The mean distance, over the bins of probability, between how often it came and how likely it was said to be.
#[expect(clippy::cast_precision_loss, reason = "counts of steps are small")]
fn calibration(served: &[(f64, bool, f64)]) -> Calibration {
    const LEAST: f64 = 1e-6;
    let mut bins = [(0.0, 0.0); BINS];
    let mut log_loss = 0.0;
    for (p, came, right) in served {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to BINS")]
        let bin = ((p * BINS as f64) as usize).min(BINS - 1);
        bins[bin].0 += p;
        bins[bin].1 += f64::from(u8::from(*came));
        log_loss -= right.max(LEAST).ln();
    }
    let n = served.len().max(1) as f64;
    let ece = bins.iter().map(|(said, came)| (said - came).abs()).sum::<f64>() / n;
    Calibration { ece, log_loss: log_loss / n, n: served.len() }
}

/// The mean over folds, each counting alike.
pub fn mean(folds: &[BTreeMap<&'static str, Next>]) -> BTreeMap<&'static str, Next> {
    let names: BTreeSet<&'static str> = folds.iter().flat_map(BTreeMap::keys).copied().collect();
    let of = |name: &'static str| {
        let parts: Vec<Next> = folds.iter().filter_map(|fold| fold.get(name).copied()).collect();
        let mean = |of: fn(&Next) -> Scores| mean_scores(&parts.iter().map(of).collect::<Vec<_>>());
        let (all, first, unseen) = (mean(|part| part.all), mean(|part| part.first), mean(|part| part.unseen));
        Next { all, first, unseen, calibration: mean_calibration(&parts) }
    };
    names.into_iter().map(|name| (name, of(name))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a handful of folds")]
fn mean_scores(parts: &[Scores]) -> Scores {
    let count = parts.len().max(1) as f64;
    let mean = |value: fn(&Scores) -> f64| parts.iter().map(value).sum::<f64>() / count;
    // Folds are independent of each other: their errors add as squares.
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
fn mean_calibration(parts: &[Next]) -> Option<Calibration> {
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
            let found = Found::of(&scores, &by_id, Some(Node::tool(right)));
            assert_eq!((found.rank, found.top), (rank, Some(top)), "{scores:?}");
        };
        check([0.5, 0.5, 0.5], 1, 3, 2);
        check([0.5, 0.9, 0.5], 0, 3, 1);
        check([0.1, 0.9, 0.5], 1, 1, 1);
        assert_eq!(Found::of(&[0.0; 3], &by_id, None).rank, usize::MAX);
    }

    #[test]
    fn steps_of_one_trace_count_together() {
        let hit = |hits: f64| Sums { values: [hits; 4], n: 2.0 };
        let Scores { hit1, n, hit1_ci, .. } = scores(&[hit(2.0), hit(0.0), hit(2.0), hit(0.0)]);
        assert!((hit1 - 0.5).abs() < 1e-12 && n == 8);
        assert!((hit1_ci - SIGMAS * 2.0 / 8.0).abs() < 1e-12, "{hit1_ci}");
        assert_eq!(scores(&[]).n, 0);
    }

    #[test]
    fn calibration_compares_what_was_said_with_what_came() {
        let served: Vec<(f64, bool, f64)> = (0..10).map(|at| (0.85, at < 6, 0.5)).collect();
        let Calibration { ece, log_loss, n } = calibration(&served);
        assert!((ece - 0.25).abs() < 1e-9 && (log_loss - 2.0_f64.ln()).abs() < 1e-9 && n == 10);
    }
}
