//! A conditional logit, learnt online: the probability of a candidate is the softmax of its score among the candidates.
//!
//! The weights are the running maximum of the posterior, given the prior and the examples so far: every example moves them by a
//! Newton step, `w -= H^-1 g`, with `g` the gradient of its loss and `H` the sum of the prior's precision and the curvature of all
//! examples. The prior holds as long as there are few examples, no learning rate has to be chosen, and the state is `w` and `H`. Old
//! examples fade, so that the weights follow a memory that grows. Some runs do what no signal could predict (outliers); an example is
//! weighed by the probability that it is not one, or a few outliers would make all predictions uncertain.

use super::signals::{LIVE_SIGNALS, SIGNALS, Signal, StepKind, Values};
use crate::cholesky;
use crate::digest::{DigestWriter, Digestible};

/// Precision of the prior, in units of the examples' curvature.
pub(crate) const PRECISION: f64 = 5.0;
/// Each new example reduces the weight of all earlier ones by one part in as many as there were, within these bounds: early examples
/// are about a memory that was smaller.
const FADE_OVER: (u64, u64) = (64, 1_024);
/// The probability of any one outcome in an outlier.
pub(crate) const OUTLIER: f64 = 0.0025;
/// The largest change of a weight by one example: one outlier is not to overturn what was learnt.
const STEP_MAX: f64 = 1.0;

/// One step of a past run: its kind, the values of every candidate, and the index of the one that happened.
#[derive(Clone, Debug)]
pub struct Example {
    pub step: StepKind,
    pub values: Vec<Values>,
    pub right: usize,
}

/// A value per live signal, in the order of [`Signal::LIVE`].
type LiveVector = [f64; LIVE_SIGNALS];
/// A value per pair of live signals.
type LiveMatrix = [LiveVector; LIVE_SIGNALS];

/// `Logit` holds the weights of the first step of a run and those of later steps. Each learns from its own steps only.
#[derive(Clone, Debug)]
pub struct Logit {
    pub first: StepLogit,
    pub later: StepLogit,
}

impl Default for Logit {
    fn default() -> Self {
        Self { first: StepLogit::prior(StepKind::First), later: StepLogit::prior(StepKind::Later) }
    }
}

impl Logit {
    pub fn step(&self, kind: StepKind) -> &StepLogit {
        match kind {
            StepKind::First => &self.first,
            StepKind::Later => &self.later,
        }
    }

    /// The weights for a kind of step, in the order of [`Signal::ALL`].
    pub fn weights(&self, kind: StepKind) -> &[f64; SIGNALS] {
        &self.step(kind).weights
    }

    /// The number of examples learnt from.
    pub fn examples(&self) -> u64 {
        self.first.examples + self.later.examples
    }

    /// A name made from a hash of the weights: the same weights have the same name.
    pub fn version(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for weight in self.first.weights.iter().chain(&self.later.weights) {
            hasher.update(&weight.to_bits().to_le_bytes());
        }
        format!("logit-{}", &hasher.finalize().to_hex()[..12])
    }

    /// The probabilities of candidates with these values; they sum to 1.
    pub fn probabilities(&self, kind: StepKind, values: &[Values]) -> Vec<f64> {
        probabilities(&self.step(kind).weights, values)
    }

    /// Moves the weights that the example is about by one Newton step.
    pub fn learn(&mut self, example: &Example) {
        match example.step {
            StepKind::First => self.first.learn(example),
            StepKind::Later => self.later.learn(example),
        }
    }
}

/// The weights of all signals for one kind of step, and the curvature by which those of the live ones learn.
#[derive(Clone, Debug)]
pub struct StepLogit {
    weights: [f64; SIGNALS],
    /// Curvature of the examples, without the prior; symmetric.
    curvature: Box<LiveMatrix>,
    examples: u64,
}

impl StepLogit {
    fn prior(kind: StepKind) -> Self {
        let weights = Signal::ALL.map(|signal| signal.prior(kind));
        Self { weights, curvature: Box::new([[0.0; LIVE_SIGNALS]; LIVE_SIGNALS]), examples: 0 }
    }

    /// The weights, in the order of [`Signal::ALL`].
    pub fn weights(&self) -> &[f64; SIGNALS] {
        &self.weights
    }

    /// The number of examples learnt from.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// The curvature, in the order of [`Signal::LIVE`].
    pub fn curvature(&self) -> &LiveMatrix {
        &self.curvature
    }

    /// Restores what [`Self::weights`], [`Self::curvature`] and [`Self::examples`] gave.
    pub fn from_rows(weights: [f64; SIGNALS], curvature: LiveMatrix, examples: u64) -> Self {
        Self { weights, curvature: Box::new(curvature), examples }
    }

    fn learn(&mut self, example: &Example) {
        let fade = fade(self.examples);
        let probabilities = probabilities(&self.weights, &example.values);
        let example_weight = probabilities[example.right] / (probabilities[example.right] + OUTLIER);
        let (mut gradient, curvature) = gradient_and_curvature(example, &probabilities);
        for (row, signal) in Signal::LIVE.into_iter().enumerate() {
            for (known, new) in self.curvature[row].iter_mut().zip(&curvature[row]) {
                *known = fade * *known + example_weight * new;
            }
            // The faded examples no longer balance all of the prior's pull.
            let from_prior = self.weights[signal as usize] - signal.prior(example.step);
            gradient[row] = example_weight * gradient[row] + (1.0 - fade) * PRECISION * from_prior;
        }
        let mut precision = *self.curvature;
        for (at, row) in precision.iter_mut().enumerate() {
            row[at] += PRECISION;
        }
        cholesky::solve(&mut precision, &mut gradient);
        for (signal, step) in Signal::LIVE.into_iter().zip(gradient) {
            self.weights[signal as usize] -= step.clamp(-STEP_MAX, STEP_MAX);
        }
        self.examples += 1;
    }
}

/// The factor by which an example reduces the weight of the `examples` before it.
#[expect(clippy::cast_precision_loss, reason = "at most 1,024")]
fn fade(examples: u64) -> f64 {
    1.0 - 1.0 / examples.clamp(FADE_OVER.0, FADE_OVER.1) as f64
}

pub(crate) fn probabilities(weights: &[f64; SIGNALS], values: &[Values]) -> Vec<f64> {
    softmax(values.iter().map(|values| score(weights, values)).collect())
}

fn score(weights: &[f64; SIGNALS], values: &Values) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

fn softmax(mut scores: Vec<f64>) -> Vec<f64> {
    let top = scores.iter().copied().fold(f64::MIN, f64::max);
    for score in &mut scores {
        *score = libm::exp(*score - top);
    }
    let total: f64 = scores.iter().sum();
    for score in &mut scores {
        *score /= total;
    }
    scores
}

/// Gradient and curvature of the loss -ln p(right): the mean of the values minus those of the right one, and their covariance.
fn gradient_and_curvature(example: &Example, probabilities: &[f64]) -> (LiveVector, LiveMatrix) {
    let mut mean = [0.0; LIVE_SIGNALS];
    let mut covariance = [[0.0; LIVE_SIGNALS]; LIVE_SIGNALS];
    for (values, p) in example.values.iter().zip(probabilities) {
        let values = live_values(values);
        for row in 0..LIVE_SIGNALS {
            let weighted = p * values[row];
            mean[row] += weighted;
            for column in 0..=row {
                covariance[row][column] += weighted * values[column];
            }
        }
    }
    for row in 0..LIVE_SIGNALS {
        for column in 0..=row {
            covariance[row][column] -= mean[row] * mean[column];
            covariance[column][row] = covariance[row][column];
        }
    }
    let right = live_values(&example.values[example.right]);
    (std::array::from_fn(|at| mean[at] - right[at]), covariance)
}

fn live_values(values: &Values) -> LiveVector {
    Signal::LIVE.map(|signal| values[signal as usize])
}

impl Digestible for Logit {
    fn digest(&self, writer: &mut DigestWriter) {
        for StepLogit { weights, curvature, examples } in [&self.first, &self.later] {
            writer.u64(*examples);
            for value in weights.iter().chain(curvature.iter().flatten()) {
                writer.u64(value.to_bits());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(seed: u32, candidates: u32) -> Example {
        let value = |at: u32| {
            f64::from(seed.wrapping_mul(747_796_405).wrapping_add(at.wrapping_mul(2_891_336_453)) >> 16) / 65_536.0 - 0.5
        };
        let values = |row: u32| {
            let mut values = [0.0; SIGNALS];
            for (at, signal) in (0..).zip(Signal::LIVE) {
                values[signal as usize] = value(row * 100 + at);
            }
            values
        };
        Example {
            step: StepKind::Later,
            values: (0..candidates).map(values).collect(),
            right: seed as usize % candidates as usize,
        }
    }

    fn loss(example: &Example, weights: [f64; SIGNALS]) -> f64 {
        -probabilities(&weights, &example.values)[example.right].ln()
    }

    #[test]
    fn gradient_and_curvature_are_those_of_the_loss() {
        let example = example(7, 6);
        let start = StepLogit::prior(StepKind::Later).weights;
        let (gradient, curvature) = gradient_and_curvature(&example, &probabilities(&start, &example.values));
        let moved = |at: usize, by: f64| {
            let mut weights = start;
            weights[Signal::LIVE[at] as usize] += by;
            weights
        };
        for at in 0..LIVE_SIGNALS {
            let difference = (loss(&example, moved(at, 1e-5)) - loss(&example, moved(at, -1e-5))) / 2e-5;
            assert!((gradient[at] - difference).abs() < 1e-8, "{at}: {} and {difference}", gradient[at]);
            let gradient_at = |by: f64| gradient_and_curvature(&example, &probabilities(&moved(at, by), &example.values)).0;
            let (more, less) = (gradient_at(1e-5), gradient_at(-1e-5));
            for other in 0..LIVE_SIGNALS {
                let difference = (more[other] - less[other]) / 2e-5;
                assert!((curvature[at][other] - difference).abs() < 1e-7, "{at}, {other}");
            }
        }
    }

    #[test]
    fn what_was_right_before_becomes_likelier_and_one_example_moves_little() {
        let mut logit = Logit::default();
        let examples: Vec<Example> = (0..200)
            .map(|seed| {
                let mut example = example(seed, 5);
                // The right one has the largest value of the first signal.
                let first = |at: usize| example.values[at][0];
                example.right = (0..5).reduce(|best, at| if first(at) > first(best) { at } else { best }).unwrap();
                example
            })
            .collect();
        logit.learn(&examples[0]);
        let before = logit.later.weights[0];
        assert!((before - Signal::Transition.prior(StepKind::Later)).abs() < 0.5, "{before}");
        for example in &examples {
            logit.learn(example);
        }
        assert!(logit.later.weights[0] > before + 1.5, "{:?}", logit.later.weights);
        assert_eq!(logit.examples(), 201);
        let right = |example: &Example| logit.probabilities(StepKind::Later, &example.values)[example.right];
        assert!(examples.iter().map(right).sum::<f64>() / 200.0 > 0.5);
    }

    #[test]
    fn probabilities_sum_to_one_whatever_the_scores() {
        let mut values = vec![[0.0; SIGNALS]; 3];
        values[1][0] = 5_000.0;
        values[2][0] = -5_000.0;
        let probabilities = Logit::default().probabilities(StepKind::First, &values);
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12 && probabilities[1] > 0.99);
    }

    #[test]
    fn first_steps_teach_the_first_weights_only() {
        let mut logit = Logit::default();
        logit.learn(&Example { step: StepKind::First, ..example(7, 6) });
        assert_eq!((logit.first.examples, logit.later.examples), (1, 0));
        let prior = Logit::default();
        let bits = |logit: &StepLogit| logit.weights.map(f64::to_bits);
        assert_ne!(bits(&logit.first), bits(&prior.first));
        assert_eq!(bits(&logit.later), bits(&prior.later));
        assert_ne!(logit.version(), prior.version());
    }
}
