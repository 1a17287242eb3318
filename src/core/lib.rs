//! The pure core of pml: the facts, and the state and answers derived from them.
//!
//! Pure means no I/O, no clock, no async, no threads, no randomness, no globals. Time and entropy arrive as values, so the same
//! records always give the same state. serde appears in `event/`, where bytes become facts, in `redact/`, which reads carried JSON, and in
//! `workflow` and `shape`, whose arguments and results are JSON.
//!
//! Reading order: `id` and `time` (values), `event` (facts), `intake` (how bytes become facts or refusals), `execution` (which facts
//! are admitted), `observed` and `flow` (executions from calls that pass through), `trace` (how an execution becomes one trace),
//! `live` (which executions wait for a prediction), `graph`, `capability` and `memory` (what traces teach), `vectors` (texts),
//! `state` (the fold), `rank` (tools and capabilities for an intent), `predict` (the next call), `paths` (hyperpaths, prerequisites,
//! DAGs), `suggest` (plans for an intent), `speculate` (what may be run ahead), `workflow` (calls to be made), `shape` (what calls
//! return).

mod cholesky;
pub mod hash;
pub mod id;
pub mod time;

pub mod event;
pub mod intake;
pub mod redact;
pub mod refusal;

pub mod execution;
pub mod flow;
pub mod live;
pub mod observed;
pub mod trace;

pub mod capability;
pub mod glob;
pub mod graph;
pub mod memory;
pub mod template;
pub mod text;
pub mod tool;
pub mod untrusted;
pub mod vectors;

pub mod name;

pub mod digest;
pub mod invariant;
pub mod seen;
pub mod state;
pub mod trained;

pub mod paths;
pub mod predict;
pub mod rank;
pub mod speculate;
pub mod suggest;

pub mod train;

#[cfg(test)]
mod given;
pub mod shape;
pub mod workflow;
