//! Training: traces drawn by priority, one pass over the hypergraph per batch, Adam, and an end where the validation part is ranked best.

use std::ops::{ControlFlow, Range};

use super::Switches;
use super::batch::{Batch, Ground, Row, Terms};
use super::hypergraph::Node;
use super::measure::{intents, measure_on, path_successes_on};
use super::parameters::{Group, Parameters};
use super::priority::{Draw, Priorities};
use super::trace::{Part, Refusal, Refused};
use crate::adam::{Adam, Rate};
use crate::random::Random;

/// How much faster than matrices the few numbers learn that act on everything: gates, factors, shares, offset.
const SCALAR_SPEED: f32 = 10.0;

/// The settings of a training run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The number of times that as many traces are drawn as there are.
    pub epochs: usize,
    /// The number of epochs without a better validation after which training ends.
    pub patience: usize,
    /// The number of traces per update.
    pub batch: usize,
    pub learning_rate: f32,
    /// The share of a parameter's distance from its start that an update takes away, times the learning rate.
    pub decay: f32,
    /// What the loss of a failed trace is multiplied by.
    pub failure_weight: f32,
    /// What the yes-or-no term, which makes scores probabilities, is multiplied by.
    pub calibration: f32,
    /// Up to this many candidates of a kind a trace is compared with all of them.
    pub candidates_max: usize,
    /// Above it, with this many drawn at random.
    pub candidates_drawn: usize,
    pub seed: u64,
    pub threads: usize,
    pub switches: Switches,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            epochs: 30,
            patience: 5,
            batch: 64,
            learning_rate: 1e-3,
            decay: 1e-2,
            failure_weight: 0.5,
            calibration: 0.3,
            candidates_max: 20_000,
            candidates_drawn: 4_096,
            seed: 1,
            threads: 1,
            switches: Switches::default(),
        }
    }
}

/// Where training is. Given after every batch, and once more after every epoch with the validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// From 0.
    pub epoch: usize,
    /// The batches done of this epoch, and all of them.
    pub batch: usize,
    pub batches: usize,
    /// The mean loss of this epoch so far.
    pub loss: f32,
    /// The mean NDCG@5 of the validation parts; after an epoch, if there are any.
    pub validation: Option<f64>,
}

/// What training gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The parameters with the best validation; without validation, the last.
    pub parameters: Parameters,
    /// The number of traces learnt from and of their nodes: the examples.
    pub traces: usize,
    pub examples: usize,
    /// What was not learnt from.
    pub refused: Refused,
    /// The epoch of the parameters, from 0; `None` if none was better than the start.
    pub best_epoch: Option<usize>,
    /// The mean loss of every epoch.
    pub losses: Vec<f32>,
    /// The validation before training and after every epoch; empty without validation parts.
    pub validations: Vec<f64>,
    /// Whether the caller ended the training.
    pub interrupted: bool,
    /// Whether the loss or a parameter ceased to be a finite number; the parameters are those before.
    pub diverged: bool,
}

/// Learns from the traces of `parts`, starting from `start`, until the last epoch, until the ranking of the `validation` parts no longer
/// gets better, or until `report` says so. Then sets the priorities of all traces from the new parameters.
pub fn train(
    parts: &[Part],
    validation: &[Part],
    start: Parameters,
    priorities: &mut Priorities,
    settings: &Settings,
    report: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Trained {
    let mut run = Run::new(parts, validation, start, settings);
    let mut random = Random::new(settings.seed);
    for epoch in 0..settings.epochs {
        let batches = run.batches(epoch, priorities, &mut random);
        if run.epoch(epoch, &batches, &mut random, report).is_break() || run.judge(epoch, batches.len(), report).is_break() {
            break;
        }
    }
    let trained = run.finish();
    for (part, ground) in parts.iter().zip(&run.grounds) {
        let predicted = path_successes_on(ground, part, &trained.parameters, settings.switches, settings.threads);
        for (trace, predicted) in part.traces.iter().zip(predicted) {
            if part.refusal(trace).is_none() {
                priorities.refresh(trace.id, trace.succeeded, predicted);
            }
        }
    }
    trained
}

/// A training run in progress.
struct Run<'a> {
    settings: &'a Settings,
    parts: &'a [Part<'a>],
    grounds: Vec<Ground<f32>>,
    validation: Vec<(&'a Part<'a>, Ground<f32>)>,
    /// The part and place of every trace that is learnt from.
    places: Vec<(usize, usize)>,
    adams: Vec<(Group, Range<usize>, Adam)>,
    parameters: Parameters,
    best: Parameters,
    trained: Trained,
}

/// A few traces of one part, with their weights.
struct Drawn {
    part: usize,
    traces: Vec<(usize, f32)>,
}

impl<'a> Run<'a> {
    fn new(parts: &'a [Part<'a>], validation: &'a [Part<'a>], mut start: Parameters, settings: &'a Settings) -> Self {
        let ground = |part: &Part| Ground::new(part.graph, part.vectors.clone(), part.features);
        start.grow(parts.iter().chain(validation).map(|part| part.graph.level_count()).max().unwrap_or(0));
        let mut trained = Trained {
            parameters: start.clone(),
            traces: 0,
            examples: 0,
            refused: Refused::default(),
            best_epoch: None,
            losses: Vec::new(),
            validations: Vec::new(),
            interrupted: false,
            diverged: false,
        };
        let mut places = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            for (trace, of) in part.traces.iter().enumerate() {
                match part.refusal(of) {
                    None => {
                        places.push((at, trace));
                        trained.examples += of.path.len();
                    }
                    Some(Refusal::NoPath) => trained.refused.no_path += 1,
                    Some(Refusal::UnknownNode) => trained.refused.unknown_node += 1,
                    Some(Refusal::NoVector) => trained.refused.no_vector += 1,
                }
            }
        }
        trained.traces = places.len();
        let adams = start.groups().into_iter().map(|group| (group, start.range(group), Adam::new(start.range(group).len())));
        let mut run = Self {
            settings,
            parts,
            grounds: parts.iter().map(ground).collect(),
            validation: validation.iter().map(|part| (part, ground(part))).collect(),
            places,
            adams: adams.collect(),
            best: start.clone(),
            parameters: start,
            trained,
        };
        run.trained.validations.extend(run.validate());
        run
    }

    /// The traces of an epoch, in batches of one part each, in random order.
    #[expect(clippy::cast_precision_loss, reason = "few epochs")]
    fn batches(&self, epoch: usize, priorities: &Priorities, random: &mut Random) -> Vec<Drawn> {
        let draws = if self.settings.switches.priorities {
            let ids: Vec<u128> = self.places.iter().map(|(part, trace)| self.parts[*part].traces[*trace].id).collect();
            let done = epoch as f64 / self.settings.epochs.saturating_sub(1).max(1) as f64;
            priorities.draw(&ids, ids.len(), Priorities::beta(done), random)
        } else {
            (0..self.places.len()).map(|index| Draw { index, weight: 1.0 }).collect()
        };
        let mut by_part: Vec<Vec<(usize, f32)>> = vec![Vec::new(); self.parts.len()];
        for draw in draws {
            let (part, trace) = self.places[draw.index];
            by_part[part].push((trace, draw.weight));
        }
        let mut batches = Vec::new();
        for (part, mut traces) in by_part.into_iter().enumerate() {
            random.shuffle(&mut traces);
            let chunks = traces.chunks(self.settings.batch.max(1));
            batches.extend(chunks.map(|traces| Drawn { part, traces: traces.to_vec() }));
        }
        random.shuffle(&mut batches);
        batches
    }

    #[expect(clippy::cast_precision_loss, reason = "few traces")]
    fn epoch(
        &mut self,
        epoch: usize,
        batches: &[Drawn],
        random: &mut Random,
        report: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut sum, mut count) = (0.0, 0.0);
        for (at, drawn) in batches.iter().enumerate() {
            let (loss, gradient) = self.gradient(drawn, random);
            if !loss.is_finite() || gradient.iter().any(|value| !value.is_finite()) {
                self.trained.diverged = true;
                return ControlFlow::Break(());
            }
            self.update(&gradient);
            sum += loss * drawn.traces.len() as f32;
            count += drawn.traces.len() as f32;
            let progress = Progress { epoch, batch: at + 1, batches: batches.len(), loss: sum / count, validation: None };
            if report(progress).is_break() {
                self.trained.interrupted = true;
                return ControlFlow::Break(());
            }
        }
        self.trained.losses.push(if count > 0.0 { sum / count } else { 0.0 });
        ControlFlow::Continue(())
    }

    fn gradient(&self, drawn: &Drawn, random: &mut Random) -> (f32, Vec<f32>) {
        let (part, ground, settings) = (&self.parts[drawn.part], &self.grounds[drawn.part], self.settings);
        let traces: Vec<usize> = drawn.traces.iter().map(|(trace, _)| *trace).collect();
        let paths: Vec<&[Node]> = traces.iter().map(|trace| &part.traces[*trace].path[..]).collect();
        let row = |(path, (trace, weight)): (&&'a [Node], &(usize, f32))| Row {
            path,
            succeeded: part.traces[*trace].succeeded,
            weight: *weight,
        };
        let batch = Batch {
            intents: intents(part, &traces),
            rows: paths.iter().zip(&drawn.traces).map(row).collect(),
            choices: ground.choose(&paths, (settings.candidates_max, settings.candidates_drawn), random),
        };
        let terms = Terms {
            switches: settings.switches,
            failure_weight: settings.failure_weight,
            calibration: settings.calibration,
            threads: settings.threads,
        };
        let mut gradient = vec![0.0; self.parameters.values.len()];
        let loss = ground.loss(&self.parameters, &terms, batch, &mut gradient);
        (loss, gradient)
    }

    fn update(&mut self, gradient: &[f32]) {
        for (group, range, adam) in &mut self.adams {
            let speed = if group.is_scalar() { SCALAR_SPEED } else { 1.0 };
            let rate = Rate { learning_rate: speed * self.settings.learning_rate, decay: self.settings.decay };
            adam.update(&mut self.parameters.values[range.clone()], &gradient[range.clone()], rate);
        }
    }

    /// Keeps the parameters if they are the best so far, and says whether to go on.
    fn judge(&mut self, epoch: usize, batches: usize, report: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> ControlFlow<()> {
        if !self.parameters.is_finite() {
            self.trained.diverged = true;
            return ControlFlow::Break(());
        }
        let validation = self.validate();
        let best_before = self.trained.validations.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if validation.is_none_or(|validation| validation > best_before) {
            self.best.clone_from(&self.parameters);
            self.trained.best_epoch = Some(epoch);
        }
        self.trained.validations.extend(validation);
        let loss = self.trained.losses.last().copied().unwrap_or(0.0);
        if report(Progress { epoch, batch: batches, batches, loss, validation }).is_break() {
            self.trained.interrupted = true;
            return ControlFlow::Break(());
        }
        let since_best = epoch + 1 - self.trained.best_epoch.map_or(0, |best| best + 1);
        if since_best >= self.settings.patience { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The mean NDCG@5 of all rankings of the validation parts. A trace has one of tools and, if it used any, one of capabilities; so
    /// what few traces have does not decide.
    #[expect(clippy::cast_precision_loss, reason = "few traces")]
    fn validate(&self) -> Option<f64> {
        let (mut sum, mut rankings) = (0.0, 0);
        for (part, ground) in &self.validation {
            for measured in measure_on(ground, part, &self.parameters, self.settings.switches, self.settings.threads) {
                sum += measured.ndcg_at_5 * measured.traces as f64;
                rankings += measured.traces;
            }
        }
        (rankings > 0).then(|| sum / rankings as f64)
    }

    fn finish(&mut self) -> Trained {
        let mut trained = self.trained.clone();
        trained.parameters.clone_from(&self.best);
        trained
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
