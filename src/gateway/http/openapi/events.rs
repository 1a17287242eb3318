//! The schemas of published events: one envelope per kind, with the data of that kind.

use serde_json::{Map, Value, json};

use crate::core::event::{Kind, schema};

const DEFINITIONS: &str = "#/$defs/";
const COMPONENTS: &str = "#/components/schemas/";

/// Adds the data of every kind, the envelopes of those that agents publish, and `CloudEvent`, which is any of these.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    let (mut any, mut mapping) = (Vec::new(), Map::new());
    for kind in Kind::ALL {
        let mut data = schema::for_kind(kind);
        if let Some(members) = data.as_object_mut() {
            members.remove("$id");
            members.remove("$schema");
            for (name, mut definition) in
                members.remove("$defs").and_then(|found| found.as_object().cloned()).unwrap_or_default()
            {
                move_references(&mut definition);
                schemas.insert(name, definition);
            }
        }
        move_references(&mut data);
        schemas.insert(kind.name().to_owned(), data);
        if kind.is_publishable() {
            let envelope = format!("event.{kind}");
            let reference = format!("{COMPONENTS}{envelope}");
            schemas.insert(envelope, event(kind));
            any.push(json!({"$ref": reference}));
            mapping.insert(format!("pml.{kind}"), json!(reference));
        }
    }
    let discriminator = json!({"propertyName": "type", "mapping": mapping});
    schemas.insert("CloudEvent".to_owned(), json!({"oneOf": any, "discriminator": discriminator}));
}

/// References to definitions inside a schema become references to components.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get_mut("$ref")
                && let Some(name) = target.strip_prefix(DEFINITIONS)
            {
                *target = format!("{COMPONENTS}{name}");
            }
            members.values_mut().for_each(move_references);
        }
        Value::Array(elements) => elements.iter_mut().for_each(move_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn event(kind: Kind) -> Value {
    json!({
        "type": "object",
        "required": ["specversion", "source", "type", "data"],
        "properties": {
            "specversion": {"type": "string", "const": "1.0"},
            "id": {"type": "string", "minLength": 1, "description": "Any text. A ULID or UUIDv7 is unique by itself, any other together with the source. Left out, pml makes one."},
            "source": {"type": "string", "minLength": 1, "description": "Who says so, a URI reference."},
            "type": {"type": "string", "const": format!("pml.{kind}")},
            "time": {"type": "string", "format": "date-time", "description": "When it happened; when it arrived if left out."},
            "dataschema": {"type": "string", "pattern": format!("(^|/)v{}$", kind.version()), "description": "urn:pml:<kind>/v<version>; the current version if left out."},
            "subject": {"type": "string", "description": "Kept, not interpreted."},
            "traceparent": {"type": "string", "description": "W3C trace context; kept."},
            "tracestate": {"type": "string", "description": "The rest of the trace context; kept."},
            "causation": {"type": "string", "description": "Id of the event that caused this one."},
            "data": {"$ref": format!("{COMPONENTS}{kind}")},
        },
    })
}
