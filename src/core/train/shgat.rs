//! Trains SHGAT on the remembered runs, and scores the intents by models that have not seen them.
//!
//! The intents are divided into four folds. Each fold is learnt with the hypergraph of the other folds, because a capability's vector
//! is the mean of its intents: one that contains the question itself would teach that vectors need no change. The number of epochs is
//! chosen on a part of the intents that is held out. For the held-out scores, the parameters come from the half of the folds that the
//! intent is not in, the hypergraph from all folds but its own.

use std::collections::BTreeSet;

use pml_model::shgat::{HypergraphError, Parameters, Part, Priorities, Settings, Shape, Trace, Trained, train};
use pml_model::{Progress, Report, Stage, TrainError};

use super::data::TrainingData;
use super::examples::Held;
use super::run::Observe;
use crate::memory::CallSequence;
use crate::predict::shgat::bytes::rounded;
use crate::predict::shgat::capability_graph::CapabilityGraph;
use crate::predict::shgat::{OfferedRows, ShgatModel, TargetScores, scorer};
use crate::state::State;

const FOLDS: usize = 4;
/// One intent in this many is held out to choose the number of epochs.
const VALIDATION: usize = 7;
/// With fewer intents nothing is trained.
const INTENTS_MIN: usize = 12;
/// Attention heads, at most.
const HEADS: usize = 8;
/// A batch costs one pass over the hypergraph, so many runs are divided into larger batches: about this many an epoch.
const BATCHES: usize = 20;
const BATCH_MAX: usize = 512;

/// Why there is no SHGAT.
pub(super) enum Failure {
    Training(TrainError),
    /// The capabilities form no hypergraph.
    Hypergraph(HypergraphError),
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        Self::Training(error)
    }
}

impl From<HypergraphError> for Failure {
    fn from(error: HypergraphError) -> Self {
        Self::Hypergraph(error)
    }
}

/// The runs that are learnt from.
pub(super) struct ShgatRuns<'a> {
    state: &'a State,
    data: &'a TrainingData,
    /// In the order of the training data, each with the position of its intent in the memory.
    runs: Vec<(&'a CallSequence, usize)>,
    settings: Settings,
}

/// A hypergraph and the runs that are compared with it.
struct Fold {
    graph: CapabilityGraph,
    traces: Vec<Trace>,
}

impl<'a> ShgatRuns<'a> {
    pub(super) fn new(state: &'a State, data: &'a TrainingData, settings: &Settings, seed: u64) -> Self {
        let mut runs = Vec::new();
        for (at, (_, entry)) in state.memory.iter().enumerate() {
            runs.extend(entry.sequences.iter().map(|sequence| (sequence, at)));
        }
        let batch = (runs.len() / BATCHES).clamp(settings.batch, BATCH_MAX.max(settings.batch));
        Self { state, data, runs, settings: Settings { seed, batch, ..*settings } }
    }

    /// Trains SHGAT and adds its held-out scores. Without a better one than the untrained, the bytes are empty.
    pub(super) fn train(&self, observe: &mut Observe<'_>, held: &mut Held) -> Result<(Vec<u8>, Report), Failure> {
        let mut report = Report::default();
        if self.state.memory.len() < INTENTS_MIN || self.data.set.texts.is_empty() {
            return Ok((Vec::new(), report));
        }
        let mut priorities = self.starting_priorities();
        let chosen = self.choose_epochs(&mut priorities, observe)?;
        report.examples = chosen.traces;
        report.skipped = chosen.refused.no_path + chosen.refused.unknown_node + chosen.refused.no_vector;
        report.epochs = chosen.best_epoch.map_or(0, |epoch| epoch + 1);
        report.validation_before = chosen.validations.first().copied().map(single);
        report.validation = chosen.validations.get(report.epochs).copied().map(single);
        if report.epochs == 0 {
            return Ok((Vec::new(), report));
        }
        let folds = self.folds(|_| true)?;
        let mut left = priorities.clone();
        let trained = self.fit(&folds, report.epochs, &mut left, Stage::Fit, observe)?;
        report.loss = trained.losses.last().copied().unwrap_or(0.0);
        for half in [0..FOLDS / 2, FOLDS / 2..FOLDS] {
            let stage = Stage::CrossFit { part: half.start };
            let trained = self.fit(&folds[half.clone()], report.epochs, &mut priorities.clone(), stage, observe)?;
            for fold in (0..FOLDS).filter(|fold| !half.contains(fold)) {
                self.add_scores(fold, &folds[fold].graph, &trained.parameters, held);
            }
        }
        let graph = CapabilityGraph::new(self.state, &self.data.set.tools, &|_| true)?;
        let priorities = left.iter().map(|(trace, priority)| (trace, rounded(priority))).collect();
        let model = ShgatModel { parameters: trained.parameters, switches: self.settings.switches, graph, priorities };
        Ok((model.to_bytes(), report))
    }

    /// The priorities that the version that serves left for the runs that are still remembered.
    pub(super) fn starting_priorities(&self) -> Priorities {
        let remembered: BTreeSet<u128> = self.runs.iter().map(|(sequence, _)| u128::from(sequence.seq.0)).collect();
        let mut priorities = self.state.predictor.parts.priorities();
        priorities.retain(|trace| remembered.contains(&trace));
        priorities
    }

    /// Trains on most intents, until the others are no longer ranked better.
    fn choose_epochs(&self, priorities: &mut Priorities, observe: &mut Observe<'_>) -> Result<Trained, Failure> {
        let is_learnt = |intent: usize| intent % VALIDATION != VALIDATION - 1;
        let held_out = self.fold(&is_learnt, &|intent| !is_learnt(intent))?;
        let folds = self.folds(is_learnt)?;
        self.run(&folds, &[held_out], self.settings.epochs, priorities, Stage::Validation, observe)
    }

    fn fit(
        &self,
        folds: &[Fold],
        epochs: usize,
        priorities: &mut Priorities,
        stage: Stage,
        observe: &mut Observe<'_>,
    ) -> Result<Trained, Failure> {
        self.run(folds, &[], epochs, priorities, stage, observe)
    }

    fn run(
        &self,
        folds: &[Fold],
        validation: &[Fold],
        epochs: usize,
        priorities: &mut Priorities,
        stage: Stage,
        observe: &mut Observe<'_>,
    ) -> Result<Trained, Failure> {
        let (parts, validation): (Vec<Part<'_>>, Vec<Part<'_>>) =
            (folds.iter().map(|fold| self.part(fold)).collect(), validation.iter().map(|fold| self.part(fold)).collect());
        let settings = Settings { epochs, ..self.settings };
        let start = Parameters::new(Shape::new(self.data.set.tools.ncols(), HEADS), 0);
        let trained = train(&parts, &validation, start, priorities, &settings, &mut |at| {
            let validation = at.validation.map(single);
            observe(Progress { stage, epoch: at.epoch + 1, epochs_max: epochs, loss: at.loss, validation })
        });
        if trained.interrupted { Err(TrainError::Stopped.into()) } else { Ok(trained) }
    }

    fn part<'b>(&'b self, fold: &'b Fold) -> Part<'b> {
        let Fold { graph: CapabilityGraph { graph, vectors, features, .. }, traces } = fold;
        Part { graph, vectors, features, intents: &self.data.set.texts, traces }
    }

    /// The folds of the intents that `wanted` accepts, each with the hypergraph of the others.
    fn folds(&self, wanted: impl Fn(usize) -> bool) -> Result<Vec<Fold>, Failure> {
        let fold = |fold: usize| {
            let (others, own) = (
                |intent: usize| wanted(intent) && intent % FOLDS != fold,
                |intent: usize| wanted(intent) && intent % FOLDS == fold,
            );
            self.fold(&others, &own)
        };
        (0..FOLDS).map(fold).collect()
    }

    /// The runs of the intents in `own` with the hypergraph of those in `others`; intents by position in the memory.
    fn fold(&self, others: &dyn Fn(usize) -> bool, own: &dyn Fn(usize) -> bool) -> Result<Fold, Failure> {
        let first = self.state.memory.numbers().start;
        let counted = |number: u64| others(usize::try_from(number - first).expect("the memory is bounded"));
        let graph = CapabilityGraph::new(self.state, &self.data.set.tools, &counted)?;
        let by_members = graph.by_members();
        let trace = |(run, (sequence, _)): (usize, &(&CallSequence, usize))| Trace {
            id: u128::from(sequence.seq.0),
            intent: self.data.set.runs[run].intent,
            path: graph.path(&by_members, &sequence.calls),
            succeeded: self.data.set.runs[run].succeeded,
        };
        let traces = self.runs.iter().enumerate().filter(|(_, (_, intent))| own(*intent)).map(trace).collect();
        Ok(Fold { graph, traces })
    }

    /// Scores the intents of a fold that give examples.
    fn add_scores(&self, fold: usize, graph: &CapabilityGraph, parameters: &Parameters, held: &mut Held) {
        let scorer = scorer(graph, parameters, self.settings.switches);
        let rows = OfferedRows::new(self.state, &graph.positions);
        for (run, (_, intent)) in self.runs.iter().enumerate() {
            if intent % FOLDS == fold && held.wants(run) {
                let vector = self.data.set.texts.row(self.data.set.runs[run].intent).to_vec();
                held.add_target(run, TargetScores::new(&scorer, &rows, &vector));
            }
        }
    }
}

/// A measure between 0 and 1.
#[expect(clippy::cast_possible_truncation, reason = "it is only shown")]
fn single(measure: f64) -> f32 {
    measure as f32
}
