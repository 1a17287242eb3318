//! A try of one server: connects, lists, ends. Changes nothing.

use std::time::Duration;

use super::child::StderrLines;
use super::connection::{self, Handshake};
use super::servers_file::ServerEntry;
use crate::config;
use crate::core::redact::Redactor;

/// What a server that could be reached said.
#[derive(Debug)]
pub struct Probe {
    pub implementation: Option<String>,
    pub protocol: Option<String>,
    /// Names of its tools.
    pub tools: Vec<String>,
}

/// Why a server could not be used, with the last lines of its standard error. Both are redacted.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct ProbeError {
    pub problem: String,
    pub stderr: Vec<String>,
}

/// Connects to a server and lists its tools.
pub async fn probe(entry: &ServerEntry, settings: &config::Upstream, redactor: &Redactor) -> Result<Probe, ProbeError> {
    let stderr = StderrLines::default();
    let limit = Duration::from_millis(settings.connect_timeout_ms);
    let connect = |handshake| connection::connect(&entry.target, handshake, settings, &stderr);
    let mut connected = connect(Handshake::Initialize).await;
    if connected.as_ref().is_err_and(|error| error.refused) {
        connected = connect(Handshake::Discover).await;
    }
    let failed = |mut problem: String| {
        let mut lines = stderr.lines();
        for text in lines.iter_mut().chain([&mut problem]) {
            redactor.clean(text);
        }
        ProbeError { problem, stderr: lines }
    };
    let mut connected = connected.map_err(|error| failed(error.problem))?;
    let listed = connection::list_tools(connected.peer(), settings.tools_max, limit).await;
    let info = connected.peer().peer_info();
    // A server that does not end in time is killed when the connection is dropped.
    drop(connected.close_with_timeout(Duration::from_secs(2)).await);
    let tools = listed.map_err(failed)?.tools;
    let server = info.as_ref().and_then(|info| info.server_info.as_ref());
    Ok(Probe {
        implementation: server.map(|server| format!("{} {}", server.name, server.version)),
        protocol: info.as_ref().map(|info| info.protocol_version.to_string()),
        tools: tools.into_iter().map(|tool| tool.name.to_string()).collect(),
    })
}
