//! The events of a run, as an agent publishes them.

use pml::clock::Clock;
use serde_json::{Value, json};

/// An event with a fresh id.
pub(crate) fn event(kind: &str, data: Value) -> Value {
    let id = Clock::system().fresh_id().to_string();
    let mut event = json!({"specversion": "1.0", "id": id, "source": "agent", "type": format!("pml.{kind}")});
    event["data"] = data;
    event
}

pub(crate) fn started(execution: &str) -> Value {
    event("execution.started", json!({"execution": execution, "intent": "copy a file"}))
}

pub(crate) fn step_started(execution: &str, step: &str, tool: &str) -> Value {
    event("step.started", json!({"execution": execution, "step": step, "tool": tool}))
}

pub(crate) fn step(execution: &str, step: &str, tool: &str, depends_on: &[&str]) -> Value {
    let data = json!({"execution": execution, "step": step, "tool": tool, "depends_on": depends_on, "success": true});
    event("step.finished", data)
}

pub(crate) fn finished(execution: &str) -> Value {
    event("execution.finished", json!({"execution": execution, "success": true}))
}

/// Read, then write what was read.
pub(crate) fn whole(execution: &str) -> Value {
    json!([
        started(execution),
        step(execution, "s1", "fs:read", &[]),
        step(execution, "s2", "fs:write", &["s1"]),
        finished(execution)
    ])
}
