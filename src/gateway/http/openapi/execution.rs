//! The description of the routes of servers and runs.

use serde_json::{Value, json};

use super::{ask, at_least, between, failed, get, parameter};
use crate::core::event::document;
use crate::core::id::TOOL_ID_LEN_MAX;

/// Returns the paths of servers and runs.
pub(super) fn paths() -> Value {
    let run = json!({"type": "string", "description": "Id of a run."});
    let wait = json!({"type": "boolean", "default": true, "description": "Answer at the end of the run, not at once."});
    let mut reload = ask("Read the servers file again; it is also read when it changes", &json!({}), &[]);
    reload.as_object_mut().expect("an operation").remove("requestBody");
    let mut approve = ask(
        "Approve the definition with which a server lists a tool in quarantine",
        &json!({
            "tool": {"type": "string", "pattern": "^[!-9;-~]+:[!-~]+$", "maxLength": TOOL_ID_LEN_MAX},
            "definition": {"type": "string", "description": "Hash of what was looked at, as GET /v1/tools shows it."},
        }),
        &["tool"],
    );
    approve["responses"]["409"] = failed("It is not in quarantine, or has changed again");
    json!({
        "/v1/executions": {"post": whole_run()},
        "/v1/servers": {"get": get("The MCP servers whose tools pml calls, their state and tools", &[])},
        "/v1/servers/reload": {"post": reload},
        "/v1/servers/approve": {"post": approve},
        "/v1/execute": {
            "post": start(&wait),
            "get": get("The runs that this process knows, the newest first", &[]),
        },
        "/v1/execute/continue": {"post": followed(ask("Approve what a run waits for, or resume an interrupted or failed run", &json!({
            "token": {"type": "string", "description": "Of the approval; needs the scope approve."}, "run": run, "wait": wait,
        }), &[]))},
        "/v1/execute/abort": {"post": ask("End a run, or refuse its approval; finished results are kept", &json!({"run": run}), &["run"])},
        "/v1/execute/{run}": {"get": get("One run with its results", &[parameter("run", "path", "string", "Id of the run")])},
        "/v1/execute/{run}/{task}": {"get": get("A piece of the result of a task, as text of JSON", &[
            parameter("run", "path", "string", "Id of the run"),
            parameter("task", "path", "string", "Id of the task"),
            at_least(parameter("offset", "query", "integer", "Where the piece begins, in bytes"), 0),
            between(parameter("limit", "query", "integer", "Longest piece, in bytes"), 1, 1_048_576),
        ])},
    })
}

/// The description of a run that is published as one document.
fn whole_run() -> Value {
    let body = json!({"schema": {"$ref": "#/components/schemas/RunDocument"}, "example": document::example()});
    json!({
        "summary": "Publish a whole run as one document",
        "requestBody": {"required": true, "content": {"application/json": body}},
        "responses": {
            "202": {"description": "The run is in the log; each of its events has its own result"},
            "400": failed("The document is not valid; the error names the field, and nothing was taken"),
            "413": failed("The body is too large; nothing was taken"),
            "429": failed("Too many requests are waiting; see Retry-After"),
            "503": failed("No events are accepted at the moment, or the outcome is unknown; with `execution` it may be sent again"),
            "507": failed("The log has no room; make room and send it again"),
        },
    })
}

fn start(wait: &Value) -> Value {
    let task = json!({
        "type": "object", "required": ["id", "tool"], "additionalProperties": false,
        "properties": {
            "id": {"type": "string"}, "tool": {"type": "string"},
            "arguments": {"type": "object", "description": "$OUTPUT[task].path stands for a part of another task's result."},
            "depends_on": {"type": "array", "items": {"type": "string"}},
            "timeout_ms": {"type": "integer"}, "retries": {"type": "integer", "maximum": 10},
        },
    });
    let properties = json!({
        "workflow": {"type": "object", "properties": {"tasks": {"type": "array", "items": task}}, "required": ["tasks"]},
        "code": {"type": "string", "description": "Instead of a workflow: a program in TypeScript (docs/code.md)."},
        "capability": {"type": "string", "description": "Instead of a workflow: a capability by name or id."},
        "arguments": {"type": "object", "description": "Of the program or capability, or of the plan for the intent."},
        "intent": {"type": "string", "description": "What it is for. Alone: a plan is suggested for it, and run if it is sure and has its arguments; otherwise the answer is the plan, with what is missing (arguments_required) or a token (approval_required)."}, "session": {"type": "string"}, "agent": {"type": "string"},
        "approved": {"type": "boolean", "default": false, "description": "Approve all calls beforehand; needs the scope approve."},
        "reuse": {"type": "string", "description": "An earlier run whose finished tasks are taken over."},
        "wait": wait,
    });
    followed(ask("Run a workflow, a program, a capability, or a plan for an intent on the MCP servers", &properties, &[]))
}

/// An operation that answers with a run, or with its progress as server-sent events.
fn followed(mut operation: Value) -> Value {
    operation["responses"]["200"] = json!({
        "description": "The run has ended or needs approval; with Accept: text/event-stream its progress as events, the last one `done`",
    });
    operation["responses"]["202"] = json!({"description": "The run is under way"});
    operation
}
