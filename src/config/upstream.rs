//! Settings of the MCP servers and of the execution of workflows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Secret;

/// Settings of the MCP servers whose tools are called.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    pub file: PathBuf,
    pub connect_timeout_ms: u64,
    pub call_timeout_ms: u64,
    pub concurrency: usize,
    pub waiting_max: usize,
    pub message_bytes_max: usize,
    pub tools_max: usize,
    pub reconnect_ms_max: u64,
    #[serde(skip)]
    pub environment: Environment,
}

/// The environment of this process, for variables in the servers file and for child processes.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, Secret>);

impl Environment {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), Secret::new(value));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::reveal)
    }
}

/// Settings of the execution of workflows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    pub approval: Approval,
    pub runs_max: usize,
    pub parallel_max: usize,
    pub speculate_ms: u64,
    pub results_bytes_max: usize,
    pub results_keep_s: u64,
}

/// Which calls of a workflow need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Those of tools that say that they may destroy something.
    Destructive,
    /// All but those of tools that say that they only read.
    Writes,
    Never,
}
