//! The MCP servers whose tools pml calls: [`Upstreams`] is the handle with which gateways and the runner reach them.
//!
//! `servers_file` reads and changes the list of servers, `connection` speaks with one of them, `hub` keeps one connection per server and
//! connects again, `catalogue` compares what a server lists with the state and makes the events about it. One process per workspace runs
//! the servers: the one with the role `upstream` and its lease.
//!
//! What a server says is never trusted: time, size, number and names are bounded, a crash or garbage ends its connection only, and a tool
//! whose definition changed is in quarantine until a person approves it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::CallToolResult;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::core::event::ToolRegistered;
use crate::core::id::ToolId;

/// What a tool answered.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    /// The answer as the server gave it: content blocks, structured content, `is_error`. Nothing in it is redacted.
    pub result: CallToolResult,
    pub duration: Duration,
}

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("no tool '{0}' is offered: it is unknown, disabled, or was removed by its server")]
    UnknownTool(ToolId),
    #[error("'{0}' is in quarantine: its definition changed; look at it and approve it with `pml servers approve {0}`")]
    Quarantined(ToolId),
    #[error("the servers are run by another process: the role 'upstream' belongs to {}", .0.as_deref().unwrap_or("none at the moment"))]
    Elsewhere(Option<String>),
    #[error("the server '{server}' is not connected: {problem}")]
    NotConnected { server: String, problem: String },
    #[error("the server '{server}' has {max} calls under way or waiting, the limit (upstream.waiting_max); try again in a moment")]
    Busy { server: String, max: usize },
    #[error("'{tool}' did not answer within {} ms", .limit.as_millis())]
    TimedOut { tool: ToolId, limit: Duration },
    /// The call may have had its effect.
    #[error("the server '{server}' closed the connection during the call: {problem}")]
    Lost { server: String, problem: String },
    /// The server refused the call as a protocol error; it had no effect.
    #[error("the server refused the call: {0}")]
    Refused(String),
}

/// The state of the connection to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Switched off in the servers file.
    Disabled,
    Connecting,
    Ready,
    /// The last attempt failed; another one comes.
    Failed { problem: String },
    /// Another process runs the servers.
    Elsewhere,
}

/// One configured server as it is at the moment. Texts are redacted.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub name: String,
    /// The command with its arguments, or the URL.
    pub target: String,
    pub state: ServerState,
    /// Name and version that the server gave.
    pub implementation: Option<String>,
    pub protocol: Option<String>,
    /// Tools that can be called.
    pub offered: Vec<ToolId>,
    pub disabled: Vec<ToolId>,
    pub quarantined: Vec<ToolId>,
    /// Tools that were listed and not taken, with the reason.
    pub skipped: Vec<(String, String)>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

/// The handle to the servers. Cheap to clone.
#[derive(Clone)]
pub struct Upstreams {
    #[expect(dead_code, reason = "the hub follows in the next commit")]
    changes: watch::Receiver<u64>,
}

impl Upstreams {
    /// Calls a tool and waits for its answer, at most `limit` (`upstream.call_timeout_ms` if `None`). An answer with `is_error` is `Ok`.
    /// A caller that stops waiting cancels the call.
    pub async fn call(
        &self,
        tool: &ToolId,
        _arguments: Map<String, Value>,
        _limit: Option<Duration>,
    ) -> Result<CallOutcome, CallError> {
        std::future::ready(Err(CallError::UnknownTool(tool.clone()))).await
    }

    /// The configured servers, by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        Vec::new()
    }

    /// The tools that can be called, from the state: also while their servers are still connecting. Never disabled or quarantined ones.
    pub fn tools(&self) -> Vec<Arc<ToolRegistered>> {
        Vec::new()
    }

    /// The definition of a tool that can be called; otherwise why it cannot.
    pub fn tool(&self, tool: &ToolId) -> Result<Arc<ToolRegistered>, CallError> {
        Err(CallError::UnknownTool(tool.clone()))
    }

    /// Counts up whenever the tools that can be called, or a server's state, changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}
