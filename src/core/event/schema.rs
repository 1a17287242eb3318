//! JSON Schemas (2020-12) of the events' data, generated from the wire types. `schemas/` holds them as files; a test
//! compares.

use serde_json::{Value, json};

use super::{Kind, codec};
use crate::id::{TEXT_ID_LEN_MAX, TOOL_ID_LEN_MAX};

/// What a text must look like to be more than blanks, an id, and the name of a tool or capability.
pub const NOT_BLANK: &str = r"\S";
pub const TEXT_ID: &str = "^[!-~]+$";
pub const CALLEE: &str = "^[!-9;-~]+(:[!-~]+)?$";
/// A ULID, a `UUIDv7`, or `~` and 32 digits.
const RECORD_ID: &str =
    "^([01][0-9A-HJKMNP-TV-Z]{25}|[0-3][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|~[4-7][0-9a-f]{31})$";

/// The schema of `kind` at its current version. Kinds that agents publish may have further members, which pml ignores.
pub fn for_kind(kind: Kind) -> Value {
    let mut schema = serde_json::to_value(codec::wire_schema(kind)).expect("a schema is plain JSON");
    if kind.is_publishable() {
        allow_further_members(&mut schema);
        constrain(&mut schema);
        // A part of the schema that no wire type says.
        if kind == Kind::FeedbackGiven {
            let one = |given: &str, other: &str| json!({"required": [given], "properties": {given: {"type": "string"}, other: {"type": "null"}}});
            schema["oneOf"] = json!([one("prediction", "suggestion"), one("suggestion", "prediction")]);
        }
        if kind == Kind::CapabilityDeclared {
            schema["properties"]["name"]["pattern"] = json!(NOT_BLANK);
        }
    }
    schema["$id"] = json!(kind.schema_uri(kind.version()));
    schema["title"] = json!(format!("pml.{kind} v{}", kind.version()));
    schema
}

/// Makes a schema of what comes from outside say that other members may stand there too.
pub(super) fn allow_further_members(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove("additionalProperties");
            members.values_mut().for_each(allow_further_members);
        }
        Value::Array(elements) => elements.iter_mut().for_each(allow_further_members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Says what is checked of members that events share: the characters and length of ids, that an intent is not blank.
pub(super) fn constrain(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for (name, property) in properties {
            match name.as_str() {
                "execution" | "session" | "parent" | "step" | "id" | "from" | "to" => text(property, TEXT_ID, TEXT_ID_LEN_MAX),
                "depends_on" => text(&mut property["items"], TEXT_ID, TEXT_ID_LEN_MAX),
                "tool" => text(property, CALLEE, TOOL_ID_LEN_MAX),
                "prediction" | "suggestion" => property["pattern"] = json!(RECORD_ID),
                "intent" => property["pattern"] = json!(NOT_BLANK),
                "source" => property["minLength"] = json!(1),
                "started" => property["format"] = json!("date-time"),
                "nodes" => property["minItems"] = json!(1),
                "duration_ms" => property["maximum"] = json!(u64::MAX),
                _ => {}
            }
        }
    }
    members.values_mut().for_each(constrain_parts);
}

fn constrain_parts(value: &mut Value) {
    match value {
        Value::Object(members) if !members.contains_key("properties") => members.values_mut().for_each(constrain_parts),
        Value::Object(_) => constrain(value),
        Value::Array(elements) => elements.iter_mut().for_each(constrain_parts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn text(property: &mut Value, pattern: &str, len_max: usize) {
    property["pattern"] = json!(pattern);
    property["maxLength"] = json!(len_max);
}

/// The file name of the schema of `kind` in `schemas/`.
pub fn file_name(kind: Kind) -> String {
    format!("{kind}.v{}.schema.json", kind.version())
}
