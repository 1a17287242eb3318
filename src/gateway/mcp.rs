//! The MCP gateway: pml as a server of the Model Context Protocol, over streamable HTTP (`gateway/http/mcp`), plain JSON-RPC
//! (`message`) and standard input and output (`cli/mcp`).
//!
//! [`Mcp`] answers what the transports receive. `own_tools` lists pml's tools and `calls` answers them; `listing` names the tools of
//! other servers, `pass_through` calls them and records the calls; `resources` shows the catalogue; `outgoing` bounds, redacts and
//! marks what leaves; `server` is the adapter for rmcp, which speaks the protocol.
//!
//! Nothing is decided here that another gateway would decide otherwise: questions are answered by `ask`, workflows run by `execute`.

mod calls;
mod executions;
mod leaves;
mod listing;
mod message;
mod notices;
mod outgoing;
mod own_tools;
mod pass_through;
mod resources;
mod server;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{CallToolResult, ErrorData, JsonObject};

use crate::ask::Asker;
use crate::clock::Clock;
use crate::config::{self, Scope};
use crate::core::event::{Event, NewRecord};
use crate::core::id::SessionId;
use crate::core::intake::Limits;
use crate::core::observed::{Observer, ObserverLimits};
use crate::execute::Runner;
use crate::recorder::Recorder;
use crate::upstream::Upstreams;
use crate::views::Views;
use listing::SharedListing;
use notices::CatalogueWatch;
use outgoing::Outgoing;

pub(crate) use message::answer_message;
pub(crate) use server::McpServer;

/// The `source` of the events that this gateway records.
const SOURCE: &str = "pml/mcp";

/// The parts that the gateway answers with.
pub(crate) struct McpParts {
    pub(crate) asker: Asker,
    pub(crate) views: Views,
    pub(crate) upstreams: Upstreams,
    pub(crate) runner: Runner,
    pub(crate) recorder: Recorder,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) settings: config::Mcp,
}

/// `Mcp` answers MCP requests, whatever transport they came by. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mcp(Arc<Inner>);

struct Inner {
    parts: McpParts,
    outgoing: Outgoing,
    listing: SharedListing,
    catalogue: CatalogueWatch,
    observer: Mutex<Observer>,
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The scopes of its API key; `None` if it has all.
    pub(crate) scopes: Option<Vec<Scope>>,
    /// Calls with the same session belong together.
    pub(crate) session: SessionId,
    /// Whether the transport has a session for this client alone.
    pub(crate) has_session: bool,
    /// The name of the client program.
    pub(crate) agent: Option<String>,
}

impl Caller {
    /// A caller with all scopes: a process on this machine.
    pub(crate) fn local(session: &str) -> Self {
        Self { scopes: None, session: session_id(session), has_session: true, agent: None }
    }

    /// Adds what the client says about itself: its name, and a name of its session.
    fn described(mut self, agent: Option<String>, session: Option<&str>) -> Self {
        if !self.has_session {
            let told = session.or(agent.as_deref()).unwrap_or_default();
            self.session = session_id(&format!("{} {told}", self.session));
        }
        self.agent = agent;
        self
    }

    fn has(&self, scope: Scope) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&scope) || scopes.contains(&Scope::Admin))
    }

    /// Fails with what the caller is told if it lacks a scope.
    fn needs(&self, scope: Scope) -> Result<(), String> {
        if self.has(scope) { Ok(()) } else { Err(format!("the API key lacks the scope '{}'", scope.name())) }
    }
}

/// Returns the session id that is recorded for a session of a transport. It is a hash, because who knows the id of an HTTP session
/// may take part in it.
pub(crate) fn session_id(text: &str) -> SessionId {
    let hash = blake3::hash(text.as_bytes()).to_hex();
    format!("mcp-{}", &hash[..16]).parse().expect("it is short and printable")
}

/// A request to call a tool.
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) arguments: JsonObject,
    /// What the client says the call is for (`_meta`, member `pml/intent`).
    pub(crate) intent: Option<String>,
}

impl Mcp {
    pub(crate) fn new(parts: McpParts) -> Self {
        let settings = &parts.settings;
        let limits = ObserverLimits {
            sessions_max: settings.sessions_max,
            idle_ms: settings.execution_idle_ms,
            steps_max: parts.limits.steps_max,
        };
        let outgoing = Outgoing::new(settings, parts.limits.redactor.clone());
        Self(Arc::new(Inner {
            outgoing,
            listing: SharedListing::default(),
            catalogue: CatalogueWatch::new(),
            observer: Mutex::new(Observer::new(limits)),
            parts,
        }))
    }

    /// Calls one of pml's tools, or a tool of another server.
    pub(crate) async fn call(&self, caller: &Caller, call: ToolCall) -> Result<CallToolResult, ErrorData> {
        if let Some(tool) = own_tools::find(&call.name) {
            return Ok(self.call_own(caller, tool, call.arguments).await);
        }
        if let Some(tool) = self.listing().resolve(&call.name) {
            return Ok(self.pass_through(caller, &tool, call).await);
        }
        let text = format!("unknown tool '{}'; pml_discover finds tools by intent or name", call.name);
        Err(ErrorData::invalid_params(self.0.outgoing.cleaned(text), None))
    }

    /// Follows the catalogue and ends executions that are idle, until it is dropped.
    pub(crate) async fn run(&self) {
        tokio::join!(self.watch_catalogue(), self.end_idle_executions());
    }

    /// Ends all executions and waits until they are recorded.
    pub(crate) async fn stop(&self) {
        let events = self.observer().end_all();
        self.record(events).await;
        self.parts().recorder.flush().await;
    }

    async fn end_idle_executions(&self) {
        let pause = std::time::Duration::from_millis((self.parts().settings.execution_idle_ms / 4).clamp(10, 5_000));
        loop {
            tokio::time::sleep(pause).await;
            let ended = self.observer().end_idle(self.now_ms());
            self.record(ended).await;
        }
    }

    pub(crate) fn settings(&self) -> &config::Mcp {
        &self.parts().settings
    }

    fn parts(&self) -> &McpParts {
        &self.0.parts
    }

    fn observer(&self) -> MutexGuard<'_, Observer> {
        // Its methods leave it whole at every step that can panic.
        self.0.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.parts().clock.uptime().millis_since(crate::clock::Uptime::ZERO)
    }

    /// Records events soon. A call does not wait for the disk.
    async fn record(&self, events: Vec<Event>) {
        if !events.is_empty() {
            self.parts().recorder.record_soon(self.facts(events)).await;
        }
    }

    fn facts(&self, events: Vec<Event>) -> Vec<NewRecord> {
        let clock = &self.parts().clock;
        let fact = |event| NewRecord {
            id: clock.fresh_id(),
            time: clock.now(),
            source: SOURCE.into(),
            causation: None,
            envelope: None,
            event,
        };
        events.into_iter().map(fact).collect()
    }
}
