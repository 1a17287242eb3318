//! OTLP trace requests, as protobuf and as JSON, and the answers to them.
//!
//! Only the fields that tell something about agents and tools are read. A span that cannot be read is counted and the others are taken,
//! as the protocol's partial success says; a request that is no request is an error.

mod json;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use pml_core::redact::Redactor;

use crate::protobuf::{self, Fields, Malformed, Value};
use crate::span::{Attributes, RawSpan, Span, Status};
use crate::{convention, time};

pub use json::decode_json;

/// The code of `google.rpc.Status` for a request that cannot be taken; senders decide by the HTTP status.
const INVALID_ARGUMENT: u64 = 3;
/// How deep the value of an attribute is read.
const DEPTH_MAX: usize = 8;

/// A request that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the body is not an OTLP trace request in protobuf")]
    Protobuf,
    #[error("the body is not an OTLP trace request in JSON")]
    Json,
}

/// How many spans of a request were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    pub accepted: u64,
    /// Spans without ids, or whose fields are malformed.
    pub rejected: u64,
}

/// Reads a request in protobuf; each span goes to `each`.
pub fn decode_protobuf(body: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span)) -> Result<Decoded, DecodeError> {
    let mut decoded = Decoded::default();
    read_request(body, redactor, each, &mut decoded).map_err(|Malformed| DecodeError::Protobuf)?;
    Ok(decoded)
}

fn read_request(body: &[u8], redactor: &Redactor, each: &mut dyn FnMut(Span), decoded: &mut Decoded) -> Result<(), Malformed> {
    for resource_spans in messages(body, 1) {
        let resource_spans = resource_spans?;
        let mut resource = Attributes::default();
        for message in messages(resource_spans, 1) {
            for attribute in messages(message?, 1) {
                let (name, value) = key_value(attribute?)?;
                resource.insert(&name, value);
            }
        }
        let resource = Arc::new(resource);
        for scope_spans in messages(resource_spans, 2) {
            for span in messages(scope_spans?, 2) {
                match read_span(span?, &resource) {
                    Ok(raw) => give(raw, redactor, each, decoded),
                    Err(Malformed) => decoded.rejected += 1,
                }
            }
        }
    }
    Ok(())
}

fn give(raw: RawSpan, redactor: &Redactor, each: &mut dyn FnMut(Span), decoded: &mut Decoded) {
    if raw.trace.is_empty() || raw.id.is_empty() {
        decoded.rejected += 1;
    } else {
        decoded.accepted += 1;
        each(convention::understood(raw, redactor));
    }
}

/// The messages in the fields with one number.
fn messages(message: &[u8], wanted: u64) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    Fields::of(message).filter_map(move |field| match field {
        Ok((number, Value::Bytes(bytes))) if number == wanted => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn read_span(message: &[u8], resource: &Arc<Attributes>) -> Result<RawSpan, Malformed> {
    let mut span = RawSpan { resource: Arc::clone(resource), ..RawSpan::default() };
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(id)) => span.trace = hex(id),
            (2, Value::Bytes(id)) => span.id = hex(id),
            (4, Value::Bytes(id)) => span.parent = Some(hex(id)),
            (5, Value::Bytes(name)) => span.name = String::from_utf8_lossy(name).into_owned(),
            (7, Value::Fixed64(nanos)) => span.start = time::from_nanos(nanos),
            (8, Value::Fixed64(nanos)) => span.end = time::from_nanos(nanos),
            (9, Value::Bytes(attribute)) => {
                let (name, value) = key_value(attribute)?;
                span.attributes.insert(&name, value);
            }
            (11, Value::Bytes(event)) => read_event(event, &mut span.attributes)?,
            (15, Value::Bytes(status)) => read_status(status, &mut span)?,
            _ => {}
        }
    }
    Ok(span)
}

fn read_event(message: &[u8], attributes: &mut Attributes) -> Result<(), Malformed> {
    let mut name = String::new();
    let mut members = Vec::new();
    for field in Fields::of(message) {
        match field? {
            (2, Value::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
            (3, Value::Bytes(attribute)) => members.push(key_value(attribute)?),
            _ => {}
        }
    }
    attributes.add_event(&name, members);
    Ok(())
}

fn read_status(message: &[u8], span: &mut RawSpan) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        match field? {
            (2, Value::Bytes(text)) => span.message = Some(String::from_utf8_lossy(text).into_owned()),
            (3, Value::Varint(code)) => span.status = status(code),
            _ => {}
        }
    }
    Ok(())
}

fn status(code: u64) -> Status {
    match code {
        1 => Status::Ok,
        2 => Status::Error,
        _ => Status::Unset,
    }
}

fn key_value(message: &[u8]) -> Result<(String, String), Malformed> {
    let mut name = Cow::Borrowed("");
    let mut value = serde_json::Value::Null;
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(text)) => name = String::from_utf8_lossy(text),
            (2, Value::Bytes(any)) => value = any_value(any, DEPTH_MAX)?,
            _ => {}
        }
    }
    Ok((name.into_owned(), plain(value)))
}

/// A string as it is, another value as JSON.
fn plain(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn any_value(message: &[u8], depth: usize) -> Result<serde_json::Value, Malformed> {
    let mut value = serde_json::Value::Null;
    if depth == 0 {
        return Ok(value);
    }
    for field in Fields::of(message) {
        value = match field? {
            (1, Value::Bytes(text)) => String::from_utf8_lossy(text).into(),
            (2, Value::Varint(truth)) => (truth != 0).into(),
            (3, Value::Varint(number)) => number.cast_signed().into(),
            (4, Value::Fixed64(bits)) => f64::from_bits(bits).into(),
            (5, Value::Bytes(list)) => {
                messages(list, 1).map(|item| any_value(item?, depth - 1)).collect::<Result<Vec<_>, _>>()?.into()
            }
            (6, Value::Bytes(list)) => {
                messages(list, 1).map(|item| member(item?, depth - 1)).collect::<Result<serde_json::Map<_, _>, _>>()?.into()
            }
            (7, Value::Bytes(bytes)) => hex(bytes).into(),
            _ => continue,
        };
    }
    Ok(value)
}

fn member(message: &[u8], depth: usize) -> Result<(String, serde_json::Value), Malformed> {
    let mut member = (String::new(), serde_json::Value::Null);
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(name)) => member.0 = String::from_utf8_lossy(name).into_owned(),
            (2, Value::Bytes(any)) => member.1 = any_value(any, depth)?,
            _ => {}
        }
    }
    Ok(member)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    // An id of zeros is none.
    if bytes.iter().any(|byte| *byte != 0) {
        for byte in bytes {
            write!(text, "{byte:02x}").expect("writing to a string");
        }
    }
    text
}

/// The answer to a request in protobuf. One without rejected spans and message is empty, as the protocol says of full success.
pub fn response_protobuf(rejected: u64, message: &str) -> Vec<u8> {
    let mut partial = Vec::new();
    if rejected > 0 {
        protobuf::put_number(&mut partial, 1, rejected);
    }
    if !message.is_empty() {
        protobuf::put_bytes(&mut partial, 2, message.as_bytes());
    }
    let mut response = Vec::new();
    if !partial.is_empty() {
        protobuf::put_bytes(&mut response, 1, &partial);
    }
    response
}

/// An error as `google.rpc.Status`, with the code of an invalid argument.
pub fn status_protobuf(message: &str) -> Vec<u8> {
    let mut status = Vec::new();
    protobuf::put_number(&mut status, 1, INVALID_ARGUMENT);
    protobuf::put_bytes(&mut status, 2, message.as_bytes());
    status
}

/// The same in JSON.
pub fn status_json(message: &str) -> String {
    serde_json::json!({"code": INVALID_ARGUMENT, "message": message}).to_string()
}

/// The answer in JSON, as [`response_protobuf`].
pub fn response_json(rejected: u64, message: &str) -> String {
    if rejected == 0 && message.is_empty() {
        return "{}".to_owned();
    }
    serde_json::json!({"partialSuccess": {"rejectedSpans": rejected.to_string(), "errorMessage": message}}).to_string()
}

#[cfg(test)]
mod tests;
