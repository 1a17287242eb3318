//! Learning in the fold: now and then a remembered intent is asked about as if it had never been seen, step by step, and the logit
//! learns from what it was.
//!
//! Lessons come from the memory, not from the trace at hand: the vectors of an intent arrive after its trace, and weights are to suit
//! the memory as it is now. The runs of the intent are left out of every count ([`Less`]), or it would answer itself.
//! How many lessons are due follows from the number of traces, fewer and fewer as there are more; each costs a look at all vectors.

use std::sync::Arc;

use super::candidates::{self, Candidate};
use super::chances::Chances;
use super::evidence::{Evidence, Less};
use super::logit::{Example, Logit};
use super::signals::Scene;
use crate::core::digest::{Digestible, Writer};
use crate::core::graph::Node;
use crate::core::memory::{Remembered, Way};
use crate::core::state::State;
use crate::core::text::clauses;
use crate::core::vectors::TextHash;

/// Every trace brings a lesson until there are this many; from there on twice as many traces bring this many lessons.
const LESSONS_AT_FIRST: u64 = 256;
/// Lessons that may wait for vectors, and lessons per record while they are made up for.
const DUE_MAX: u64 = 1_024;
const LESSONS_PER_RECORD: u64 = 2;
/// Places of a run that are asked about.
const PLACES_MAX: usize = 6;

/// Which lessons were taken and which are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lessons {
    /// Traces that could teach, so far.
    traces: u64,
    due: u64,
    taken: u64,
    /// The number of traces at which the next one is due.
    next: u64,
}

impl Lessons {
    /// A trace was learnt.
    pub fn heard(&mut self) {
        self.traces += 1;
        if self.traces >= self.next {
            self.due = (self.due + 1).min(DUE_MAX);
            self.next = self.traces + 1 + self.traces / LESSONS_AT_FIRST;
        }
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }
}

impl Digestible for Lessons {
    fn digest(&self, writer: &mut Writer) {
        writer.u64(self.traces).u64(self.due).u64(self.taken).u64(self.next);
    }
}

/// Takes what is due, as far as there are vectors for it.
pub fn study(state: &mut State) {
    let lessons = &state.predictor.lessons;
    if lessons.due == 0 || state.memory.is_empty() || vectors_are_on_their_way(state) {
        return;
    }
    for _ in 0..lessons.due.min(LESSONS_PER_RECORD) {
        let lessons = &mut state.predictor.lessons;
        lessons.due -= 1;
        lessons.taken += 1;
        let drawn = draw(state.predictor.lessons.taken, state.memory.numbers());
        let entry = Arc::clone(state.memory.get(drawn).expect("drawn from those kept"));
        let mut logit = state.predictor.logit.clone();
        take(state, drawn, &entry, &mut logit);
        state.predictor.logit = logit;
    }
}

/// While many are, what has none looks like a stranger. Without an embedder none are: the other signals can be learnt.
fn vectors_are_on_their_way(state: &State) -> bool {
    let (have, wanted) = state.vectors.coverage();
    state.vectors.model().is_some() && have * 10 < wanted * 9
}

/// The intent that lesson number `lesson` is about: evenly spread, the same in every process.
fn draw(lesson: u64, among: std::ops::Range<u64>) -> u64 {
    among.start + mix(lesson) % (among.end - among.start)
}

/// Spreads a counter over all 64 bits (the finaliser of `SplitMix64`).
pub(super) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// One lesson: the way of the entry that was gone last, place by place.
fn take(state: &State, number: u64, entry: &Remembered, logit: &mut Logit) {
    let Some(way) = entry.ways.last() else { return };
    let vector = |text: &str| state.vectors.get(TextHash::of(text)).map(|vector| &**vector);
    let clauses: Vec<&[f32]> = clauses(&entry.intent).into_iter().filter_map(vector).collect();
    let whole = state.vectors.get(entry.hash).map(|vector| &**vector);
    let less = Less { number: Some(number), ways: entry.ways.clone() };
    let evidence = Evidence::of_vectors(state, whole, &clauses, &less);
    let calls: Vec<Option<Node>> = way.calls.iter().copied().map(Some).collect();
    for place in places(way, number) {
        let right = way.calls.get(place).map_or(Candidate::Done, |node| Candidate::Call(*node));
        logit.learn(&example(state, &evidence, &calls[..place], &less, right));
    }
}

/// All places of a short run, evenly spread ones of a long run. The end is one if the run had one.
fn places(way: &Way, number: u64) -> impl Iterator<Item = usize> {
    let places = way.calls.len() + usize::from(way.ended);
    let step = places.div_ceil(PLACES_MAX).max(1);
    let first = usize::try_from(number % step as u64).expect("smaller than a step");
    (first..places).step_by(step)
}

fn example(state: &State, evidence: &Evidence, context: &[Option<Node>], less: &Less, right: Candidate) -> Example {
    let chances = Chances::of(state, evidence, context, less);
    let mut candidates = candidates::of(state, evidence, &chances);
    let at = candidates.binary_search(&right).unwrap_or_else(|at| {
        candidates.insert(at, right);
        at
    });
    let scene = Scene::new(state, evidence, &chances);
    Example { values: candidates.into_iter().map(|candidate| scene.values(candidate)).collect(), right: at }
}
