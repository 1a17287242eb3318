//! A connection to one server without anything around it, as a client of its own would have it: for measurements.

use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value};

use super::child::StderrLines;
use super::connection::{self, Connected, Handshake};
use super::servers_file::ServerEntry;
use crate::config;

/// A bare connection.
pub struct Direct(Connected);

impl Direct {
    pub async fn connect(entry: &ServerEntry, settings: &config::Upstream) -> Result<Self, String> {
        let stderr = StderrLines::default();
        let connecting = connection::connect(&entry.target, Handshake::Initialize, settings, &stderr);
        connecting.await.map(Self).map_err(|error| error.problem)
    }

    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<(), String> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.0.peer().call_tool_once(params).await.map(drop).map_err(|error| error.to_string())
    }
}
