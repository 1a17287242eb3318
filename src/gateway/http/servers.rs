//! `/v1/servers`: the MCP servers whose tools pml calls, and what a person may ask for: read the file again, approve a changed tool.

use actix_web::HttpResponse;
use actix_web::web::Data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Gateway;
use super::error::ApiError;
use super::input::Json;
use crate::ask::catalogue::LatencyDto;
use crate::core::id::ToolId;
use crate::upstream::{ServerState, ServerStatus};

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Server")]
pub(super) struct ServerDto {
    server: String,
    target: String,
    /// disabled, connecting, ready, failed or elsewhere.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    implementation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    /// Tools that can be called.
    tools: Vec<String>,
    disabled_tools: Vec<String>,
    /// Tools that wait for approval; `GET /v1/tools` shows how they changed.
    quarantined: Vec<String>,
    /// Tools that were listed and not taken.
    skipped: Vec<SkippedDto>,
    /// The last lines of its standard error.
    stderr: Vec<String>,
    /// Calls of its tools in completed traces.
    calls: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<LatencyDto>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Skipped")]
struct SkippedDto {
    tool: String,
    reason: String,
}

impl From<ServerStatus> for ServerDto {
    fn from(status: ServerStatus) -> Self {
        let texts = |tools: &[ToolId]| tools.iter().map(ToString::to_string).collect();
        Self {
            state: status.state.name(),
            problem: match status.state {
                ServerState::Failed { problem } => Some(problem),
                _ => None,
            },
            server: status.name,
            target: status.target,
            implementation: status.implementation,
            protocol: status.protocol,
            tools: texts(&status.offered),
            disabled_tools: status.disabled,
            quarantined: texts(&status.quarantined),
            skipped: status.skipped.into_iter().map(|(tool, reason)| SkippedDto { tool, reason }).collect(),
            stderr: status.stderr,
            calls: status.calls.total,
            errors: status.calls.errors,
            latency: LatencyDto::new(&status.calls.latency),
        }
    }
}

pub(super) async fn list(gateway: Data<Gateway>) -> HttpResponse {
    let servers: Vec<ServerDto> = gateway.upstreams.servers().into_iter().map(Into::into).collect();
    HttpResponse::Ok().json(json!({"servers": servers}))
}

pub(super) async fn reload(gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let reloaded = gateway.upstreams.reload().await?;
    Ok(HttpResponse::Ok().json(json!({
        "added": reloaded.added, "removed": reloaded.removed, "changed": reloaded.changed,
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveBody {
    tool: String,
    /// Hash of the definition that was looked at, as `GET /v1/tools` shows it; the present one if left out.
    definition: Option<String>,
}

pub(super) async fn approve(body: Json<ApproveBody>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let tool: ToolId =
        body.tool.parse().map_err(|problem| ApiError::BadRequest { field: "tool", problem: format!("{problem}") })?;
    gateway.upstreams.approve(&tool, body.definition.as_deref()).await?;
    Ok(HttpResponse::Ok().json(json!({"tool": tool.as_str(), "approved": true})))
}
