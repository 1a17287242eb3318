//! What every event passes before anything else sees it, whatever door it came through: is it ours to take, is it within the
//! limits, does it make sense by itself. Whether it fits the execution it belongs to is decided in `execution`.

use super::event::{CapabilityDeclared, Event, NewRecord, StepFinished};
use super::graph::edge::EdgeKind;
use super::id::StepId;
use super::redact;
use super::refusal::Refusal;

/// Sizes beyond which input is refused. The names are the keys of `[limits]` in the configuration, where the defaults stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub intent_bytes_max: usize,
    pub text_bytes_max: usize,
    pub json_bytes_max: usize,
    pub string_bytes_max: usize,
    pub steps_max: usize,
    pub open_executions_max: usize,
}

/// Checks one event and cleans it in place: what remains is what the log will hold.
pub fn check(record: &mut NewRecord, limits: &Limits) -> Result<(), Refusal> {
    let kind = record.event.kind();
    if !kind.is_publishable() {
        return Err(Refusal::NotPublishable { kind: kind.name() });
    }
    text("source", &record.source, limits)?;
    match &mut record.event {
        Event::ToolRegistered(tool) => {
            text("data.name", &tool.name, limits)?;
            text("data.description", &tool.description, limits)?;
            json("data.input_schema", tool.input_schema.as_ref(), limits)?;
            json("data.output_schema", tool.output_schema.as_ref(), limits)?;
        }
        Event::ExecutionStarted(started) => {
            if started.intent.trim().is_empty() {
                return Err(Refusal::invalid("data.intent", "is blank"));
            }
            within("data.intent", started.intent.len(), limits.intent_bytes_max, "limits.intent_bytes_max")?;
            optional_text("data.agent", started.agent.as_ref(), limits)?;
        }
        Event::StepStarted(step) => clean_arguments(&mut step.arguments, limits)?,
        Event::StepFinished(step) => check_step(step, limits)?,
        Event::ExecutionFinished(finished) => {
            optional_text("data.error", finished.error.as_ref(), limits)?;
            optional_text("data.code", finished.code.as_ref(), limits)?;
        }
        Event::CapabilityDeclared(capability) => check_capability(capability, limits)?,
        Event::ToolRemoved(_) | Event::FeedbackGiven(_) => {}
        Event::TemplateLoaded(_) | Event::TraceCompleted(_) | Event::EmbeddingComputed(_) | Event::PredictionServed(_) => {
            unreachable!("kinds that are not publishable were refused above")
        }
    }
    Ok(())
}

fn check_step(step: &mut StepFinished, limits: &Limits) -> Result<(), Refusal> {
    count("data.depends_on", step.depends_on.len(), limits.steps_max, "limits.steps_max")?;
    step.depends_on.sort_unstable();
    step.depends_on.dedup();
    if step.depends_on.contains(&step.step) {
        return Err(Refusal::DependencyCycle { path: format!("{0} -> {0}", step.step) });
    }
    optional_text("data.error_kind", step.error_kind.as_ref(), limits)?;
    if let Some(summary) = &mut step.result_summary {
        redact::cut(summary, limits.string_bytes_max);
    }
    clean_arguments(&mut step.arguments, limits)
}

fn check_capability(capability: &CapabilityDeclared, limits: &Limits) -> Result<(), Refusal> {
    if capability.name.trim().is_empty() {
        return Err(Refusal::invalid("data.name", "is blank"));
    }
    text("data.name", &capability.name, limits)?;
    text("data.description", &capability.description, limits)?;
    optional_text("data.code", capability.code.as_ref(), limits)?;
    json("data.parameters_schema", capability.parameters_schema.as_ref(), limits)?;
    let structure = &capability.structure;
    if structure.nodes.is_empty() {
        return Err(Refusal::invalid("data.structure.nodes", "is empty; a capability calls at least one tool"));
    }
    count("data.structure.nodes", structure.nodes.len(), limits.steps_max, "limits.steps_max")?;
    count("data.structure.edges", structure.edges.len(), limits.steps_max * limits.steps_max, "limits.steps_max squared")?;
    let mut ids: Vec<&StepId> = structure.nodes.iter().map(|node| &node.id).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Refusal::invalid("data.structure.nodes.id", format!("'{}' is given twice", pair[0])));
    }
    for (field, id) in structure.edges.iter().flat_map(|edge| [("from", &edge.from), ("to", &edge.to)]) {
        if ids.binary_search(&id).is_err() {
            return Err(Refusal::invalid(format!("data.structure.edges.{field}"), format!("'{id}' is not a node")));
        }
    }
    // Containment must nest; data flow and order may loop (a retry is a procedure too).
    let contains = structure.edges.iter().filter(|edge| edge.kind == EdgeKind::Contains).map(|edge| (&edge.from, &edge.to));
    match super::graph::cycle::find(contains) {
        Some(path) => {
            let path: Vec<_> = path.into_iter().map(StepId::as_str).collect();
            Err(Refusal::invalid("data.structure.edges", format!("contains closes the cycle {}", path.join(" -> "))))
        }
        None => Ok(()),
    }
}

fn clean_arguments(arguments: &mut Option<super::event::Json>, limits: &Limits) -> Result<(), Refusal> {
    json("data.arguments", arguments.as_ref(), limits)?;
    *arguments = arguments.as_ref().map(|arguments| redact::redact(arguments, limits.string_bytes_max));
    Ok(())
}

fn within(field: &str, len: usize, max: usize, key: &'static str) -> Result<(), Refusal> {
    if len <= max { Ok(()) } else { Err(Refusal::TooLong { field: field.to_owned(), len, max, key }) }
}

fn count(field: &str, count: usize, max: usize, key: &'static str) -> Result<(), Refusal> {
    if count <= max { Ok(()) } else { Err(Refusal::TooMany { field: field.to_owned(), count, max, key }) }
}

fn text(field: &str, text: &str, limits: &Limits) -> Result<(), Refusal> {
    within(field, text.len(), limits.text_bytes_max, "limits.text_bytes_max")
}

fn optional_text(field: &str, value: Option<&String>, limits: &Limits) -> Result<(), Refusal> {
    value.map_or(Ok(()), |value| text(field, value, limits))
}

fn json(field: &str, value: Option<&super::event::Json>, limits: &Limits) -> Result<(), Refusal> {
    value.map_or(Ok(()), |value| within(field, value.as_str().len(), limits.json_bytes_max, "limits.json_bytes_max"))
}
