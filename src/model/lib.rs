//! The trained parts of pml: parameters, forward functions, gradients and training loops.
//!
//! This crate knows numbers only: rows of vectors and indices of rows. Events, tools and capabilities are `pml-core`'s, which builds a
//! [`TrainingSet`] from its state and asks a trained part for scores. Everything is single-threaded and in a fixed order, so the same
//! set, seed and settings give the same parameters, bit for bit, on the same kind of machine.

pub mod adam;
mod best_piece;
mod blocks;
mod bytes;
mod columns;
pub mod encoder;
mod fitting;
pub mod head;
mod measure;
mod own_rows;
mod product;
pub mod random;
mod real;
pub mod shgat;
mod softmax;
pub mod training;
pub mod training_set;
mod unit_rows;

pub use bytes::DecodeError;
pub use encoder::{Encoder, EncoderSettings, Next, RunState, ToolRows};
pub use head::{HeadSettings, IntentHead, Scores};
pub use training::{Observer, Progress, Report, Stage, TrainError};
pub use training_set::{Run, TrainingSet};
