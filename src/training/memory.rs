//! How much memory a training run takes, estimated from sizes before it starts.

use crate::core::state::State;

const FLOAT_BYTES: u64 = 4;
/// Copies of the tools' rows that exist at once. Of the head: the vectors, the forms of the forward pass, parameters, gradients and the
/// two moments of Adam, for the fit and for one part of the cross-fitting. Of SHGAT, which takes more: two for each fold, and the
/// forward pass of one. Those of the capabilities are as many.
const TOOL_ROWS: u64 = 14;
/// Copies of the rows of texts.
const TEXT_ROWS: u64 = 2;
/// Square matrices of SHGAT with two levels, which has more than the head, each with its gradient, two moments and the best so far.
const SQUARE_MATRICES: u64 = 5 * 5;
/// Hyperedges of SHGAT, at most (`core::predict::shgat`).
const CAPABILITIES_MAX: u64 = 2_048;
/// Bytes per run of the training set: its calls and clauses.
const RUN_BYTES: u64 = 512;
/// Intents that give examples to the ranker, at most, and their steps (`core::train::examples`).
const EXAMPLE_INTENTS_MAX: u64 = 1_500;
const STEPS: u64 = 5;
/// Bytes per step: some sixty candidates with all signals.
const STEP_BYTES: u64 = 16 * 1024;
/// Held-out scores kept, at most.
const HELD_SCORES_MAX: u64 = 16 * 1024 * 1024;

/// The bytes that a training run on `state` takes at most, beside the state itself.
pub(crate) fn memory_estimate(state: &State) -> u64 {
    let (tools, dim) = (state.tools.len() as u64, state.vectors.dim() as u64);
    let texts = state.vectors.coverage().1 as u64;
    let runs: u64 = state.memory.iter().map(|(_, entry)| entry.sequences.len() as u64).sum();
    let steps = (state.memory.len() as u64).min(EXAMPLE_INTENTS_MAX) * STEPS;
    let held_scores = (steps * tools).min(HELD_SCORES_MAX);
    let capabilities = (state.capabilities.rows().len() as u64).min(CAPABILITIES_MAX);
    let floats = (tools + capabilities) * dim * TOOL_ROWS + texts * dim * TEXT_ROWS + dim * dim * SQUARE_MATRICES + held_scores;
    floats * FLOAT_BYTES + runs * RUN_BYTES + steps * STEP_BYTES
}
