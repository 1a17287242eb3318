//! Why an outcome is where it is: what each signal added, and the records that taught the strongest ones.

use std::sync::Arc;

use super::candidates::Candidate;
use super::evidence::Evidence;
use super::signals::Signal;
use super::{Asked, Prediction, Ranked, predict_with};
use crate::core::event::Outcome;
use crate::core::graph::transition::Symbol;
use crate::core::id::{ExecutionId, Seq};
use crate::core::memory::{Remembered, Way};
use crate::core::state::State;

/// Records named per signal.
const RECORDS_MAX: usize = 3;

/// A record that taught a signal: a completed trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Taught {
    pub signal: Signal,
    pub seq: Seq,
    pub execution: ExecutionId,
    pub intent: Arc<str>,
    /// How near that intent is to the one asked about, for signals that go by it.
    pub similarity: Option<f32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub prediction: Prediction,
    /// The outcome explained, with what each signal added.
    pub ranked: Ranked,
    /// From 1.
    pub rank: usize,
    /// The clause of the intent that the tool fits best; `None` where there are no vectors.
    pub clause: Option<usize>,
    /// By signal, in the order of what they add.
    pub taught: Vec<Taught>,
}

/// Why `outcome` (the first one, if none is named) is where it is. `None` for an outcome that is not weighed at all.
pub fn explain(state: &State, evidence: &Evidence, asked: &Asked<'_>, outcome: Option<&Outcome>) -> Option<Explanation> {
    let mut prediction = predict_with(state, evidence, &Asked { k: usize::MAX, ..*asked });
    let rank = match outcome {
        None => 0,
        Some(outcome) => prediction.ranked.iter().position(|ranked| ranked.outcome == *outcome)?,
    };
    let ranked = prediction.ranked.get(rank)?.clone();
    prediction.ranked.truncate(asked.k);
    let candidate = Candidate::find(state, &ranked.outcome)?;
    let taught = taught(state, evidence, asked, candidate, &ranked);
    let clause = candidate.tool().and_then(|tool| evidence.best_clause(tool)).map(|(clause, _)| clause);
    Some(Explanation { prediction, ranked, rank: rank + 1, clause, taught })
}

fn taught(state: &State, evidence: &Evidence, asked: &Asked<'_>, candidate: Candidate, ranked: &Ranked) -> Vec<Taught> {
    let symbols: Vec<Option<Symbol>> = std::iter::once(Some(Symbol::START))
        .chain(asked.context.iter().map(|callee| state.find(callee).map(Symbol::call)))
        .collect();
    let two: Vec<Symbol> = symbols[symbols.len().saturating_sub(2)..].iter().copied().flatten().collect();
    let one: Vec<Symbol> = symbols.last().copied().flatten().into_iter().collect();
    let follows = |before: &[Symbol]| {
        let wanted: Vec<Symbol> = before.iter().copied().chain([candidate.symbol()]).collect();
        move |way: &Way| wanted.len() > 1 && way.symbols().windows(wanted.len()).any(|part| part == wanted)
    };
    let mut all = Vec::new();
    for contribution in ranked.contributions() {
        let signal = contribution.signal;
        match signal {
            Signal::Transition => all.extend(latest(state, signal, follows(&one))),
            Signal::TransitionTwo => all.extend(latest(state, signal, follows(&two))),
            Signal::Popularity => all.extend(latest(state, signal, |way| way.symbols().contains(&candidate.symbol()))),
            Signal::MemoryNext | Signal::MemoryNearest => all.extend(nearest(evidence, signal, follows(&one))),
            Signal::Memory | Signal::Strategic => {
                all.extend(nearest(evidence, signal, |way| way.symbols().contains(&candidate.symbol())));
            }
            _ => {}
        }
    }
    all
}

/// The latest runs that went such a way.
fn latest(state: &State, signal: Signal, wanted: impl Fn(&Way) -> bool) -> Vec<Taught> {
    let mut found: Vec<(&Remembered, &Way)> = Vec::new();
    for (_, entry) in state.memory.iter() {
        found.extend(entry.ways.iter().filter(|way| wanted(way)).map(|way| (&**entry, way)));
    }
    found.sort_by_key(|(_, way)| std::cmp::Reverse(way.seq));
    found.truncate(RECORDS_MAX);
    found.into_iter().map(|(entry, way)| record(signal, entry, way, None)).collect()
}

/// The runs of the nearest past intents that went such a way.
fn nearest(evidence: &Evidence, signal: Signal, wanted: impl Fn(&Way) -> bool) -> Vec<Taught> {
    let mut found = Vec::new();
    for near in &evidence.near {
        let ways = near.entry.ways.iter().rev().filter(|way| wanted(way));
        found.extend(ways.map(|way| record(signal, &near.entry, way, Some(near.similarity))));
        if found.len() >= RECORDS_MAX {
            break;
        }
    }
    found.truncate(RECORDS_MAX);
    found
}

fn record(signal: Signal, entry: &Remembered, way: &Way, similarity: Option<f32>) -> Taught {
    let (intent, execution) = (Arc::clone(&entry.intent), way.execution.clone());
    Taught { signal, seq: way.seq, execution, intent, similarity }
}
