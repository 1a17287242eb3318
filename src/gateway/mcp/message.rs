//! Plain JSON-RPC, one message per request and no session: `POST /message`.

use rmcp::model::{CallToolRequestParams, ErrorData, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::server::{INTENT_HINT, SESSION_HINT, server_config};
use super::{Caller, Mcp, ToolCall};
use crate::core::redact::Redactor;

/// Answers a JSON-RPC message; `None` for a notification, which has no answer.
pub(crate) async fn answer_message(mcp: &Mcp, caller: &Caller, body: &[u8]) -> Option<Value> {
    let redactor = &mcp.parts().limits.redactor;
    let message: Value = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(error) => return Some(failed(Value::Null, &ErrorData::parse_error(format!("body: {error}"), None), redactor)),
    };
    let Some(method) = message.get("method").and_then(Value::as_str).filter(|_| message["jsonrpc"] == "2.0") else {
        let problem = "is not a JSON-RPC 2.0 request; send one object with jsonrpc, id, method and params";
        let id = message.get("id").cloned().unwrap_or_default();
        return Some(failed(id, &ErrorData::invalid_request(format!("body: {problem}"), None), redactor));
    };
    let id = message.get("id").cloned()?;
    let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
    Some(match answer(mcp, caller, method, params).await {
        Ok(mut result) => {
            // Clients of the version that has it do not come this way.
            result.as_object_mut().map(|result| result.remove("resultType"));
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        }
        Err(error) => failed(id, &error, redactor),
    })
}

async fn answer(mcp: &Mcp, caller: &Caller, method: &str, params: Value) -> Result<Value, ErrorData> {
    match method {
        "tools/list" => plain(mcp.list_tools(read::<PaginatedRequestParams>(params)?.cursor.as_deref())?),
        "tools/call" => {
            let intent = params["_meta"][INTENT_HINT].as_str().map(str::to_owned);
            let caller = caller.clone().described(None, params["_meta"][SESSION_HINT].as_str());
            let request: CallToolRequestParams = read(params)?;
            let call = ToolCall { name: request.name.into_owned(), arguments: request.arguments.unwrap_or_default(), intent };
            plain(mcp.call(&caller, call).await?)
        }
        "resources/list" => plain(mcp.list_resources()),
        "resources/templates/list" => plain(Mcp::list_resource_templates()),
        "resources/read" => plain(mcp.read_resource(&read::<ReadResourceRequestParams>(params)?.uri).await?),
        "initialize" => {
            let asked = params["protocolVersion"].as_str().unwrap_or_default();
            let known =
                ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == asked && version.has_initialize());
            plain(server_config(mcp).with_protocol_version(known.cloned().unwrap_or(ProtocolVersion::V_2025_11_25)))
        }
        "ping" => Ok(json!({})),
        other => Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, format!("method: '{other}' is unknown"), None)),
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, ErrorData> {
    serde_json::from_value(params).map_err(|error| ErrorData::invalid_params(format!("params: {error}"), None))
}

fn plain(result: impl Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn failed(id: Value, error: &ErrorData, redactor: &Redactor) -> Value {
    let mut error = error.clone();
    // The text may quote the request.
    error.message = redactor.text(&error.message).map_or(error.message, Into::into);
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}
