//! Facts and records as CloudEvents, in both modes.

use serde_json::{Map, Value, json};

use super::{HEADER_PREFIX, SPEC_VERSION, TYPE_PREFIX};
use crate::event::{Envelope, Event, NewRecord, Record, codec};
use crate::time::Timestamp;

/// Writes a fact as structured JSON, as an agent would send it.
pub fn to_structured(fact: &NewRecord) -> Value {
    let mut members = Map::new();
    for (name, value) in attributes(fact) {
        members.insert(name.to_owned(), Value::String(value));
    }
    members.insert("datacontenttype".to_owned(), json!("application/json"));
    members.insert("data".to_owned(), codec::to_json(&fact.event));
    Value::Object(members)
}

/// Writes a record as structured JSON, with its position and the time it was recorded.
pub fn record_to_structured(record: &Record) -> Value {
    let mut value = to_structured(&record.fact);
    value["seq"] = json!(record.seq.0);
    value["recordedat"] = json!(record.recorded_at.to_string());
    value
}

/// Writes a record as structured JSON. Without `vectors`, the vector of a text and the parameters of a model are left out: thousands of
/// numbers that say nothing to people.
pub fn record_to_text(record: &Record, vectors: bool) -> String {
    let mut value = record_to_structured(record);
    if !vectors
        && let Event::EmbeddingComputed(_) | Event::ModelParameters(_) = record.event()
        && let Some(data) = value["data"].as_object_mut()
    {
        data.remove("vector");
        data.remove("bytes");
    }
    value.to_string()
}

/// Writes a fact to be appended to a log as structured JSON: with the time of recording, without a position, which the log assigns.
pub fn recorded_to_structured(fact: &NewRecord, recorded_at: Timestamp) -> Vec<u8> {
    let mut attributes = attributes(fact);
    attributes.push(("recordedat", recorded_at.to_string()));
    attributes.push(("datacontenttype", "application/json".to_owned()));
    let mut bytes = Vec::with_capacity(768);
    bytes.push(b'{');
    for (name, value) in attributes {
        bytes.extend_from_slice(b"\"");
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"\":");
        serde_json::to_writer(&mut bytes, &value).expect("writing to memory cannot fail");
        bytes.push(b',');
    }
    bytes.extend_from_slice(b"\"data\":");
    codec::write_present_json(&fact.event, &mut bytes);
    bytes.push(b'}');
    bytes
}

/// Writes a fact in binary mode: `ce-` headers, and the data as JSON.
pub fn to_binary(fact: &NewRecord) -> (Vec<(String, String)>, Vec<u8>) {
    let headers = attributes(fact).into_iter().map(|(name, value)| (format!("{HEADER_PREFIX}{name}"), value)).collect();
    (headers, codec::to_json(&fact.event).to_string().into_bytes())
}

fn attributes(fact: &NewRecord) -> Vec<(&'static str, String)> {
    let kind = fact.event.kind();
    let mut attributes = vec![
        ("specversion", SPEC_VERSION.to_owned()),
        ("id", fact.given_id().into_owned()),
        ("source", fact.source.to_string()),
        ("type", format!("{TYPE_PREFIX}{kind}")),
        ("time", fact.time.to_string()),
        ("dataschema", kind.schema_uri(kind.version())),
    ];
    if let Some(id) = fact.causation {
        attributes.push(("causation", id.to_string()));
    }
    if let Some(envelope) = &fact.envelope {
        let Envelope { id: _, subject, traceparent, tracestate } = &**envelope;
        let kept = [("subject", subject), ("traceparent", traceparent), ("tracestate", tracestate)];
        attributes.extend(kept.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    }
    attributes
}
