//! Explanation of a prediction: what each signal added to an outcome, and the traces behind the signals.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::candidates::Candidate;
use super::evidence::Evidence;
use super::hyperpath::{Aim, likeliest_aims};
use super::signals::Signal;
use super::{Prediction, PredictionQuery, Ranked, predict_with};
use crate::event::Outcome;
use crate::graph::transition::Symbol;
use crate::graph::{Node, NodeKind};
use crate::id::{Callee, ExecutionId, Seq};
use crate::memory::{CallSequence, PastIntent};
use crate::state::State;

/// Traces named per signal.
const TRACES_MAX: usize = 3;
/// Capabilities named as targets.
const AIMS_MAX: usize = 3;

/// A completed trace that a signal's value comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct SupportingTrace {
    pub signal: Signal,
    pub seq: Seq,
    pub execution: ExecutionId,
    pub intent: Arc<str>,
    /// The similarity of that intent and the one asked about, for signals that depend on it.
    pub similarity: Option<f32>,
}

/// Why one outcome has its rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub prediction: Prediction,
    /// The outcome explained, with what each signal added.
    pub ranked: Ranked,
    /// From 1.
    pub rank: usize,
    /// The clause of the intent that the tool fits best; `None` where there are no vectors.
    pub clause: Option<usize>,
    /// By signal, the one that adds most first.
    pub supporting: Vec<SupportingTrace>,
    /// The capabilities that the intent likely aims at: those that contain the tool, or of all if the outcome is no tool.
    pub aims: Vec<Aim>,
}

/// Explains `outcome`, or the first one if none is given. Returns `None` for an outcome that is not among the candidates.
pub fn explain(
    state: &State,
    evidence: &Evidence,
    query: &PredictionQuery<'_>,
    outcome: Option<&Outcome>,
) -> Option<Explanation> {
    let mut prediction = predict_with(state, evidence, &PredictionQuery { k: usize::MAX, ..*query });
    let rank = match outcome {
        None => 0,
        Some(outcome) => prediction.ranked.iter().position(|ranked| ranked.outcome == *outcome)?,
    };
    let ranked = prediction.ranked.get(rank)?.clone();
    prediction.ranked.truncate(query.k);
    let candidate = Candidate::find(state, &ranked.outcome)?;
    let supporting = supporting(state, evidence, query, candidate, &ranked);
    let clause = candidate.tool().and_then(|tool| evidence.best_clause(tool)).map(|(clause, _)| clause);
    let aims = aims(state, evidence, query.context, candidate);
    Some(Explanation { prediction, ranked, rank: rank + 1, clause, supporting, aims })
}

fn aims(state: &State, evidence: &Evidence, context: &[Callee], candidate: Candidate) -> Vec<Aim> {
    let contains = |capability: Node| candidate.tool().is_none_or(|tool| comes_down_to(state, capability, Node::tool(tool)));
    likeliest_aims(state, evidence, context, contains, AIMS_MAX)
}

/// Whether a capability calls a tool, itself or by a capability that it calls.
fn comes_down_to(state: &State, capability: Node, tool: Node) -> bool {
    let (mut waiting, mut seen) = (vec![capability], BTreeSet::new());
    while let Some(node) = waiting.pop() {
        match node.kind() {
            NodeKind::Tool(_) if node == tool => return true,
            NodeKind::Capability(position) if seen.insert(position) => {
                waiting.extend_from_slice(&state.capabilities.at(position).members);
            }
            NodeKind::Tool(_) | NodeKind::Capability(_) => {}
        }
    }
    false
}

fn supporting(
    state: &State,
    evidence: &Evidence,
    query: &PredictionQuery<'_>,
    candidate: Candidate,
    ranked: &Ranked,
) -> Vec<SupportingTrace> {
    let symbols: Vec<Option<Symbol>> = std::iter::once(Some(Symbol::START))
        .chain(query.context.iter().filter_map(|callee| state.find(callee)).map(|node| Some(Symbol::call(node))))
        .collect();
    let two: Vec<Symbol> = symbols[symbols.len().saturating_sub(2)..].iter().copied().flatten().collect();
    let one: Vec<Symbol> = symbols.last().copied().flatten().into_iter().collect();
    let follows = |before: &[Symbol]| {
        let wanted: Vec<Symbol> = before.iter().copied().chain([candidate.symbol()]).collect();
        move |sequence: &CallSequence| wanted.len() > 1 && sequence.symbols().windows(wanted.len()).any(|part| part == wanted)
    };
    let contains = |sequence: &CallSequence| sequence.symbols().contains(&candidate.symbol());
    let mut all = Vec::new();
    for contribution in ranked.contributions() {
        let signal = contribution.signal;
        match signal {
            Signal::Transition => all.extend(latest(state, signal, follows(&one))),
            Signal::TransitionTwo => all.extend(latest(state, signal, follows(&two))),
            Signal::Popularity => all.extend(latest(state, signal, contains)),
            Signal::MemoryNext | Signal::MemoryNearest => all.extend(nearest(evidence, signal, follows(&one))),
            Signal::Memory | Signal::MemoryRemaining | Signal::Strategic | Signal::Hyperpath => {
                all.extend(nearest(evidence, signal, contains));
            }
            _ => {}
        }
    }
    all
}

/// The latest runs with a call sequence that `wanted` accepts.
fn latest(state: &State, signal: Signal, wanted: impl Fn(&CallSequence) -> bool) -> Vec<SupportingTrace> {
    let mut found: Vec<(&PastIntent, &CallSequence)> = Vec::new();
    for (_, entry) in state.memory.iter() {
        found.extend(entry.sequences.iter().filter(|sequence| wanted(sequence)).map(|sequence| (&**entry, sequence)));
    }
    found.sort_by_key(|(_, sequence)| std::cmp::Reverse(sequence.seq));
    found.truncate(TRACES_MAX);
    found.into_iter().map(|(entry, sequence)| supporting_trace(signal, entry, sequence, None)).collect()
}

/// The runs of the nearest past intents with a call sequence that `wanted` accepts.
fn nearest(evidence: &Evidence, signal: Signal, wanted: impl Fn(&CallSequence) -> bool) -> Vec<SupportingTrace> {
    let mut found = Vec::new();
    for near in &evidence.near {
        let sequences = near.entry.sequences.iter().rev().filter(|sequence| wanted(sequence));
        found.extend(sequences.map(|sequence| supporting_trace(signal, &near.entry, sequence, Some(near.similarity))));
        if found.len() >= TRACES_MAX {
            break;
        }
    }
    found.truncate(TRACES_MAX);
    found
}

fn supporting_trace(signal: Signal, entry: &PastIntent, sequence: &CallSequence, similarity: Option<f32>) -> SupportingTrace {
    let (intent, execution) = (Arc::clone(&entry.intent), sequence.execution.clone());
    SupportingTrace { signal, seq: sequence.seq, execution, intent, similarity }
}
