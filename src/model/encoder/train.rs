//! Training of the recurrent encoder.

use super::batch::Batch;
use super::forward::{forward, tool_side};
use super::loss::loss;
use super::parameters::{DECAYS, Parameters, Sizes};
use super::{Encoder, Next};
use crate::adam::{Adam, Rate};
use crate::columns::{BatchColumns, Columns};
use crate::fitting::{self, Limits, Schedule};
use crate::measure::place_of;
use crate::own_rows::OwnRows;
use crate::random::Random;
use crate::training_set::TrainingSet;

/// How the recurrent encoder is trained. The defaults were chosen on held-out training runs of five datasets together.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderSettings {
    /// Units of the recurrent state.
    pub units: usize,
    /// The learning rate of the first epoch; it falls linearly, to a tenth after the last possible epoch.
    pub learning_rate: f32,
    pub decay: f32,
    /// The share of the numbers of the intent and of the output's input that are set to zero while training.
    pub dropout: f32,
    /// Runs per update, at most: on a small set there are fewer, for an epoch to have twenty updates.
    pub batch: usize,
    pub epochs_max: usize,
    /// Training ends after as many epochs without a better validation.
    pub patience: usize,
    /// A longer gradient is shortened to this length.
    pub gradient_max: f32,
    /// The weight of a call in a failed run; in a successful one it is 1. Not negative, because most calls of a run that fails are
    /// right: validation fell with the weight, from 0.72 at 0.5 over 0.68 at 0 to 0.63 at -0.05 where half of the runs fail.
    pub failed_weight: f32,
    /// The weight of END in a failed run; in a successful one it is 1. Negative: a run that failed should not have ended there.
    pub failed_end_weight: f32,
}

impl Default for EncoderSettings {
    fn default() -> Self {
        Self {
            units: 64,
            learning_rate: 3e-3,
            decay: 1e-3,
            dropout: 0.2,
            batch: 64,
            epochs_max: 20,
            patience: 5,
            gradient_max: 1.0,
            failed_weight: 0.5,
            failed_end_weight: -0.05,
        }
    }
}

/// An encoder while it is trained on some runs of a set.
pub(super) struct Fitting<'a> {
    set: &'a TrainingSet,
    settings: &'a EncoderSettings,
    schedule: Schedule,
    own: OwnRows,
    columns: BatchColumns,
    parameters: Parameters<f32>,
    gradient: Parameters<f32>,
    adam: Vec<Adam>,
}

impl Fitting<'_> {
    fn move_parameters(&mut self) {
        let square: f32 = self.gradient.groups().into_iter().flatten().map(|value| value * value).sum();
        let shrink = (self.settings.gradient_max / square.sqrt().max(f32::MIN_POSITIVE)).min(1.0);
        let learning_rate = self.schedule.learning_rate(self.settings.learning_rate);
        let groups = self.parameters.groups_mut().into_iter().zip(self.gradient.groups_mut());
        for (((parameters, gradient), adam), decays) in groups.zip(&mut self.adam).zip(DECAYS) {
            *gradient *= shrink;
            let decay = if decays { self.settings.decay } else { 0.0 };
            let whole = "parameters are stored row by row";
            let (parameters, gradient) = (parameters.as_slice_mut().expect(whole), gradient.as_slice().expect(whole));
            adam.update(parameters, gradient, Rate { learning_rate, decay });
        }
    }
}

impl<'a> fitting::Fitting<'a> for Fitting<'a> {
    type Settings = EncoderSettings;
    type Part = Encoder;

    fn start(set: &'a TrainingSet, settings: &'a EncoderSettings, runs: Vec<usize>, seed: u64) -> Self {
        let own = OwnRows::count(set, &runs);
        let columns = BatchColumns::new(set, &own);
        let sizes = Sizes { dim: set.dim(), units: settings.units, own: own.len() };
        let mut random = Random::new(seed);
        let parameters = Parameters::start(sizes, &mut random);
        let adam = parameters.groups().iter().map(|group| Adam::new(group.len())).collect();
        let schedule = Schedule::new(runs, settings.batch, settings.epochs_max, random);
        Self { set, settings, schedule, own, columns, parameters, gradient: Parameters::zeros(sizes), adam }
    }

    fn limits(settings: &EncoderSettings) -> Limits {
        Limits { epochs_max: settings.epochs_max, patience: settings.patience }
    }

    fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    fn update(&mut self, runs: &[usize]) -> f32 {
        let columns = &*self.columns.for_runs(self.set, runs, &self.own, &mut self.schedule.random);
        let mut batch = Batch::new(self.set, runs, columns, self.settings);
        batch.drop_out(self.settings.dropout, self.settings.units, &mut self.schedule.random);
        let loss = loss(&self.parameters, &batch, columns, &mut self.gradient);
        self.move_parameters();
        loss
    }

    fn part(&self) -> Encoder {
        Encoder { parameters: self.parameters.rounded(), own: self.own.clone() }
    }

    /// The mean reciprocal rank of what came next in successful runs, END included.
    #[expect(clippy::cast_precision_loss, reason = "places and counts of positions")]
    fn measure(&self, held_out: &[usize]) -> f32 {
        const BATCH: usize = 64;
        let succeeded: Vec<usize> = held_out.iter().copied().filter(|run| self.set.runs[*run].succeeded).collect();
        let columns = Columns::all(self.set, &self.own);
        let encoder = self.part();
        let tools = tool_side(&encoder.parameters, columns.tools.view(), &columns.own);
        let (mut total, mut positions) = (0.0, 0);
        for runs in succeeded.chunks(BATCH) {
            let batch = Batch::new(self.set, runs, &columns, self.settings);
            let passed = forward(&encoder.parameters, &batch, &tools);
            for (row, target) in passed.logits.rows().into_iter().zip(&batch.targets) {
                let place = place_of(row.to_slice().expect("logits are stored row by row"), *target);
                total += 1.0 / (place as f32 + 1.0);
            }
            positions += batch.targets.len();
        }
        total / positions.max(1) as f32
    }
}

/// Predicts every position of the runs from what came before it; the last position is after the last call.
pub(super) fn predict_runs(encoder: &Encoder, set: &TrainingSet, runs: &[usize], visit: &mut dyn FnMut(usize, usize, &Next)) {
    let tools = encoder.tool_rows(set.tools.view());
    for run in runs {
        let (whole, clauses) = set.intent_of(*run);
        let mut state = encoder.start(whole, &clauses);
        visit(*run, 0, &encoder.next(&state, &tools));
        for (position, call) in set.runs[*run].calls.iter().enumerate() {
            encoder.advance(&mut state, *call, &tools);
            visit(*run, position + 1, &encoder.next(&state, &tools));
        }
    }
}
