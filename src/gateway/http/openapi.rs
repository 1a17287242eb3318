//! `GET /openapi.json`: the OpenAPI description of the HTTP gateway. The event schemas are the generated ones.

mod answers;
mod events;
mod execution;
mod operations;
mod page;
mod spans;

use actix_web::HttpResponse;
use serde_json::{Value, json};

use super::auth::Access;
use super::routes;
use crate::core::event::schema::{CALLEE, NOT_BLANK, TEXT_ID};
use crate::core::event::{Kind, document as run_document};
use crate::core::id::{TEXT_ID_LEN_MAX, TOOL_ID_LEN_MAX};
use answers::AnswerSchemas;

pub(super) async fn serve() -> HttpResponse {
    HttpResponse::Ok().json(document())
}

/// `GET /docs`: the document for people, by a page that reads it from this server and from nowhere else.
pub(super) async fn page() -> HttpResponse {
    const POLICY: &str = "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header(("content-security-policy", POLICY))
        .body(include_str!("docs.html"))
}

/// Returns the OpenAPI document.
pub(super) fn document() -> Value {
    let mut answers = AnswerSchemas::new();
    let paths = paths(&mut answers);
    let mut schemas = answers.definitions();
    events::add(&mut schemas);
    schemas.insert("RunDocument".to_owned(), run_document::schema());
    schemas.insert(
        "Error".to_owned(),
        json!({"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pml", "version": env!("CARGO_PKG_VERSION"),
            "description": "Procedural memory for AI agents: publish what agents do, query what pml has learnt.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that this document comes from"}],
        "tags": operations::tags(),
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "Needed only where API keys are configured; each operation names the scope, and admin opens all."}},
            "responses": operations::failures(),
            "schemas": schemas,
        },
    })
}

/// Returns all paths, with the id, the answers and the scope of each operation.
fn paths(answers: &mut AnswerSchemas) -> Value {
    let mut paths = resources();
    for more in [questions(), graph(), models(), page::paths(), execution::paths()] {
        if let (Value::Object(paths), Value::Object(more)) = (&mut paths, more) {
            for (path, operations) in more {
                match (paths.get_mut(&path), operations) {
                    (Some(Value::Object(known)), Value::Object(operations)) => known.extend(operations),
                    (_, operations) => drop(paths.insert(path, operations)),
                }
            }
        }
    }
    for entry in routes::table() {
        let (method, path) = (entry.method.as_str().to_ascii_lowercase(), entry.described_path());
        if let Some(operation) = paths.get_mut(&path).and_then(|path| path.get_mut(&method)) {
            operations::complete(operation, &method, &path, answers);
            if let Some(security) = security(entry.access) {
                operation["security"] = security;
            }
        }
    }
    paths
}

/// Returns the security of an operation: none without API keys, otherwise a key with the scope.
fn security(access: Access) -> Option<Value> {
    match access {
        Access::Open => Some(json!([{}])),
        Access::AnyKey => None,
        Access::Scope(scope) => Some(json!([{}, {"key": [scope.name()]}])),
    }
}

fn questions() -> Value {
    let intent = || json!({"type": "string", "pattern": NOT_BLANK});
    json!({
        "/v1/discover": {"post": ask_at("The tools and capabilities that fit an intent, as one ranked list with reasons, or that have a name", &json!({
            "intent": intent(),
            "name": {"type": "string", "description": "Instead of an intent: a name, a pattern of names with * and ?, or an id."},
            "offset": {"type": "integer", "minimum": 0, "maximum": 10000, "default": 0, "description": "meta.next_offset of the page before."},
            "filter": {"type": "object", "properties": {
                "type": {"enum": ["all", "tool", "capability"], "default": "all"}, "min_score": share(),
            }, "additionalProperties": false},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            "include_related": {"type": "boolean", "default": false},
        }), &[])},
        "/v1/predict": {"post": ask_at("The next call: tools, capabilities and the end of the execution, each with its probability and reasons", &json!({
            "intent": {"type": "string", "default": ""},
            "context": {"type": "array", "items": callee(), "description": "What was called so far, in order."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5},
            "only": {"enum": ["all", "tool", "capability"], "default": "all"},
            "mode": {"enum": ["asked", "passive", "speculation"], "default": "asked"},
        }), &[])},
        "/v1/score": {"post": ask("How likely the intent asks for each tool and capability, on one scale, and how likely a path succeeds", &json!({
            "intent": intent(),
            "only": {"enum": ["all", "tool", "capability"], "default": "all"},
            "level": {"type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "Only capabilities of this level; 0 holds those that contain tools only."},
            "by_level": {"type": "boolean", "default": false, "description": "The best capabilities of every level, in `levels`."},
            "path": {"type": "array", "items": callee(), "description": "Calls in order, whose success is predicted."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
        }), &["intent"])},
        "/v1/suggest": {"post": ask_at("A plan for an intent: a DAG of tools with a confidence, alternatives, and what is missing", &json!({
            "intent": intent(),
            "context": {"type": "array", "items": callee(), "description": "What was called already, in order."},
            "k": {"type": "integer", "minimum": 1, "maximum": 3, "default": 3, "description": "Alternatives at most."},
        }), &["intent"])},
        "/v1/speculate": {"post": ask("Calls that may be run before an agent asks: the next layer of a plan, or the predicted call", &json!({
            "intent": {"type": "string", "default": ""},
            "context": {"type": "array", "items": callee(), "description": "What was called already, in order."},
            "plan": {"type": "array", "items": planned_task(), "maxItems": 256, "description": "Tasks, as suggested."},
            "done": {"type": "array", "items": position(), "description": "Positions of the tasks that are done."},
        }), &[])},
        "/v1/explain": {"post": ask_at("Why an outcome was predicted, with the records that it was learnt from", &json!({
            "prediction": {"type": "string", "description": "A prediction that was served; its question is asked again."},
            "intent": {"type": "string", "default": ""},
            "context": {"type": "array", "items": callee()},
            "mode": {"enum": ["asked", "passive", "speculation"], "default": "asked"},
            "item": {"type": "string", "pattern": CALLEE, "maxLength": TOOL_ID_LEN_MAX, "description": "A tool, capability:ID or done; the first outcome if left out."},
        }), &[])},
        "/v1/predictions": {"get": get("The predictions after each step of open executions, as server-sent events (event: prediction)", &[
            parameter("session", "query", "string", "Only of this session, or of this execution if it has none"),
        ])},
        "/v1/search_tools": {"post": deprecated(ask("Tools only, near those in use; use discover", &json!({
            "query": intent(),
            "context_tools": {"type": "array", "items": callee()},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5},
            "include_related": {"type": "boolean", "default": false},
        }), &["query"]))},
        "/v1/search_capabilities": {"post": deprecated(ask("Capabilities only; use discover", &json!({
            "intent": intent(),
            "min_score": share(),
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5},
        }), &["intent"]))},
    })
}

/// A tool, a capability, or the name of a tool alone.
fn callee() -> Value {
    json!({"type": "string", "pattern": CALLEE, "maxLength": TOOL_ID_LEN_MAX})
}

fn share() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1, "default": 0.0})
}

/// A position in a plan.
fn position() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": 255})
}

fn planned_task() -> Value {
    let properties = json!({"tool": callee(), "depends_on": {"type": "array", "items": position()}});
    json!({"type": "object", "properties": properties, "required": ["tool"]})
}

fn models() -> Value {
    let parts = json!({"type": "array", "items": {"enum": ["head", "encoder", "shgat", "ranker"]}});
    let mut train = ask(
        "Train now; requests that come while a run is under way are merged into the next",
        &json!({
            "parts": parts, "seed": {"type": "integer", "minimum": 0, "maximum": u64::MAX, "description": "Derived from the last record if left out."},
        }),
        &[],
    );
    train["responses"] = json!({
        "202": {"description": "Taken; the run is over when trainer.answered of GET /v1/models has reached the number in `request`"},
        "409": failed("This process does not train, and which one may"),
    });
    let mut rollback = ask(
        "Return a part to the version that served before, or to none",
        &json!({
            "part": {"enum": ["head", "encoder", "shgat", "ranker"]},
        }),
        &["part"],
    );
    rollback["responses"] = json!({"200": {"description": "It serves"}, "409": failed("No version of the part serves")});
    json!({
        "/v1/models": {"get": get("What predicts: weights and their results, the trained versions that serve, the latest training runs, the run under way", &[])},
        "/v1/models/train": {"post": train},
        "/v1/models/rollback": {"post": rollback},
        "/v1/models/{version}/promote": {"post": {
            "summary": "Make a trained version serve",
            "parameters": [parameter("version", "path", "string", "As GET /v1/models lists it")],
            "responses": {
                "200": {"description": "It serves"},
                "404": failed("No such version is known"),
                "409": failed("It serves already, the gate refused it, or its parameters are no longer kept"),
            },
        }},
    })
}

fn snapshots() -> Value {
    json!({
        "get": get("Snapshots of the state, oldest first", &[]),
        "post": {"summary": "Take a snapshot; answers when it is written", "responses": {
            "200": {"description": "Written, or the same one was there"},
            "409": failed("The state is empty, or the snapshot store belongs to another log"),
        }},
    })
}

fn resources() -> Value {
    let event = json!({"$ref": "#/components/schemas/CloudEvent"});
    let answered = |description: &str| json!({"description": description, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PublishAnswer"}}}});
    let answered_or_failed = |description: &str| {
        let either = json!({"oneOf": [{"$ref": "#/components/schemas/PublishAnswer"}, {"$ref": "#/components/schemas/Error"}]});
        json!({"description": description, "content": {"application/json": {"schema": either}}})
    };
    let post_events = json!({
        "summary": "Publish one event, a batch, or one event per line",
        "requestBody": {"required": true, "content": {
            "application/cloudevents+json": {"schema": event},
            "application/cloudevents-batch+json": {"schema": {"type": "array", "items": event}},
            "application/x-ndjson": {"schema": {"type": "string"}},
        }},
        "responses": {
            "202": answered("At least one event is in the log; each has its own result"),
            "400": answered_or_failed("Every event was refused, or the request holds no events"),
            "409": answered("The log holds every one of these ids with other content"),
            "408": failed("The body took too long to arrive; nothing was taken"),
            "413": failed("Body or batch too large; nothing was taken"),
            "429": answered_or_failed("Too many requests are waiting, or there is no room for another execution; see Retry-After"),
            "503": failed("No events are accepted at the moment, or the outcome is unknown; send it again with the same ids"),
            "507": failed("The log has no room (log.free_bytes_min, or the limits of its stream); make room and send it again with the same ids"),
        },
    });
    let after = parameter("after", "query", "string", "Continue after this id");
    let limit = between(parameter("limit", "query", "integer", "Entries wanted"), 1, 1_000);
    json!({
        "/v1/events": {
            "post": post_events,
            "get": get("The log as server-sent events (Accept: text/event-stream) or NDJSON", &[
                at_least(parameter("from", "query", "integer", "First position wanted"), 1),
                at_least(parameter("to", "query", "integer", "Last position wanted; NDJSON only"), 1),
                kinds(),
                formed(parameter("execution", "query", "string", "Only records of this execution"), TEXT_ID, TEXT_ID_LEN_MAX),
                parameter("vectors", "query", "boolean", "Include the vectors of embedding.computed and the bytes of model.parameters"),
                between(parameter("every_ms", "query", "integer", "Send what has come at most this often; server-sent events only"), 0, 10_000),
                at_least(parameter("Last-Event-ID", "header", "integer", "Position of the last event received"), 0),
            ]),
        },
        "/v1/traces": {"post": spans::post()},
        "/v1/tools": {"get": get("Tools by id, with what was observed", &[after.clone(), limit.clone()])},
        "/v1/capabilities": {"get": get("Capabilities by id", &[after, limit.clone()])},
        "/v1/traces/{execution}": {"get": get("One execution, open or completed", &[formed(parameter("execution", "path", "string", "Execution id"), TEXT_ID, TEXT_ID_LEN_MAX)])},
        "/v1/state": {"get": get("Position, digest and sizes of the state", &[])},
        "/v1/snapshots": snapshots(),
        "/v1/backup": {"get": get("The whole log as one stream for `pml restore`", &[])},
        "/v1/dead": {"get": get("Refused events, oldest first", &[at_least(parameter("after", "query", "integer", "Continue after this number"), 0), limit])},
        "/v1/dead/redrive": {"post": {
            "summary": "Publish refused events again",
            "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "type": "object", "additionalProperties": false,
                "properties": {"numbers": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": u64::MAX}}},
            }}}},
            "responses": {"200": answered("One result per letter; ids are letter numbers")},
        }},
        "/mcp": mcp(),
        "/message": {"post": message()},
        "/healthz": {"get": get("The process runs", &[])},
        "/readyz": {"get": get("Whether events are accepted, and how far the fold is behind the log", &[])},
        "/metrics": {"get": get("Prometheus metrics", &[])},
        "/openapi.json": {"get": get("This document", &[])},
        "/docs": {"get": get("This document as a page for people", &[])},
    })
}

fn graph() -> Value {
    json!({
        "/v1/graph": {"get": get("Typed edges, the strongest first", &[
            between(parameter("limit", "query", "integer", "Edges wanted"), 1, 100_000),
            parameter("kind", "query", "string", "Only edges of this kind"),
            parameter("measures", "query", "boolean", "Also the rank, community and level of the nodes"),
            moment(),
        ])},
        "/v1/related": {"get": get("The neighbours of a tool or capability, tools often before and after, its community, a path to another", &[
            required(formed(parameter("tool", "query", "string", "A tool, or a capability by its id or handle"), CALLEE, TOOL_ID_LEN_MAX)),
            formed(parameter("to", "query", "string", "Also the cheapest ordered path to this one"), CALLEE, TOOL_ID_LEN_MAX),
            between(parameter("limit", "query", "integer", "Neighbours per direction and community mates wanted"), 1, 1_000),
            moment(),
        ])},
    })
}

fn message() -> Value {
    json!({
        "summary": "The Model Context Protocol as plain JSON-RPC: one message, no session",
        "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": {"200": {"description": "The JSON-RPC response"}, "202": {"description": "A notification was received"}},
    })
}

fn mcp() -> Value {
    let session = || parameter("Mcp-Session-Id", "header", "string", "The session, for protocol versions that have sessions");
    json!({
        "post": {
            "summary": "The Model Context Protocol over streamable HTTP, versions 2024-11-05 to 2026-07-28",
            "parameters": [session()],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object"}}}},
            "responses": {"200": {"description": "The response, as JSON or as an event stream"}, "202": {"description": "A notification was received"}},
        },
        "get": get("Messages of the server to the client of a session, as server-sent events", &[session()]),
        "delete": {"summary": "End a session", "parameters": [session()], "responses": {"200": {"description": "It has ended"}}},
    })
}

fn parameter(name: &str, place: &str, kind: &str, description: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "description": description, "schema": {"type": kind}})
}

fn ask(summary: &str, properties: &Value, needed: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": needed, "additionalProperties": false});
    json!({
        "summary": summary,
        "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "Answered"}},
    })
}

/// A question that may also be asked about the past.
fn ask_at(summary: &str, properties: &Value, needed: &[&str]) -> Value {
    let mut operation = ask(summary, properties, needed);
    operation["parameters"] = json!([moment()]);
    operation
}

fn moment() -> Value {
    let mut at = parameter("at", "query", "string", "A position of the log, a time (RFC 3339) or `now`: the answer as of then");
    at["schema"]["anyOf"] = json!([{"pattern": "^(now|[0-9]{1,18})$"}, {"format": "date-time"}]);
    at
}

fn deprecated(mut operation: Value) -> Value {
    operation["deprecated"] = json!(true);
    operation
}

fn at_least(parameter: Value, min: u64) -> Value {
    between(parameter, min, i64::MAX.unsigned_abs())
}

fn between(mut parameter: Value, min: u64, max: u64) -> Value {
    parameter["schema"]["minimum"] = json!(min);
    parameter["schema"]["maximum"] = json!(max);
    parameter
}

fn kinds() -> Value {
    let names = Kind::ALL.map(|kind| kind.name().replace('.', r"\.")).join("|");
    let mut parameter = parameter("kinds", "query", "string", "Only records of these kinds, separated by commas");
    parameter["schema"]["pattern"] = json!(format!("^({names})(,({names}))*$"));
    parameter
}

/// A parameter whose text has this form.
fn formed(mut parameter: Value, pattern: &str, len_max: usize) -> Value {
    parameter["schema"]["pattern"] = json!(pattern);
    parameter["schema"]["maxLength"] = json!(len_max);
    parameter
}

fn required(mut parameter: Value) -> Value {
    parameter["required"] = json!(true);
    parameter
}

fn failed(description: &str) -> Value {
    json!({"description": description, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}})
}

fn get(summary: &str, parameters: &[Value]) -> Value {
    json!({"summary": summary, "parameters": parameters, "responses": {"200": {"description": "Found"}}})
}
