//! The verdict on a training run: which parts help, whether the ranker with them is better than what serves, and what is recorded.

use pml_model::TrainError;

use super::baselines::BASELINES;
use super::discover::{DiscoverFit, DiscoverVerdict};
use super::examples::IntentExamples;
use super::fit::{Allowed, IntentScore, cross_validated, fit_weights, online_cross_validated, score};
use super::gate::{INTENTS_MIN, Paired};
use super::plan::plan_weights;
use super::run::{Challenger, TrainingResult};
use super::{Tick, TrainedPart};
use crate::event::{ModelMetric, ModelPart, ModelTrained, ModelVersion};
use crate::graph::Node;
use crate::predict::lesson::{HeldOutScores, examples};
use crate::predict::parts::IntentVectors;
use crate::predict::ranker::RankerWeights;
use crate::predict::signals::{SIGNALS, Signal};
use crate::state::State;
use crate::text::clauses;
use crate::vectors::TextHash;

/// Signals of trained parts: each may have a weight only if its part is accepted. `hyperpath` is judged on its own.
const PART_SIGNALS: [Signal; 5] = [Signal::IntentHead, Signal::Recurrent, Signal::TargetMass, Signal::Hyperpath, Signal::Shgat];

/// What the gate found out about one part.
struct PartVerdict {
    helps_next: bool,
    helps_discover: bool,
    reason: String,
    metrics: Vec<ModelMetric>,
}

/// Two rankers on the same intents.
struct Comparison {
    log_loss: Paired,
    reciprocal_rank: Paired,
}

impl Comparison {
    fn new(challenger: &[IntentScore], champion: &[IntentScore]) -> Self {
        let column = |scores: &[IntentScore], value: fn(&IntentScore) -> f64| scores.iter().map(value).collect::<Vec<_>>();
        let paired = |value| Paired::new(&column(challenger, value), &column(champion, value));
        Self { log_loss: paired(|score| -score.log_loss), reciprocal_rank: paired(|score| score.reciprocal_rank) }
    }

    /// Better by one measure, and not worse by the other.
    fn is_better(&self) -> bool {
        let Self { log_loss, reciprocal_rank } = self;
        (log_loss.is_better() && !reciprocal_rank.is_worse()) || (reciprocal_rank.is_better() && !log_loss.is_worse())
    }

    fn describe(&self) -> String {
        format!(
            "log-loss {:+.4} +- {:.4}, reciprocal rank {:+.4} +- {:.4} on {} intents",
            -self.log_loss.mean, self.log_loss.error, self.reciprocal_rank.mean, self.reciprocal_rank.error, self.log_loss.n
        )
    }
}

impl TrainingResult<'_> {
    /// Decides about every part, then about the ranker with the accepted parts; if that is not better than what serves, nothing is
    /// accepted.
    pub(super) fn decide(mut self, tick: &mut Tick<'_>) -> Result<Vec<TrainedPart>, TrainError> {
        let mut discover = self.discover.take();
        let mut allowed = [true; SIGNALS];
        for signal in PART_SIGNALS {
            allowed[signal as usize] = false;
        }
        let mut scores = cross_validated(&self.examples, &allowed, tick)?;
        let mut verdicts = Vec::new();
        for challenger in &self.challengers {
            verdicts.push(self.judge(challenger, &mut allowed, &mut scores, discover.as_mut(), tick)?);
        }
        let hyperpath_metrics = self.judge_hyperpath(&mut allowed, &mut scores, tick)?;
        let (next_accepted, next_reason) = self.judge_ranker(&scores, tick)?;
        let accepted = |verdict: &PartVerdict| (verdict.helps_next && next_accepted) || verdict.helps_discover;
        let served = self.challengers.iter().zip(&verdicts).filter(|(_, verdict)| accepted(verdict));
        let served: Vec<&Challenger> = served.map(|(challenger, _)| challenger).collect();
        let next = if next_accepted { Some(fit_weights(self.examples.iter(), &allowed, tick)?) } else { None };
        let discover = discover.as_ref().and_then(DiscoverFit::weights);
        let ranker_accepted = next_accepted || discover.is_some();
        let parts: Vec<ModelPart> = served.iter().map(|challenger| challenger.part).collect();
        let plan =
            if ranker_accepted { Some(plan_weights(self.state, &self.held, &parts, next.as_ref(), tick)?) } else { None };
        let requires = served.iter().map(|challenger| challenger.version()).collect();
        let ranker = RankerWeights { requires, next, discover, plan };
        let mut metrics = mean_metrics("next.with_parts", &scores);
        metrics.extend(hyperpath_metrics);
        metrics.extend(self.baseline_metrics());
        let mut ranker = self.trained(ModelPart::Ranker, ranker.to_bytes(), ranker_accepted, next_reason.clone(), metrics);
        ranker.event.settings = self.settings.named(ModelPart::Ranker);
        let part = |(challenger, verdict): (&Challenger, PartVerdict)| {
            let accepted = accepted(&verdict);
            let reason = if verdict.helps_next && !accepted {
                format!("the ranker with it was refused: {next_reason}")
            } else {
                verdict.reason
            };
            let mut part = self.trained(challenger.part, challenger.bytes.clone(), accepted, reason, verdict.metrics);
            part.retires = ranker_accepted && !accepted && self.state.trained.current(challenger.part).is_some();
            part.event.settings.clone_from(&challenger.settings);
            part.event.curve.clone_from(&challenger.curve);
            part.event.examples = challenger.report.examples as u64;
            part.event.skipped = challenger.report.skipped as u64;
            part
        };
        Ok(self.challengers.iter().zip(verdicts).map(part).chain([ranker]).collect())
    }

    /// Whether a part helps on intents that it has not seen. If so, its signals are allowed from now on.
    fn judge(
        &self,
        challenger: &Challenger,
        allowed: &mut Allowed,
        scores: &mut Vec<IntentScore>,
        discover: Option<&mut DiscoverFit>,
        tick: &mut Tick<'_>,
    ) -> Result<PartVerdict, TrainError> {
        let report = &challenger.report;
        let mut metrics = Vec::new();
        for (name, value) in [("validation.before", report.validation_before), ("validation.after", report.validation)] {
            metrics.extend(value.map(|value| metric(name, f64::from(value), report.examples)));
        }
        if report.epochs == 0 || challenger.failure.is_some() {
            let reason = match (&challenger.failure, report.validation_before) {
                (Some(failure), _) => failure.clone(),
                (None, Some(_)) => "training did not improve it on held-out runs".to_owned(),
                (None, None) => format!("fewer than {INTENTS_MIN} distinct intents with vectors"),
            };
            return Ok(PartVerdict { helps_next: false, helps_discover: false, reason, metrics });
        }
        let mut with = *allowed;
        for signal in challenger.signals {
            with[*signal as usize] = true;
        }
        let scores_with = cross_validated(&self.examples, &with, tick)?;
        let next = Comparison::new(&scores_with, scores);
        metrics.extend(mean_metrics("next.without", scores));
        metrics.extend(mean_metrics("next.with", &scores_with));
        let helps_next = next.is_better();
        if helps_next {
            (*allowed, *scores) = (with, scores_with);
        }
        let mut reason = format!("next: {}", next.describe());
        let mut helps_discover = false;
        if let Some(discover) = discover.filter(|_| !challenger.discover.is_empty()) {
            let DiscoverVerdict { comparison, quality } = discover.judge(challenger.discover, tick)?;
            let Paired { mean, error, n } = comparison;
            helps_discover = comparison.is_better();
            metrics.push(metric("discover.quality.with", quality[0], n));
            metrics.push(metric("discover.quality.without", quality[1], n));
            reason = format!("{reason}; discover: recall@5 + reciprocal rank {mean:+.4} +- {error:.4} on {n} intents");
        }
        Ok(PartVerdict { helps_next, helps_discover, reason, metrics })
    }

    /// Allows the signal `hyperpath` if the ranker is better with it. It is no trained part, but needs the same proof.
    fn judge_hyperpath(
        &self,
        allowed: &mut Allowed,
        scores: &mut Vec<IntentScore>,
        tick: &mut Tick<'_>,
    ) -> Result<Vec<ModelMetric>, TrainError> {
        if !self.settings.hyperpaths {
            return Ok(Vec::new());
        }
        let mut with = *allowed;
        with[Signal::Hyperpath as usize] = true;
        let scores_with = cross_validated(&self.examples, &with, tick)?;
        let mut metrics = mean_metrics("next.without_hyperpath", scores);
        metrics.extend(mean_metrics("next.with_hyperpath", &scores_with));
        if Comparison::new(&scores_with, scores).is_better() {
            (*allowed, *scores) = (with, scores_with);
        }
        Ok(metrics)
    }

    /// Whether the ranker that was cross-validated to `scores` is better than what serves and not worse than the baselines.
    fn judge_ranker(&self, scores: &[IntentScore], tick: &mut Tick<'_>) -> Result<(bool, String), TrainError> {
        let reciprocal_ranks: Vec<f64> = scores.iter().map(|score| score.reciprocal_rank).collect();
        for baseline in &BASELINES {
            let plain: Vec<f64> = self.examples.iter().map(|intent| baseline.reciprocal_rank(intent)).collect();
            if Paired::new(&reciprocal_ranks, &plain).is_worse() {
                return Ok((false, format!("worse than the baseline '{}'", baseline.name)));
            }
        }
        let (champion, known) = self.champion_scores(tick)?;
        let comparable: Vec<IntentScore> = known.iter().map(|at| scores[*at]).collect();
        let comparison = Comparison::new(&comparable, &champion);
        let against = if self.serves_trained_ranker() { "the version that serves" } else { "the weights learnt online" };
        let verdict = if comparison.is_better() { "better" } else { "not better" };
        Ok((comparison.is_better(), format!("{verdict} than {against}: {}", comparison.describe())))
    }

    fn serves_trained_ranker(&self) -> bool {
        self.state.predictor.parts.ranker().is_some()
    }

    /// What serves now, on the intents that it has not been fitted to, and the positions of those among the examples. The weights
    /// learnt online were fitted to all intents, so the way they are learnt is cross-validated instead.
    fn champion_scores(&self, tick: &mut Tick<'_>) -> Result<(Vec<IntentScore>, Vec<usize>), TrainError> {
        if !self.serves_trained_ranker() {
            return Ok((online_cross_validated(&self.examples, tick)?, (0..self.examples.len()).collect()));
        }
        let versions = ModelPart::ALL.iter().filter_map(|part| self.state.trained.current(*part));
        let unseen_from = versions.map(|version| version.run.event.intents_end).max().unwrap_or(0);
        let unseen: Vec<usize> = (0..self.examples.len()).filter(|at| self.examples[*at].number >= unseen_from).collect();
        let mut scores = Vec::new();
        for at in &unseen {
            tick()?;
            let served = served_examples(self.state, self.examples[*at].number);
            scores.push(score(&served, |example| *self.state.predictor.weights(example.step)));
        }
        Ok((scores, unseen))
    }

    fn baseline_metrics(&self) -> impl Iterator<Item = ModelMetric> {
        BASELINES.iter().map(|baseline| {
            let values: Vec<f64> = self.examples.iter().map(|intent| baseline.reciprocal_rank(intent)).collect();
            metric(&format!("next.mrr.{}", baseline.name), mean(&values), values.len())
        })
    }

    fn trained(
        &self,
        part: ModelPart,
        bytes: Vec<u8>,
        accepted: bool,
        reason: String,
        metrics: Vec<ModelMetric>,
    ) -> TrainedPart {
        let digest = blake3::hash(&bytes).to_hex().to_string();
        let trained = &self.state.trained;
        let event = ModelTrained {
            version: ModelVersion::new(part, &digest),
            parent: trained.serving(part).current.clone(),
            seed: self.seed,
            through_seq: self.state.applied(),
            intents_end: self.state.memory.next_number(),
            embedding_model: self.state.vectors.model().map(ToString::to_string),
            examples: self.examples.len() as u64,
            skipped: 0,
            settings: Vec::new(),
            metrics,
            digest,
            size: bytes.len() as u64,
            accepted,
            reason,
            curve: Vec::new(),
        };
        TrainedPart { event, bytes, retires: false }
    }
}

impl Challenger {
    fn version(&self) -> ModelVersion {
        ModelVersion::new(self.part, &blake3::hash(&self.bytes).to_hex())
    }
}

/// The steps of a remembered intent as the parts that serve see them.
fn served_examples(state: &State, number: u64) -> IntentExamples {
    let entry = state.memory.get(number).expect("examples are of kept intents");
    let parts = &state.predictor.parts;
    let vector = |hash: TextHash| state.vectors.get(hash).map(|vector| vector.to_vec());
    let Some(whole) = vector(entry.hash) else {
        return IntentExamples { number, steps: examples(state, number, entry, HeldOutScores::default()) };
    };
    let clauses = clauses(&entry.intent).into_iter().filter_map(|text| vector(TextHash::compute(text))).collect();
    let intent = IntentVectors { whole, clauses };
    let calls: Vec<Option<Node>> =
        entry.sequences.last().map(|sequence| sequence.calls.iter().copied().map(Some).collect()).unwrap_or_default();
    let next = (0..=calls.len()).filter_map(|step| Some((step, parts.next(state, Some(&intent), &calls[..step])?))).collect();
    let (head, target) = (parts.head_scores(state, &intent), parts.target_scores(state, &intent));
    let scores = HeldOutScores { head, target, with_hyperpaths: true, next };
    IntentExamples { number, steps: examples(state, number, entry, scores) }
}

fn metric(name: &str, value: f64, n: usize) -> ModelMetric {
    ModelMetric { name: name.to_owned(), value, n: n as u64 }
}

fn mean_metrics(name: &str, scores: &[IntentScore]) -> Vec<ModelMetric> {
    let column = |value: fn(&IntentScore) -> f64| mean(&scores.iter().map(value).collect::<Vec<_>>());
    vec![
        metric(&format!("{name}.log_loss"), column(|score| score.log_loss), scores.len()),
        metric(&format!("{name}.mrr"), column(|score| score.reciprocal_rank), scores.len()),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "a count of intents")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
