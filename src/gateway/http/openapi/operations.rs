//! What every operation has: an id, a tag, the media type and schema of its answer, and how it fails.

use serde_json::{Value, json};

use super::answers::AnswerSchemas;
use super::failed;

/// Method, path, id and tag of every operation. Clients are generated with functions of these names.
const OPERATIONS: [(&str, &str, &str, &str); 56] = [
    ("post", "/v1/events", "publish_events", "events"),
    ("post", "/v1/executions", "publish_run", "events"),
    ("post", "/v1/traces", "publish_spans", "events"),
    ("get", "/v1/executions", "list_executions", "knowledge"),
    ("get", "/v1/events", "read_events", "events"),
    ("get", "/v1/snapshots", "list_snapshots", "history"),
    ("post", "/v1/snapshots", "take_snapshot", "history"),
    ("get", "/v1/tools", "list_tools", "knowledge"),
    ("get", "/v1/capabilities", "list_capabilities", "knowledge"),
    ("post", "/v1/capabilities/{capability}/rename", "rename_capability", "knowledge"),
    ("post", "/v1/capabilities/{capability}/merge", "merge_capability", "knowledge"),
    ("post", "/v1/capabilities/{capability}/approve", "approve_capability", "knowledge"),
    ("post", "/v1/capabilities/{capability}/retire", "retire_capability", "knowledge"),
    ("get", "/v1/graph", "get_graph", "knowledge"),
    ("get", "/v1/related", "related", "questions"),
    ("post", "/v1/discover", "discover", "questions"),
    ("post", "/v1/predict", "predict", "questions"),
    ("post", "/v1/score", "score", "questions"),
    ("post", "/v1/suggest", "suggest", "questions"),
    ("post", "/v1/speculate", "speculate", "questions"),
    ("post", "/v1/explain", "explain", "questions"),
    ("get", "/v1/quality", "get_quality", "models"),
    ("get", "/v1/models", "list_models", "models"),
    ("post", "/v1/models/train", "train_models", "models"),
    ("post", "/v1/models/rollback", "roll_back_model", "models"),
    ("post", "/v1/models/{version}/promote", "promote_model", "models"),
    ("post", "/v1/search_tools", "search_tools", "questions"),
    ("post", "/v1/search_capabilities", "search_capabilities", "questions"),
    ("get", "/v1/servers", "list_servers", "servers"),
    ("post", "/v1/servers/reload", "reload_servers", "servers"),
    ("post", "/v1/servers/approve", "approve_tool", "servers"),
    ("post", "/v1/execute", "execute", "runs"),
    ("get", "/v1/execute", "list_runs", "runs"),
    ("post", "/v1/execute/continue", "continue_run", "runs"),
    ("post", "/v1/execute/abort", "abort_run", "runs"),
    ("get", "/v1/execute/{run}", "get_run", "runs"),
    ("get", "/v1/execute/{run}/{task}", "get_task_result", "runs"),
    ("get", "/v1/predictions", "stream_predictions", "questions"),
    ("get", "/v1/traces/{execution}", "get_trace", "knowledge"),
    ("get", "/v1/state", "get_state", "knowledge"),
    ("get", "/v1/system", "get_system", "machines"),
    ("get", "/v1/backup", "get_backup", "history"),
    ("get", "/v1/dead", "list_dead_letters", "events"),
    ("post", "/v1/dead/redrive", "redrive_dead_letters", "events"),
    ("post", "/mcp", "mcp_message", "mcp"),
    ("get", "/mcp", "mcp_stream", "mcp"),
    ("delete", "/mcp", "mcp_end", "mcp"),
    ("post", "/message", "send_message", "mcp"),
    ("get", "/", "get_page", "page"),
    ("get", "/assets/{hash}/{path}", "get_page_file", "page"),
    ("get", "/v1/access", "get_access", "page"),
    ("get", "/healthz", "get_health", "machines"),
    ("get", "/readyz", "get_readiness", "machines"),
    ("get", "/metrics", "get_metrics", "machines"),
    ("get", "/openapi.json", "get_openapi", "machines"),
    ("get", "/docs", "get_docs", "machines"),
];

/// The tags with what they hold.
pub(super) fn tags() -> Value {
    let tag = |name: &str, description: &str| json!({"name": name, "description": description});
    json!([
        tag("events", "Publishing and reading what agents did"),
        tag("questions", "What fits, what comes next, which plan, and why"),
        tag("knowledge", "What was learnt, as lists"),
        tag("models", "What predicts, and its training"),
        tag("runs", "Workflows that pml runs"),
        tag("servers", "The MCP servers whose tools pml calls"),
        tag("history", "Snapshots and backups"),
        tag("mcp", "The Model Context Protocol"),
        tag("page", "The page for people"),
        tag("machines", "Health, metrics and this description"),
    ])
}

/// The failures that operations refer to.
pub(super) fn failures() -> Value {
    json!({
        "BadRequest": failed("The question makes no sense, and why"),
        "NoKey": failed("An API key is needed or is not known"),
        "NotAllowed": failed("The key lacks the scope, or without keys the request comes from a web page or another host"),
        "NotFound": failed("Nothing is known about what was asked for"),
        "Timeout": failed("The body took too long to arrive"),
        "Conflict": failed("Not possible in the present state, and why"),
        "TooLarge": failed("The body is too large"),
        "Busy": failed("Too much waits already; see Retry-After"),
        "Failed": failed("The server failed"),
        "Unavailable": failed("Not possible at the moment; try again"),
    })
}

/// Completes the description of an operation.
pub(super) fn complete(operation: &mut Value, method: &str, path: &str, answers: &mut AnswerSchemas) {
    let Some((_, _, id, tag)) = OPERATIONS.iter().find(|(of, at, ..)| *of == method && *at == path) else { return };
    operation["operationId"] = json!(id);
    operation["tags"] = json!([tag]);
    let content = content(id, answers);
    for status in ["200", "202"] {
        let described = &mut operation["responses"][status];
        if described.is_object() && described.get("content").is_none() && !(*id == "send_message" && status == "202") {
            described["content"] = content.clone();
        } else if described.is_null()
            && let Some(responses) = operation["responses"].as_object_mut()
        {
            responses.remove(status);
        }
    }
    let has_body = operation.get("requestBody").is_some();
    let has_parameters = operation["parameters"].as_array().is_some_and(|parameters| !parameters.is_empty());
    let asks = has_body || has_parameters;
    let fails = [
        ("400", "BadRequest", true),
        ("401", "NoKey", true),
        ("403", "NotAllowed", true),
        ("404", "NotFound", asks),
        ("408", "Timeout", has_body),
        ("409", "Conflict", method == "post"),
        ("413", "TooLarge", has_body),
        ("429", "Busy", true),
        ("500", "Failed", true),
        ("503", "Unavailable", true),
    ];
    for (status, name, _) in fails.into_iter().filter(|(_, _, applies)| *applies) {
        if operation["responses"].get(status).is_none() {
            operation["responses"][status] = json!({"$ref": format!("#/components/responses/{name}")});
        }
    }
    if *id == "get_readiness" {
        operation["responses"]["503"] = json!({"description": "No events are accepted", "content": content});
    }
}

/// The media types of an answer with their schemas.
fn content(id: &str, answers: &mut AnswerSchemas) -> Value {
    let text = || json!({"schema": {"type": "string"}});
    match id {
        "read_events" => json!({"application/x-ndjson": text(), "text/event-stream": text()}),
        "stream_predictions" | "mcp_stream" => json!({"text/event-stream": text()}),
        "mcp_message" => json!({"application/json": {"schema": {"type": "object"}}, "text/event-stream": text()}),
        "mcp_end" => json!({}),
        "get_backup" => json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}),
        "get_metrics" => json!({"application/openmetrics-text": text()}),
        "get_docs" | "get_page" => json!({"text/html": text()}),
        "get_page_file" => json!({"text/javascript": text(), "text/css": text(), "text/plain": text()}),
        "execute" | "continue_run" => {
            json!({"application/json": {"schema": answers.answer(id)}, "text/event-stream": text()})
        }
        _ => json!({"application/json": {"schema": answers.answer(id)}}),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gateway::http::openapi::document;

    #[test]
    fn every_operation_has_an_id_a_summary_answers_and_failures() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no id"));
                assert!(ids.insert(id.to_owned()), "{id} is used twice");
                assert!(operation["summary"].is_string(), "{id} has no summary");
                let responses = operation["responses"].as_object().unwrap();
                assert!(responses.contains_key("400") && responses.contains_key("401"), "{id} does not say how it fails");
                for (status, response) in responses.iter().filter(|(status, _)| status.starts_with('2')) {
                    let content = response.get("content").and_then(Value::as_object);
                    let schemas = content.into_iter().flatten().map(|(_, media)| &media["schema"]);
                    assert!(schemas.clone().all(Value::is_object), "{id} {status} has no schema");
                }
            }
        }
        assert_eq!(ids.len(), OPERATIONS.len());
    }
}
