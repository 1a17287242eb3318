//! Traces as Jaeger's API and UI give them: spans with tags, references to their parents, and processes with the service's name.

use std::collections::BTreeMap;
use std::sync::Arc;

use pml_core::redact::Redactor;
use pml_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::convention;
use crate::reader::Reading;
use crate::span::{Attributes, RawSpan, Span, Status};

#[derive(Deserialize)]
struct Trace {
    spans: Vec<Value>,
    #[serde(default)]
    processes: BTreeMap<String, Process>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    service_name: Option<String>,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JaegerSpan {
    #[serde(rename = "traceID")]
    trace: String,
    #[serde(rename = "spanID")]
    id: String,
    #[serde(default)]
    operation_name: String,
    #[serde(default)]
    references: Vec<Reference>,
    /// Microseconds since 1970.
    start_time: Option<i64>,
    /// Microseconds.
    duration: Option<i64>,
    #[serde(default)]
    tags: Vec<Tag>,
    #[serde(default)]
    logs: Vec<Log>,
    #[serde(rename = "processID")]
    process: Option<String>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "refType")]
    kind: String,
    #[serde(rename = "spanID")]
    span: String,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    value: Value,
}

#[derive(Deserialize)]
struct Log {
    #[serde(default)]
    fields: Vec<Tag>,
}

/// Reads one trace.
pub(crate) fn read(piece: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span)) -> Reading {
    let Ok(trace) = serde_json::from_slice::<Trace>(piece) else { return Reading::Damaged };
    let resource = |process: Process| {
        let mut resource = Attributes::default();
        for tag in process.tags {
            resource.insert(&tag.key, plain(tag.value));
        }
        resource.insert("service.name", process.service_name.unwrap_or_default());
        Arc::new(resource)
    };
    let processes: BTreeMap<String, Arc<Attributes>> =
        trace.processes.into_iter().map(|(id, process)| (id, resource(process))).collect();
    let mut any = false;
    for span in trace.spans {
        let Ok(span) = serde_json::from_value::<JaegerSpan>(span) else { continue };
        let resource = span.process.as_ref().and_then(|process| processes.get(process)).map(Arc::clone).unwrap_or_default();
        any = true;
        each(convention::understood(span.raw(resource), redactor));
    }
    if any { Reading::Used } else { Reading::Damaged }
}

impl JaegerSpan {
    fn raw(self, resource: Arc<Attributes>) -> RawSpan {
        let mut attributes = Attributes::default();
        let (mut status, mut message) = (Status::Unset, None);
        for tag in self.tags {
            let value = plain(tag.value);
            match (tag.key.as_str(), value.as_str()) {
                ("error", "true") | ("otel.status_code", "ERROR") => status = Status::Error,
                ("otel.status_code", "OK") => status = Status::Ok,
                ("otel.status_description", _) => message = Some(value),
                (name, _) => attributes.insert(name, value),
            }
        }
        for log in self.logs {
            let event = log.fields.iter().find(|field| matches!(field.key.as_str(), "event" | "name"));
            let event = event.and_then(|field| field.value.as_str()).unwrap_or_default().to_owned();
            attributes.add_event(&event, log.fields.into_iter().map(|field| (field.key, plain(field.value))).collect());
        }
        let parent = self.references.into_iter().find(|reference| reference.kind == "CHILD_OF");
        RawSpan {
            trace: self.trace,
            id: self.id,
            parent: parent.map(|parent| parent.span),
            name: self.operation_name,
            start: self.start_time.map(Timestamp::from_micros),
            end: self.start_time.zip(self.duration).map(|(start, len)| Timestamp::from_micros(start.saturating_add(len))),
            status,
            message,
            attributes,
            resource,
        }
    }
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
