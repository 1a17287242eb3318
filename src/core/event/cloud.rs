//! The CloudEvents 1.0 envelope in structured mode (JSON) and in binary mode (`ce-` headers and a body).
//!
//! `type` is `pml.<kind>`, `dataschema` ends in `/v<version>` (the current version if it is left out). `id` is any text
//! ([`RecordId::of_event`]); an event without one gets an id from pml. `subject` and the extensions `traceparent` and `tracestate` are kept,
//! `causation` is an extension of pml; records that pml sends have the extensions `seq` and `recordedat` too. Others are ignored.

mod batch;
mod one_pass;
mod writing;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::codec::{DefaultServer, WireData};
use super::kind::{Kind, TYPE_PREFIX};
use super::text::Text;
use super::{Envelope, Event, NewRecord, codec};
use crate::id::RecordId;
use crate::refusal::Refusal;
use crate::time::Timestamp;
pub use batch::{from_batch, split_batch};
pub use writing::{record_to_structured, record_to_text, recorded_to_structured, to_binary, to_structured};

/// Content type of one event in structured mode.
pub const STRUCTURED: &str = "application/cloudevents+json";
/// Content type of a JSON array of events.
pub const BATCH: &str = "application/cloudevents-batch+json";
/// Prefix of the attributes' header names in binary mode.
pub const HEADER_PREFIX: &str = "ce-";

const SPEC_VERSION: &str = "1.0";
/// What may stand between the parts of a JSON text.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// Longest id of a refused event that is returned to its sender.
const GIVEN_ID_BYTES_MAX: usize = 256;

/// The context attributes pml reads, and the data as `D`; others are allowed by CloudEvents and ignored.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "D: Deserialize<'de>"))]
struct Attributes<'a, D> {
    #[serde(borrow, default)]
    specversion: Option<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    source: Option<Text<'a>>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    time: Option<Text<'a>>,
    #[serde(borrow, default)]
    dataschema: Option<Text<'a>>,
    #[serde(borrow, default)]
    causation: Option<Text<'a>>,
    #[serde(borrow, default)]
    subject: Option<Text<'a>>,
    #[serde(borrow, default)]
    traceparent: Option<Text<'a>>,
    #[serde(borrow, default)]
    tracestate: Option<Text<'a>>,
    #[serde(borrow, default)]
    recordedat: Option<Text<'a>>,
    #[serde(default)]
    data: Option<D>,
}

/// The data of an event: its text, or what was read in one pass with the attributes.
trait EventData {
    /// Returns the event, and the paths of the members that were ignored.
    fn into_event(self, kind: Kind, version: u8, server: &DefaultServer<'_>) -> Result<(Event, Vec<String>), Refusal>;

    /// The text; `None` if it was not kept.
    fn text(&self) -> Option<&str>;
}

impl EventData for &str {
    fn into_event(self, kind: Kind, version: u8, server: &DefaultServer<'_>) -> Result<(Event, Vec<String>), Refusal> {
        codec::receive_json(kind, version, self, server)
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl EventData for WireData<'_> {
    fn into_event(self, _: Kind, _: u8, server: &DefaultServer<'_>) -> Result<(Event, Vec<String>), Refusal> {
        self.into_event(server).map(|event| (event, Vec::new()))
    }

    fn text(&self) -> Option<&str> {
        None
    }
}

/// What stands in for what an event leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Receipt<'a> {
    /// When it arrived. Given as `time` if that is missing; a missing `id` follows from it and from the content.
    pub now: Timestamp,
    /// The server of tools that are named without one. Without it, the event's source gives the name.
    pub default_server: Option<&'a str>,
}

impl From<Timestamp> for Receipt<'_> {
    fn from(now: Timestamp) -> Self {
        Self { now, default_server: None }
    }
}

/// An event that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub fact: NewRecord,
    /// Paths of what was ignored: unknown members of `data`, and a trace context that is none.
    pub ignored: Vec<String>,
}

/// Reads one structured event. What was ignored is not reported.
pub fn from_structured<'a>(bytes: &[u8], receipt: impl Into<Receipt<'a>>) -> Result<NewRecord, Refusal> {
    receive_structured(bytes, receipt.into()).map(|received| received.fact)
}

/// Reads one structured event.
pub fn receive_structured(bytes: &[u8], receipt: Receipt<'_>) -> Result<Received, Refusal> {
    let text = utf8(bytes, "event")?;
    if let Some(event) = one_pass::read_all(text) {
        return event.into_received(receipt);
    }
    let event: Attributes<'_, &RawValue> = codec::parse_json_at("", text)?;
    event.map_data(RawValue::get).into_received(receipt)
}

/// Returns the id of an event that cannot be read otherwise, as its sender wrote it. Nothing else of the event is allocated.
pub fn given_id(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Given<'a> {
        #[serde(borrow)]
        id: Text<'a>,
    }
    let Given { id } = serde_json::from_slice(bytes).ok()?;
    (id.len() <= GIVEN_ID_BYTES_MAX).then(|| id.to_string())
}

/// Reads what [`recorded_to_structured`] writes: a fact and the time it was recorded.
pub fn recorded_from_structured(bytes: &[u8]) -> Result<(NewRecord, Timestamp), Refusal> {
    let text = utf8(bytes, "event")?;
    if let Some(event) = one_pass::read_all(text) {
        return event.into_recorded();
    }
    let event: Attributes<'_, &RawValue> = codec::parse_json_at("", text)?;
    event.map_data(RawValue::get).into_recorded()
}

/// Reads one event in binary mode: attributes as headers, data as the body. Header names are matched without their prefix.
pub fn receive_binary<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    body: &[u8],
    receipt: Receipt<'_>,
) -> Result<Received, Refusal> {
    let mut attributes = Attributes { data: Some(utf8(body, "data")?), ..Attributes::default() };
    for (name, value) in headers {
        let slot = match name.strip_prefix(HEADER_PREFIX) {
            Some("specversion") => &mut attributes.specversion,
            Some("id") => &mut attributes.id,
            Some("source") => &mut attributes.source,
            Some("type") => &mut attributes.kind,
            Some("time") => &mut attributes.time,
            Some("dataschema") => &mut attributes.dataschema,
            Some("causation") => &mut attributes.causation,
            Some("subject") => &mut attributes.subject,
            Some("traceparent") => &mut attributes.traceparent,
            Some("tracestate") => &mut attributes.tracestate,
            _ => continue,
        };
        *slot = Some(Text(percent_decoded(value)));
    }
    attributes.into_received(receipt)
}

/// Decodes `%XX` in a header value (HTTP binding 3.1.3.2). A percent sign that begins no such escape is kept.
pub fn percent_decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return Cow::Borrowed(value);
    }
    let bytes = value.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = value.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(escape.unwrap_or(bytes[at]));
        at += if escape.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

/// Joins the headers and the body of a binary event into one structured text, without checking them.
pub fn join_binary<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'{'];
    for (name, value) in headers {
        if let Some(name) = name.strip_prefix(HEADER_PREFIX) {
            bytes.extend_from_slice(format!("{}:{},", json!(name), json!(percent_decoded(value))).as_bytes());
        }
    }
    bytes.extend_from_slice(b"\"data\":");
    bytes.extend_from_slice(body);
    bytes.push(b'}');
    bytes
}

impl<'a, D> Attributes<'a, D> {
    fn map_data<E>(self, change: impl FnOnce(D) -> E) -> Attributes<'a, E> {
        let Self { specversion, id, source, kind, time, dataschema, causation, subject, .. } = self;
        let Self { traceparent, tracestate, recordedat, data, .. } = self;
        let data = data.map(change);
        Attributes {
            specversion,
            id,
            source,
            kind,
            time,
            dataschema,
            causation,
            subject,
            traceparent,
            tracestate,
            recordedat,
            data,
        }
    }
}

impl<D: EventData> Attributes<'_, D> {
    /// Returns the fact and the time it was recorded.
    fn into_recorded(mut self) -> Result<(NewRecord, Timestamp), Refusal> {
        let recorded_at = self.recordedat.take().ok_or_else(|| missing("recordedat"))?;
        let recorded_at: Timestamp = recorded_at.parse().map_err(|error| Refusal::invalid("recordedat", error))?;
        Ok((self.into_received(recorded_at.into())?.fact, recorded_at))
    }

    fn into_received(mut self, Receipt { now, default_server }: Receipt<'_>) -> Result<Received, Refusal> {
        match self.specversion.as_deref() {
            Some(SPEC_VERSION) => {}
            None => return Err(missing("specversion")),
            Some(other) => return Err(Refusal::invalid("specversion", format!("'{other}' is not supported; send '1.0'"))),
        }
        let mut envelope = self.take_envelope();
        let source = self.source.filter(|source| !source.is_empty()).ok_or_else(|| missing("source"))?;
        let kind = parse_kind(&self.kind.ok_or_else(|| missing("type"))?)?;
        let version = parse_version(kind, self.dataschema.as_deref())?;
        let data = self.data.ok_or_else(|| missing("data"))?;
        let id = match self.id {
            Some(id) if id.is_empty() => return Err(Refusal::invalid("id", "is empty; leave it out to get one")),
            Some(id) => {
                let identity = RecordId::of_event(&source, &id);
                envelope.id = identity.is_hashed().then(|| id.to_string());
                identity
            }
            None => {
                let text = data.text().expect("an event without an id is read in two passes");
                RecordId::derived(now, &["event", &now.micros().to_string(), &source, kind.name(), text])
            }
        };
        let time = match self.time {
            Some(time) => time.parse().map_err(|error| Refusal::invalid("time", error))?,
            None => now,
        };
        // A cause without an identity of its own is an event of the same source.
        let causation = self.causation.map(|id| id.parse().unwrap_or_else(|_| RecordId::of_event(&source, &id)));
        let server = DefaultServer { configured: default_server, source: &source };
        let (event, mut ignored) = data.into_event(kind, version, &server)?;
        if self.traceparent.is_some() {
            ignored.push("traceparent".to_owned());
        }
        let envelope = (envelope != Envelope::default()).then(|| Box::new(envelope));
        Ok(Received { fact: NewRecord { id, time, source: (*source).into(), causation, envelope, event }, ignored })
    }

    /// The attributes that are kept as they are. A trace context that is none is left behind, as W3C asks.
    fn take_envelope(&mut self) -> Envelope {
        let owned = |text: Option<Text<'_>>| text.filter(|text| !text.is_empty()).map(|text| text.to_string());
        let traceparent = self.traceparent.take_if(|text| is_traceparent(text));
        let tracestate = self.tracestate.take_if(|_| traceparent.is_some());
        Envelope {
            id: None,
            subject: owned(self.subject.take()),
            traceparent: owned(traceparent),
            tracestate: owned(tracestate),
        }
    }
}

/// Whether a text has the form `00-<32 digits>-<16 digits>-<2 digits>`, hexadecimal in lower case. Later versions may go on after it.
fn is_traceparent(text: &str) -> bool {
    const LENGTHS: [usize; 4] = [2, 32, 16, 2];
    const LEN_MAX: usize = 256;
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    parts.len() >= LENGTHS.len()
        && text.len() <= LEN_MAX
        && parts.iter().all(|part| is_hex(part))
        && parts.iter().zip(LENGTHS).all(|(part, len)| part.len() == len)
}

fn missing(field: &str) -> Refusal {
    Refusal::Missing { field: field.to_owned() }
}

pub(super) fn utf8<'a>(bytes: &'a [u8], field: &str) -> Result<&'a str, Refusal> {
    std::str::from_utf8(bytes).map_err(|error| Refusal::Malformed {
        field: field.to_owned(),
        problem: format!("not UTF-8 after byte {}", error.valid_up_to()),
    })
}

fn parse_kind(text: &str) -> Result<Kind, Refusal> {
    text.strip_prefix(TYPE_PREFIX).unwrap_or_default().parse().map_err(|_| {
        let known: Vec<_> =
            Kind::ALL.into_iter().filter(|kind| kind.is_publishable()).map(|kind| format!("pml.{kind}")).collect();
        Refusal::UnknownKind { kind: text.to_owned(), known: known.join(", ") }
    })
}

fn parse_version(kind: Kind, dataschema: Option<&str>) -> Result<u8, Refusal> {
    let Some(uri) = dataschema else { return Ok(kind.version()) };
    let text = uri.rsplit('/').next().unwrap_or_default();
    let version = text.strip_prefix('v').and_then(|number| number.parse().ok());
    match version {
        Some(version) if kind.readable_versions().contains(&version) => Ok(version),
        _ => Err(Refusal::UnknownVersion {
            kind: kind.name().to_owned(),
            version: text.to_owned(),
            known: kind.readable_versions().iter().map(|version| format!("v{version}")).collect::<Vec<_>>().join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn event(changes: Value) -> Vec<u8> {
        let mut value = json!({
            "specversion": "1.0", "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "source": "test", "type": "pml.execution.started",
            "data": {"execution": "e1", "intent": "read a file"}
        });
        let Value::Object(changes) = changes else { panic!("changes are an object") };
        for (name, change) in changes {
            if change.is_null() {
                value.as_object_mut().unwrap().remove(&name);
            } else {
                value[&name] = change;
            }
        }
        value.to_string().into_bytes()
    }

    fn check_refused(changes: Value, field: &str, reason: &str) {
        let refusal = from_structured(&event(changes), NOW).unwrap_err();
        assert_eq!((refusal.field(), refusal.reason()), (field, reason), "{refusal}");
    }

    #[test]
    fn every_wrong_attribute_is_refused_by_name() {
        check_refused(json!({"specversion": null}), "specversion", "missing_field");
        check_refused(json!({"specversion": "0.3"}), "specversion", "invalid_field");
        check_refused(json!({"id": ""}), "id", "invalid_field");
        check_refused(json!({"id": 7}), "id", "invalid_field");
        check_refused(json!({"source": ""}), "source", "missing_field");
        check_refused(json!({"type": null}), "type", "missing_field");
        check_refused(json!({"type": "pml.step.paused"}), "type", "unknown_kind");
        check_refused(json!({"type": "step.finished"}), "type", "unknown_kind");
        check_refused(json!({"dataschema": "urn:pml:execution.started/v9"}), "dataschema", "unknown_version");
        check_refused(json!({"time": "noon"}), "time", "invalid_field");
        check_refused(json!({"data": null}), "data", "missing_field");
    }

    #[test]
    fn every_wrong_data_field_is_refused_by_name() {
        check_refused(json!({"data": {"execution": "e1"}}), "data.intent", "missing_field");
        check_refused(json!({"data": {"execution": 1, "intent": "x"}}), "data.execution", "invalid_field");
        check_refused(json!({"data": {"execution": "e 1", "intent": "x"}}), "data.execution", "invalid_field");
        check_refused(json!({"data": {"execution": "e1", "intnet": "x"}}), "data.intnet", "unknown_field");
        check_refused(json!({"data": {"execution": "e1", "intent": "x", "sesion": "y"}}), "data.sesion", "unknown_field");
        check_refused(json!({"data": "text"}), "data", "invalid_field");
        let step = |extra: Value| {
            let mut data = json!({"execution": "e1", "step": "s1", "tool": "fs:read", "success": true});
            data.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"type": "pml.step.finished", "data": data})
        };
        check_refused(step(json!({"success": "yes"})), "data.success", "invalid_field");
        check_refused(step(json!({"tool": ":read"})), "data.tool", "invalid_field");
        check_refused(step(json!({"dependsOn": ["s0"]})), "data.dependsOn", "unknown_field");
        check_refused(step(json!({"depends_on": ["s 0"]})), "data.depends_on", "invalid_field");
        check_refused(step(json!({"depends_on": [1]})), "data.depends_on[0]", "invalid_field");
        check_refused(step(json!({"duration_ms": -1})), "data.duration_ms", "invalid_field");
    }

    #[test]
    fn carried_json_that_cannot_be_parsed_again_is_refused_by_name() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for carried in ["1e999", r#""\ud800""#, &deep] {
            let event = |kind: &str, data: String| {
                let head = r#""specversion":"1.0","id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","source":"test""#;
                format!(r#"{{{head},"type":"pml.{kind}","data":{data}}}"#)
            };
            let step = format!(r#"{{"execution":"e1","step":"s1","tool":"fs:read","arguments":{{"n":{carried}}}}}"#);
            let refusal = from_structured(event("step.started", step).as_bytes(), NOW).unwrap_err();
            assert_eq!((refusal.field(), refusal.reason()), ("data.arguments", "invalid_field"), "{refusal}");
            let tool = format!(r#"{{"tool":"fs:read","description":"","input_schema":{{"maximum":{carried}}}}}"#);
            let refusal = from_structured(event("tool.registered", tool).as_bytes(), NOW).unwrap_err();
            assert_eq!((refusal.field(), refusal.reason()), ("data.input_schema", "invalid_field"), "{refusal}");
        }
    }

    #[test]
    fn broken_bytes_are_malformed() {
        let mut bytes = event(json!({}));
        bytes[20] = 0xff;
        assert_eq!(from_structured(&bytes, NOW).unwrap_err().reason(), "malformed");
        let refusal = from_structured(b"{\"specversion\":", NOW).unwrap_err();
        assert_eq!((refusal.field(), refusal.reason()), ("event", "malformed"));
    }

    #[test]
    fn the_id_of_a_refused_event_is_found_whatever_else_it_holds() {
        let zeros = "0,".repeat(1_000);
        let around = |id: &str| format!(r#"{{"data":[{zeros}0],"type":7,"id":{id}}}"#);
        assert_eq!(given_id(around(r#""a\"b""#).as_bytes()).as_deref(), Some("a\"b"));
        let long = format!("\"{}\"", "x".repeat(GIVEN_ID_BYTES_MAX + 1));
        for text in [around("7"), around(&long), "{}".to_owned(), "7".to_owned(), "{\"id\":\"a\"".to_owned()] {
            assert_eq!(given_id(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_event_survives_both_modes() {
        let given = from_structured(
            &event(json!({
                "time": "2026-01-31T12:00:00Z", "causation": "6", "id": "7", "subject": "order 12",
                "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b"
            })),
            NOW,
        )
        .unwrap();
        assert_eq!(given.causation, Some(RecordId::of_event("test", "6")));
        assert_eq!(given.envelope.as_ref().unwrap().subject.as_deref(), Some("order 12"));
        let structured = to_structured(&given).to_string();
        assert_eq!(from_structured(structured.as_bytes(), NOW).unwrap(), given);
        let (headers, body) = to_binary(&given);
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        assert_eq!(receive_binary(headers, &body, NOW.into()).unwrap().fact, given);
    }

    #[test]
    fn a_recorded_event_survives_with_its_time() {
        let given =
            from_structured(&event(json!({"causation": "01ARZ3NDEKTSV4RRFFQ69G5FAW", "source": "a \"b\" \u{e9}"})), NOW)
                .unwrap();
        let recorded_at = NOW.plus_micros(7);
        let bytes = recorded_to_structured(&given, recorded_at);
        assert_eq!(recorded_from_structured(&bytes).unwrap(), (given.clone(), recorded_at));
        assert_eq!(from_structured(&bytes, NOW).unwrap(), given, "and it is an ordinary event");
        let missing = recorded_from_structured(&event(json!({}))).unwrap_err();
        assert_eq!((missing.field(), missing.reason()), ("recordedat", "missing_field"));
    }

    #[test]
    fn header_values_are_percent_decoded() {
        for (given, decoded) in [("a%3Ab%20c", "a:b c"), ("100%", "100%"), ("%zz%4", "%zz%4"), ("%C3%A9", "\u{e9}")] {
            assert_eq!(percent_decoded(given), decoded);
        }
    }

    #[test]
    fn a_version_0_tool_is_upcast() {
        let bytes = event(json!({
            "type": "pml.tool.registered", "dataschema": "urn:pml:tool.registered/v0",
            "data": {"tool_id": "fs.read", "server_id": "fs", "category": "files", "input_schema": {"type": "object"}}
        }));
        let Event::ToolRegistered(tool) = from_structured(&bytes, NOW).unwrap().event else { panic!("a tool") };
        assert_eq!((tool.tool.as_str(), tool.name.as_str(), tool.description.as_str()), ("fs:read", "read", ""));
        assert_eq!(tool.input_schema.unwrap().as_str(), r#"{"type":"object"}"#);
    }
}
