//! Code mode: programs in TypeScript that call an agent's tools.
//!
//! [`read`] tells the structure of a program without running it; [`parameters`] compares programs of the same structure and makes
//! parameters of the literals that differ; [`declarations`] writes the types of the tools as `pml.d.ts`; [`drawing`] shows a structure to
//! people; [`sandbox`] runs a program in a child process whose only way out is calling tools.

pub mod declarations;
pub mod drawing;
pub mod parameters;
mod reading;
pub mod sandbox;
pub mod structure;

pub use reading::{ReadError, SOURCE_BYTES_MAX, read};
