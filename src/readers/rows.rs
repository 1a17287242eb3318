//! One span per object: what OpenInference tools export (`context.trace_id`, `attributes`, `span_kind`), also with flattened names as in
//! tables, and what OpenTelemetry's console exporters print.

use std::sync::Arc;

use pml_core::redact::Redactor;
use serde_json::{Map, Value};

use crate::reader::Reading;
use crate::span::{Attributes, RawSpan, Span, Status};
use crate::{convention, time};

/// How deep nested attributes are flattened.
const DEPTH_MAX: usize = 6;

/// Reads one span.
pub(crate) fn read(piece: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span)) -> Reading {
    let Ok(Value::Object(row)) = serde_json::from_slice(piece) else { return Reading::Damaged };
    let Some((trace, id)) =
        first(&row, &["context.trace_id", "trace_id", "traceId"]).zip(first(&row, &["context.span_id", "span_id", "spanId"]))
    else {
        return Reading::Unknown("no span".to_owned());
    };
    let mut attributes = Attributes::default();
    if let Some(nested) = row.get("attributes") {
        flatten("", nested, DEPTH_MAX, &mut attributes);
    }
    for (name, value) in row.iter().filter_map(|(name, value)| Some((name.strip_prefix("attributes.")?, value))) {
        flatten(name, value, DEPTH_MAX, &mut attributes);
    }
    if let Some(kind) = first(&row, &["span_kind"]) {
        attributes.insert("openinference.span.kind", kind);
    }
    for event in row.get("events").and_then(Value::as_array).into_iter().flatten() {
        let name = event.get("name").and_then(Value::as_str).unwrap_or_default();
        let members = event.get("attributes").and_then(Value::as_object).into_iter().flatten();
        attributes.add_event(name, members.map(|(name, value)| (name.clone(), plain(value))).collect());
    }
    let mut resource = Attributes::default();
    if let Some(given) = row.get("resource") {
        flatten("", given.get("attributes").unwrap_or(given), DEPTH_MAX, &mut resource);
    }
    let status = first(&row, &["status_code", "status.status_code", "status.code", "status"]).unwrap_or_default();
    let time = |names: &[&str]| first(&row, names).as_deref().and_then(time::parse);
    let raw = RawSpan {
        trace: without_prefix(&trace),
        id: without_prefix(&id),
        parent: first(&row, &["parent_id", "parent_span_id", "parentSpanId", "parentId"]).map(|id| without_prefix(&id)),
        name: first(&row, &["name"]).unwrap_or_default(),
        start: time(&["start_time", "startTime", "startTimeUnixNano", "timestamp"]),
        end: time(&["end_time", "endTime", "endTimeUnixNano"]),
        status: match status.to_ascii_uppercase().as_str() {
            "OK" | "STATUS_CODE_OK" | "1" => Status::Ok,
            "ERROR" | "STATUS_CODE_ERROR" | "2" => Status::Error,
            _ => Status::Unset,
        },
        message: first(&row, &["status_message", "status.description", "status.message"]),
        attributes,
        resource: Arc::new(resource),
    };
    each(convention::understood(raw, redactor));
    Reading::Used
}

/// Adds a value under its name; members of objects under names with dots.
fn flatten(name: &str, value: &Value, depth: usize, attributes: &mut Attributes) {
    match value {
        Value::Object(members) if depth > 0 => {
            for (member, value) in members {
                let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                flatten(&name, value, depth - 1, attributes);
            }
            // Arguments are one value, although they are an object.
            if ["parameters", "arguments", "value"].iter().any(|last| name.ends_with(last)) {
                attributes.insert(name, value.to_string());
            }
        }
        Value::Array(items) if depth > 0 && items.iter().any(|item| item.get("message").is_some()) => {
            for (at, item) in items.iter().enumerate() {
                flatten(&format!("{name}.{at}"), item, depth - 1, attributes);
            }
        }
        _ => attributes.insert(name, plain(value)),
    }
}

/// The first of several members that has a value; a dot leads into an object, unless it is part of the name.
fn first(row: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let find = |name: &&str| {
        let nested = || name.split_once('.').and_then(|(outer, inner)| row.get(outer)?.get(inner));
        row.get(*name).filter(|value| !value.is_object()).or_else(nested)
    };
    names.iter().filter_map(find).map(plain).find(|text| !text.is_empty())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Console exporters write ids with `0x`.
fn without_prefix(id: &str) -> String {
    id.strip_prefix("0x").unwrap_or(id).to_owned()
}
