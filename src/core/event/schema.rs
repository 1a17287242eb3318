//! JSON Schemas (2020-12) of the events' data, generated from the wire types. `schemas/` holds them as files; a test
//! compares.

use serde_json::{Value, json};

use super::{Kind, codec};

/// The schema of `kind` at its current version.
pub fn for_kind(kind: Kind) -> Value {
    let mut schema = serde_json::to_value(codec::wire_schema(kind)).expect("a schema is plain JSON");
    schema["$id"] = json!(kind.schema_uri(kind.version()));
    schema["title"] = json!(format!("pml.{kind} v{}", kind.version()));
    schema
}

/// The file name of the schema of `kind` in `schemas/`.
pub fn file_name(kind: Kind) -> String {
    format!("{kind}.v{}.schema.json", kind.version())
}
