//! Settings of code mode.

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::validate::require_positive;
use crate::code::sandbox::Limits;

/// Least `code.memory_bytes` and `code.stack_bytes`: with less, the interpreter does not start.
const MEMORY_BYTES_MIN: usize = 1 << 20;
const STACK_BYTES_MIN: usize = 64 << 10;
/// Most `code.stack_bytes`: the main thread of a process has 8 MiB on common systems.
const STACK_BYTES_MAX: usize = 4 << 20;

/// Limits of the programs of agents.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    pub memory_bytes: usize,
    pub stack_bytes: usize,
    pub time_ms: u64,
    pub calls_max: usize,
    pub output_bytes: usize,
    pub results_bytes: usize,
    pub processes_max: usize,
}

impl Code {
    /// The limits that the child process of a run keeps. It makes no more calls than an execution may have steps.
    pub fn limits(&self, steps_max: usize) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes,
            stack_bytes: self.stack_bytes,
            time_ms: self.time_ms,
            calls_max: self.calls_max.min(steps_max),
            output_bytes: self.output_bytes,
        }
    }

    /// Returns the first setting that cannot work, by its key.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let invalid = |key, problem: String| Err(ConfigError::Value { key, problem });
        let positive = [
            ("code.time_ms", self.time_ms),
            ("code.calls_max", self.calls_max as u64),
            ("code.output_bytes", self.output_bytes as u64),
            ("code.results_bytes", self.results_bytes as u64),
            ("code.processes_max", self.processes_max as u64),
        ];
        require_positive(positive)?;
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return invalid("code.memory_bytes", format!("must be at least {MEMORY_BYTES_MIN}: the interpreter needs as much"));
        }
        if !(STACK_BYTES_MIN..=STACK_BYTES_MAX).contains(&self.stack_bytes) {
            let problem = format!("must be from {STACK_BYTES_MIN} to {STACK_BYTES_MAX}, the stack that a process has");
            return invalid("code.stack_bytes", problem);
        }
        Ok(())
    }
}
