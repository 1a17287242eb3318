//! pml: procedural memory for AI agents.

pub mod bus;
pub mod clock;
pub mod core;
pub mod dead;
pub mod failpoint;
pub mod log;
