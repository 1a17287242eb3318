//! OTLP trace requests in JSON. Every span is parsed on its own, so that one that is malformed does not cost the others.

use std::borrow::Cow;
use std::sync::Arc;

use pml_core::redact::Redactor;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DEPTH_MAX, DecodeError, Decoded, give, plain, status};
use crate::span::{Attributes, RawSpan, Span, Status};
use crate::{json, time};

#[derive(Deserialize)]
struct Request<'a> {
    /// Left out, there are none: members that are empty need not be written.
    #[serde(borrow, default, rename = "resourceSpans", alias = "resource_spans")]
    resource_spans: Vec<ResourceSpans<'a>>,
}

#[derive(Deserialize)]
struct ResourceSpans<'a> {
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
    #[serde(borrow, default, rename = "scopeSpans", alias = "scope_spans", alias = "instrumentationLibrarySpans")]
    scope_spans: Vec<ScopeSpans<'a>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default)]
    attributes: Vec<KeyValue<'a>>,
}

#[derive(Deserialize)]
struct ScopeSpans<'a> {
    #[serde(borrow, default)]
    spans: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct JsonSpan<'a> {
    #[serde(borrow, rename = "traceId", alias = "trace_id")]
    trace: Cow<'a, str>,
    #[serde(borrow, rename = "spanId", alias = "span_id")]
    id: Cow<'a, str>,
    #[serde(borrow, rename = "parentSpanId", alias = "parent_span_id")]
    parent: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "startTimeUnixNano", alias = "start_time_unix_nano")]
    start: Option<&'a RawValue>,
    #[serde(borrow, rename = "endTimeUnixNano", alias = "end_time_unix_nano")]
    end: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attributes: Vec<KeyValue<'a>>,
    #[serde(borrow, default)]
    events: Vec<JsonEvent<'a>>,
    status: Option<JsonStatus>,
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    attributes: Vec<KeyValue<'a>>,
}

#[derive(Deserialize)]
struct JsonStatus {
    message: Option<String>,
    code: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct KeyValue<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    value: Option<serde_json::Value>,
}

impl KeyValue<'_> {
    fn plain(&self) -> String {
        plain(self.value.as_ref().map_or(serde_json::Value::Null, |any| json_any_value(any, DEPTH_MAX)))
    }
}

/// Reads a request in JSON; each span goes to `each`.
pub fn decode_json(body: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span)) -> Result<Decoded, DecodeError> {
    // A list would be read as the members of the request in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(DecodeError::Json);
    }
    let request: Request<'_> = serde_json::from_slice(body).map_err(|_| DecodeError::Json)?;
    let mut decoded = Decoded::default();
    for resource_spans in request.resource_spans {
        let mut resource = Attributes::default();
        for attribute in resource_spans.resource.into_iter().flat_map(|resource| resource.attributes) {
            resource.insert(&attribute.key, attribute.plain());
        }
        let resource = Arc::new(resource);
        for span in resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            match serde_json::from_str::<JsonSpan<'_>>(span.get()) {
                Ok(span) => give(span.raw(&resource), redactor, each, &mut decoded),
                Err(_) => decoded.rejected += 1,
            }
        }
    }
    Ok(decoded)
}

impl JsonSpan<'_> {
    fn raw(self, resource: &Arc<Attributes>) -> RawSpan {
        let mut attributes = Attributes::default();
        for attribute in &self.attributes {
            attributes.insert(&attribute.key, attribute.plain());
        }
        for event in &self.events {
            let members = event.attributes.iter().map(|attribute| (attribute.key.clone().into_owned(), attribute.plain()));
            attributes.add_event(&event.name, members.collect());
        }
        let nanos = |raw: Option<&RawValue>| raw.and_then(|raw| json::text(raw).parse().ok()).and_then(time::from_nanos);
        let code = self.status.as_ref().and_then(|status| status.code.as_ref());
        RawSpan {
            trace: self.trace.to_ascii_lowercase(),
            id: self.id.to_ascii_lowercase(),
            parent: self.parent.map(|parent| parent.to_ascii_lowercase()),
            name: self.name.into_owned(),
            start: nanos(self.start),
            end: nanos(self.end),
            status: match code {
                Some(serde_json::Value::String(name)) if name.ends_with("OK") => Status::Ok,
                Some(serde_json::Value::String(name)) if name.ends_with("ERROR") => Status::Error,
                Some(code) => status(code.as_u64().unwrap_or_default()),
                None => Status::Unset,
            },
            message: self.status.and_then(|status| status.message),
            attributes,
            resource: Arc::clone(resource),
        }
    }
}

/// A value in OTLP's JSON: an object with one member that names its type; numbers of 64 bits are strings.
fn json_any_value(any: &serde_json::Value, depth: usize) -> serde_json::Value {
    let Some((kind, value)) = any.as_object().and_then(|object| object.iter().next()).filter(|_| depth > 0) else {
        return serde_json::Value::Null;
    };
    match kind.as_str() {
        "intValue" => value.as_str().and_then(|text| text.parse::<i64>().ok()).map_or_else(|| value.clone(), Into::into),
        "arrayValue" => {
            let items = value.get("values").and_then(serde_json::Value::as_array).into_iter().flatten();
            items.map(|item| json_any_value(item, depth - 1)).collect::<Vec<_>>().into()
        }
        "kvlistValue" => {
            let items = value.get("values").and_then(serde_json::Value::as_array).into_iter().flatten();
            let member = |item: &serde_json::Value| {
                let name = item.get("key")?.as_str()?.to_owned();
                Some((name, item.get("value").map_or(serde_json::Value::Null, |any| json_any_value(any, depth - 1))))
            };
            items.filter_map(member).collect::<serde_json::Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}
