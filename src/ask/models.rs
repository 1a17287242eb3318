//! `models`: the weights of the prediction model, its scores and its thresholds, and the trained parts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::predict::item_name;
use super::trained::{RunDto, ServingDto, TrainerDto, runs, serving};
use crate::core::event::Outcome;
use crate::core::name::handle;
use crate::core::predict::metrics::StepMetrics;
use crate::core::predict::score::WINDOWS;
use crate::core::predict::signals::{Signal, StepKind};
use crate::core::state::State;
use crate::training::TrainerStatus;

/// Thresholds shown, of the outcomes judged most often.
const THRESHOLDS_MAX: usize = 100;

/// The answer to `models`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ModelsAnswer {
    /// The ranker that the fold learns; there is one.
    models: [ModelDto; 1],
    /// The trained versions that serve, by part.
    serving: BTreeMap<&'static str, ServingDto>,
    /// The latest training runs, the newest first.
    runs: Vec<RunDto>,
    /// What the trainer of the answering process does; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    trainer: Option<TrainerDto>,
    /// The last record folded into the state that answered.
    based_on_seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Model")]
struct ModelDto {
    version: String,
    serving: bool,
    /// Examples the weights were learnt from.
    examples: u64,
    /// The weights of the first step of an execution.
    first_weights: BTreeMap<&'static str, f64>,
    /// The weights of later steps.
    weights: BTreeMap<&'static str, f64>,
    /// The number of predictions served and scored, ever.
    scored: u64,
    windows: Vec<WindowDto>,
    thresholds: Vec<ThresholdDto>,
}

/// Means over the latest scored predictions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PredictionWindow")]
struct WindowDto {
    last: usize,
    /// The number of predictions in the window.
    n: usize,
    hit1: f64,
    hit3: f64,
    log_loss: f64,
    calibration_error: f64,
}

/// The Beta posterior of whether predictions of one outcome are right.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Threshold")]
struct ThresholdDto {
    item: String,
    /// The readable name of a capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    alpha: f64,
    beta: f64,
}

/// Describes the models of a view, and the trainer if the process has one.
pub(crate) fn models(state: &State, trainer: Option<TrainerStatus>) -> ModelsAnswer {
    ModelsAnswer {
        models: [ranker(state)],
        serving: serving(state),
        runs: runs(state),
        trainer: trainer.map(Into::into),
        based_on_seq: state.applied().0,
    }
}

fn ranker(state: &State) -> ModelDto {
    let predictor = &state.predictor;
    let weights = |step: StepKind| {
        let weights = predictor.logit.weights(step);
        Signal::ALL.into_iter().map(|signal| (signal.name(), weights[signal as usize])).collect()
    };
    let window = |last: usize| {
        let StepMetrics { n, hit1, hit3, log_loss, calibration_error, .. } = predictor.scores.window(last);
        WindowDto { last, n, hit1, hit3, log_loss, calibration_error }
    };
    let judged = predictor.thresholds.iter().map(|(symbol, posterior)| {
        let outcome = symbol.node().map_or(Outcome::Done, |node| Outcome::Call(state.callee(node)));
        let handle = symbol.node().and_then(|node| handle(state, node)).map(str::to_owned);
        ThresholdDto { item: item_name(&outcome), handle, alpha: posterior.alpha, beta: posterior.beta }
    });
    let mut thresholds: Vec<ThresholdDto> = judged.collect();
    thresholds.sort_by(|a, b| (b.alpha + b.beta).total_cmp(&(a.alpha + a.beta)).then_with(|| a.item.cmp(&b.item)));
    thresholds.truncate(THRESHOLDS_MAX);
    ModelDto {
        version: predictor.logit.version(),
        serving: true,
        examples: predictor.logit.examples(),
        first_weights: weights(StepKind::First),
        weights: weights(StepKind::Later),
        scored: predictor.scores.total(),
        windows: WINDOWS.into_iter().map(window).collect(),
        thresholds,
    }
}
