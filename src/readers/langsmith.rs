//! Runs of LangSmith, one per object: `run_type`, `inputs`, `outputs`, `error`, `trace_id`, `parent_run_id`. Children may be nested in
//! `child_runs`.

use pml_core::redact::Redactor;
use serde_json::{Map, Value};

use crate::reader::Reading;
use crate::span::{Role, Span, Status};
use crate::{time, tool, words};

/// The server of tools: a run does not name the service.
const SERVER: &str = "langsmith";
/// How deep nested runs are read.
const DEPTH_MAX: usize = 32;

/// Reads one run, with the runs nested in it.
pub(crate) fn read(piece: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span)) -> Reading {
    let Ok(Value::Object(run)) = serde_json::from_slice(piece) else { return Reading::Damaged };
    if read_run(&run, None, DEPTH_MAX, redactor, each) { Reading::Used } else { Reading::Unknown("no run".to_owned()) }
}

fn read_run(
    run: &Map<String, Value>,
    above: Option<(&str, &str)>,
    depth: usize,
    redactor: &Redactor,
    each: &mut dyn FnMut(Span),
) -> bool {
    let (Some(id), Some(kind)) = (text(run, "id"), text(run, "run_type")) else { return false };
    let parents = run.get("parent_run_ids").and_then(Value::as_array).and_then(|ids| ids.last()).and_then(Value::as_str);
    let parent = text(run, "parent_run_id").or(parents).or(above.map(|(_, parent)| parent));
    // The root of a trace gives the trace its id.
    let trace = text(run, "trace_id").or(above.map(|(trace, _)| trace)).unwrap_or(id);
    if let Some(span) = span(run, (trace, id), parent, kind, redactor) {
        each(span);
    }
    let children = run.get("child_runs").and_then(Value::as_array).into_iter().flatten();
    for child in children.filter_map(Value::as_object).filter(|_| depth > 0) {
        read_run(child, Some((trace, id)), depth - 1, redactor, each);
    }
    true
}

fn span(
    run: &Map<String, Value>,
    (trace, id): (&str, &str),
    parent: Option<&str>,
    kind: &str,
    redactor: &Redactor,
) -> Option<Span> {
    let name = text(run, "name").unwrap_or_default();
    let inputs = run.get("inputs").filter(|inputs| !inputs.is_null()).map(Value::to_string);
    let error = text(run, "error").map(str::to_owned);
    let status = match text(run, "status") {
        _ if error.is_some() => Status::Error,
        Some("error") => Status::Error,
        Some("success") => Status::Ok,
        _ => Status::Unset,
    };
    let metadata = run.get("extra").and_then(|extra| extra.get("metadata")).and_then(Value::as_object);
    let sessions = ["session_id", "thread_id", "conversation_id"];
    let session = metadata.and_then(|metadata| sessions.iter().find_map(|name| text(metadata, name)));
    let is_tool = kind == "tool";
    let words = if is_tool { None } else { inputs.as_deref().and_then(words::last_said) };
    let arguments = if is_tool { inputs.as_deref().map(unwrapped) } else { None };
    let role = match kind {
        "tool" => Role::Tool(tool::named(SERVER, name, arguments.as_deref(), redactor)?),
        "llm" => Role::Model,
        "chain" if parent.is_none() => Role::Agent,
        _ => Role::Other,
    };
    let time = |name: &str| {
        run.get(name).and_then(|value| match value {
            Value::String(text) => time::parse(text),
            other => other.as_f64().and_then(time::from_number),
        })
    };
    Some(Span {
        trace: trace.to_owned(),
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        name: name.to_owned(),
        start: time("start_time"),
        end: time("end_time"),
        status,
        error,
        error_type: None,
        role,
        words,
        arguments,
        result: run.get("outputs").filter(|outputs| is_tool && !outputs.is_null()).map(Value::to_string),
        session: session.map(str::to_owned),
        agent: text(run, "session_name").map_or_else(|| Some(SERVER.to_owned()), |name| Some(name.to_owned())),
    })
}

/// Tools that take text have `{"input": "..."}`; if that text is the arguments in JSON or in Python's notation, it stays as it is.
fn unwrapped(inputs: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(inputs) {
        Ok(members) if members.len() == 1 => match members.get("input").and_then(Value::as_str) {
            Some(text) if crate::json::is_structure(text) => text.to_owned(),
            _ => inputs.to_owned(),
        },
        _ => inputs.to_owned(),
    }
}

fn text<'a>(run: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    run.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}
