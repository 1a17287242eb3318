//! SHGAT: a hypergraph attention network over tools and capabilities that says which of them an intent asks for.
//!
//! [`Hypergraph`] is the structure, [`Vectors`] what its nodes mean, [`Parameters`] what was learnt. [`Enriched::new`] passes messages
//! between members and capabilities; [`Scorer`] answers for an intent from the enriched vectors; [`train`] learns from traces, the most
//! surprising ([`Priorities`]) first. The network does not see the context of an execution: it names the target, not the next step.
//!
//! Everything is deterministic: the same inputs give the same bits, on any number of threads.

mod attention;
mod backward;
mod batch;
mod bytes;
mod cost;
mod csr;
mod features;
mod forward;
mod hypergraph;
mod logits;
mod loss;
mod measure;
mod parameters;
mod plan;
mod priority;
mod product;
mod real;
pub mod sample;
mod score;
mod trace;
mod train;
mod weights;

pub use bytes::BytesError;
pub use cost::Cost;
pub use csr::Csr;
pub use features::{CapabilityFeatures, Features, ToolFeatures};
pub use forward::{Enriched, Vectors};
pub use hypergraph::{Changes, Hypergraph, HypergraphError, Node};
pub use measure::{Measured, measure, path_successes};
pub use parameters::{Group, Parameters, Shape};
pub use priority::{Draw, Priorities};
pub use product::rows_times;
pub use real::Real;
pub use score::{Scored, Scorer, path_success};
pub use trace::{Part, Refused, Trace};
pub use train::{Progress, Settings, Trained, train};

/// What can be switched off to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part that works with or without the others")]
pub struct Switches {
    /// Off: vectors are scored as they are.
    pub message_passing: bool,
    /// Off: the head is left out of the sum and its share goes to the others.
    pub semantic: bool,
    pub structure: bool,
    pub temporal: bool,
    /// Off: every trace is drawn once an epoch and weighs the same.
    pub priorities: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { message_passing: true, semantic: true, structure: true, temporal: true, priorities: true }
    }
}
