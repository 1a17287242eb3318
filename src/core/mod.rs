//! The pure core of pml: events, decisions about them, the fold, and the answers derived from its state.
//!
//! Pure means: no I/O, no clock, no async, no threads, no randomness, no globals. Time and entropy arrive as values, so the same
//! records always give the same state. serde appears in `event/` only, where bytes become facts.
//!
//! Reading order: `id` and `time` (values), `event` (facts), `intake` (bytes to facts or refusals), `execution` (which facts are
//! admitted), `trace` (events of an execution to one trace), `live` (executions that get predictions), `graph`, `capability` and
//! `memory` (learnt from traces), `vectors` (of texts), `state` (the fold), `rank` (items for an intent), `predict` (next calls).

pub mod id;
pub mod time;

pub mod event;
pub mod intake;
pub mod redact;
pub mod refusal;

pub mod execution;
pub mod live;
pub mod trace;

pub mod capability;
pub mod graph;
pub mod memory;
pub mod template;
pub mod text;
pub mod tool;
pub mod vectors;

pub mod digest;
pub mod seen;
pub mod state;

pub mod predict;
pub mod rank;
