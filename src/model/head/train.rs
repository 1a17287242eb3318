//! Training of the intent head: epochs chosen on held-out runs, then all runs; and cross-fitting.

use super::batch::{ALL_TOOLS_MAX, Batch, Columns};
use super::loss::loss;
use super::parameters::{OwnRows, Parameters, distinct};
use super::{IntentHead, Scores};
use crate::adam::{Adam, Rate};
use crate::measure::ndcg_at_5;
use crate::random::Random;
use crate::training::{
    Best, Observer, Progress, Report, Split, Stage, TrainError, cross_fit_splits, observe, usable_runs, validation_splits,
};
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
    /// Runs per update.
    pub batch: usize,
    pub epochs_max: usize,
    /// Training ends after as many epochs without a better validation.
    pub patience: usize,
    /// The weight of the binary cross entropy beside the softmax.
    pub binary_share: f32,
    /// The weight of a failed run; a successful one has 1. Negative: a failed run repels its tools.
    pub failed_weight: f32,
}

impl Default for HeadSettings {
    fn default() -> Self {
        Self {
            learning_rate: 1.5e-3,
            decay: 1e-3,
            dropout: 0.1,
            batch: 64,
            epochs_max: 30,
            patience: 6,
            binary_share: 0.5,
            failed_weight: -0.1,
        }
    }
}

/// A head while it is trained on some runs of a set.
struct Fitting<'a> {
    set: &'a TrainingSet,
    settings: &'a HeadSettings,
    runs: Vec<usize>,
    own: OwnRows,
    /// All tools as columns, unless there are too many.
    columns: Option<Columns<f32>>,
    parameters: Parameters<f32>,
    gradient: Parameters<f32>,
    adam: Vec<Adam>,
    random: Random,
    epoch: usize,
}

impl<'a> Fitting<'a> {
    fn new(set: &'a TrainingSet, settings: &'a HeadSettings, runs: Vec<usize>, seed: u64) -> Self {
        let own = OwnRows::count(set, &runs);
        let columns = (set.tools.nrows() <= ALL_TOOLS_MAX).then(|| Columns::all(set, &own));
        let parameters = Parameters::start(set.dim(), own.0.len());
        let adam = parameters.groups().iter().map(|group| Adam::new(group.len())).collect();
        let gradient = Parameters::zeros(set.dim(), own.0.len());
        Self { set, settings, runs, own, columns, parameters, gradient, adam, random: Random::new(seed), epoch: 0 }
    }

    /// Visits every run once, in a random order. Returns the mean loss.
    #[expect(clippy::cast_precision_loss, reason = "counts of runs and epochs")]
    fn train_epoch(&mut self) -> f32 {
        let mut order = self.runs.clone();
        self.random.shuffle(&mut order);
        let mut total = 0.0;
        for runs in order.chunks(self.settings.batch.max(1)) {
            total += self.update(runs) * runs.len() as f32;
        }
        self.epoch += 1;
        total / self.runs.len().max(1) as f32
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of epochs")]
    fn update(&mut self, runs: &[usize]) -> f32 {
        let sampled;
        let columns = match &self.columns {
            Some(all) => all,
            None => {
                sampled = Columns::sample(self.set, runs, &self.own, &mut self.random);
                &sampled
            }
        };
        let mut batch = Batch::new(self.set, runs, columns, self.settings);
        batch.drop_out(self.settings.dropout, &mut self.random);
        let loss = loss(&self.parameters, &batch, columns, self.settings.binary_share, &mut self.gradient);
        let remaining = 1.0 - 0.9 * self.epoch as f32 / self.settings.epochs_max.max(1) as f32;
        let learning_rate = self.settings.learning_rate * remaining;
        let decays = [true, true, true, true, false, false];
        let groups = self.parameters.groups_mut().into_iter().zip(self.gradient.groups());
        for (((parameters, gradient), adam), decays) in groups.zip(&mut self.adam).zip(decays) {
            let decay = if decays { self.settings.decay } else { 0.0 };
            adam.update(parameters, gradient, Rate { learning_rate, decay });
        }
        loss
    }

    /// The head as it would be served.
    fn head(&self) -> IntentHead {
        IntentHead { parameters: self.parameters.rounded(), own: self.own.clone() }
    }
}

pub(super) fn train(
    set: &TrainingSet,
    settings: &HeadSettings,
    seed: u64,
    observer: &mut Observer<'_>,
) -> Result<(IntentHead, Report), TrainError> {
    let runs = usable_runs(set)?;
    let mut report = Report { examples: runs.len(), skipped: set.runs.len() - runs.len(), ..Report::default() };
    choose_epochs(set, settings, validation_splits(set, &runs, seed), seed, observer, &mut report)?;
    let mut fitting = Fitting::new(set, settings, runs, seed);
    for epoch in 1..=report.epochs {
        report.loss = fitting.train_epoch();
        let progress = Progress { stage: Stage::Fit, epoch, epochs_max: report.epochs, loss: report.loss, validation: None };
        observe(observer, progress)?;
    }
    Ok((fitting.head(), report))
}

/// Trains on all splits in step and notes in the report the number of epochs with the best mean measure.
#[expect(clippy::cast_precision_loss, reason = "a count of splits")]
fn choose_epochs(
    set: &TrainingSet,
    settings: &HeadSettings,
    splits: Vec<Split>,
    seed: u64,
    observer: &mut Observer<'_>,
    report: &mut Report,
) -> Result<(), TrainError> {
    if splits.is_empty() {
        return Ok(());
    }
    let (learned, held_out): (Vec<_>, Vec<_>) = splits.into_iter().map(|split| (split.learned, split.held_out)).unzip();
    let mut fittings: Vec<Fitting<'_>> =
        learned.into_iter().map(|learned| Fitting::new(set, settings, learned, seed)).collect();
    let count = fittings.len() as f32;
    let measure = |fittings: &[Fitting<'_>]| {
        let measures = fittings.iter().zip(&held_out).map(|(fitting, held_out)| validate(&fitting.head(), set, held_out));
        measures.sum::<f32>() / count
    };
    let before = measure(&fittings);
    let mut best = Best { epoch: 0, measure: before };
    for epoch in 1..=settings.epochs_max {
        let loss = fittings.iter_mut().map(Fitting::train_epoch).sum::<f32>() / count;
        let validation = measure(&fittings);
        best.offer(epoch, validation);
        let stage = Stage::Validation;
        let progress = Progress { stage, epoch, epochs_max: settings.epochs_max, loss, validation: Some(validation) };
        observe(observer, progress)?;
        if epoch >= best.epoch + settings.patience {
            break;
        }
    }
    report.epochs = best.epoch;
    report.validation_before = Some(before);
    report.validation = Some(best.measure);
    Ok(())
}

/// The mean NDCG@5 of the runs.
#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
fn validate(head: &IntentHead, set: &TrainingSet, runs: &[usize]) -> f32 {
    let mut total = 0.0;
    score_runs(head, set, runs, &mut |run, scores| total += ndcg_at_5(&scores.logits, &distinct(&set.runs[run].calls)));
    total / runs.len().max(1) as f32
}

fn score_runs(head: &IntentHead, set: &TrainingSet, runs: &[usize], visit: &mut dyn FnMut(usize, &Scores)) {
    let rows = head.tool_rows(set.tools.view());
    let row = |row: usize| set.texts.row(row).to_slice().expect("texts are stored row by row");
    for run in runs {
        let clauses: Vec<&[f32]> = set.runs[*run].clauses.iter().map(|clause| row(*clause)).collect();
        visit(*run, &head.logits(row(set.runs[*run].intent), &clauses, &rows));
    }
}

pub(super) fn cross_fit(
    set: &TrainingSet,
    settings: &HeadSettings,
    (parts, epochs): (usize, usize),
    seed: u64,
    observer: &mut Observer<'_>,
    visit: &mut dyn FnMut(usize, &Scores),
) -> Result<(), TrainError> {
    let runs = usable_runs(set)?;
    for (part, split) in cross_fit_splits(set, &runs, parts, seed).into_iter().enumerate() {
        let mut fitting = Fitting::new(set, settings, split.learned, seed);
        for epoch in 1..=epochs {
            let loss = fitting.train_epoch();
            let progress = Progress { stage: Stage::CrossFit { part }, epoch, epochs_max: epochs, loss, validation: None };
            observe(observer, progress)?;
        }
        score_runs(&fitting.head(), set, &split.held_out, visit);
    }
    Ok(())
}
