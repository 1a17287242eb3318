//! The connection to one server: start or reach it, agree on a protocol version, list its tools.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion, Tool};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService, serve_client_with_lifecycle};
use rmcp::service::{ClientLifecycleMode, Peer, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::Notify;

use super::bounded::BoundedHttp;
use super::child::{self, Program, StderrLines};
use super::expand::expand;
use super::servers_file::Target;
use crate::config::{self, Environment};

/// Variables that a child gets besides the configured ones: without them, few programs are found or start.
const INHERITED: [&str; 2] = ["PATH", "HOME"];
/// Most pages of a list of tools.
const PAGES_MAX: usize = 1_000;

/// A connected server.
pub(super) type Connected = RunningService<RoleClient, Listener>;

/// The client's side of the protocol: it hears that the tools changed, and offers the server nothing.
#[derive(Clone, Default)]
pub(super) struct Listener {
    tools_changed: Arc<Notify>,
}

impl Listener {
    /// Resolves when the server has said that its tools changed, once for any number of times.
    pub(super) async fn tools_changed(&self) {
        self.tools_changed.notified().await;
    }
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("pml", env!("CARGO_PKG_VERSION")))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}

/// How a connection is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// `initialize`, which all versions before 2026-07-28 have.
    Initialize,
    /// `server/discover`, which newer servers may have instead.
    Discover,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct ConnectError {
    pub(super) problem: String,
    /// The server answered, and refused the handshake.
    pub(super) refused: bool,
}

impl ConnectError {
    fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), refused: false }
    }
}

/// Connects to a server within `upstream.connect_timeout_ms`.
pub(super) async fn connect(
    target: &Target,
    handshake: Handshake,
    settings: &config::Upstream,
    stderr: &StderrLines,
) -> Result<Connected, ConnectError> {
    let mode = match handshake {
        Handshake::Initialize => ClientLifecycleMode::Initialize,
        Handshake::Discover => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] },
    };
    let limit = Duration::from_millis(settings.connect_timeout_ms);
    let listener = Listener::default();
    let connecting = async {
        match target {
            Target::Command { .. } => {
                let transport = child::start(program(target, &settings.environment)?, settings.message_bytes_max, stderr)
                    .map_err(|error| ConnectError::new(format!("cannot be started: {error}")))?;
                serve_client_with_lifecycle(listener, transport, mode).await.map_err(described)
            }
            Target::Url { .. } => {
                let (client, config) = http(target, settings)?;
                let transport = StreamableHttpClientTransport::with_client(client, config);
                serve_client_with_lifecycle(listener, transport, mode).await.map_err(described)
            }
        }
    };
    let timed_out = || ConnectError::new(format!("did not answer within {} ms", limit.as_millis()));
    tokio::time::timeout(limit, connecting).await.map_err(|_| timed_out())?
}

fn described(error: ClientInitializeError) -> ConnectError {
    let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
    ConnectError { problem: error.to_string(), refused }
}

fn expanded(what: &str, text: &str, environment: &Environment) -> Result<String, ConnectError> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    expand(text, &variable).map_err(|problem| ConnectError::new(format!("{what}: {problem}")))
}

fn program(target: &Target, environment: &Environment) -> Result<Program, ConnectError> {
    let Target::Command { command, args, env, directory } = target else {
        return Err(ConnectError::new("has no command"));
    };
    let inherited = INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), environment.get(name)?.to_owned())));
    let mut variables: Vec<(String, String)> = inherited.collect();
    for (name, value) in env {
        variables.push((name.clone(), expanded(name, value, environment)?));
    }
    Ok(Program {
        command: expanded("command", command, environment)?,
        args: args.iter().map(|argument| expanded("args", argument, environment)).collect::<Result<_, _>>()?,
        env: variables,
        directory: directory.clone(),
    })
}

fn http(
    target: &Target,
    settings: &config::Upstream,
) -> Result<(BoundedHttp, StreamableHttpClientTransportConfig), ConnectError> {
    let Target::Url { url, headers } = target else { return Err(ConnectError::new("has no url")) };
    // An error means that a provider is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let client = client.map_err(|error| ConnectError::new(format!("no HTTP client: {error}")))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(expanded("url", url, &settings.environment)?);
    for (name, value) in headers {
        let value = expanded(name, value, &settings.environment)?;
        let invalid = |what: &str| ConnectError::new(format!("headers: '{name}' has a {what} that HTTP does not allow"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("name"))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| invalid("value"))?;
        value.set_sensitive(name == AUTHORIZATION);
        config.custom_headers.insert(name, value);
    }
    Ok((BoundedHttp { client, answer_bytes_max: settings.message_bytes_max }, config))
}

/// What a server lists.
pub(super) struct Listed {
    pub(super) tools: Vec<Tool>,
    /// Whether there are more tools than were read.
    pub(super) cut: bool,
}

/// Lists the tools page by page, at most `tools_max`, within `limit`.
pub(super) async fn list_tools(peer: &Peer<RoleClient>, tools_max: usize, limit: Duration) -> Result<Listed, String> {
    let listing = async {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if tools.len() > tools_max {
                tools.truncate(tools_max);
                return Ok(Listed { tools, cut: true });
            }
            if cursor.is_none() {
                return Ok(Listed { tools, cut: false });
            }
        }
        Ok(Listed { tools, cut: true })
    };
    let listed: Result<Listed, ServiceError> = tokio::time::timeout(limit, listing)
        .await
        .map_err(|_| format!("did not list its tools within {} ms", limit.as_millis()))?;
    listed.map_err(|error| format!("cannot list its tools: {error}"))
}
