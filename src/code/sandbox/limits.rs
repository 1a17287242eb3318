//! Limits of a run, and the ways in which a run fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::structure::Position;

/// Longest message between the processes besides the program and its output, in bytes: the arguments or the result of one call.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much one run may use. Each has a key of the section `code` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub memory_bytes: usize,
    pub stack_bytes: usize,
    /// The program's own time; the time in which it waits for calls does not count.
    pub time_ms: u64,
    pub calls_max: usize,
    /// Console output and result together.
    pub output_bytes: usize,
}

impl Limits {
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }
}

/// Why a run gave no result. The first five name the limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RunError {
    #[error("the program needs more memory than {0} bytes (code.memory_bytes)")]
    Memory(usize),
    #[error("the program calls itself too deep for a stack of {0} bytes (code.stack_bytes)")]
    Stack(usize),
    #[error("the program ran longer than {0} ms (code.time_ms)")]
    Time(u64),
    #[error("the program made more than {0} calls (code.calls_max)")]
    Calls(usize),
    #[error("the program wrote and returned more than {0} bytes (code.output_bytes)")]
    Output(usize),
    #[error("the program waits for a promise that nothing will settle")]
    NeverSettles,
    #[error("{message}{}", at(*.position))]
    Thrown { message: String, position: Option<Position> },
    #[error("the sandbox could not be started: {0}")]
    Start(String),
    #[error("the sandbox ended without a result ({0})")]
    Died(String),
    #[error("the sandbox sent a message that makes no sense: {0}")]
    Protocol(String),
}

impl RunError {
    /// A stable word for the error.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Stack(_) => "stack",
            Self::Time(_) => "time",
            Self::Calls(_) => "calls",
            Self::Output(_) => "output",
            Self::NeverSettles => "never_settles",
            Self::Thrown { .. } => "thrown",
            Self::Start(_) => "sandbox_start",
            Self::Died(_) => "sandbox_died",
            Self::Protocol(_) => "sandbox_protocol",
        }
    }
}

fn at(position: Option<Position>) -> String {
    position.map(|position| format!(" (at {position})")).unwrap_or_default()
}
