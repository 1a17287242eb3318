//! Removal of secrets from an event that is within the limits, and truncation of texts that are stored in part.

use super::Limits;
use crate::event::{CapabilityDeclared, Event, Json, NewRecord, StepFinished, ToolRegistered, written_by_pml};
use crate::id::{ExecutionId, RecordId, SessionId};
use crate::redact::{self, Redactor};
use crate::refusal::Refusal;

/// Refuses an event whose ids hold a secret: redacted, different ids would become equal.
pub(super) fn check_ids(record: &NewRecord, redactor: &Redactor) -> Result<(), Refusal> {
    let refuse_if = |field: &str, holds_secret: bool| {
        let problem = "holds what looks like a secret, which an id cannot";
        if holds_secret { Err(Refusal::invalid(field, problem)) } else { Ok(()) }
    };
    let check = |field: &str, id: Option<&str>| refuse_if(field, id.is_some_and(|id| redactor.text(id).is_some()));
    let check_tool = |field: &str, tool: &str| refuse_if(field, redactor.is_in_tool(tool));
    check("id", record.envelope.as_ref().and_then(|envelope| envelope.id.as_deref()))?;
    check("data.execution", record.event.execution().map(ExecutionId::as_str))?;
    match &record.event {
        Event::ToolRegistered(tool) => check_tool("data.tool", tool.tool.as_str()),
        Event::ExecutionStarted(started) => {
            check("data.session", started.session.as_ref().map(SessionId::as_str))?;
            check("data.parent", started.parent.as_ref().map(ExecutionId::as_str))
        }
        Event::StepStarted(step) => {
            check("data.step", Some(step.step.as_str()))?;
            check_tool("data.tool", &step.tool.text())
        }
        Event::StepFinished(step) => {
            check("data.step", Some(step.step.as_str()))?;
            check_tool("data.tool", &step.tool.text())?;
            step.depends_on.iter().try_for_each(|on| check("data.depends_on", Some(on.as_str())))
        }
        Event::CapabilityDeclared(capability) => capability.structure.nodes.iter().try_for_each(|node| {
            check("data.structure.nodes.id", Some(node.id.as_str()))?;
            check_tool("data.structure.nodes.tool", &node.callee.text())
        }),
        _ => Ok(()),
    }
}

/// Redacts all texts of an event, and truncates those with a limit of `string_bytes_max`.
pub(super) fn clean_texts(record: &mut NewRecord, limits: &Limits) {
    let redactor = &limits.redactor;
    if let Some(source) = redactor.text(&record.source) {
        record.source = source.into();
        // The identity is that of the source as it is stored, so that whoever reads the record finds the same.
        if let Some(id) = record.envelope.as_ref().and_then(|envelope| envelope.id.as_deref()) {
            record.id = RecordId::of_event(&record.source, id);
        }
    }
    if let Some(envelope) = &mut record.envelope {
        clean_optional(&mut envelope.subject, redactor);
        clean_optional(&mut envelope.tracestate, redactor);
    }
    match &mut record.event {
        Event::ToolRegistered(tool) => clean_tool(tool, redactor),
        Event::ExecutionStarted(started) => {
            redactor.clean(&mut started.intent);
            clean_optional(&mut started.agent, redactor);
        }
        Event::StepStarted(step) => clean_json(&mut step.arguments, redactor, limits.string_bytes_max),
        Event::StepFinished(step) => clean_step(step, limits),
        Event::ExecutionFinished(finished) => {
            clean_optional(&mut finished.error, redactor);
            clean_optional(&mut finished.code, redactor);
        }
        Event::CapabilityDeclared(capability) => clean_capability(capability, redactor),
        // These hold ids only, or are written by pml itself.
        Event::ToolRemoved(_)
        | Event::FeedbackGiven(_)
        | Event::TraceCompleted(_)
        | Event::PredictionServed(_)
        | Event::StepSpeculated(_)
        | written_by_pml!() => {}
    }
}

fn clean_tool(tool: &mut ToolRegistered, redactor: &Redactor) {
    redactor.clean(&mut tool.name);
    redactor.clean(&mut tool.description);
    clean_json(&mut tool.input_schema, redactor, usize::MAX);
    clean_json(&mut tool.output_schema, redactor, usize::MAX);
    if let Some(annotations) = &mut tool.annotations {
        clean_optional(&mut annotations.title, redactor);
    }
}

fn clean_step(step: &mut StepFinished, limits: &Limits) {
    clean_optional(&mut step.error_kind, &limits.redactor);
    if let Some(summary) = &mut step.result_summary {
        limits.redactor.clean(summary);
        redact::cut(summary, limits.string_bytes_max);
    }
    clean_json(&mut step.arguments, &limits.redactor, limits.string_bytes_max);
}

fn clean_capability(capability: &mut CapabilityDeclared, redactor: &Redactor) {
    redactor.clean(&mut capability.name);
    redactor.clean(&mut capability.description);
    clean_optional(&mut capability.code, redactor);
    clean_json(&mut capability.parameters_schema, redactor, usize::MAX);
}

fn clean_optional(text: &mut Option<String>, redactor: &Redactor) {
    if let Some(text) = text {
        redactor.clean(text);
    }
}

fn clean_json(json: &mut Option<Json>, redactor: &Redactor, string_len_max: usize) {
    if let Some(clean) = json.as_ref().and_then(|json| redactor.json(json, string_len_max)) {
        *json = Some(clean);
    }
}
