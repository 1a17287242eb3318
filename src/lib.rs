//! pml: procedural memory for AI agents.
//!
//! Agents publish what they did; pml keeps the facts in an append-only log and folds them into a tool graph and a hypergraph of
//! capabilities.
//!
//! ```text
//!  agent --HTTP--> gateway --> publisher --> actors::execution --append--> log --+--> actors::trace --append--> log
//!                                            (core::execution)                   +--> actors::graph_sync --Arc<State>--> gateway
//!                                                                                     (core::state)      --notify--> bus
//! ```
//!
//! The log is the truth; everything else may be deleted and rebuilt from it. Reading order: [`core`], [`log`], [`bus`], [`actors`],
//! [`runtime`], [`gateway`], [`cli`].

pub mod core;

pub mod backup;
pub mod bus;
pub mod clock;
pub mod dead;
pub mod embed;
pub mod history;
pub mod log;
pub mod nats;
pub mod snapshot;

pub mod actors;
pub mod ask;
pub mod publisher;
pub mod role;
pub mod runtime;

pub mod bench;
pub mod cli;
pub mod eval;
pub mod gateway;

pub mod config;
pub mod dataset;
pub mod failpoint;
pub mod metrics;
pub mod private;
pub mod templates;
