//! pml: procedural memory for AI agents.
//!
//! Agents publish what they did; pml keeps the facts in an append-only log and folds them into a state: a tool graph, a hypergraph of
//! capabilities and a memory of past intents. From that state it answers which tools fit an intent and which call comes next.
//!
//! ```text
//!  agent --HTTP--> gateway --> publisher --> actors::execution --append--> log --+--> actors::trace --append--> log
//!                                            (core::execution)                   +--> actors::graph_sync --Arc<State>--> gateway
//!                                                                                     (core::state)      --notify--> bus
//! ```
//!
//! The log is the only source of truth; everything else may be deleted and rebuilt from it. The modules below are listed by layer, the
//! lowest first; each uses only modules of earlier layers (ARCHITECTURE.md; checked by `tests/tidy.rs`).

pub use pml_code as code;
pub use pml_core as core;
pub use pml_readers as readers;

pub mod failpoint;
pub mod files;
mod idle;
pub mod lease;
pub mod private;
pub mod role;

pub mod clock;
pub mod config;
pub mod subject;

pub mod dataset;
pub mod decisions;
pub mod metrics;
pub mod templates;
pub mod training;
pub mod views;

pub mod nats;

pub mod bus;
pub mod embed;
pub mod log;

pub mod archive;
pub mod data_dir;
pub mod history;
pub mod snapshot;

pub mod ask;
pub mod publisher;

pub mod recorder;

pub mod upstream;

pub mod execute;

pub mod actors;
pub mod gateway;

pub mod runtime;

#[cfg(feature = "testing")]
pub mod sim;

pub mod eval;

pub mod bench;

pub mod cli;
