//! The pure centre of pml: what the facts are and what follows from them.
//!
//! Pure means: no I/O, no clock, no async, no threads, no randomness, no globals. Time and entropy arrive as values, so the same
//! records always give the same state. serde appears in `event/`, where bytes become facts, and in `redact/`,
//! which looks into carried JSON.
//!
//! Reading order: `id` and `time` (values), `event` (facts), `intake` (how bytes become facts or refusals), `execution` (which facts
//! are admitted), `trace` (how an execution becomes one trace), `live` (which ones are told what comes next), `graph`, `capability`
//! and `memory` (what traces teach), `vectors` (texts), `state` (the fold), `rank` (what fits an intent), `predict` (what comes next).

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
