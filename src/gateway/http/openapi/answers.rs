//! The JSON Schemas of answers, generated from the types that are answered with.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::ask::catalogue::{CapabilityDto, EdgeDto, ExecutionDto, MeasuredDto, ToolDto, TraceDto};
use crate::ask::handles::Handles;
use crate::ask::models::ModelsAnswer;
use crate::ask::quality::QualityAnswer;
use crate::ask::related::RelatedDto;
use crate::ask::{
    DiscoverAnswer, ExplainAnswer, PredictAnswer, ScoreAnswer, SearchToolsAnswer, SpeculateAnswer, SuggestAnswer,
};
use crate::execute::dto::RunDto;
use crate::gateway::http::dto::{DeadLetterDto, PublishAnswer, RunAnswer};
use crate::gateway::http::servers::ServerDto;

/// Collects the schemas of answers; those of their parts become components.
pub(super) struct AnswerSchemas(SchemaGenerator);

impl AnswerSchemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        Self(settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator())
    }

    /// The definitions that the answers so far refer to.
    pub(super) fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.0.take_definitions(true);
        definitions.values_mut().for_each(open_schemas);
        definitions
    }

    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().into()
    }

    /// The schema of the answer with this name; `None` if the answer is not JSON of one form.
    pub(super) fn answer(&mut self, name: &str) -> Option<Value> {
        let seq =
            || json!({"type": "integer", "minimum": 0, "description": "The last record folded into the state that answered."});
        let next = || json!({"type": ["string", "null"], "description": "Where to ask on, as `after`; null on the last page."});
        Some(match name {
            "discover" | "search_capabilities" => self.of::<DiscoverAnswer>(),
            "search_tools" => self.of::<SearchToolsAnswer>(),
            "predict" => self.of::<PredictAnswer>(),
            "score" => self.of::<ScoreAnswer>(),
            "suggest" => self.of::<SuggestAnswer>(),
            "speculate" => self.of::<SpeculateAnswer>(),
            "explain" => self.of::<ExplainAnswer>(),
            "related" => self.of::<RelatedDto>(),
            "list_models" => self.of::<ModelsAnswer>(),
            "get_trace" => self.of::<TraceDto<'static>>(),
            "list_tools" => {
                object(&json!({"tools": list(self.of::<ToolDto<'static>>()), "next": next(), "based_on_seq": seq()}))
            }
            "list_capabilities" => object(&json!({
                "capabilities": list(self.of::<CapabilityDto<'static>>()), "handles": self.of::<Handles>(), "next": next(),
                "based_on_seq": seq(),
            })),
            "get_graph" => object(&json!({
                "nodes": count(), "total_edges": count(), "measured": {"anyOf": [list(self.of::<MeasuredDto>()), {"type": "null"}]}, "edges": list(self.of::<EdgeDto>()), "handles": self.of::<Handles>(),
                "based_on_seq": seq(),
            })),
            "list_executions" => object(&json!({
                "executions": list(self.of::<ExecutionDto>()), "next": next(), "kept": count(), "handles": self.of::<Handles>(),
                "based_on_seq": seq(),
            })),
            "rename_capability" | "merge_capability" | "approve_capability" | "retire_capability" => {
                object(&json!({"capability": self.of::<CapabilityDto<'static>>(), "seq": count()}))
            }
            "get_quality" => self.of::<QualityAnswer>(),
            "publish_events" | "redrive_dead_letters" => self.of::<PublishAnswer>(),
            "publish_run" => self.of::<RunAnswer>(),
            "list_dead_letters" => {
                object(&json!({"dead": list(self.of::<DeadLetterDto>()), "next": {"type": ["integer", "null"]}}))
            }
            "list_servers" => object(&json!({"servers": list(self.of::<ServerDto>())})),
            "list_runs" => object(&json!({"runs": list(self.of::<RunDto>())})),
            "get_run" | "abort_run" | "execute" | "continue_run" => self.of::<RunDto>(),
            other => return fixed(other),
        })
    }
}

/// Answers that have no type of their own.
fn fixed(name: &str) -> Option<Value> {
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let snapshot = || {
        json!({
            "type": "object", "required": ["seq"],
            "properties": {
                "seq": count(), "taken_at": {"type": "string"}, "digest": {"type": "string"}, "schema": {"type": "integer"},
                "fold": {"type": "integer"}, "rows": count(), "bytes": count(), "files": count(),
                "problem": {"type": "string", "description": "Why it cannot be used."},
            },
        })
    };
    Some(match name {
        "get_state" => json!({
            "type": "object", "required": ["applied_seq", "digest", "fold", "events", "tools", "tools_unregistered", "capabilities"],
            "properties": {
                "applied_seq": count(), "digest": {"type": "string"}, "fold": {"type": "integer"},
                "events": {"type": "object", "additionalProperties": count()},
                "tools": count(), "tools_unregistered": count(), "capabilities": count(), "edges": count(), "traces": count(),
                "open_executions": count(), "duplicates": count(), "late": count(), "templates": count(), "intents": count(),
                "texts": count(), "texts_embedded": count(), "embedding_model": {"type": ["string", "null"]},
            },
        }),
        "list_snapshots" => object(&json!({"snapshots": list(snapshot())})),
        "take_snapshot" => snapshot(),
        "train_models" => object(&json!({"request": count()})),
        "roll_back_model" | "promote_model" => {
            object(&json!({"part": {"type": "string"}, "serving": {"type": ["string", "null"]}, "seq": count()}))
        }
        "reload_servers" => object(&json!({"added": texts(), "removed": texts(), "changed": texts()})),
        "approve_tool" => object(&json!({"tool": {"type": "string"}, "approved": {"type": "boolean"}})),
        "get_task_result" => {
            object(&json!({"text": {"type": "string"}, "next": {"type": ["integer", "null"]}, "total": count()}))
        }
        "get_access" => json!({
            "type": "object", "required": ["key_needed", "scopes"],
            "properties": {"key_needed": {"type": "boolean"}, "name": {"type": "string"}, "scopes": texts()},
        }),
        "get_health" => object(&json!({"status": {"type": "string"}, "version": {"type": "string"}})),
        "get_readiness" => json!({
            "type": "object", "required": ["ready", "applied_seq", "tail_seq", "behind"],
            "properties": {
                "ready": {"type": "boolean"}, "applied_seq": count(), "tail_seq": count(), "behind": count(),
                "reason": {"type": "string"}, "waiting": {"type": "object"},
            },
        }),
        "get_system" => json!({
            "type": "object", "required": ["settings", "roles"],
            "properties": {"settings": {"type": "object"}, "roles": list(json!({
                "type": "object", "required": ["role", "state"],
                "properties": {
                    "role": {"type": "string"}, "state": {"enum": ["active", "waiting", "absent"]},
                    "held_by": {"type": ["string", "null"]}, "missing_means": {"type": "string"},
                },
            }))},
        }),
        "get_openapi" | "send_message" => json!({"type": "object"}),
        _ => return None,
    })
}

/// Members that may hold anything get the schema `{}`: not every generator knows the schema `true`.
fn open_schemas(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                properties.values_mut().filter(|property| **property == true).for_each(|property| *property = json!({}));
            }
            members.values_mut().for_each(open_schemas);
        }
        Value::Array(elements) => elements.iter_mut().for_each(open_schemas),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object that has all of these members.
fn object(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({"type": "object", "properties": properties, "required": required})
}
