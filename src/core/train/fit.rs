//! The fit of the ranker's weights: a conditional logit over all examples at once, by Newton's method.

use pml_model::TrainError;

use super::Tick;
use super::examples::IntentExamples;
use super::folds::out_of_fold;
use crate::cholesky;
use crate::predict::logit::{Example, Logit, OUTLIER, PRECISION, probabilities};
use crate::predict::ranker::NextWeights;
use crate::predict::signals::{SIGNALS, Signal, StepKind, Values};

/// Newton steps; the loss is convex but for the weighting of outliers, and few are needed.
const STEPS: usize = 12;
/// The largest change of a weight by one step.
const STEP_MAX: f64 = 1.5;
/// A step in which no weight changed by more ends the fit.
const CONVERGED: f64 = 1e-6;

type Weights = [f64; SIGNALS];

/// Which signals may have a weight.
pub(super) type Allowed = [bool; SIGNALS];

/// Fits the weights to the examples of these intents. Signals that are not allowed get weight 0.
pub(super) fn fit_weights<'a>(
    intents: impl Iterator<Item = &'a IntentExamples>,
    allowed: &Allowed,
    tick: &mut Tick<'_>,
) -> Result<NextWeights, TrainError> {
    let examples: Vec<&Example> = intents.flat_map(|intent| &intent.steps).collect();
    let of_kind = |kind| examples.iter().copied().filter(move |example| example.step == kind).collect::<Vec<_>>();
    let first = fit(&of_kind(StepKind::First), StepKind::First, allowed, tick)?;
    let later = fit(&of_kind(StepKind::Later), StepKind::Later, allowed, tick)?;
    Ok(NextWeights { first, later })
}

/// What weights reach on the examples of one intent: means over its steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IntentScore {
    pub(super) log_loss: f64,
    /// Reciprocal rank of the tool that was called, among the candidates that are calls. 0 steps where the run ended.
    pub(super) reciprocal_rank: f64,
    calls: usize,
}

/// Measures weights on every intent, each with weights fitted to the other folds.
pub(super) fn cross_validated(
    intents: &[IntentExamples],
    allowed: &Allowed,
    tick: &mut Tick<'_>,
) -> Result<Vec<IntentScore>, TrainError> {
    let fit = |others: Vec<&IntentExamples>| fit_weights(others.into_iter(), allowed, tick);
    out_of_fold(intents, fit, |weights, intent| score(intent, |example| *weights.of(example.step)))
}

/// Measures the weights that the fold learns online on every intent, each with weights learnt from the other folds.
pub(super) fn online_cross_validated(intents: &[IntentExamples], tick: &mut Tick<'_>) -> Result<Vec<IntentScore>, TrainError> {
    let learn = |others: Vec<&IntentExamples>| {
        let mut logit = Logit::default();
        for intent in others {
            tick()?;
            intent.steps.iter().for_each(|example| logit.learn(example));
        }
        Ok(logit)
    };
    out_of_fold(intents, learn, |logit, intent| score(intent, |example| *logit.weights(example.step)))
}

/// The score of one intent under the weights that `weights` gives for each example.
#[expect(clippy::cast_precision_loss, reason = "an intent has few steps")]
pub(super) fn score(intent: &IntentExamples, weights: impl Fn(&Example) -> Weights) -> IntentScore {
    let mut total = IntentScore::default();
    for example in &intent.steps {
        let probabilities = probabilities(&weights(example), &example.values);
        total.log_loss -= libm::log(probabilities[example.right].max(f64::MIN_POSITIVE));
        if let Some(rank) = rank_of_call(example, &probabilities) {
            total.reciprocal_rank += 1.0 / rank as f64;
            total.calls += 1;
        }
    }
    total.log_loss /= intent.steps.len().max(1) as f64;
    total.reciprocal_rank /= total.calls.max(1) as f64;
    total
}

/// The rank of the right call among the calls, by these values, of equals behind; `None` if the run ended here.
pub(super) fn rank_of_call(example: &Example, values: &[f64]) -> Option<usize> {
    let is_call = |at: usize| example.values[at][Signal::Done as usize] == 0.0;
    let right = values[example.right];
    is_call(example.right)
        .then(|| (0..values.len()).filter(|at| is_call(*at) && (*at == example.right || values[*at] >= right)).count())
}

/// The most likely weights, given the prior and the examples.
fn fit(examples: &[&Example], kind: StepKind, allowed: &Allowed, tick: &mut Tick<'_>) -> Result<Weights, TrainError> {
    let prior = Signal::ALL.map(|signal| signal.prior(kind));
    let used: Vec<usize> = (0..SIGNALS).filter(|at| allowed[*at]).collect();
    let mut weights: Weights = std::array::from_fn(|at| if allowed[at] { prior[at] } else { 0.0 });
    for _ in 0..STEPS {
        tick()?;
        let mut gradient: Vec<f64> = used.iter().map(|at| PRECISION * (weights[*at] - prior[*at])).collect();
        let mut curvature: Vec<Vec<f64>> = used.iter().map(|_| vec![0.0; used.len()]).collect();
        for (at, row) in curvature.iter_mut().enumerate() {
            row[at] = PRECISION;
        }
        for example in examples {
            add_example(example, &weights, &used, &mut gradient, &mut curvature);
        }
        cholesky::solve(&mut curvature, &mut gradient);
        for (at, step) in used.iter().zip(&gradient) {
            weights[*at] -= step.clamp(-STEP_MAX, STEP_MAX);
        }
        if gradient.iter().all(|step| step.abs() < CONVERGED) {
            break;
        }
    }
    Ok(weights)
}

/// Adds the gradient and the curvature of one example's loss. An example is weighed by the probability that it is no outlier, as in
/// the online logit.
fn add_example(example: &Example, weights: &Weights, used: &[usize], gradient: &mut [f64], curvature: &mut [Vec<f64>]) {
    let probabilities = probabilities(weights, &example.values);
    let right = probabilities[example.right];
    let share = right / (right + OUTLIER);
    let pick = |values: &Values| used.iter().map(|at| values[*at]).collect::<Vec<f64>>();
    let mut mean = vec![0.0; used.len()];
    for (values, p) in example.values.iter().zip(&probabilities) {
        let values = pick(values);
        for (row, value) in values.iter().enumerate() {
            let weighted = share * p * value;
            mean[row] += weighted;
            for (cell, other) in curvature[row][..=row].iter_mut().zip(&values) {
                *cell += weighted * other;
            }
        }
    }
    let right = pick(&example.values[example.right]);
    for row in 0..used.len() {
        for column in 0..=row {
            curvature[row][column] -= mean[row] * mean[column] / share;
        }
        gradient[row] += mean[row] - share * right[row];
    }
}
