//! The actors: thin shells around the pure core, one file each.
//!
//! | actor | hears | decides with | writes |
//! |---|---|---|---|
//! | [`execution`] | HTTP, the in-process client | `core::execution::admit` | what agents publish, dead letters |
//! | [`trace`] | the log | `core::trace` | `trace.completed` |
//! | [`graph_sync`] | the log | `core::state` | views for readers, `notify.*` on the bus |
//! | [`embedding`] | views | `core::vectors` | `embedding.computed` |
//! | [`prediction`] | the log, the index | `core::live`, `core::rank` | `prediction.served`, `predict.*` on the bus |
//! | [`index`] | views | `core::rank` | the index that questions are compared with |
//! | [`measures`] | views | `core::graph::measures` | measures for readers |
//! | [`snapshots`] | views | how much is new | snapshots, `notify.snapshot_taken` on the bus |
//!
//! Each lives on an arbiter of its own. `follow` feeds an actor from the log, batch by batch, with back-pressure; `supervisor` builds
//! it anew, from a view and the log, when it is gone. So no actor may hold anything that is not in the log.

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
pub(crate) mod trace;

use actix::Message;

use crate::core::event::Record;
use crate::embed::EmbedError;
use crate::log::{AppendError, ReadError};

/// Records from the log, in order. An empty batch is a tick: nothing came for a while.
#[derive(Message)]
#[rtype(result = "Result<(), ActorFailure>")]
pub(crate) struct Records(pub(crate) Vec<Record>);

/// Why an actor has to be built anew.
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
    /// Whether the log is damaged, so that an actor built anew would fail in the same way.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Append(error) => matches!(error, AppendError::Damaged(_)),
            Self::Read(error) => error.is_damage(),
            Self::Gone | Self::Embed(_) => false,
        }
    }
}
