//! The examples that the ranker's weights are fitted to: steps of remembered intents, with scores of trained parts that have not seen
//! the intent.

use std::collections::BTreeMap;

use pml_model::{Encoder, Next, Scores, TrainError};

use super::Tick;
use super::data::TrainingData;
use crate::predict::lesson::{HeldOutScores, examples};
use crate::predict::logit::Example;
use crate::predict::parts::{HeadScores, HeldOutEncoder, floored};
use crate::predict::shgat::TargetScores;
use crate::state::State;

/// Intents that give examples, at most; evenly spread over the memory. The few weights need no more.
const INTENTS_MAX: usize = 1_500;
/// Numbers kept for held-out scores, at most: an intent takes a few per tool.
const SCORES_MAX: usize = 16 * 1024 * 1024;
/// Scores per tool that are held in mind when the room is divided: one per step of a usual run, and those of SHGAT.
const STEPS_USUAL: usize = 7;

/// The steps of one remembered intent.
pub(super) struct IntentExamples {
    /// In the memory.
    pub(super) number: u64,
    pub(super) steps: Vec<Example>,
}

/// The intents that give examples, with the scores that trained parts gave them.
pub(super) struct Held {
    scores: BTreeMap<u64, HeldOutScores>,
    /// By run of the training data: the number of its intent if the intent gives examples and the run is its latest.
    by_run: Vec<Option<u64>>,
    /// Encoders of the cross-fit, and by intent the position of the one that has not seen it.
    encoders: Vec<HeldOutEncoder>,
    encoder_of: BTreeMap<u64, usize>,
}

impl Held {
    /// Chooses the intents.
    pub(super) fn choose(state: &State, data: &TrainingData) -> Self {
        let room = SCORES_MAX / (state.tools.len().max(1) * STEPS_USUAL);
        let numbers = state.memory.numbers();
        let known = usize::try_from(numbers.end - numbers.start).expect("the memory is bounded");
        let step = known.div_ceil(room.clamp(100, INTENTS_MAX)).max(1);
        // Counted from the newest intent: the latest habits matter most.
        let scores: BTreeMap<u64, HeldOutScores> = numbers
            .rev()
            .step_by(step)
            .map(|number| (number, HeldOutScores { with_hyperpaths: true, ..HeldOutScores::default() }))
            .collect();
        let is_latest = |run: usize| data.numbers.get(run + 1) != Some(&data.numbers[run]);
        let chosen = |run: usize| Some(data.numbers[run]).filter(|number| is_latest(run) && scores.contains_key(number));
        let by_run = (0..data.numbers.len()).map(chosen).collect();
        Self { scores, by_run, encoders: Vec::new(), encoder_of: BTreeMap::new() }
    }

    fn scores_of(&mut self, run: usize) -> Option<&mut HeldOutScores> {
        self.scores.get_mut(&self.by_run[run]?)
    }

    /// Keeps the head's scores of a run.
    pub(super) fn add_head(&mut self, run: usize, scores: &Scores) {
        if let Some(held) = self.scores_of(run) {
            held.head = HeadScores::new(scores.clone());
        }
    }

    /// Whether the scores of a run are kept.
    pub(super) fn wants(&self, run: usize) -> bool {
        self.by_run[run].is_some()
    }

    /// Keeps SHGAT's scores of a run.
    pub(super) fn add_target(&mut self, run: usize, scores: TargetScores) {
        if let Some(held) = self.scores_of(run) {
            held.target = scores;
        }
    }

    /// The scores by number of the intent.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &HeldOutScores)> {
        self.scores.iter().map(|(number, scores)| (*number, scores))
    }

    /// The scores of an intent, if it gives examples.
    pub(super) fn get(&self, number: u64) -> Option<&HeldOutScores> {
        self.scores.get(&number)
    }

    /// Keeps the encoder's prediction of a run after `calls` calls.
    pub(super) fn add_next(&mut self, run: usize, calls: usize, next: &Next) {
        if let Some(held) = self.scores_of(run) {
            held.next.insert(calls, floored(next.clone()));
        }
    }

    /// Keeps the encoders of the cross-fit, each with the runs it has not seen.
    pub(super) fn add_encoders(&mut self, state: &State, encoders: Vec<(Encoder, Vec<usize>)>) {
        for (encoder, runs) in encoders {
            let at = self.encoders.len();
            self.encoders.push(HeldOutEncoder::new(encoder, state));
            self.encoder_of.extend(runs.into_iter().filter_map(|run| Some((self.by_run[run]?, at))));
        }
    }

    /// The encoder that has not seen an intent.
    pub(super) fn encoder(&self, number: u64) -> Option<&HeldOutEncoder> {
        self.encoder_of.get(&number).map(|at| &self.encoders[*at])
    }

    /// The examples of every chosen intent that has any, the oldest intent first.
    pub(super) fn examples(&self, state: &State, tick: &mut Tick<'_>) -> Result<Vec<IntentExamples>, TrainError> {
        let mut found = Vec::new();
        for (number, scores) in &self.scores {
            tick()?;
            let entry = state.memory.get(*number);
            let steps = entry.map(|entry| examples(state, *number, entry, scores.clone())).unwrap_or_default();
            if !steps.is_empty() {
                found.push(IntentExamples { number: *number, steps });
            }
        }
        Ok(found)
    }
}
