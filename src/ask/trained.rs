//! The trained parts in the answer to `models`: what serves, the latest runs, and what the trainer does.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::event::{CurvePoint, ModelPart, ModelTrained, ModelVersion};
use crate::core::state::State;
use crate::core::train::{Stage, TrainProgress};
use crate::core::trained::TrainingRun;
use crate::training::{EndedRun, RunningRun, TrainerStatus};

/// The versions of one part.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Serving")]
pub(crate) struct ServingDto {
    version: Option<String>,
    /// The version that a rollback returns to.
    previous: Option<String>,
}

/// A training run of one part.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TrainingRun")]
pub(crate) struct RunDto {
    /// The position of its record; none if it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    version: String,
    part: &'static str,
    accepted: bool,
    reason: String,
    serving: bool,
    /// Whether its parameters are kept, so that it can be promoted.
    kept: bool,
    parent: Option<String>,
    seed: u64,
    through_seq: u64,
    intents_end: u64,
    embedding_model: Option<String>,
    examples: u64,
    skipped: u64,
    settings: BTreeMap<String, String>,
    metrics: Vec<MetricDto>,
    /// The epochs of its training, at most 64; empty for a part that is not trained in epochs, and for a run before curves were recorded.
    curve: Vec<CurvePointDto>,
    digest: String,
    size: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CurvePoint")]
struct CurvePointDto {
    /// validation (the number of epochs was chosen on runs that are held out) or fit (on all runs).
    stage: &'static str,
    epoch: u32,
    loss: f64,
    validation: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TrainingMetric")]
struct MetricDto {
    name: String,
    value: f64,
    n: u64,
}

/// The trainer of the process that answers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trainer")]
pub(crate) struct TrainerDto {
    /// Requests so far, and the last one that an ended run has answered.
    requested: u64,
    answered: u64,
    running: Option<RunningDto>,
    last: Option<EndedDto>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunningTraining")]
struct RunningDto {
    through_seq: u64,
    seed: u64,
    /// Epochs so far; `curve` has the latest.
    epochs: usize,
    curve: Vec<EpochDto>,
}

/// One epoch of a training loop.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Epoch")]
pub(crate) struct EpochDto {
    part: &'static str,
    stage: String,
    epoch: usize,
    epochs_max: usize,
    loss: f32,
    validation: Option<f32>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EndedTraining")]
struct EndedDto {
    verdict: &'static str,
    through_seq: u64,
    seconds: f64,
    problem: Option<String>,
}

impl CurvePointDto {
    fn new(point: &CurvePoint) -> Self {
        let CurvePoint { stage, epoch, loss, validation } = *point;
        Self { stage: stage.name(), epoch, loss, validation }
    }
}

impl EpochDto {
    pub(crate) fn new(TrainProgress { part, progress }: &TrainProgress) -> Self {
        let stage = match progress.stage {
            Stage::Validation => "validation".to_owned(),
            Stage::Fit => "fit".to_owned(),
            Stage::CrossFit { part } => format!("cross_fit_{}", part + 1),
        };
        let (epoch, epochs_max) = (progress.epoch, progress.epochs_max);
        Self { part: part.name(), stage, epoch, epochs_max, loss: progress.loss, validation: progress.validation }
    }
}

impl From<TrainerStatus> for TrainerDto {
    fn from(TrainerStatus { requested, answered, running, last, .. }: TrainerStatus) -> Self {
        let running = running.map(|RunningRun { through, seed, curve, epochs }| RunningDto {
            through_seq: through.0,
            seed,
            epochs,
            curve: curve.iter().map(EpochDto::new).collect(),
        });
        let last = last.map(|EndedRun { verdict, through, seconds, problem }| EndedDto {
            verdict: verdict.name(),
            through_seq: through.0,
            seconds,
            problem,
        });
        Self { requested, answered, running, last }
    }
}

fn text(version: Option<&ModelVersion>) -> Option<String> {
    version.map(ToString::to_string)
}

/// What serves, by part.
pub(crate) fn serving(state: &State) -> BTreeMap<&'static str, ServingDto> {
    let of_part = |part: ModelPart| {
        let serving = state.trained.serving(part);
        (part.name(), ServingDto { version: text(serving.current.as_ref()), previous: text(serving.previous.as_ref()) })
    };
    ModelPart::ALL.into_iter().map(of_part).collect()
}

/// The latest training runs, the newest first.
pub(crate) fn runs(state: &State) -> Vec<RunDto> {
    state.trained.runs().rev().map(|run| run_dto(state, run)).collect()
}

fn run_dto(state: &State, run: &TrainingRun) -> RunDto {
    let event = &run.event;
    let part = event.version.part();
    let is_kept = state.trained.versions().any(|stored| stored.run.event.version == event.version && stored.bytes().is_some());
    let is_serving = state.trained.serving(part).current.as_ref() == Some(&event.version);
    trained_dto(event, Some(run.seq.0), is_serving, is_kept)
}

/// A run by its event.
pub(crate) fn trained_dto(event: &ModelTrained, seq: Option<u64>, serving: bool, kept: bool) -> RunDto {
    let metric =
        |metric: &crate::core::event::ModelMetric| MetricDto { name: metric.name.clone(), value: metric.value, n: metric.n };
    RunDto {
        seq,
        version: event.version.to_string(),
        part: event.version.part().name(),
        accepted: event.accepted,
        reason: event.reason.clone(),
        serving,
        kept,
        parent: text(event.parent.as_ref()),
        seed: event.seed,
        through_seq: event.through_seq.0,
        intents_end: event.intents_end,
        embedding_model: event.embedding_model.clone(),
        examples: event.examples,
        skipped: event.skipped,
        settings: event.settings.iter().cloned().collect(),
        metrics: event.metrics.iter().map(metric).collect(),
        curve: event.curve.iter().map(CurvePointDto::new).collect(),
        digest: event.digest.clone(),
        size: event.size,
    }
}
