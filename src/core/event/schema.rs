//! JSON Schemas (2020-12) of the events' data, generated from the wire types. `schemas/` holds them as files; a test
//! compares.

use serde_json::{Value, json};

use super::{Kind, codec};

/// The schema of `kind` at its current version. Kinds that agents publish may have further members, which pml ignores.
pub fn for_kind(kind: Kind) -> Value {
    let mut schema = serde_json::to_value(codec::wire_schema(kind)).expect("a schema is plain JSON");
    if kind.is_publishable() {
        allow_further_members(&mut schema);
    }
    schema["$id"] = json!(kind.schema_uri(kind.version()));
    schema["title"] = json!(format!("pml.{kind} v{}", kind.version()));
    schema
}

fn allow_further_members(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove("additionalProperties");
            members.values_mut().for_each(allow_further_members);
        }
        Value::Array(elements) => elements.iter_mut().for_each(allow_further_members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The file name of the schema of `kind` in `schemas/`.
pub fn file_name(kind: Kind) -> String {
    format!("{kind}.v{}.schema.json", kind.version())
}
