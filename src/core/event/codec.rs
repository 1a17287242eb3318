//! Conversion between wire types and domain types for every kind of event. No other module uses both.
//!
//! An error in JSON is a [`Refusal`] that names the field; an error in bytes from the log is a [`Corrupt`], because they were checked
//! before they were written.

use std::borrow::Cow;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::Value;

use super::{Event, Json, Kind, postcard_end, wire};
use crate::event as domain;
use crate::graph::edge::EdgeKind;
use crate::id::{Callee, RecordId, Seq};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// The wire form of [`domain::Outcome::Done`].
const DONE: &str = "done";

/// Bytes in the log that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode event '{kind}' v{version}: {problem}")]
pub struct Corrupt {
    pub kind: String,
    pub version: u8,
    pub problem: String,
}

macro_rules! for_every_kind {
    ($($kind:ident),* $(,)?) => {
        /// The event's data as JSON, without absent members.
        pub(crate) fn to_json(event: &Event) -> Value {
            let value = match event {
                $(Event::$kind(data) => serde_json::to_value(wire::$kind::from(data)),)*
            };
            without_nulls(value.expect("wire types are plain data"))
        }

        /// Appends the event's data as JSON, without absent members.
        pub(crate) fn write_present_json(event: &Event, out: &mut Vec<u8>) {
            let written = match event {
                $(Event::$kind(data) => present::write_present(&wire::$kind::from(data), out),)*
            };
            written.expect("writing to memory cannot fail");
        }

        /// Appends the event's data as JSON, absent members as null. Faster than [`to_json`], for readers that accept nulls.
        pub fn write_json(event: &Event, out: &mut Vec<u8>) {
            let written = match event {
                $(Event::$kind(data) => serde_json::to_writer(out, &wire::$kind::from(data)),)*
            };
            written.expect("writing to memory cannot fail");
        }

        /// Appends the event's data in the form of the log.
        pub(crate) fn to_postcard(event: &Event, out: Vec<u8>) -> Vec<u8> {
            match event {
                $(Event::$kind(data) => postcard_end::append(&wire::$kind::from(data), out),)*
            }
        }

        /// Names of tools without a server get that of `server`.
        fn from_current_json(kind: Kind, json: &str, server: Option<&DefaultServer<'_>>) -> Result<Event, Refusal> {
            match kind {
                $(Kind::$kind => {
                    let mut data = parse_json::<wire::$kind<'_>>(json)?;
                    if let Some(server) = server {
                        data.complete_tools(server);
                    }
                    data.try_into().map(Event::$kind)
                })*
            }
        }

        /// Reads the form of the log.
        pub(crate) fn from_postcard(kind: Kind, version: u8, bytes: &[u8]) -> Result<Event, Corrupt> {
            let corrupt = |problem: String| Corrupt { kind: kind.name().to_owned(), version, problem };
            let bytes = upcast_postcard(kind, version, bytes).ok_or_else(|| corrupt("no such version".to_owned()))?;
            match kind {
                $(Kind::$kind => postcard::from_bytes::<wire::$kind<'_>>(&bytes)
                    .map_err(|error| corrupt(error.to_string()))?
                    .try_into()
                    .map(Event::$kind)
                    .map_err(|refusal: Refusal| corrupt(refusal.to_string())),)*
            }
        }

        /// The JSON Schema of the wire type of `kind`.
        pub(super) fn wire_schema(kind: Kind) -> schemars::Schema {
            match kind {
                $(Kind::$kind => schemars::schema_for!(wire::$kind<'static>),)*
            }
        }
    };
}

for_every_kind!(
    ToolRegistered,
    ToolRemoved,
    ExecutionStarted,
    StepStarted,
    StepFinished,
    ExecutionFinished,
    CapabilityDeclared,
    FeedbackGiven,
    TemplateLoaded,
    TraceCompleted,
    EmbeddingComputed,
    PredictionServed,
    LogForked,
    ModelTrained,
    ModelParameters,
    ModelPromoted,
    ModelRolledBack,
    ToolQuarantined,
    ToolApproved,
    ToolOutputInferred,
    StepSpeculated,
    CapabilityRenamed,
    CapabilityMerged,
    CapabilityApproved,
    CapabilityRetired,
);

/// Calls a macro with the kinds of which there are many.
macro_rules! for_usual_kinds {
    ($call:ident) => {
        $call!(
            ToolRegistered,
            ExecutionStarted,
            StepStarted,
            StepFinished,
            ExecutionFinished,
            TraceCompleted,
            EmbeddingComputed,
            PredictionServed,
        );
    };
}
pub(super) use for_usual_kinds;

macro_rules! read_with_attributes {
    ($($kind:ident),* $(,)?) => {
        /// The data of an event of a usual kind, of its current version, as it was read together with the attributes.
        pub(super) enum WireData<'a> {
            $($kind(wire::$kind<'a>),)*
        }

        impl WireData<'_> {
            /// Converts the data of an event from outside. Names of tools without a server get that of `server`.
            pub(super) fn into_event(self, server: &DefaultServer<'_>) -> Result<Event, Refusal> {
                match self {
                    $(Self::$kind(mut data) => {
                        data.complete_tools(server);
                        data.try_into().map(Event::$kind)
                    })*
                }
            }
        }
    };
}

for_usual_kinds!(read_with_attributes);

/// Reads the data of any readable version that pml wrote; old versions are upcast. Unknown members are errors.
pub fn from_json(kind: Kind, version: u8, json: &str) -> Result<Event, Refusal> {
    from_any_json(kind, version, json, None)
}

/// Reads the data of an event from outside. Returns the paths of the members that were ignored because the kind has none of that name.
pub(super) fn receive_json(
    kind: Kind,
    version: u8,
    json: &str,
    server: &DefaultServer<'_>,
) -> Result<(Event, Vec<String>), Refusal> {
    without_unknown_members("data", json, |json| from_any_json(kind, version, json, Some(server)))
}

fn from_any_json(kind: Kind, version: u8, json: &str, server: Option<&DefaultServer<'_>>) -> Result<Event, Refusal> {
    match (kind, version) {
        (Kind::ToolRegistered, 0) => upcast_tool_registered_v0(parse_json(json)?, server).map(Event::ToolRegistered),
        _ => from_current_json(kind, json, server),
    }
}

/// The bytes of any stored version in the form of the current one; `None` if there is no such version.
fn upcast_postcard(kind: Kind, version: u8, bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    match (kind, version) {
        // Version 1 ended before the member `curve`, which is absent: a zero byte.
        (Kind::ModelTrained, 1) => Some(Cow::Owned([bytes, &[0]].concat())),
        _ => (version == kind.version()).then_some(Cow::Borrowed(bytes)),
    }
}

/// Version 0 had `tool_id` and `server_id`, and its description was optional.
fn upcast_tool_registered_v0(
    old: wire::ToolRegisteredV0<'_>,
    server: Option<&DefaultServer<'_>>,
) -> Result<domain::ToolRegistered, Refusal> {
    let mut upcast = wire::ToolRegistered {
        tool: old.tool_id,
        server: old.server_id,
        name: old.name,
        description: old.description.unwrap_or_default(),
        input_schema: old.input_schema,
        output_schema: None,
        annotations: None,
    };
    if let Some(server) = server {
        upcast.complete_tools(server);
    }
    upcast.try_into()
}

fn parse_json<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Refusal> {
    parse_json_at("data", json)
}

/// Parses `json`, which is at path `root` of the event; a refusal names the field.
pub(super) fn parse_json_at<'a, T: Deserialize<'a>>(root: &str, json: &'a str) -> Result<T, Refusal> {
    serde_json::from_str(json).map_err(|error| {
        if error.is_syntax() || error.is_eof() {
            return Refusal::Malformed { field: root_name(root).to_owned(), problem: error.to_string() };
        }
        // The plain parser does not report the path of a wrong type; the path-tracking one is slower and runs only after a failure.
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let tracked: Result<T, _> = serde_path_to_error::deserialize(&mut deserializer);
        let path = tracked.err().map(|error| error.path().to_string()).filter(|path| path != ".");
        refusal_from_serde(root, path.as_deref(), &error.to_string())
    })
}

/// The name of the field at path `root`; the whole event has an empty path.
fn root_name(root: &str) -> &str {
    if root.is_empty() { "event" } else { root }
}

/// Builds a refusal from serde's message, which names missing and unknown fields; the name goes into the `field` of the refusal.
fn refusal_from_serde(root: &str, path: Option<&str>, message: &str) -> Refusal {
    let message = message.split(" at line ").next().unwrap_or(message);
    let join = |parent: &str, child: &str| if parent.is_empty() { child.to_owned() } else { format!("{parent}.{child}") };
    let parent = path.map_or_else(|| root.to_owned(), |path| join(root, path));
    let quoted = |prefix: &str| message.strip_prefix(prefix).and_then(|rest| rest.split('`').nth(1));
    if let Some(name) = quoted("missing field ") {
        return Refusal::Missing { field: join(&parent, name) };
    }
    if let Some(name) = quoted("unknown field ") {
        let field = if parent.ends_with(name) { parent } else { join(&parent, name) };
        let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        return Refusal::UnknownMember { field, known: known.join(", ") };
    }
    Refusal::Invalid { field: root_name(&parent).to_owned(), problem: message.to_owned() }
}

/// Drops absent members of the event's own objects. Nulls inside JSON from the sender (schemas, arguments) are kept.
fn without_nulls(mut value: Value) -> Value {
    fn prune(value: &mut Value) {
        if let Value::Object(members) = value {
            members.retain(|_, member| !member.is_null());
        }
    }
    prune(&mut value);
    if let Value::Object(members) = &mut value {
        if let Some(annotations) = members.get_mut("annotations") {
            prune(annotations);
        }
        for list in ["steps", "curve"] {
            if let Some(Value::Array(entries)) = members.get_mut(list) {
                entries.iter_mut().for_each(prune);
            }
        }
    }
    value
}

fn parse<T>(field: &str, text: &str) -> Result<T, Refusal>
where
    T: FromStr,
    T::Err: ToString,
{
    text.parse().map_err(|error: T::Err| Refusal::invalid(format!("data.{field}"), error))
}

fn parse_optional<T>(field: &str, text: Option<Cow<'_, str>>) -> Result<Option<T>, Refusal>
where
    T: FromStr,
    T::Err: ToString,
{
    text.map(|text| parse(field, &text)).transpose()
}

fn parse_all<T>(field: &str, texts: &[Cow<'_, str>]) -> Result<Vec<T>, Refusal>
where
    T: FromStr,
    T::Err: ToString,
{
    texts.iter().map(|text| parse(field, text)).collect()
}

fn owned(text: Option<Cow<'_, str>>) -> Option<String> {
    text.map(Cow::into_owned)
}

fn json(text: Option<wire::JsonText<'_>>) -> Option<Json> {
    text.map(|text| Json::from_valid(text.0.into_owned()))
}

fn borrowed(text: Option<&String>) -> Option<Cow<'_, str>> {
    text.map(|text| Cow::Borrowed(text.as_str()))
}

fn json_text(json: Option<&Json>) -> Option<wire::JsonText<'_>> {
    json.map(|json| wire::JsonText(Cow::Borrowed(json.as_str())))
}

macro_rules! text {
    ($id:expr) => {
        Cow::Borrowed($id.as_str())
    };
}

mod capability;
mod default_server;
mod execution;
mod knowledge;
mod model;
mod present;
mod result;
mod unknown;

use default_server::CompleteTools as _;
pub(super) use default_server::DefaultServer;
pub(super) use unknown::without_unknown_members;
