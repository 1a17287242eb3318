//! The MCP servers whose tools pml calls: [`Upstreams`] is the handle with which gateways and the runner reach them.
//!
//! `servers_file` reads and changes the list of servers, `connection` (with `child`, `bounded`, `expand`) speaks with one of them, `keeper`
//! keeps it connected, `catalogue` compares what it lists with the state and makes the events about it, `hub` owns them all. One process
//! per workspace runs the servers: the one with the role `upstream` and its lease.
//!
//! What a server says is never trusted: time, size, number and names are bounded, a crash or garbage ends its connection only, and a tool
//! whose definition changed, or whose description gives orders, is in quarantine until a person approves it.

mod bounded;
pub(crate) mod catalogue;
mod child;
mod connection;
mod direct;
mod expand;
#[cfg(feature = "testing")]
pub mod fuzzing;
mod hub;
mod keeper;
mod outcome;
mod probe;
mod server;
pub mod servers_file;

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::CallToolResult;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::core::event::{Event, ToolApproved, ToolRegistered};
use crate::core::id::ToolId;
use crate::core::redact::Redactor;
use crate::core::state::State;
use crate::core::tool::Tool;
use crate::core::tool::latency::Latency;
use crate::log::{AppendError, append_patiently};
use crate::metrics::ByTool;
use crate::recorder;
pub use direct::Direct;
pub(crate) use hub::{Hub, HubParts};
pub use outcome::outcome_value;
pub use probe::{Probe, ProbeError, probe};
use server::Server;
pub use server::ServerState;
use servers_file::ServersFileError;

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
    #[error("no tool '{0}' is offered: it is unknown, switched off, or was removed by its server")]
    UnknownTool(ToolId),
    #[error("'{0}' is in quarantine: its definition changed; look at it and approve it with `pml servers approve {0}`")]
    Quarantined(ToolId),
    #[error("the servers are run by another process: the role 'upstream' belongs to {}", holder(.0.as_ref()))]
    Elsewhere(Option<String>),
    #[error("the server '{server}' is not connected: {problem}")]
    NotConnected { server: String, problem: String },
    #[error(
        "the server '{server}' has {max} calls under way or waiting, the limit (upstream.waiting_max); try again in a moment"
    )]
    Busy { server: String, max: usize },
    /// The call may have had its effect.
    #[error("'{tool}' did not answer within {} ms", .limit.as_millis())]
    TimedOut { tool: ToolId, limit: Duration },
    /// The call may have had its effect.
    #[error("the server '{server}' closed the connection during the call: {problem}")]
    Lost { server: String, problem: String },
    /// The server refused the call as a protocol error.
    #[error("the server refused the call: {0}")]
    Refused(String),
}

impl CallError {
    /// A stable word for the error, for `error_kind` of `step.finished`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UnknownTool(_) => "unknown_tool",
            Self::Quarantined(_) => "quarantined",
            Self::Elsewhere(_) => "elsewhere",
            Self::NotConnected { .. } => "not_connected",
            Self::Busy { .. } => "busy",
            Self::TimedOut { .. } => "timeout",
            Self::Lost { .. } => "connection_lost",
            Self::Refused(_) => "refused",
        }
    }

    /// Whether the call certainly had no effect, so that repeating it is safe.
    pub fn is_without_effect(&self) -> bool {
        !matches!(self, Self::TimedOut { .. } | Self::Lost { .. })
    }
}

fn holder(holder: Option<&String>) -> &str {
    holder.map_or("none at the moment", String::as_str)
}

/// Why a tool's definition was not approved.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error("'{0}' is not in quarantine; `pml servers list` shows which tools are")]
    NotQuarantined(ToolId),
    #[error("the definition of '{0}' has changed again; look at it before you approve it")]
    OtherDefinition(ToolId),
    #[error("the approval was not recorded")]
    Append(#[from] AppendError),
}

/// Why the servers file was not read again.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    File(#[from] ServersFileError),
    #[error("the servers are run by another process: the role 'upstream' belongs to {}", holder(.0.as_ref()))]
    Elsewhere(Option<String>),
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
    /// Tools that are switched off.
    pub disabled: Vec<String>,
    pub quarantined: Vec<ToolId>,
    /// Tools that were listed and not taken, with the reason.
    pub skipped: Vec<(String, String)>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// What the log says about the calls of its tools, also of those that are gone.
    pub calls: ServerCalls,
}

/// The calls of all tools of a server in completed traces.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerCalls {
    pub total: u64,
    pub errors: u64,
    pub latency: Latency,
}

impl ServerCalls {
    fn of(server: &str, view: &State) -> Self {
        let mut calls = Self::default();
        for tool in view.tools.iter().filter(|tool| tool.id.server() == server) {
            calls.total += tool.calls;
            calls.errors += tool.calls - tool.successes;
            calls.latency.add(&tool.latency);
        }
        calls
    }
}

/// What a reload changed, by names of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

/// Answers the calls of tools in a simulation.
#[cfg(feature = "testing")]
pub(crate) type SimulatedTools = Box<
    dyn Fn(ToolId, Map<String, Value>) -> futures_util::future::BoxFuture<'static, Result<CallToolResult, CallError>>
        + Send
        + Sync,
>;

/// The handle to the servers. Cheap to clone.
#[derive(Clone)]
pub struct Upstreams(Arc<Hub>);

impl Upstreams {
    pub(crate) fn new(parts: HubParts) -> std::io::Result<Self> {
        Hub::new(parts).map(|hub| Self(Arc::new(hub)))
    }

    /// Servers whose tools are simulated, on the runtime of the caller.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(parts: HubParts, tools: SimulatedTools) -> Self {
        let hub = Hub::on(parts, tokio::runtime::Handle::current(), None);
        assert!(hub.simulated.set(tools).is_ok(), "the hub is new");
        Self(Arc::new(hub))
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.0
    }

    /// Calls a tool and waits for its answer, at most `limit` (the server's time, or `upstream.call_timeout_ms`, if `None`). An answer with
    /// `is_error` is `Ok`. A caller that stops waiting cancels the call. Records no events.
    pub async fn call(
        &self,
        tool: &ToolId,
        arguments: Map<String, Value>,
        limit: Option<Duration>,
    ) -> Result<CallOutcome, CallError> {
        self.is_here().map_err(CallError::Elsewhere)?;
        self.tool(tool)?;
        let server = self.server(tool).ok_or_else(|| CallError::UnknownTool(tool.clone()))?;
        let clock = &self.0.parts.clock;
        let began = clock.uptime();
        let answer = self.answer(&server, tool, arguments, limit).await;
        let duration = clock.uptime().since(began);
        let outcome = match &answer {
            Ok(result) if result.is_error == Some(true) => "error",
            Ok(_) => "ok",
            Err(error) => error.kind(),
        };
        let by = ByTool { server: tool.server().to_owned(), tool: tool.name().to_owned() };
        self.0.parts.metrics.upstream.count(&by, outcome, duration);
        answer.map(|result| CallOutcome { result, duration })
    }

    async fn answer(
        &self,
        server: &Server,
        tool: &ToolId,
        arguments: Map<String, Value>,
        limit: Option<Duration>,
    ) -> Result<CallToolResult, CallError> {
        #[cfg(feature = "testing")]
        if let Some(tools) = self.0.simulated.get() {
            return tools(tool.clone(), arguments).await;
        }
        // Looked at again once the server has listed its tools: this one may be in quarantine since.
        server.call(tool, arguments, limit, || self.tool(tool).map(drop)).await
    }

    /// Whether this process runs the servers; the error is the process that does, if it is known.
    pub fn is_here(&self) -> Result<(), Option<String>> {
        self.0.lease()
    }

    /// The configured servers, by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let view = self.0.parts.views.current();
        let here = self.is_here().is_ok();
        let servers = self.0.servers.read();
        servers.values().map(|server| status(server, &view, here, self.redactor())).collect()
    }

    /// The tools that can be called, from the state: also while their servers are still connecting. Never disabled or quarantined ones,
    /// nor those that agents have registered under the name of a server that has not listed them.
    pub fn tools(&self) -> Vec<Arc<ToolRegistered>> {
        let view = self.0.parts.views.current();
        let servers = self.0.servers.read();
        let callable = |tool: &&Tool| {
            let server = servers.get(tool.id.server());
            tool.upstream
                && tool.is_offered()
                && server.is_some_and(|server| server.enabled().is_some() && !server.has_disabled(&tool.id))
        };
        view.tools.iter().filter(callable).filter_map(|tool| tool.registration.clone()).collect()
    }

    /// The definition of a tool that can be called; otherwise why it cannot.
    pub fn tool(&self, tool: &ToolId) -> Result<Arc<ToolRegistered>, CallError> {
        let unknown = || CallError::UnknownTool(tool.clone());
        let server = self.server(tool).ok_or_else(unknown)?;
        let view = self.0.parts.views.current();
        let known = view.tools.get(tool).ok_or_else(unknown)?;
        if server.enabled().is_none() || server.has_disabled(tool) || known.removed || !known.upstream {
            return Err(unknown());
        }
        if known.listed.is_some() {
            return Err(CallError::Quarantined(tool.clone()));
        }
        known.registration.clone().ok_or_else(unknown)
    }

    fn server(&self, tool: &ToolId) -> Option<Arc<Server>> {
        self.0.servers.read().get(tool.server()).cloned()
    }

    /// Approves the definition with which a server lists a tool in quarantine. `definition` is the hash of what was looked at, if given.
    pub async fn approve(&self, tool: &ToolId, definition: Option<&str>) -> Result<(), ApproveError> {
        let parts = &self.0.parts;
        let view = parts.views.current();
        let listed = view.tools.get(tool).and_then(|tool| tool.listed.clone());
        let listed = listed.ok_or_else(|| ApproveError::NotQuarantined(tool.clone()))?.definition();
        if definition.is_some_and(|seen| seen != listed) {
            return Err(ApproveError::OtherDefinition(tool.clone()));
        }
        let event = Event::ToolApproved(ToolApproved { tool: tool.clone(), definition: listed });
        let fact = recorder::fact(parts.clock.fresh_id(), parts.clock.now(), event);
        let appended = append_patiently(&parts.log, vec![Arc::new(fact)]).await?;
        if let Some(last) = appended.last() {
            parts.views.at_least(last.seq).await;
        }
        self.0.changed();
        Ok(())
    }

    /// Reads the servers file again. A file that cannot be used changes nothing.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        self.is_here().map_err(ReloadError::Elsewhere)?;
        match self.0.request_reload().await {
            Some(outcome) => Ok(outcome?),
            None => Err(ReloadError::Elsewhere(None)),
        }
    }

    /// The configured redaction, for what servers say.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.0.parts.limits.redactor
    }

    /// Counts up whenever the tools that can be called, or a server's state, changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

fn status(server: &Server, view: &State, here: bool, redactor: &Redactor) -> ServerStatus {
    let live = server.live.borrow().clone();
    let of_server =
        || view.tools.iter().filter(|tool| tool.id.server() == server.name && !tool.removed && !server.has_disabled(&tool.id));
    let enabled = server.enabled().is_some();
    let offered = of_server().filter(|tool| enabled && tool.is_offered() && !tool.is_stub());
    let mut stderr = server.stderr.lines();
    for line in &mut stderr {
        redactor.clean(line);
    }
    ServerStatus {
        name: server.name.clone(),
        target: server.target(redactor),
        state: if here || !enabled { live.state } else { ServerState::Elsewhere },
        implementation: live.implementation,
        protocol: live.protocol,
        offered: offered.map(|tool| tool.id.clone()).collect(),
        disabled: server.entry.as_ref().map(|entry| entry.disabled_tools.iter().cloned().collect()).unwrap_or_default(),
        quarantined: of_server().filter(|tool| tool.listed.is_some()).map(|tool| tool.id.clone()).collect(),
        skipped: live.skipped,
        stderr,
        calls: ServerCalls::of(&server.name, view),
    }
}
