//! The trained parts of pml: parameters, forward functions, gradients and training loops.
//!
//! This crate knows numbers only: rows of vectors and indices of rows. Events, tools and capabilities are `pml-core`'s, which builds a
//! [`TrainingSet`] from its state and asks a trained part for scores. Everything is single-threaded and in a fixed order, so the same
//! set, seed and settings give the same parameters, bit for bit, on the same kind of machine.

pub mod adam;
pub mod random;
pub mod shgat;
pub mod training_set;

pub use training_set::{Run, TrainingSet};
