//! JSON Schemas (2020-12) of the events' data, generated from the wire types. `schemas/` holds the printed form; a test compares.

use serde_json::{Value, json};

use super::{Kind, codec};

/// The schema of `kind` at its current version.
pub fn of(kind: Kind) -> Value {
    let mut schema = serde_json::to_value(codec::schema_of(kind)).expect("a schema is plain JSON");
    schema["$id"] = json!(kind.schema_uri(kind.version()));
    schema["title"] = json!(format!("pml.{kind} v{}", kind.version()));
    schema
}

/// File name of the schema of `kind` in `schemas/`.
pub fn file_name(kind: Kind) -> String {
    format!("{kind}.v{}.schema.json", kind.version())
}
