//! The training loop of every trained part: epochs chosen on held-out runs, then all runs; and cross-fitting.

use crate::random::Random;
use crate::training::{
    Observer, Progress, Report, Split, Stage, TrainError, cross_fit_splits, observe, usable_runs, validation_splits,
};
use crate::training_set::TrainingSet;

/// A part while it is trained on some runs of a set.
pub(crate) trait Fitting<'a>: Sized {
    type Settings;
    /// What it becomes.
    type Part;

    /// Creates an untrained part for some runs of the set.
    fn start(set: &'a TrainingSet, settings: &'a Self::Settings, runs: Vec<usize>, seed: u64) -> Self;

    fn limits(settings: &Self::Settings) -> Limits;

    fn schedule(&mut self) -> &mut Schedule;

    /// Moves the parameters by one step for a batch of runs. Returns the mean loss of the batch before the step.
    fn update(&mut self, runs: &[usize]) -> f32;

    /// Visits every run once, in a random order. Returns the mean loss.
    #[expect(clippy::cast_precision_loss, reason = "counts of runs")]
    fn train_epoch(&mut self) -> f32 {
        let order = self.schedule().shuffled();
        let batch = self.schedule().batch_len();
        let mut total = 0.0;
        for runs in order.chunks(batch) {
            total += self.update(runs) * runs.len() as f32;
        }
        self.schedule().epoch += 1;
        total / order.len().max(1) as f32
    }

    /// The part as it would be served: rounded to the stored form.
    fn part(&self) -> Self::Part;

    /// How well the part does on runs that it has not seen: higher is better.
    fn measure(&self, held_out: &[usize]) -> f32;
}

/// When the choice of the number of epochs ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) epochs_max: usize,
    /// Epochs without a better measure.
    pub(crate) patience: usize,
}

/// The runs of a fit, the order of visits, and how far it has come.
pub(crate) struct Schedule {
    runs: Vec<usize>,
    batch_max: usize,
    epochs_max: usize,
    epoch: usize,
    pub(crate) random: Random,
}

impl Schedule {
    /// An epoch has at least as many updates, unless that makes the batches too small.
    const UPDATES_MIN: usize = 20;
    /// The smallest batch that such a number of updates may lead to.
    const BATCH_MIN: usize = 32;

    pub(crate) fn new(runs: Vec<usize>, batch_max: usize, epochs_max: usize, random: Random) -> Self {
        Self { runs, batch_max, epochs_max, epoch: 0, random }
    }

    fn shuffled(&mut self) -> Vec<usize> {
        let mut order = self.runs.clone();
        self.random.shuffle(&mut order);
        order
    }

    /// Runs per update: `batch_max`, and fewer on a small set.
    fn batch_len(&self) -> usize {
        (self.runs.len() / Self::UPDATES_MIN).max(Self::BATCH_MIN).min(self.batch_max).max(1)
    }

    /// The learning rate of this epoch: it falls linearly from that of the first to a tenth after the last possible epoch.
    #[expect(clippy::cast_precision_loss, reason = "counts of epochs")]
    pub(crate) fn learning_rate(&self, first: f32) -> f32 {
        first * (1.0 - 0.9 * self.epoch as f32 / self.epochs_max.max(1) as f32)
    }
}

/// Trains a part: chooses the number of epochs on held-out runs of the set, then trains on all of it. With too few runs to choose, the
/// result is the untrained part.
pub(crate) fn train<'a, T: Fitting<'a>>(
    set: &'a TrainingSet,
    settings: &'a T::Settings,
    seed: u64,
    observer: &mut Observer<'_>,
) -> Result<(T::Part, Report), TrainError> {
    let start = |runs| T::start(set, settings, runs, seed);
    let runs = usable_runs(set)?;
    let mut report = Report { examples: runs.len(), skipped: set.runs.len() - runs.len(), ..Report::default() };
    choose_epochs(validation_splits(set, &runs, seed), T::limits(settings), &start, observer, &mut report)?;
    let mut fitting = start(runs);
    report.loss = fit(&mut fitting, report.epochs, Stage::Fit, observer)?;
    Ok((fitting.part(), report))
}

/// Trains without each of `parts` parts of the runs in turn. `visit` gets what was trained and the runs it has not seen.
pub(crate) fn cross_fit<'a, T: Fitting<'a>>(
    set: &'a TrainingSet,
    settings: &'a T::Settings,
    (parts, epochs): (usize, usize),
    seed: u64,
    observer: &mut Observer<'_>,
    visit: &mut dyn FnMut(&T::Part, &[usize]),
) -> Result<(), TrainError> {
    let runs = usable_runs(set)?;
    for (part, split) in cross_fit_splits(set, &runs, parts, seed).into_iter().enumerate() {
        let mut fitting = T::start(set, settings, split.learned, seed);
        fit(&mut fitting, epochs, Stage::CrossFit { part }, observer)?;
        visit(&fitting.part(), &split.held_out);
    }
    Ok(())
}

/// Trains for a number of epochs. Returns the loss of the last.
fn fit<'a, T: Fitting<'a>>(
    fitting: &mut T,
    epochs: usize,
    stage: Stage,
    observer: &mut Observer<'_>,
) -> Result<f32, TrainError> {
    let mut loss = 0.0;
    for epoch in 1..=epochs {
        loss = fitting.train_epoch();
        observe(observer, Progress { stage, epoch, epochs_max: epochs, loss, validation: None })?;
    }
    Ok(loss)
}

/// Trains on all splits in step and notes in the report the number of epochs with the best mean measure.
#[expect(clippy::cast_precision_loss, reason = "a count of splits")]
fn choose_epochs<'a, T: Fitting<'a>>(
    splits: Vec<Split>,
    limits: Limits,
    start: &dyn Fn(Vec<usize>) -> T,
    observer: &mut Observer<'_>,
    report: &mut Report,
) -> Result<(), TrainError> {
    if splits.is_empty() {
        return Ok(());
    }
    let count = splits.len() as f32;
    let mut fittings: Vec<(T, Vec<usize>)> = splits.into_iter().map(|split| (start(split.learned), split.held_out)).collect();
    let measure = |fittings: &[(T, Vec<usize>)]| {
        fittings.iter().map(|(fitting, held_out)| fitting.measure(held_out)).sum::<f32>() / count
    };
    let before = measure(&fittings);
    let (mut best_epoch, mut best) = (0, before);
    for epoch in 1..=limits.epochs_max {
        let loss = fittings.iter_mut().map(|(fitting, _)| fitting.train_epoch()).sum::<f32>() / count;
        let validation = measure(&fittings);
        if validation > best {
            (best_epoch, best) = (epoch, validation);
        }
        let stage = Stage::Validation;
        observe(observer, Progress { stage, epoch, epochs_max: limits.epochs_max, loss, validation: Some(validation) })?;
        if epoch >= best_epoch + limits.patience {
            break;
        }
    }
    report.epochs = best_epoch;
    report.validation_before = Some(before);
    report.validation = Some(best);
    Ok(())
}
