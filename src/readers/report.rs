//! The arithmetic of `pml report`: what predictions would have saved on a history, each made before its step was learnt.

use std::collections::{BTreeMap, BTreeSet};

use pml_core::id::ToolId;

/// A prediction of one step, in the order of the history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The probability that was given to the first of the ranked calls, from 0 to 1.
    pub confidence: f64,
    /// Whether that call came.
    pub right: bool,
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// At how many steps the prediction could have been taken without asking a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// The precision that was asked for.
    pub precision: f64,
    /// The confidence from which predictions are taken; `None` if none reaches the precision.
    pub threshold: Option<f64>,
    pub steps: usize,
    /// Steps whose prediction is taken, and those of them where it is right.
    pub taken: usize,
    pub right: usize,
    /// Taken among all steps.
    pub coverage: Share,
    /// Right among the taken.
    pub reached: Share,
}

/// Returns the largest coverage at a precision: the lowest threshold from which on the predictions of the whole history reach it. The
/// threshold is chosen with hindsight; [`forward_coverage`] chooses it without.
pub fn coverage(predictions: &[Prediction], precision: f64) -> Coverage {
    let mut sorted: Vec<&Prediction> = predictions.iter().collect();
    sorted.sort_by(|one, other| other.confidence.total_cmp(&one.confidence));
    let mut best = (None, 0, 0);
    let mut right = 0;
    for (at, prediction) in sorted.iter().enumerate() {
        right += usize::from(prediction.right);
        // Equal confidences cannot be told apart by a threshold.
        let is_last_of_equals = sorted.get(at + 1).is_none_or(|next| next.confidence < prediction.confidence);
        if is_last_of_equals && reaches(right, at + 1, precision) {
            best = (Some(prediction.confidence), at + 1, right);
        }
    }
    measured(precision, predictions.len(), best)
}

/// Confidences are counted in this many classes.
const CLASSES: usize = 1_000;
/// Taken predictions that a threshold must have been right about often enough before it is used.
const SUPPORT_MIN: usize = 20;

/// Returns the coverage when the threshold of each step is the lowest that reached the precision on the steps before it. Nothing of the
/// future is used, so the precision that was reached may be below the one that was asked for.
pub fn forward_coverage(predictions: &[Prediction], precision: f64) -> Coverage {
    let mut seen = [(0_usize, 0_usize); CLASSES];
    let (mut taken, mut right, mut last) = (0, 0, None);
    for prediction in predictions {
        let class = class(prediction.confidence);
        last = threshold_class(&seen, precision);
        if last.is_some_and(|threshold| class >= threshold) {
            taken += 1;
            right += usize::from(prediction.right);
        }
        seen[class].0 += 1;
        seen[class].1 += usize::from(prediction.right);
    }
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let threshold = last.map(|class| class as f64 / CLASSES as f64);
    measured(precision, predictions.len(), (threshold, taken, right))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number from 0 to 1"
)]
fn class(confidence: f64) -> usize {
    ((confidence.clamp(0.0, 1.0) * CLASSES as f64) as usize).min(CLASSES - 1)
}

/// The lowest class from which on the seen predictions reach the precision.
fn threshold_class(seen: &[(usize, usize); CLASSES], precision: f64) -> Option<usize> {
    let (mut all, mut right, mut best) = (0, 0, None);
    for (class, (count, hits)) in seen.iter().enumerate().rev().filter(|(_, (count, _))| *count > 0) {
        all += count;
        right += hits;
        if all >= SUPPORT_MIN && reaches(right, all, precision) {
            best = Some(class);
        }
    }
    best
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn reaches(right: usize, all: usize, precision: f64) -> bool {
    right as f64 >= precision * all as f64
}

fn measured(precision: f64, steps: usize, (threshold, taken, right): (Option<f64>, usize, usize)) -> Coverage {
    Coverage { precision, threshold, steps, taken, right, coverage: share(taken, steps), reached: share(right, taken) }
}

/// A share with its Wilson score interval at 95 % (Wilson 1927); of nothing, it may be anything.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn share(part: usize, all: usize) -> Share {
    const Z: f64 = 1.959_963_984_540_054;
    if all == 0 {
        return Share { value: 0.0, low: 0.0, high: 1.0 };
    }
    let (part, all) = (part as f64, all as f64);
    let value = part / all;
    let scale = 1.0 + Z * Z / all;
    let middle = (value + Z * Z / (2.0 * all)) / scale;
    let half = Z * (value * (1.0 - value) / all + Z * Z / (4.0 * all * all)).sqrt() / scale;
    Share { value, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
}

/// Tokens of tool definitions over a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefinitionTokens {
    /// If every run has the whole catalogue in its context.
    pub catalogue: u64,
    /// If every run has the tools that it called, and as many that discover shows beside them.
    pub needed: u64,
}

impl DefinitionTokens {
    pub fn kept_out(self) -> u64 {
        self.catalogue.saturating_sub(self.needed)
    }
}

/// Counts the tokens of definitions. `definitions` are the tokens of each tool; `shown` is how many tools discover shows for a run: those
/// beyond the called ones count as the average of the others. Tools without a definition count as nothing, as they were in no context.
pub fn definition_tokens<'a>(
    definitions: &BTreeMap<ToolId, u64>,
    runs: impl IntoIterator<Item = &'a BTreeSet<ToolId>>,
    shown: usize,
) -> DefinitionTokens {
    let catalogue: u64 = definitions.values().sum();
    let count = definitions.len() as u64;
    let mut total = DefinitionTokens::default();
    for called in runs {
        let known: Vec<u64> = called.iter().filter_map(|tool| definitions.get(tool)).copied().collect();
        let beside = (shown as u64).min(count).saturating_sub(known.len() as u64);
        let called = known.iter().sum::<u64>();
        let others = count - known.len() as u64;
        total.catalogue += catalogue;
        total.needed += called + beside * (catalogue - called) / others.max(1);
    }
    total
}

/// A step with the times on record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedStep {
    /// From the result before, or the request, to the call: the time in which a call could run ahead.
    pub gap_ms: u64,
    pub duration_ms: u64,
    /// Whether the tool is marked as one that changes nothing.
    pub is_read_only: bool,
    pub prediction: Prediction,
}

/// What running calls ahead would have saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSaved {
    pub total_ms: u64,
    pub saved_ms: u64,
    /// Calls made ahead that were wanted, and that were not.
    pub hits: u64,
    pub misses: u64,
}

/// Computes what running ahead saves: a call that is predicted with at least `threshold` runs while the agent thinks, so the shorter of
/// the two times is saved. A prediction of a call that does not come costs a call, but no time.
pub fn time_saved(steps: &[TimedStep], threshold: f64) -> TimeSaved {
    let mut saved = TimeSaved::default();
    for step in steps {
        saved.total_ms = saved.total_ms.saturating_add(step.gap_ms).saturating_add(step.duration_ms);
        if step.prediction.confidence < threshold || !step.is_read_only {
            continue;
        }
        if step.prediction.right {
            saved.hits += 1;
            saved.saved_ms = saved.saved_ms.saturating_add(step.gap_ms.min(step.duration_ms));
        } else {
            saved.misses += 1;
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(given: &[(f64, bool)]) -> Vec<Prediction> {
        given.iter().map(|(confidence, right)| Prediction { confidence: *confidence, right: *right }).collect()
    }

    #[test]
    fn coverage_is_the_largest_share_that_reaches_the_precision() {
        let given =
            predictions(&[(0.9, true), (0.8, true), (0.7, false), (0.6, true), (0.6, true), (0.5, false), (0.1, false)]);
        let at = |precision| coverage(&given, precision);
        assert_eq!((at(1.0).taken, at(1.0).threshold), (2, Some(0.8)));
        assert_eq!((at(0.8).taken, at(0.8).right, at(0.8).threshold), (5, 4, Some(0.6)));
        assert_eq!(at(0.5).taken, 7);
        let never = coverage(&predictions(&[(0.9, false), (0.1, false)]), 0.9);
        assert_eq!((never.threshold, never.taken, never.coverage.value), (None, 0, 0.0));
        assert_eq!(coverage(&[], 0.9).steps, 0);
    }

    #[test]
    fn equal_confidences_are_taken_together() {
        let equal = predictions(&[(0.5, true), (0.5, true), (0.5, false), (0.5, false)]);
        assert_eq!(coverage(&equal, 0.9).taken, 0, "the first two cannot be told from the others");
        assert_eq!(coverage(&equal, 0.5).taken, 4);
    }

    #[test]
    fn a_threshold_chosen_forward_uses_nothing_of_the_future() {
        // Confident and right from the start: the first predictions are needed to know that.
        let steady: Vec<Prediction> = (0..100).map(|_| Prediction { confidence: 0.95, right: true }).collect();
        let forward = forward_coverage(&steady, 0.9);
        assert_eq!((forward.taken, forward.right), (80, 80));
        // What happens after a step does not change whether it was taken.
        let mut changed = steady;
        changed[99].right = false;
        assert_eq!(forward_coverage(&changed, 0.9).taken, 80);
        // A predictor that becomes wrong is not taken any more, and the precision reached says what it cost.
        changed.extend((0..200).map(|_| Prediction { confidence: 0.95, right: false }));
        let fallen = forward_coverage(&changed, 0.9);
        assert!(fallen.taken < 100 && fallen.reached.value < 0.99 && fallen.threshold.is_none(), "{fallen:?}");
        assert_eq!(forward_coverage(&predictions(&[(f64::NAN, true), (2.0, true), (-1.0, false)]), 0.9).taken, 0);
    }

    #[test]
    fn intervals_are_those_of_wilson() {
        // Reference: 81 of 263 gives 0.2553 to 0.3662 (Newcombe 1998, table I).
        let share = share(81, 263);
        assert!((share.low - 0.2553).abs() < 5e-5 && (share.high - 0.3662).abs() < 5e-5, "{share:?}");
        let none = super::share(0, 20);
        assert!(none.low == 0.0 && (none.high - 0.1611).abs() < 5e-5, "{none:?}");
        assert_eq!(super::share(0, 0), Share { value: 0.0, low: 0.0, high: 1.0 });
    }

    #[test]
    fn tokens_kept_out_are_those_of_tools_that_were_not_needed() {
        let tool = |name: &str| name.parse::<ToolId>().unwrap();
        let definitions: BTreeMap<ToolId, u64> = [(tool("a:x"), 100), (tool("a:y"), 300), (tool("a:z"), 200)].into();
        let runs = [BTreeSet::from([tool("a:x")]), BTreeSet::from([tool("a:y"), tool("b:unknown")])];
        let exact = definition_tokens(&definitions, &runs, 0);
        assert_eq!((exact.catalogue, exact.needed, exact.kept_out()), (1_200, 400, 800));
        let shown = definition_tokens(&definitions, &runs, 2);
        assert_eq!(shown.needed, (100 + 250) + (300 + 150));
        assert_eq!(definition_tokens(&definitions, &runs, 50).kept_out(), 0);
        assert_eq!(definition_tokens(&BTreeMap::new(), &runs, 5), DefinitionTokens::default());
    }

    #[test]
    fn time_is_saved_by_harmless_calls_that_were_foreseen() {
        let step = |gap_ms, duration_ms, is_read_only, confidence, right| TimedStep {
            gap_ms,
            duration_ms,
            is_read_only,
            prediction: Prediction { confidence, right },
        };
        let steps = [
            step(500, 200, true, 0.9, true),
            step(100, 900, true, 0.9, true),
            step(500, 200, false, 0.9, true),
            step(500, 200, true, 0.5, true),
            step(500, 200, true, 0.9, false),
        ];
        let saved = time_saved(&steps, 0.8);
        assert_eq!(saved, TimeSaved { total_ms: 3_800, saved_ms: 300, hits: 2, misses: 1 });
    }
}
