//! JSON Schemas of the arguments and answers of pml's own tools. Every client reads all of them, so they are short.

use serde_json::{Value, json};

use super::OwnTool;

/// The schema of the arguments.
pub(super) fn input(tool: OwnTool) -> Value {
    let (properties, required): (Value, &[&str]) = match tool {
        OwnTool::Discover => (
            json!({
                "intent": text("What is to be done, in plain words"),
                "name": text("Instead of an intent: a name, a pattern with * and ?, or an id"),
                "filter": {"type": "object", "properties": {
                    "type": {"type": "string", "enum": ["all", "tool", "capability"]},
                    "min_score": {"type": "number", "minimum": 0, "maximum": 1},
                }},
                "limit": limit(10),
                "offset": {"type": "integer", "minimum": 0, "description": "meta.next_offset of the page before"},
                "include_related": {"type": "boolean", "description": "Also tools often called before and after"},
            }),
            &[],
        ),
        OwnTool::SearchTools => (
            json!({
                "query": text("What is to be done"),
                "context_tools": list("Tools in use"),
                "limit": limit(5),
                "include_related": {"type": "boolean"},
            }),
            &["query"],
        ),
        OwnTool::SearchCapabilities => {
            (json!({"intent": text("What is to be done"), "min_score": {"type": "number"}, "limit": limit(5)}), &["intent"])
        }
        OwnTool::Predict => (
            json!({
                "intent": text("The task, in plain words"),
                "context": list("Ids of the tools called so far, in order"),
                "limit": limit(5),
                "only": {"type": "string", "enum": ["all", "tool", "capability"]},
            }),
            &[],
        ),
        OwnTool::Suggest => (
            json!({
                "intent": text("The task, in plain words"),
                "context": list("Ids of the tools called so far, in order"),
                "k": {"type": "integer", "minimum": 1, "maximum": 3, "description": "Alternatives at most"},
            }),
            &["intent"],
        ),
        OwnTool::Execute => (execute(), &[]),
        OwnTool::Continue => (
            json!({
                "token": text("Of an answer with the status approval_required"),
                "run": text("Id of a run"),
                "abort": {"type": "boolean", "description": "End the run instead of going on with it"},
                "task": text("With run: the task whose result is read, as text"),
                "offset": {"type": "integer", "minimum": 0, "description": "Where the text of the result is read from"},
                "cursor": text("Of an answer that was cut"),
            }),
            &[],
        ),
        OwnTool::Feedback => (
            json!({
                "prediction": text("Id of the prediction"),
                "suggestion": text("Id of the suggestion"),
                "verdict": {"type": "string", "enum": ["accepted", "ignored", "rejected"]},
            }),
            &["verdict"],
        ),
    };
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn execute() -> Value {
    let task = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "tool": text("server:name, as pml_discover gives it"),
            "arguments": {"type": "object"},
            "depends_on": list("Ids of tasks that must have succeeded before"),
            "timeout_ms": {"type": "integer", "minimum": 1},
            "retries": {"type": "integer", "minimum": 0, "maximum": 10},
        },
        "required": ["id", "tool"],
    });
    json!({
        "tasks": {"type": "array", "items": task},
        "intent": text("What it is for, in plain words. Alone: run a plan for it"),
        "code": text("Body of an async function with the names tools, capabilities and args"),
        "capability": text("Name or id of a learnt procedure"),
        "arguments": {"type": "object", "description": "Arguments of the capability, code or plan"},
        "reuse": text("Id of an earlier run: finished tasks that are the same are not called again"),
    })
}

/// The schema of the answer.
pub(super) fn output(tool: OwnTool) -> Value {
    let objects = json!({"type": "array", "items": {"type": "object"}});
    let object = json!({"type": "object"});
    let (properties, required): (Value, &[&str]) = match tool {
        OwnTool::Discover | OwnTool::SearchCapabilities => (json!({"results": objects, "meta": object}), &["results", "meta"]),
        OwnTool::SearchTools => {
            (json!({"tools": objects, "meta": object, "deprecated": {"type": "string"}}), &["tools", "meta", "deprecated"])
        }
        OwnTool::Predict => (
            json!({"prediction": text("For pml_feedback"), "ranked": objects, "threshold": {"type": "number"}, "decision": {"type": "string"}}),
            &["ranked", "threshold", "decision"],
        ),
        OwnTool::Suggest => (
            json!({
                "plan": {"type": ["object", "null"]},
                "sure": {"type": "boolean"},
                "alternatives": objects,
                "missing": objects,
                "suggested_capabilities": list("Capabilities that cover a part of the plan"),
            }),
            &["plan", "sure", "alternatives", "missing"],
        ),
        OwnTool::Continue => (
            json!({"status": {"type": "string"}, "text": text("Of an answer that was cut"), "cursor": text("Where it goes on")}),
            &[],
        ),
        OwnTool::Execute | OwnTool::Feedback => (json!({"status": {"type": "string"}}), &["status"]),
    };
    json!({"type": "object", "properties": properties, "required": required})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn list(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

fn limit(default: u64) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 50, "default": default})
}
