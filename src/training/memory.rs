//! How much memory a training run takes, estimated from sizes before it starts.

use crate::core::state::State;

/// Copies of the tools' rows that exist at once: the vectors, the forms of the forward pass, parameters, gradients and the two moments
/// of Adam, for the fit and for one part of the cross-fitting.
const TOOL_ROWS: u64 = 10;
/// Copies of the rows of texts.
const TEXT_ROWS: u64 = 2;
/// Square matrices of the head with their gradients and moments.
const SQUARE_MATRICES: u64 = 3 * 4;
/// Bytes per run of the training set and per call in it, with the held-out scores of each call's candidates.
const RUN_BYTES: u64 = 256;
const CALL_BYTES: u64 = 4_096;
const FLOAT_BYTES: u64 = 4;

/// The bytes that a training run on `state` takes at most, beside the state itself.
pub(crate) fn memory_estimate(state: &State) -> u64 {
    let (tools, dim) = (state.tools.len() as u64, state.vectors.dim() as u64);
    let texts = state.vectors.coverage().1 as u64;
    let sequences = || state.memory.iter().flat_map(|(_, entry)| &entry.sequences);
    let calls: u64 = sequences().map(|sequence| sequence.calls.len() as u64).sum();
    let floats = tools * dim * TOOL_ROWS + texts * dim * TEXT_ROWS + dim * dim * SQUARE_MATRICES;
    floats * FLOAT_BYTES + sequences().count() as u64 * RUN_BYTES + calls * CALL_BYTES
}
