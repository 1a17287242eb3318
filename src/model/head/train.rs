//! Training of the intent head.

use super::batch::Batch;
use super::loss::loss;
use super::parameters::Parameters;
use super::{IntentHead, Scores};
use crate::adam::{Adam, Rate};
use crate::columns::BatchColumns;
use crate::fitting::{self, Limits, Schedule};
use crate::measure::ndcg_at_5;
use crate::own_rows::{OwnRows, distinct};
use crate::random::Random;
use crate::training_set::TrainingSet;

/// How the intent head is trained. The defaults were chosen on held-out training runs of five datasets together.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadSettings {
    /// The learning rate of the first epoch; it falls linearly, to a tenth after the last possible epoch.
    pub learning_rate: f32,
    /// The weight decay of the three corrections and the tools' own vectors.
    pub decay: f32,
    /// The share of the numbers of an intent's vectors that are set to zero while training.
    pub dropout: f32,
    /// Runs per update, at most: on a small set there are fewer, for an epoch to have twenty updates.
    pub batch: usize,
    pub epochs_max: usize,
    /// Training ends after as many epochs without a better validation.
    pub patience: usize,
    /// The weight of the binary cross entropy beside the softmax.
    pub binary_share: f32,
    /// The weight of a failed run; a successful one has 1. Negative: a failed run repels its tools. Small, because a run that fails has
    /// mostly called the right tools: validation was equal from -0.05 to 0.5, lower from -0.1 on.
    pub failed_weight: f32,
}

impl Default for HeadSettings {
    fn default() -> Self {
        Self {
            learning_rate: 3e-3,
            decay: 1e-3,
            dropout: 0.1,
            batch: 128,
            epochs_max: 12,
            patience: 5,
            binary_share: 0.5,
            failed_weight: -0.05,
        }
    }
}

/// A head while it is trained on some runs of a set.
pub(super) struct Fitting<'a> {
    set: &'a TrainingSet,
    settings: &'a HeadSettings,
    schedule: Schedule,
    own: OwnRows,
    columns: BatchColumns,
    parameters: Parameters<f32>,
    gradient: Parameters<f32>,
    adam: Vec<Adam>,
}

impl<'a> fitting::Fitting<'a> for Fitting<'a> {
    type Settings = HeadSettings;
    type Part = IntentHead;

    fn start(set: &'a TrainingSet, settings: &'a HeadSettings, runs: Vec<usize>, seed: u64) -> Self {
        let own = OwnRows::count(set, &runs);
        let columns = BatchColumns::new(set, &own);
        let parameters = Parameters::start(set.dim(), own.len());
        let adam = parameters.groups().iter().map(|group| Adam::new(group.len())).collect();
        let gradient = Parameters::zeros(set.dim(), own.len());
        let schedule = Schedule::new(runs, settings.batch, settings.epochs_max, Random::new(seed));
        Self { set, settings, schedule, own, columns, parameters, gradient, adam }
    }

    fn limits(settings: &HeadSettings) -> Limits {
        Limits { epochs_max: settings.epochs_max, patience: settings.patience }
    }

    fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    fn update(&mut self, runs: &[usize]) -> f32 {
        let columns = &*self.columns.for_runs(self.set, runs, &self.own, &mut self.schedule.random);
        let mut batch = Batch::new(self.set, runs, columns, self.settings);
        batch.drop_out(self.settings.dropout, &mut self.schedule.random);
        let loss = loss(&self.parameters, &batch, columns, self.settings.binary_share, &mut self.gradient);
        let learning_rate = self.schedule.learning_rate(self.settings.learning_rate);
        let decays = [true, true, true, true, false, false];
        let groups = self.parameters.groups_mut().into_iter().zip(self.gradient.groups());
        for (((parameters, gradient), adam), decays) in groups.zip(&mut self.adam).zip(decays) {
            let decay = if decays { self.settings.decay } else { 0.0 };
            adam.update(parameters, gradient, Rate { learning_rate, decay });
        }
        loss
    }

    fn part(&self) -> IntentHead {
        IntentHead { parameters: self.parameters.rounded(), own: self.own.clone() }
    }

    fn measure(&self, held_out: &[usize]) -> f32 {
        validate(&self.part(), self.set, held_out)
    }
}

/// The mean NDCG@5 of the successful runs: the tools of a failed one are not what should be found.
#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
fn validate(head: &IntentHead, set: &TrainingSet, runs: &[usize]) -> f32 {
    let succeeded: Vec<usize> = runs.iter().copied().filter(|run| set.runs[*run].succeeded).collect();
    let mut total = 0.0;
    score_runs(head, set, &succeeded, &mut |run, scores| total += ndcg_at_5(&scores.logits, &distinct(&set.runs[run].calls)));
    total / succeeded.len().max(1) as f32
}

pub(super) fn score_runs(head: &IntentHead, set: &TrainingSet, runs: &[usize], visit: &mut dyn FnMut(usize, &Scores)) {
    let rows = head.tool_rows(set.tools.view());
    for run in runs {
        let (whole, clauses) = set.intent_of(*run);
        visit(*run, &head.logits(whole, &clauses, &rows));
    }
}
