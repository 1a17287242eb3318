//! Training: trains the parts of the model on one state, measures them on intents they have not seen, and decides.
//!
//! ```text
//!  State --TrainingData--> pml_model trains head, encoder and SHGAT, without each part of the intents in turn (cross-fitting)
//!        --examples with held-out scores--> weights of the ranker, with and without each part --gate--> accepted or refused
//! ```
//!
//! Pure: the same state, settings and seed give the same events, bit for bit, on the same kind of machine. The caller runs it off the
//! serving path, shows the progress and may stop it.

mod baselines;
mod curve;
mod data;
mod discover;
mod examples;
mod fit;
mod folds;
mod gate;
mod plan;
mod run;
mod settings;
mod shgat;
mod switch;
mod verdict;

use std::ops::ControlFlow;
use std::sync::Arc;

use pml_model::{EncoderSettings, HeadSettings};

use super::event::{Event, ModelParameters, ModelPart, ModelPromoted, ModelRolledBack, ModelTrained};
use super::hash::mix;
use super::state::State;
use super::trained::{PIECE_BYTES, piece_count};
pub use data::TrainingData;
pub(crate) use data::tool_rows;
pub use pml_model::shgat::Switches;
pub use pml_model::{Stage, TrainError};
pub use switch::Switch;

/// What is trained, and how.
#[derive(Clone, Debug)]
pub struct TrainSettings {
    /// The parts to train; the ranker is always fitted.
    pub parts: Vec<ModelPart>,
    pub head: HeadSettings,
    pub encoder: EncoderSettings,
    pub shgat: pml_model::shgat::Settings,
    /// Whether the ranker may use the signal `hyperpath`.
    pub hyperpaths: bool,
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            parts: vec![ModelPart::Head, ModelPart::Encoder, ModelPart::Shgat],
            head: HeadSettings::default(),
            encoder: EncoderSettings::default(),
            shgat: pml_model::shgat::Settings::default(),
            hyperpaths: true,
        }
    }
}

/// The part that is being trained, and how far.
#[derive(Clone, Copy, Debug)]
pub struct TrainProgress {
    pub part: ModelPart,
    pub progress: pml_model::Progress,
}

/// What a training run has just done.
#[derive(Clone, Copy, Debug)]
pub enum TrainStep {
    /// An epoch of a part; of SHGAT a batch.
    Epoch(TrainProgress),
    /// A piece of the examples, of the fit of the ranker's weights, or of the gate. There is nothing to show.
    Gate,
}

/// Is told every step, a fraction of a second of work, and may end the training.
pub type TrainObserver<'a> = dyn FnMut(TrainStep) -> ControlFlow<()> + 'a;

/// Is called after every piece of work beside the training loops. An error ends the run.
pub(crate) type Tick<'a> = dyn FnMut() -> Result<(), TrainError> + 'a;

/// A trained part with the verdict of the gate.
#[derive(Clone, Debug)]
pub struct TrainedPart {
    pub event: ModelTrained,
    pub bytes: Vec<u8>,
    /// Whether the version that serves now is to stop, because the accepted ranker does without the part.
    pub retires: bool,
}

impl TrainedPart {
    /// What is recorded of it, in order: the run; and if it was accepted, its parameters and its promotion.
    pub fn events(&self) -> Vec<Event> {
        let mut events = vec![Event::ModelTrained(self.event.clone())];
        let version = &self.event.version;
        if self.retires {
            let reason = "the new ranker does without it".to_owned();
            events.push(Event::ModelRolledBack(ModelRolledBack { part: version.part(), to: None, reason }));
        }
        if !self.event.accepted {
            return events;
        }
        let pieces = u32::try_from(piece_count(self.event.size)).expect("sizes are limited");
        for (piece, bytes) in (0..).zip(self.bytes.chunks(PIECE_BYTES)) {
            let bytes: Arc<[u8]> = bytes.into();
            events.push(Event::ModelParameters(ModelParameters { version: version.clone(), piece, pieces, bytes }));
        }
        let reason = "accepted by the gate".to_owned();
        events.push(Event::ModelPromoted(ModelPromoted { version: version.clone(), reason }));
        events
    }
}

/// The seed of a training run on this state: another one after every record.
pub fn seed(state: &State) -> u64 {
    mix(state.applied().0)
}

/// Trains the parts named in the settings and the ranker. Returns one entry per part, accepted or refused, in the order in which their
/// events are to be recorded.
pub fn train(
    state: &State,
    settings: &TrainSettings,
    seed: u64,
    observer: &mut TrainObserver<'_>,
) -> Result<Vec<TrainedPart>, pml_model::TrainError> {
    let result = run::train_all(state, settings, seed, observer)?;
    result.decide(&mut || run::tick(observer))
}

#[cfg(test)]
mod tests;
