//! What an MCP server says, for the fuzzer: its messages and its list of tools.

use std::collections::BTreeSet;

use rmcp::model::{ServerJsonRpcMessage, Tool};

use super::catalogue::Comparison;
use super::connection::Listed;
use crate::clock::Clock;
use crate::core::intake::Limits;
use crate::core::state::State;

/// Reads a message of a server.
pub fn read_server_message(bytes: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<ServerJsonRpcMessage>(bytes).map(drop).map_err(|error| error.to_string())
}

/// Compares a list of tools, as JSON, with a state. Returns how many events follow from it.
pub fn compare_tools(state: &State, tools: &[u8], limits: &Limits, clock: &Clock) -> Result<usize, String> {
    let tools: Vec<Tool> = serde_json::from_slice(tools).map_err(|error| error.to_string())?;
    let disabled_tools = BTreeSet::new();
    let comparison = Comparison { state, server: "fs", disabled_tools: &disabled_tools, limits, clock };
    Ok(comparison.with(Listed { tools, cut: false }).events.len())
}
