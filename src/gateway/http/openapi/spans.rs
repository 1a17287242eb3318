//! The description of `POST /v1/traces`, whose bodies and answers are those of OTLP.

use serde_json::{Value, json};

pub(super) fn post() -> Value {
    let request = || json!({"schema": {"type": "string", "format": "binary", "description": "An ExportTraceServiceRequest"}});
    let answer = |description: &str| {
        let any = || json!({"schema": {"type": "string", "format": "binary"}});
        json!({"description": description, "content": {
            "application/x-protobuf": any(), "application/json": {"schema": {"type": "object"}},
        }})
    };
    json!({
        "summary": "Spans of agents and tools by OTLP/HTTP, plain or gzip; the spans of a trace become the events of a run",
        "requestBody": {"required": true, "content": {
            "application/x-protobuf": request(),
            "application/json": {"schema": {"type": "object", "properties": {"resourceSpans": {"type": "array", "items": {"type": "object"}}}}},
        }},
        "responses": {
            "200": answer("Taken; partialSuccess tells how many spans were rejected"),
            "400": answer("Not a trace request"),
            "413": answer("The body, or what is packed in it, is too large"),
            "429": answer("Too many spans wait; see Retry-After"),
        },
    })
}
