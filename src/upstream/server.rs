//! One server: its entry in the servers file, the state of its connection, and the calls that wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Map, Value};
use tokio::sync::{Notify, Semaphore, watch};

use super::CallError;
use super::child::StderrLines;
use super::servers_file::{ServerEntry, Target};
use crate::config;
use crate::core::id::ToolId;
use crate::core::redact::Redactor;

/// The state of the connection to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Switched off in the servers file.
    Disabled,
    Connecting,
    Ready,
    /// It cannot be used: its entry is wrong, or the last attempt to connect failed and another one comes.
    Failed {
        problem: String,
    },
    /// Another process runs the servers.
    Elsewhere,
}

impl ServerState {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Failed { .. } => "failed",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// What is known about a server at the moment.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) state: ServerState,
    pub(super) peer: Option<Peer<RoleClient>>,
    pub(super) implementation: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) skipped: Vec<(String, String)>,
}

/// A configured server.
pub(super) struct Server {
    pub(super) name: String,
    /// The entry of the file, or what is wrong with it.
    pub(super) entry: Result<ServerEntry, String>,
    pub(super) live: watch::Sender<Live>,
    pub(super) stderr: StderrLines,
    /// Told when a call lost the connection. A transport over HTTP does not notice that by itself.
    pub(super) lost: Notify,
    calls: Semaphore,
    waiting: AtomicUsize,
    waiting_max: usize,
    timeout: Duration,
}

/// Counts a call until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    pub(super) fn new(name: String, entry: Result<ServerEntry, String>, settings: &config::Upstream) -> Self {
        let state = match &entry {
            Ok(entry) if entry.disabled => ServerState::Disabled,
            Ok(_) => ServerState::Connecting,
            Err(problem) => ServerState::Failed { problem: problem.clone() },
        };
        let usable = entry.as_ref().ok();
        let concurrency = usable.and_then(|entry| entry.concurrency).unwrap_or(settings.concurrency);
        let timeout_ms = usable.and_then(|entry| entry.timeout_ms).unwrap_or(settings.call_timeout_ms);
        let live = Live { state, peer: None, implementation: None, protocol: None, skipped: Vec::new() };
        Self {
            name,
            live: watch::Sender::new(live),
            stderr: StderrLines::default(),
            lost: Notify::new(),
            calls: Semaphore::new(concurrency.min(Semaphore::MAX_PERMITS)),
            waiting: AtomicUsize::new(0),
            waiting_max: settings.waiting_max,
            timeout: Duration::from_millis(timeout_ms),
            entry,
        }
    }

    /// The target, if there is one and the server is switched on.
    pub(super) fn enabled(&self) -> Option<&ServerEntry> {
        self.entry.as_ref().ok().filter(|entry| !entry.disabled)
    }

    pub(super) fn has_disabled(&self, tool: &ToolId) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.disabled_tools.contains(tool.name()))
    }

    /// The command or the URL, without secrets.
    pub(super) fn target(&self, redactor: &Redactor) -> String {
        let mut text = match self.entry.as_ref().map(|entry| &entry.target) {
            Ok(Target::Command { command, args, .. }) => {
                [command].into_iter().chain(args).map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Ok(Target::Url { url, .. }) => url.clone(),
            Err(_) => String::new(),
        };
        redactor.clean(&mut text);
        text
    }

    pub(super) fn set_state(&self, state: ServerState) {
        self.live.send_modify(|live| {
            live.peer = None;
            live.state = state;
        });
    }

    /// Calls a tool within `limit`, or the server's own time, if `check` allows it once it is its turn. The time that the call waits
    /// counts.
    pub(super) async fn call(
        &self,
        tool: &ToolId,
        arguments: Map<String, Value>,
        limit: Option<Duration>,
        check: impl Fn() -> Result<(), CallError>,
    ) -> Result<CallToolResult, CallError> {
        let limit = limit.unwrap_or(self.timeout);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.waiting_max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(CallError::Busy { server: self.name.clone(), max: self.waiting_max });
        }
        let _waiting = Waiting(&self.waiting);
        let calling = async {
            let peer = self.connected().await?;
            let _permit = self.calls.acquire().await.map_err(|error| self.not_connected(error.to_string()))?;
            check()?;
            let params = CallToolRequestParams::new(tool.name().to_owned()).with_arguments(arguments);
            self.answer(peer.call_tool_once(params).await)
        };
        let timed_out = |_| Err(CallError::TimedOut { tool: tool.clone(), limit });
        tokio::time::timeout(limit, calling).await.unwrap_or_else(timed_out)
    }

    /// The connection, as soon as there is one. Fails at once if the last attempt failed.
    async fn connected(&self) -> Result<Peer<RoleClient>, CallError> {
        let mut changes = self.live.subscribe();
        let decided = changes.wait_for(|live| live.state != ServerState::Connecting).await;
        let live = decided.map_err(|error| self.not_connected(error.to_string()))?.clone();
        match (live.state, live.peer) {
            (ServerState::Ready, Some(peer)) => Ok(peer),
            (ServerState::Failed { problem }, _) => Err(self.not_connected(problem)),
            (state, _) => Err(self.not_connected(format!("it is {}", state.name()))),
        }
    }

    fn not_connected(&self, problem: String) -> CallError {
        CallError::NotConnected { server: self.name.clone(), problem }
    }

    fn answer(&self, answer: Result<CallToolResponse, ServiceError>) -> Result<CallToolResult, CallError> {
        match answer {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(CallError::Refused("the tool asks for further input, which pml cannot give".to_owned())),
            Err(ServiceError::McpError(error)) => Err(CallError::Refused(error.message.to_string())),
            Err(error) => {
                self.lost.notify_one();
                Err(CallError::Lost { server: self.name.clone(), problem: error.to_string() })
            }
        }
    }
}
