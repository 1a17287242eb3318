//! One training run: trains each part, lets it score the intents it has not seen, and makes examples with those scores.

use std::ops::ControlFlow;

use pml_model::{Encoder, IntentHead, Report, TrainError};

use super::curve::Curve;
use super::data::TrainingData;
use super::discover::DiscoverFit;
use super::examples::{Held, IntentExamples};
use super::shgat::{Failure, ShgatRuns};
use super::{TrainObserver, TrainProgress, TrainSettings, TrainStep};
use crate::event::{CurvePoint, ModelPart};
use crate::predict::signals::Signal;
use crate::rank::blend::DiscoverSignal;
use crate::state::State;
use crate::trained::PARAMETERS_MAX;

/// Parts into which the intents are divided, so that each is scored by a part that has not seen it.
const CROSS_FIT_PARTS: usize = 4;

/// A trained part before the gate.
pub(super) struct Challenger {
    pub(super) part: ModelPart,
    /// The signals of the next-step ranker that it feeds, and those of discover.
    pub(super) signals: &'static [Signal],
    pub(super) discover: &'static [DiscoverSignal],
    pub(super) bytes: Vec<u8>,
    pub(super) report: Report,
    pub(super) settings: Vec<(String, String)>,
    /// Why there is nothing to judge.
    pub(super) failure: Option<String>,
    pub(super) curve: Vec<CurvePoint>,
}

/// Everything a training run computed.
pub(super) struct TrainingResult<'a> {
    pub(super) state: &'a State,
    pub(super) seed: u64,
    pub(super) challengers: Vec<Challenger>,
    pub(super) discover: Option<DiscoverFit>,
    pub(super) examples: Vec<IntentExamples>,
    pub(super) held: Held,
    pub(super) settings: &'a TrainSettings,
}

/// Trains all parts that the settings name.
pub(super) fn train_all<'a>(
    state: &'a State,
    settings: &'a TrainSettings,
    seed: u64,
    observer: &mut TrainObserver<'_>,
) -> Result<TrainingResult<'a>, TrainError> {
    let data = TrainingData::new(state);
    let mut held = Held::choose(state, &data);
    let mut challengers = Vec::new();
    for part in ModelPart::ALL.into_iter().filter(|part| settings.parts.contains(part)) {
        let mut curve = Curve::default();
        let observe = &mut |progress| {
            curve.add(&progress);
            observer(TrainStep::Epoch(TrainProgress { part, progress }))
        };
        let challenger = match part {
            ModelPart::Head => train_head(&data, settings, seed, observe, &mut held)?,
            ModelPart::Encoder => train_encoder(state, &data, settings, seed, observe, &mut held)?,
            ModelPart::Shgat => train_shgat(state, &data, settings, seed, observe, &mut held)?,
            ModelPart::Ranker => continue,
        };
        challengers.push(Challenger { curve: curve.into_points(), ..challenger });
    }
    let tick = &mut || tick(observer);
    let discover = DiscoverFit::new(state, &held, tick)?;
    let examples = held.examples(state, tick)?;
    Ok(TrainingResult { state, seed, challengers, discover, examples, held, settings })
}

/// Tells the observer that a piece of work beside the training loops is done.
pub(super) fn tick(observer: &mut TrainObserver<'_>) -> Result<(), TrainError> {
    match observer(TrainStep::Gate) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(TrainError::Stopped),
    }
}

pub(super) type Observe<'a> = dyn FnMut(pml_model::Progress) -> ControlFlow<()> + 'a;

fn train_head(
    data: &TrainingData,
    settings: &TrainSettings,
    seed: u64,
    observe: &mut Observe<'_>,
    held: &mut Held,
) -> Result<Challenger, TrainError> {
    let named = settings.named(ModelPart::Head);
    let settings = &settings.head;
    let (trained, report) = IntentHead::train(&data.set, settings, seed, observe)?;
    if report.epochs > 0 {
        let parts = (CROSS_FIT_PARTS, report.epochs);
        IntentHead::cross_fit(&data.set, settings, parts, seed, observe, &mut |run, scores| held.add_head(run, scores))?;
    }
    Ok(Challenger {
        part: ModelPart::Head,
        signals: &[Signal::IntentHead],
        discover: &[DiscoverSignal::Head],
        bytes: trained.to_bytes(),
        report,
        settings: named,
        failure: None,
        curve: Vec::new(),
    })
}

fn train_encoder(
    state: &State,
    data: &TrainingData,
    settings: &TrainSettings,
    seed: u64,
    observe: &mut Observe<'_>,
    held: &mut Held,
) -> Result<Challenger, TrainError> {
    let named = settings.named(ModelPart::Encoder);
    let settings = &settings.encoder;
    let (encoder, report) = Encoder::train(&data.set, settings, seed, observe)?;
    if report.epochs > 0 {
        let parts = (CROSS_FIT_PARTS, report.epochs);
        let mut keep = |run: usize, calls: usize, next: &pml_model::Next| held.add_next(run, calls, next);
        let encoders = Encoder::cross_fit(&data.set, settings, parts, seed, observe, &mut keep)?;
        held.add_encoders(state, encoders);
    }
    Ok(Challenger {
        part: ModelPart::Encoder,
        signals: &[Signal::Recurrent],
        discover: &[],
        bytes: encoder.to_bytes(),
        report,
        settings: named,
        failure: None,
        curve: Vec::new(),
    })
}

fn train_shgat(
    state: &State,
    data: &TrainingData,
    settings: &TrainSettings,
    seed: u64,
    observe: &mut Observe<'_>,
    held: &mut Held,
) -> Result<Challenger, TrainError> {
    let named = settings.named(ModelPart::Shgat);
    let settings = &settings.shgat;
    let (bytes, report, failure) = match ShgatRuns::new(state, data, settings, seed).train(observe, held) {
        Ok((bytes, report)) if bytes.len() as u64 > PARAMETERS_MAX => {
            let reason = format!("its parameters take {} bytes, more than the {PARAMETERS_MAX} that are kept", bytes.len());
            (Vec::new(), report, Some(reason))
        }
        Ok((bytes, report)) => (bytes, report, None),
        Err(Failure::Training(error)) => return Err(error),
        Err(Failure::Hypergraph(error)) => (Vec::new(), Report::default(), Some(error.to_string())),
    };
    Ok(Challenger {
        part: ModelPart::Shgat,
        signals: &[Signal::TargetMass, Signal::Shgat],
        discover: &[DiscoverSignal::Mass, DiscoverSignal::Shgat],
        bytes,
        report,
        settings: named,
        failure,
        curve: Vec::new(),
    })
}
