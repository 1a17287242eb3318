//! The operations behind the page for people.

use serde_json::{Value, json};

use super::{ask, between, failed, formed, get, parameter};
use crate::core::event::schema::{CALLEE, TEXT_ID};
use crate::core::id::{TEXT_ID_LEN_MAX, TOOL_ID_LEN_MAX};

pub(super) fn paths() -> Value {
    let named = |name, description| formed(parameter(name, "query", "string", description), CALLEE, TOOL_ID_LEN_MAX);
    let choice = |name, description, values: &[&str]| {
        let mut choice = parameter(name, "query", "string", description);
        choice["schema"]["enum"] = json!(values);
        choice
    };
    json!({
        "/": {"get": get("The page for people", &[])},
        "/assets/{hash}/{path}": {"get": get("A file of the page", &[
            parameter("hash", "path", "string", "The hash of all files of the page, as the page names it"),
            parameter("path", "path", "string", "The name of the file"),
        ])},
        "/v1/access": {"get": get("Whether an API key is needed, and what the one of this request is called and allows", &[])},
        "/v1/system": {"get": get("The settings in force without secrets, and the roles of this process with their leases", &[])},
        "/v1/quality": {"get": get("How well predictions did over time, and how far their probabilities can be trusted", &[
            choice("over", "The stretch of time, counted back from the newest score", &["hour", "day", "all"]),
        ])},
        "/v1/capabilities/{capability}/rename": {"post": decision("Give a capability another name", &json!({
            "name": {"type": ["string", "null"], "maxLength": 200, "description": "Null takes the renaming back."},
        }), "name")},
        "/v1/capabilities/{capability}/merge": {"post": decision("Let another capability stand for this one too", &json!({
            "into": {"type": ["string", "null"], "description": "The id or handle of the one that stands for both; null takes the merging back."},
        }), "into")},
        "/v1/capabilities/{capability}/approve": {"post": decision("Mark a capability as approved by a person", &json!({
            "approved": {"type": "boolean", "description": "False takes the approval back."},
        }), "approved")},
        "/v1/capabilities/{capability}/retire": {"post": decision("Stop offering a capability", &json!({
            "retired": {"type": "boolean", "description": "False takes the retirement back."},
        }), "retired")},
        "/v1/executions": {"get": get("Executions under way and the latest completed ones, the latest first", &[
            parameter("q", "query", "string", "Words that the intent or the id must hold"),
            named("tool", "A tool or capability that it called"),
            named("capability", "The capability whose procedure it followed"),
            choice("outcome", "How it ended", &["open", "success", "failure", "abandoned"]),
            parameter("since", "query", "string", "Started at this time or later"),
            parameter("until", "query", "string", "Started before this time"),
            formed(parameter("after", "query", "string", "`next` of the page before"), TEXT_ID, TEXT_ID_LEN_MAX),
            between(parameter("limit", "query", "integer", "Executions wanted"), 1, 500),
        ])},
    })
}

/// A decision of a person about a capability.
fn decision(summary: &str, properties: &Value, needed: &str) -> Value {
    let mut operation = ask(summary, properties, &[needed]);
    operation["parameters"] = json!([parameter("capability", "path", "string", "The id or handle of a capability")]);
    operation["responses"] = json!({
        "200": {"description": "Recorded; the capability as it is now"},
        "404": failed("No such capability is known"),
        "409": failed("There is nothing to take back, or the other one was merged into this one"),
    });
    operation
}
