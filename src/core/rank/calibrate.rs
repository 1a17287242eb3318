//! Calibration: fits the weights of the signals to the past intents, leaving each intent out of the memory that answers it.
//!
//! The loss of a tool that was used is the negative logarithm of its softmax among itself and the wrong tools; the weights minimise
//! the mean loss plus a pull towards the prior. Only the strongest wrong answers of every signal are kept, since the rest add nothing
//! to the sum. Adam runs a fixed number of steps from the prior in a fixed order, so the same state gives the same weights.
//!
//! The fit maximises a likelihood, but users see the order of the first few answers, and the two may disagree. So the fitted weights
//! are used only if they answer the past at least as well as two others, by recall of the first five plus reciprocal rank: those of
//! [`MEMORY_FIRST`], and a fit in which the memory is silent. The latter is for workspaces whose past intents say nothing about the
//! next one; there the pull towards the prior would keep some weight on the memory. It has fewer weights than the full fit, so it
//! does not win by chance. The fitted weights fail against [`MEMORY_FIRST`] with few intents whose runs mostly use the same few tools: every wrong answer is nearly as likely as a right one,
//! the likelihood is flat, and the texts, which say little about such tools, keep most of the weight of the prior. With many or
//! diverse intents the fit wins. The prior is not a candidate: the fit starts from it, and with few intents it is chance which
//! of the two looks better (offering it lost a point of recall over five folds of 75 intents).

use std::collections::BTreeMap;

use super::blend::{DiscoverSignal, MEMORY_FIRST, PRIOR, SIGNALS, Weights};
use super::index::Index;
use super::signals::Signals;
use super::{Clause, Question};
use crate::graph::NodeKind;
use crate::predict::lesson::HeldOutScores;
use crate::text::clauses;
use crate::vectors::TextHash;

/// Past intents used as examples, evenly spaced, and how many there must be.
const EXAMPLES_MAX: usize = 400;
const EXAMPLES_MIN: usize = 20;
/// Wrong answers kept per signal and example.
const STRONGEST: usize = 24;
/// Steps and step size of Adam.
const STEPS: i32 = 250;
const RATE: f64 = 0.3;
/// Pull towards the prior, shared by the examples: the fewer there are, the more the prior counts.
const PULL: f64 = 0.4;
/// Decay rates of Adam's first and second moment.
const MOMENTS: (f64, f64) = (0.9, 0.99);
/// Answers that users look at.
const FIRST: usize = 5;

/// [`Weights::fresh`] and [`Weights::known`] in one vector.
const PARAMETERS: usize = 2 * SIGNALS;
type Features = [f64; PARAMETERS];

/// The features of the right and the wrong tools of one past intent.
#[derive(Clone)]
pub(crate) struct FitExample {
    /// Each with its weight: the share of the runs that used it. The weights sum to 1.
    right: Vec<(Features, f64)>,
    wrong: Vec<Features>,
}

/// The weights that answer the past intents best; the prior while there are fewer than [`EXAMPLES_MIN`].
pub(super) fn calibrate(index: &Index) -> Weights {
    let entries = index.intents().len();
    let step = entries.div_ceil(EXAMPLES_MAX).max(1);
    let examples: Vec<FitExample> = (0..entries).step_by(step).filter_map(|entry| example(index, entry, None)).collect();
    if examples.len() < EXAMPLES_MIN { Weights::default() } else { choose(&examples) }
}

/// The fitted weights, or those of [`MEMORY_FIRST`] or of a fit without the memory where they answer better.
pub(crate) fn choose(examples: &[FitExample]) -> Weights {
    let candidates = [fit(examples, |_| true), MEMORY_FIRST, fit(examples, |signal| !signal.is_memory())];
    let judged = candidates.map(|weights| (weights, quality(examples, &weights)));
    judged.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best }).expect("three candidates").0
}

/// The sum of [`FitExample::quality`] over the examples.
fn quality(examples: &[FitExample], weights: &Weights) -> f64 {
    examples.iter().map(|example| example.quality(weights)).sum()
}

impl FitExample {
    /// Recall of the first five answers plus reciprocal rank of the first right one. A wrong tool that ties counts as ranked before.
    #[expect(clippy::cast_precision_loss, reason = "ranks are small")]
    pub(crate) fn quality(&self, weights: &Weights) -> f64 {
        let weights = parameters(weights);
        let right: Vec<f64> = self.right.iter().map(|(features, _)| score(features, &weights)).collect();
        let wrong: Vec<f64> = self.wrong.iter().map(|features| score(features, &weights)).collect();
        let rank = |own: &f64| {
            let better = right.iter().filter(|other| *other > own).count();
            1 + better + wrong.iter().filter(|other| *other >= own).count()
        };
        let ranks: Vec<usize> = right.iter().map(rank).collect();
        let found: f64 = ranks.iter().zip(&self.right).filter(|(rank, _)| **rank <= FIRST).map(|(_, (_, share))| share).sum();
        found + 1.0 / ranks.iter().min().copied().unwrap_or(usize::MAX) as f64
    }

    /// The same example with only these signals.
    pub(crate) fn with(&self, allowed: &[bool; SIGNALS]) -> Self {
        let mut example = self.clone();
        for features in example.right.iter_mut().map(|(features, _)| features).chain(&mut example.wrong) {
            for (_, feature) in features.iter_mut().enumerate().filter(|(at, _)| !allowed[at % SIGNALS]) {
                *feature = 0.0;
            }
        }
        example
    }
}

fn parameters(weights: &Weights) -> Features {
    std::array::from_fn(|at| if at < SIGNALS { weights.fresh[at] } else { weights.known[at - SIGNALS] })
}

fn score(features: &Features, weights: &Features) -> f64 {
    features.iter().zip(weights).map(|(feature, weight)| feature * weight).sum()
}

/// The example of one past intent, with the scores of trained parts that have not seen it, or none; `None` if it has no right or no
/// wrong tool.
pub(crate) fn example(index: &Index, entry: usize, held: Option<&HeldOutScores>) -> Option<FitExample> {
    let mut signals = Signals::compute(index, &past_question(index, entry), Some(entry));
    if let Some(held) = held {
        signals.add_parts(index, &held.head, &held.target);
    }
    let documents = index.documents();
    let is_tool = |slot: &usize| matches!(documents.node(*slot).kind(), NodeKind::Tool(_));
    let used = index.intents().shares(entry).iter();
    let right: BTreeMap<usize, f32> =
        used.filter_map(|(node, share)| Some((documents.slot(*node)?, *share))).filter(|(slot, _)| is_tool(slot)).collect();
    let mut slots: Vec<usize> = (0..signals.len()).filter(is_tool).filter(|slot| !right.contains_key(slot)).collect();
    let mut wrong = Vec::new();
    for signal in 0..SIGNALS {
        let stronger = |a: &usize, b: &usize| signals.value(signal, *b).total_cmp(&signals.value(signal, *a)).then(a.cmp(b));
        if slots.len() > STRONGEST {
            slots.select_nth_unstable_by(STRONGEST, stronger);
        }
        wrong.extend(slots.iter().take(STRONGEST).copied());
    }
    wrong.sort_unstable();
    wrong.dedup();
    let total: f64 = right.values().map(|share| f64::from(*share)).sum();
    (!right.is_empty() && !wrong.is_empty()).then(|| FitExample {
        right: right.into_iter().map(|(slot, share)| (features(&signals, slot), f64::from(share) / total)).collect(),
        wrong: wrong.into_iter().map(|slot| features(&signals, slot)).collect(),
    })
}

/// A past intent as a question, with the vectors it already has.
pub(crate) fn past_question(index: &Index, entry: usize) -> Question {
    let (past, vectors) = (index.intents().entry(entry), &index.state().vectors);
    let vector = |hash: TextHash| {
        let vector = vectors.get(hash).filter(|vector| vector.iter().any(|value| *value != 0.0));
        vector.map(|vector| vector.to_vec())
    };
    let clause = |text: &str| Clause { text: text.to_owned(), vector: vector(TextHash::compute(text)) };
    let clauses = clauses(&past.intent).into_iter().map(clause).collect();
    Question { vector: vector(past.hash), clauses, intent: past.intent.to_string() }
}

fn features(signals: &Signals, slot: usize) -> Features {
    let confidence = f64::from(signals.confidence);
    let mut features = [0.0; PARAMETERS];
    for (signal, value) in signals.values(slot).iter().enumerate() {
        features[signal] = (1.0 - confidence) * f64::from(*value);
        features[SIGNALS + signal] = confidence * f64::from(*value);
    }
    features
}

/// Fits the weights of the signals that `used` accepts; the others stay exactly 0.
fn fit(examples: &[FitExample], used: impl Fn(DiscoverSignal) -> bool) -> Weights {
    let used: [bool; PARAMETERS] = std::array::from_fn(|at| used(DiscoverSignal::ALL[at % SIGNALS]));
    let mut prior = parameters(&PRIOR);
    for (weight, used) in prior.iter_mut().zip(used) {
        *weight = if used { *weight } else { 0.0 };
    }
    let mut weights = prior;
    let (mut mean, mut square) = ([0.0; PARAMETERS], [0.0; PARAMETERS]);
    for step in 1..=STEPS {
        let mut gradient = [0.0; PARAMETERS];
        for example in examples {
            add_gradient(example, &weights, &mut gradient);
        }
        #[expect(clippy::cast_precision_loss, reason = "at most EXAMPLES_MAX")]
        let count = examples.len() as f64;
        for at in (0..PARAMETERS).filter(|at| used[*at]) {
            let slope = (gradient[at] + PULL * (weights[at] - prior[at])) / count;
            mean[at] = MOMENTS.0 * mean[at] + (1.0 - MOMENTS.0) * slope;
            square[at] = MOMENTS.1 * square[at] + (1.0 - MOMENTS.1) * slope * slope;
            let (mean, square) = (mean[at] / (1.0 - MOMENTS.0.powi(step)), square[at] / (1.0 - MOMENTS.1.powi(step)));
            // No weight is negative: more of a signal must not make an item worse.
            weights[at] = (weights[at] - RATE * mean / (square.sqrt() + 1e-8)).max(0.0);
        }
    }
    let part = |from: usize| std::array::from_fn(|signal| weights[from + signal]);
    Weights { fresh: part(0), known: part(SIGNALS) }
}

/// Adds the gradient of the weighted mean over the right tools of -ln(e^right / (e^right + sum of e^wrong)).
fn add_gradient(example: &FitExample, weights: &Features, gradient: &mut Features) {
    let right: Vec<f64> = example.right.iter().map(|(features, _)| score(features, weights)).collect();
    let wrong: Vec<f64> = example.wrong.iter().map(|features| score(features, weights)).collect();
    let top = right.iter().chain(&wrong).copied().fold(f64::MIN, f64::max);
    let wrong: Vec<f64> = wrong.iter().map(|score| (score - top).exp()).collect();
    let wrong_total: f64 = wrong.iter().sum();
    let mut pressure = 0.0;
    for ((features, share), score) in example.right.iter().zip(&right) {
        let own = (score - top).exp();
        let missing = wrong_total / (own + wrong_total);
        pressure += share / (own + wrong_total);
        for (slope, feature) in gradient.iter_mut().zip(features) {
            *slope -= share * missing * feature;
        }
    }
    for (features, weight) in example.wrong.iter().zip(&wrong) {
        for (slope, feature) in gradient.iter_mut().zip(features) {
            *slope += pressure * weight * feature;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(example: &FitExample, weights: &Features) -> f64 {
        let score = |features: &Features| features.iter().zip(weights).map(|(f, w)| f * w).sum::<f64>().exp();
        let wrong: f64 = example.wrong.iter().map(score).sum();
        example.right.iter().map(|(right, share)| -share * (score(right) / (score(right) + wrong)).ln()).sum()
    }

    fn sample(seed: u32) -> FitExample {
        let value =
            |at: u32| f64::from(seed.wrapping_mul(747_796_405).wrapping_add(at.wrapping_mul(2_891_336_453)) >> 16) / 65_536.0;
        let features = |from: u32| std::array::from_fn(|at| value(from + u32::try_from(at).unwrap()));
        FitExample {
            right: vec![(features(0), 0.3), (features(100), 0.7)],
            wrong: (2..8).map(|row| features(row * 100)).collect(),
        }
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let example = sample(7);
        let weights: Features = std::array::from_fn(|at| if at % 2 == 0 { 0.3 } else { 1.1 });
        let mut gradient = [0.0; PARAMETERS];
        add_gradient(&example, &weights, &mut gradient);
        for at in 0..PARAMETERS {
            let (mut more, mut less) = (weights, weights);
            more[at] += 1e-5;
            less[at] -= 1e-5;
            let slope = (loss(&example, &more) - loss(&example, &less)) / 2e-5;
            assert!((gradient[at] - slope).abs() < 1e-7, "{at}: {} and {slope}", gradient[at]);
        }
    }

    #[test]
    fn fitting_trusts_the_signal_that_was_right() {
        let right: Features = std::array::from_fn(|at| if at == 0 { 1.0 } else { 0.2 });
        let wrong: Features = std::array::from_fn(|at| if at == 1 { 1.0 } else { 0.2 });
        let examples: Vec<FitExample> =
            (0..30).map(|_| FitExample { right: vec![(right, 1.0)], wrong: vec![wrong; 5] }).collect();
        let weights = fit(&examples, |_| true);
        assert!(weights.fresh[0] > PRIOR.fresh[0] && weights.fresh[1] < PRIOR.fresh[1], "{weights:?}");
        assert!(weights.fresh.iter().chain(&weights.known).all(|weight| *weight >= 0.0));
    }

    /// The memory points at two right tools; one wrong tool has a fine description and is used with everything.
    #[test]
    fn the_memory_decides_alone_where_it_answers_better_than_any_blend() {
        let item = |text: f64, popular: f64, memory: f64| -> Features {
            std::array::from_fn(|at| match at % SIGNALS {
                0..3 => text,
                3 => popular,
                _ => memory,
            } / 2.0)
        };
        let example = |texts: f64| FitExample {
            right: vec![(item(0.0, 0.1, 0.5), 0.5), (item(0.0, 0.1, 0.4), 0.5)],
            wrong: (0..6).map(|_| item(texts, 1.0, 0.1)).collect(),
        };
        let misled: Vec<FitExample> = (0..EXAMPLES_MIN).map(|_| example(1.0)).collect();
        let (fitted, chosen) = (fit(&misled[..1], |_| true), choose(&misled));
        assert!(quality(&misled, &chosen) >= quality(&misled, &fitted));
        assert!(quality(&misled, &MEMORY_FIRST) > quality(&misled, &PRIOR), "the example does not show what it is for");
        assert!((quality(&misled, &chosen) / 20.0 - 2.0).abs() < 1e-9, "{chosen:?}");
        let plain: Vec<FitExample> = (0..EXAMPLES_MIN).map(|_| example(0.0)).collect();
        assert_eq!(choose(&plain), fit(&plain, |_| true), "where all answer alike, the fitted weights stay");
    }

    /// The memory says the same about all tools, or points at a wrong one; it never helps, and it hurts too rarely for the likelihood
    /// to outweigh the prior.
    #[test]
    fn the_memory_falls_silent_where_it_only_misleads() {
        let item = |text: f64, memory: f64| -> Features {
            std::array::from_fn(|at| match at % SIGNALS {
                0..3 => text,
                3 => 0.0,
                _ => memory,
            } / 2.0)
        };
        let example = |number: usize| {
            let (text, memory) = if number.is_multiple_of(10) { (0.28, 0.1) } else { (0.1, 0.0) };
            FitExample { right: vec![(item(0.3, 0.0), 1.0)], wrong: (0..6).map(|_| item(text, memory)).collect() }
        };
        let misled: Vec<FitExample> = (0..EXAMPLES_MIN).map(example).collect();
        let is_silent = |weights: &Weights| {
            let memory = DiscoverSignal::ALL.into_iter().filter(|signal| signal.is_memory());
            memory.map(|signal| signal as usize).all(|at| weights.fresh[at] == 0.0 && weights.known[at] == 0.0)
        };
        let fitted = fit(&misled, |_| true);
        assert!(
            !is_silent(&fitted) && quality(&misled, &fitted) < 39.0,
            "the example does not show what it is for: {fitted:?}"
        );
        let chosen = choose(&misled);
        assert!(is_silent(&chosen) && (quality(&misled, &chosen) - 40.0).abs() < 1e-9, "{chosen:?}");
    }
}
