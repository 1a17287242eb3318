//! Takes secrets out of an event that is within the limits, and cuts what is stored in part only.

use super::Limits;
use crate::core::event::{CapabilityDeclared, Event, Json, NewRecord, StepFinished, ToolRegistered};
use crate::core::id::{ExecutionId, SessionId};
use crate::core::redact::{self, Redactor};
use crate::core::refusal::Refusal;

/// An id that holds a secret is refused: redacted, it would be the same as others.
pub(super) fn ids(record: &NewRecord, redactor: &Redactor) -> Result<(), Refusal> {
    let check = |field: &str, id: Option<&str>| match id.and_then(|id| redactor.text(id)) {
        Some(_) => Err(Refusal::invalid(field, "holds what looks like a secret, which an id cannot")),
        None => Ok(()),
    };
    check("data.execution", record.event.execution().map(ExecutionId::as_str))?;
    match &record.event {
        Event::ToolRegistered(tool) => check("data.tool", Some(tool.tool.as_str())),
        Event::ExecutionStarted(started) => {
            check("data.session", started.session.as_ref().map(SessionId::as_str))?;
            check("data.parent", started.parent.as_ref().map(ExecutionId::as_str))
        }
        Event::StepStarted(step) => check("data.step", Some(step.step.as_str())),
        Event::StepFinished(step) => check("data.step", Some(step.step.as_str())),
        _ => Ok(()),
    }
}

pub(super) fn texts(record: &mut NewRecord, limits: &Limits) {
    let redactor = &limits.redactor;
    if let Some(source) = redactor.text(&record.source) {
        record.source = source.into();
    }
    match &mut record.event {
        Event::ToolRegistered(tool) => tool_texts(tool, redactor),
        Event::ExecutionStarted(started) => {
            redactor.clean(&mut started.intent);
            optional(&mut started.agent, redactor);
        }
        Event::StepStarted(step) => json(&mut step.arguments, redactor, limits.string_bytes_max),
        Event::StepFinished(step) => step_texts(step, limits),
        Event::ExecutionFinished(finished) => {
            optional(&mut finished.error, redactor);
            optional(&mut finished.code, redactor);
        }
        Event::CapabilityDeclared(capability) => capability_texts(capability, redactor),
        // They hold ids only, or are written by pml itself.
        Event::ToolRemoved(_)
        | Event::FeedbackGiven(_)
        | Event::TemplateLoaded(_)
        | Event::TraceCompleted(_)
        | Event::EmbeddingComputed(_)
        | Event::PredictionServed(_)
        | Event::LogForked(_) => {}
    }
}

fn tool_texts(tool: &mut ToolRegistered, redactor: &Redactor) {
    redactor.clean(&mut tool.name);
    redactor.clean(&mut tool.description);
    json(&mut tool.input_schema, redactor, usize::MAX);
    json(&mut tool.output_schema, redactor, usize::MAX);
    if let Some(annotations) = &mut tool.annotations {
        optional(&mut annotations.title, redactor);
    }
}

fn step_texts(step: &mut StepFinished, limits: &Limits) {
    optional(&mut step.error_kind, &limits.redactor);
    if let Some(summary) = &mut step.result_summary {
        limits.redactor.clean(summary);
        redact::cut(summary, limits.string_bytes_max);
    }
    json(&mut step.arguments, &limits.redactor, limits.string_bytes_max);
}

fn capability_texts(capability: &mut CapabilityDeclared, redactor: &Redactor) {
    redactor.clean(&mut capability.name);
    redactor.clean(&mut capability.description);
    optional(&mut capability.code, redactor);
    json(&mut capability.parameters_schema, redactor, usize::MAX);
}

fn optional(text: &mut Option<String>, redactor: &Redactor) {
    if let Some(text) = text {
        redactor.clean(text);
    }
}

fn json(json: &mut Option<Json>, redactor: &Redactor, string_len_max: usize) {
    if let Some(clean) = json.as_ref().and_then(|json| redactor.json(json, string_len_max)) {
        *json = Some(clean);
    }
}
