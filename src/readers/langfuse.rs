//! Exports of Langfuse: observations in rows, in the names of the API (`traceId`) or of the export (`trace_id`), and traces with their
//! observations.

use pml_core::redact::Redactor;
use serde_json::{Map, Value};

use crate::reader::Reading;
use crate::span::{Role, Span, Status};
use crate::{json, time, tool, words};

/// The server of tools: an export does not name the service.
const SERVER: &str = "langfuse";

/// Reads one observation, or one trace with all of its observations.
pub(crate) fn read(piece: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span)) -> Reading {
    let Ok(Value::Object(row)) = serde_json::from_slice(piece) else { return Reading::Damaged };
    let Some(observations) = row.get("observations").and_then(Value::as_array) else {
        return match observation(&row, None, redactor) {
            Some(span) => {
                each(span);
                Reading::Used
            }
            None => Reading::Unknown("no observation".to_owned()),
        };
    };
    // The trace itself may be a member of the download.
    let trace = row.get("trace").and_then(Value::as_object).unwrap_or(&row);
    let Some(id) = text(trace, &["id"]) else { return Reading::Damaged };
    each(Span { id: format!("trace-{id}"), trace: id.clone(), parent: None, role: Role::Agent, ..common(trace) });
    for row in observations.iter().filter_map(Value::as_object) {
        if let Some(mut span) = observation(row, Some(&id), redactor) {
            span.parent = span.parent.or_else(|| Some(format!("trace-{id}")));
            each(span);
        }
    }
    Reading::Used
}

fn observation(row: &Map<String, Value>, trace: Option<&str>, redactor: &Redactor) -> Option<Span> {
    let kind = text(row, &["type"]).unwrap_or_default().to_ascii_uppercase();
    let trace = text(row, &["traceId", "trace_id"]).or_else(|| trace.map(str::to_owned))?;
    let input = row.get("input").filter(|input| !input.is_null()).map(plain);
    let mut span = Span { trace, id: text(row, &["id"])?, ..common(row) };
    match kind.as_str() {
        "TOOL" => {
            let arguments = input.map(|input| if json::is_structure(&input) { input } else { Value::from(input).to_string() });
            let tool = tool::named(SERVER, &span.name, arguments.as_deref(), redactor)?;
            span.role = Role::Tool(tool);
            span.arguments = arguments;
            span.result = row.get("output").filter(|output| !output.is_null()).map(plain);
            span.words = None;
        }
        "AGENT" => span.role = Role::Agent,
        "GENERATION" => span.role = Role::Model,
        _ => {}
    }
    Some(span)
}

/// What traces and observations have in common.
fn common(row: &Map<String, Value>) -> Span {
    let level = text(row, &["level"]).unwrap_or_default();
    let time = |names: &[&str]| text(row, names).as_deref().and_then(time::parse);
    let input = row.get("input").filter(|input| !input.is_null()).map(plain);
    Span {
        trace: String::new(),
        id: String::new(),
        parent: text(row, &["parentObservationId", "parent_observation_id"]),
        name: text(row, &["name"]).unwrap_or_default(),
        start: time(&["startTime", "start_time", "timestamp"]),
        end: time(&["endTime", "end_time"]),
        status: if level == "ERROR" { Status::Error } else { Status::Unset },
        error: text(row, &["statusMessage", "status_message"]),
        error_type: None,
        role: Role::Other,
        words: input.as_deref().and_then(words::last_said),
        arguments: None,
        result: None,
        session: text(row, &["sessionId", "session_id"]),
        agent: Some(SERVER.to_owned()),
    }
}

fn text(row: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| row.get(*name)).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
