//! The model that predicts: its weights, and how its predictions fared.

use std::collections::BTreeMap;

use serde::Serialize;

use super::predict::item_name;
use crate::core::event::Outcome;
use crate::core::predict::score::{WINDOWS, Window};
use crate::core::predict::signals::Signal;
use crate::core::state::State;

/// Thresholds shown, of the outcomes judged most often.
const THRESHOLDS_MAX: usize = 100;

#[derive(Serialize)]
pub(crate) struct ModelsAnswer {
    models: [ModelDto; 1],
    /// The last record the answer rests on.
    based_on_seq: u64,
}

#[derive(Serialize)]
struct ModelDto {
    version: String,
    serving: bool,
    /// Examples the weights were learnt from.
    examples: u64,
    weights: BTreeMap<&'static str, f64>,
    /// Predictions that were served and scored, ever.
    scored: u64,
    windows: Vec<WindowDto>,
    thresholds: Vec<ThresholdDto>,
}

/// Means over the latest scored predictions.
#[derive(Serialize)]
struct WindowDto {
    last: usize,
    /// How many there are.
    n: usize,
    hit1: f64,
    hit3: f64,
    log_loss: f64,
    calibration_error: f64,
}

/// How predictions of one outcome fared, as a Beta distribution.
#[derive(Serialize)]
struct ThresholdDto {
    item: String,
    alpha: f64,
    beta: f64,
}

/// What is known about the model in a view.
pub(crate) fn models(state: &State) -> ModelsAnswer {
    let predictor = &state.predictor;
    let weights = predictor.logit.weights();
    let window = |last: usize| {
        let Window { n, hit1, hit3, log_loss, calibration_error } = predictor.scores.window(last);
        WindowDto { last, n, hit1, hit3, log_loss, calibration_error }
    };
    let judged = predictor.thresholds.iter().map(|(symbol, posterior)| {
        let outcome = symbol.node().map_or(Outcome::Done, |node| Outcome::Call(state.callee(node)));
        ThresholdDto { item: item_name(&outcome), alpha: posterior.alpha, beta: posterior.beta }
    });
    let mut thresholds: Vec<ThresholdDto> = judged.collect();
    thresholds.sort_by(|a, b| (b.alpha + b.beta).total_cmp(&(a.alpha + a.beta)).then_with(|| a.item.cmp(&b.item)));
    thresholds.truncate(THRESHOLDS_MAX);
    let model = ModelDto {
        version: predictor.logit.version(),
        serving: true,
        examples: predictor.logit.examples(),
        weights: Signal::ALL.into_iter().map(|signal| (signal.name(), weights[signal as usize])).collect(),
        scored: predictor.scores.total(),
        windows: WINDOWS.into_iter().map(window).collect(),
        thresholds,
    };
    ModelsAnswer { models: [model], based_on_seq: state.applied().0 }
}
