//! Prediction of the next call: given an intent and the calls so far, tools, capabilities and "done", each with a probability.
//!
//! ```text
//!  State + Question --Evidence::for_question--> past intents near it, similarities   (once per intent)
//!  Evidence + calls so far --candidates--> outcomes --signals--> values --logit--> p --threshold--> decision
//! ```
//!
//! A prediction is a function of one [`State`], the vectors of the question, and the calls so far: the same input gives the same
//! answer, bit for bit. The weights of the logit are learnt in the fold (`lesson`) and are part of its digest.

mod answer;
pub mod asked;
pub mod candidates;
pub mod chances;
pub mod corpus;
pub mod evidence;
pub mod explain;
pub mod hyperpath;
pub mod lesson;
pub mod logit;
pub mod metrics;
pub mod parts;
pub mod quality;
pub mod ranker;
mod reader;
pub mod score;
pub(crate) mod shgat;
pub mod signals;
pub mod strategic;
pub mod targets;
pub mod threshold;

use super::digest::{DigestWriter, Digestible};
use super::graph::Node;
use super::rank::Question;
use super::state::State;
use super::suggest::feedback::PlanFeedback;
pub use answer::{Contribution, Prediction, PredictionQuery, Ranked};
use candidates::Candidate;
use chances::Chances;
use corpus::Corpus;
use evidence::{Evidence, Excluded};
use lesson::LessonSchedule;
use logit::Logit;
use parts::{HeldOutEncoder, Parts};
use pml_model::Next;
use ranker::NextWeights;
use score::ImpressionScores;
use signals::{SIGNALS, Signal, SignalInputs, StepKind, Values};
use threshold::{Decision, Thresholds};

/// `Predictor` holds what prediction keeps in the state. The digest leaves the corpus and the trained parts
/// out: they are derived from other parts of the state.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    pub corpus: Corpus,
    pub logit: Logit,
    pub lessons: LessonSchedule,
    pub thresholds: Thresholds,
    pub scores: ImpressionScores,
    pub feedback: PlanFeedback,
    pub parts: Parts,
}

impl Predictor {
    /// The weights that rank a kind of step: those fitted by the trainer, or while none serve, those learnt in the fold.
    pub fn weights(&self, kind: StepKind) -> &[f64; SIGNALS] {
        let fitted = self.parts.ranker().and_then(|(_, ranker)| ranker.next.as_ref());
        fitted.map_or_else(|| self.logit.weights(kind), |fitted| fitted.of(kind))
    }

    /// The name of those weights.
    pub fn version(&self) -> String {
        let fitted = self.parts.ranker().filter(|(_, ranker)| ranker.next.is_some());
        fitted.map_or_else(|| self.logit.version(), |(version, _)| version.to_string())
    }
}

impl Digestible for Predictor {
    fn digest(&self, writer: &mut DigestWriter) {
        self.logit.digest(writer);
        self.lessons.digest(writer);
        self.thresholds.digest(writer);
        self.scores.digest(writer);
        self.feedback.digest(writer);
    }
}

/// Predicts the next call from `state`.
pub fn predict(state: &State, question: &Question, query: &PredictionQuery<'_>) -> Prediction {
    predict_with(state, &Evidence::for_question(state, question), query)
}

/// Predicts from evidence already computed: it depends on the intent only, so a live execution needs it once per view.
pub fn predict_with(state: &State, evidence: &Evidence, query: &PredictionQuery<'_>) -> Prediction {
    let context: Vec<Option<Node>> = query.context.iter().map(|callee| state.find(callee)).collect();
    let predictor = &state.predictor;
    let all = ranked(state, evidence, &context, &Excluded::default(), Ranking::Served);
    let (first, p) = all.first().map_or((Candidate::Done, 0.0), |(candidate, p, _)| (*candidate, *p));
    let threshold = predictor.thresholds.threshold(state, first.symbol(), query.mode, query.seed);
    let is_informed = all.len() > 1;
    let decision = if p >= threshold && is_informed { Decision::Emit } else { Decision::Hold };
    let weights = predictor.weights(StepKind::after(context.iter().flatten().count()));
    let typical = mean(&all);
    let ranked = all.into_iter().take(query.k).map(|(candidate, p, values)| {
        let outcome = candidate.outcome(state);
        Ranked { outcome, p, values, weights: *weights, typical }
    });
    let (ranked, model, based_on_seq) = (ranked.collect(), predictor.version(), state.applied());
    Prediction { ranked, based_on_seq, model, threshold, decision, is_informed }
}

#[expect(clippy::cast_precision_loss, reason = "candidates are few")]
fn mean(all: &[(Candidate, f64, Values)]) -> Values {
    let mut mean = [0.0; SIGNALS];
    for (_, _, values) in all {
        mean.iter_mut().zip(values).for_each(|(sum, value)| *sum += value / all.len() as f64);
    }
    mean
}

/// Returns every candidate with its probability, the most likely first.
pub fn probabilities(state: &State, evidence: &Evidence, context: &[Option<Node>]) -> Vec<(Candidate, f64)> {
    probabilities_by(state, evidence, context, &Excluded::default(), Ranking::Served)
}

/// What ranks the steps of a question besides the state and the evidence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ranking<'a> {
    /// The weights and the trained parts that serve.
    Served,
    /// The weights learnt in the fold, without trained parts.
    Online,
    /// Weights of a training run, or without them those learnt in the fold, and an encoder that has not seen the intent.
    HeldOut { weights: Option<&'a NextWeights>, encoder: Option<&'a HeldOutEncoder> },
}

impl Ranking<'_> {
    fn next(self, state: &State, evidence: &Evidence, context: &[Option<Node>]) -> Option<Next> {
        match self {
            Self::Served => state.predictor.parts.next(state, evidence.vectors(), context),
            Self::Online => None,
            Self::HeldOut { encoder, .. } => encoder?.next(evidence.vectors()?, context),
        }
    }

    fn weights<'a>(&'a self, state: &'a State, kind: StepKind) -> &'a [f64; SIGNALS] {
        match self {
            Self::Served => state.predictor.weights(kind),
            Self::HeldOut { weights: Some(weights), .. } => weights.of(kind),
            Self::Online | Self::HeldOut { weights: None, .. } => state.predictor.logit.weights(kind),
        }
    }
}

/// The same by another ranking, without the runs in `excluded`.
pub(crate) fn probabilities_by(
    state: &State,
    evidence: &Evidence,
    context: &[Option<Node>],
    excluded: &Excluded,
    ranking: Ranking<'_>,
) -> Vec<(Candidate, f64)> {
    ranked(state, evidence, context, excluded, ranking).into_iter().map(|(candidate, p, _)| (candidate, p)).collect()
}

/// Ranks all candidates. Ties keep the order of the candidates, the end last. Unknown calls of the context say nothing about what follows,
/// least of all that nothing does, so the known ones are taken alone.
fn ranked(
    state: &State,
    evidence: &Evidence,
    context: &[Option<Node>],
    excluded: &Excluded,
    ranking: Ranking<'_>,
) -> Vec<(Candidate, f64, Values)> {
    let known: Vec<Option<Node>> = context.iter().copied().flatten().map(Some).collect();
    let context = known.as_slice();
    let chances = Chances::new(state, evidence, context, excluded);
    let next = ranking.next(state, evidence, context);
    let candidates = candidates::collect(state, evidence, &chances, next.as_ref());
    let weights = ranking.weights(state, StepKind::after(context.len()));
    let mut inputs = SignalInputs::new(state, evidence, &chances, next.as_ref());
    if weights[Signal::Hyperpath as usize] != 0.0 {
        inputs = inputs.with_hyperpaths();
    }
    let values: Vec<Values> = candidates.iter().map(|candidate| inputs.values(*candidate)).collect();
    let probabilities = logit::probabilities(weights, &values);
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // The values of a candidate take hundreds of bytes, so they are moved once.
    order.sort_unstable_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]).then(candidates[*a].cmp(&candidates[*b])));
    order.into_iter().map(|at| (candidates[at], probabilities[at], values[at])).collect()
}
