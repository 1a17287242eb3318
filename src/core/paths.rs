//! Paths through what was learnt: shortest hyperpaths, prerequisites, and DAGs of tools (ALGORITHMS 6 and 7).
//!
//! ```text
//!  State --PathIndex::update--> hyperedges --dr_dsp--> shortest hyperpaths from live calls        (any tail reaches any head)
//!                                   |
//!                                   +-- needs --prerequisites--> tasks, layers, missing          (a head needs all tails)
//!  Adjacency + tools --dag--> DAG --cover--> capabilities that cover a part of it
//! ```
//!
//! The index is derived from a state and follows the fold by the differences between two states. It is not part of the digest.

pub mod cost;
pub mod hyperedge;
pub mod procedure;

pub mod dr_dsp;
pub mod index;

pub mod needs;
pub mod prerequisites;

pub mod cover;
pub mod dag;

#[cfg(test)]
mod scenarios;

pub use dr_dsp::{DrDsp, Hyperpath};
pub use hyperedge::{Hyperedge, Origin};
pub use index::PathIndex;
