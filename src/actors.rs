//! The actors: thin shells around the pure core, one file each.
//!
//! | actor | reads | decides with | writes |
//! |---|---|---|---|
//! | [`execution`] | publish requests, the log | `core::execution::admit` | published events, dead letters |
//! | [`trace`] | the log, views | `core::trace` | `trace.completed` |
//! | [`graph_sync`] | the log | `core::state` | views, `notify.*` on the bus |
//! | [`embedding`] | views | `core::vectors` | `embedding.computed` |
//! | [`prediction`] | the log, views | `core::live`, `core::predict` | `prediction.served`, `predict.*` on the bus |
//! | [`trainer`] | views | `core::train` | `model.trained`, `model.parameters`, `model.promoted` |
//! | [`upstream`] | the servers file, MCP servers, views | `upstream::catalogue` | `tool.*` |
//! | [`index`] | views | `core::rank` | the search index of discover |
//! | [`measures`] | views | `core::graph::measures` | the graph measures |
//! | [`snapshots`] | views | the configured intervals | snapshots, `notify.snapshot_taken` on the bus |
//! | [`tiering`] | the log | the configured limits | the archive; removes records from the log |
//!
//! `follow` sends an actor the records of the log, batch by batch, with back-pressure. `supervisor` rebuilds a failed actor from a
//! view and the log, so an actor may hold nothing that is not in the log. `announce` tells the prediction actor of steps that are on
//! their way into it.

pub(crate) mod announce;
pub(crate) mod burst;
pub(crate) mod embedding;
pub mod execution;
mod follow;
pub(crate) mod graph_sync;
pub(crate) mod index;
pub(crate) mod measures;
pub(crate) mod prediction;
mod refresh;
pub(crate) mod snapshots;
pub(crate) mod supervisor;
pub(crate) mod tiering;
pub(crate) mod trace;
pub(crate) mod trainer;
pub(crate) mod upstream;

use actix::Message;

use crate::core::event::Record;
use crate::embed::EmbedError;
use crate::log::{AppendError, ReadError};

/// The next records of the log, in order. An empty batch is a tick: the log has been silent for a while.
#[derive(Message)]
#[rtype(result = "Result<(), ActorFailure>")]
pub(crate) struct Records(pub(crate) Vec<Record>);

/// Why an actor ended and has to be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ActorFailure {
    #[error("the actor is gone; it panicked or stopped itself")]
    Gone,
    #[error("cannot append")]
    Append(#[from] AppendError),
    #[error("cannot embed")]
    Embed(#[source] EmbedError),
    #[error("cannot read")]
    Read(#[from] ReadError),
}

impl ActorFailure {
    /// Whether the log is damaged, so that a rebuilt actor would fail in the same way.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Append(error) => matches!(error, AppendError::Damaged(_)),
            Self::Read(error) => error.is_damage(),
            Self::Gone | Self::Embed(_) => false,
        }
    }
}
