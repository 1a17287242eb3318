//! Intake: the checks that every published event passes first, over HTTP and NATS alike. Its kind must be publishable, its sizes within
//! the limits, its content consistent; then secrets are removed. Whether it fits its execution is decided in `execution`.

mod clean;

use super::event::document::Run;
use super::event::{CapabilityDeclared, Event, NewRecord, StepFinished, written_by_pml};
use super::graph::edge::EdgeKind;
use super::id::StepId;
use super::redact::Redactor;
use super::refusal::Refusal;

/// The limits of the intake, named like the keys of `[limits]` in the configuration, which holds the defaults; and the redactor.
#[derive(Clone, Debug)]
pub struct Limits {
    pub redactor: Redactor,
    /// The server of tools that are named without one (key `default_server`); none if the source of the event gives the name.
    pub default_server: Option<String>,
    pub intent_bytes_max: usize,
    pub text_bytes_max: usize,
    pub json_bytes_max: usize,
    pub string_bytes_max: usize,
    pub steps_max: usize,
    pub dependencies_max: usize,
    pub open_executions_max: usize,
}

/// Checks one event and removes its secrets in place. The result is what the log will hold.
pub fn check(record: &mut NewRecord, limits: &Limits) -> Result<(), Refusal> {
    let kind = record.event.kind();
    if !kind.is_publishable() {
        return Err(Refusal::NotPublishable { kind: kind.name() });
    }
    text("source", &record.source, limits)?;
    if let Some(envelope) = &record.envelope {
        optional_text("id", envelope.id.as_ref(), limits)?;
        optional_text("subject", envelope.subject.as_ref(), limits)?;
        optional_text("tracestate", envelope.tracestate.as_ref(), limits)?;
    }
    match &mut record.event {
        Event::ToolRegistered(tool) => {
            text("data.name", &tool.name, limits)?;
            text("data.description", &tool.description, limits)?;
            json("data.input_schema", tool.input_schema.as_ref(), limits)?;
            json("data.output_schema", tool.output_schema.as_ref(), limits)?;
            let title = tool.annotations.as_ref().and_then(|annotations| annotations.title.as_ref());
            optional_text("data.annotations.title", title, limits)?;
        }
        Event::ExecutionStarted(started) => {
            if started.intent.trim().is_empty() {
                return Err(Refusal::invalid("data.intent", "is blank"));
            }
            within("data.intent", started.intent.len(), limits.intent_bytes_max, "limits.intent_bytes_max")?;
            optional_text("data.agent", started.agent.as_ref(), limits)?;
        }
        Event::StepStarted(step) => json("data.arguments", step.arguments.as_ref(), limits)?,
        Event::StepFinished(step) => check_step(step, limits)?,
        Event::ExecutionFinished(finished) => {
            optional_text("data.error", finished.error.as_ref(), limits)?;
            optional_text("data.code", finished.code.as_ref(), limits)?;
        }
        Event::CapabilityDeclared(capability) => check_capability(capability, limits)?,
        Event::ToolRemoved(_) | Event::FeedbackGiven(_) => {}
        Event::TraceCompleted(_) | Event::PredictionServed(_) | Event::StepSpeculated(_) | written_by_pml!() => {
            unreachable!("kinds that are not publishable were refused above")
        }
    }
    clean::check_ids(record, &limits.redactor)?;
    clean::clean_texts(record, limits);
    Ok(())
}

/// Checks the events of a whole run and removes their secrets in place. A refusal names the field of the document.
pub fn check_run(run: &mut Run, limits: &Limits) -> Result<(), Refusal> {
    let events = run.records.len();
    count("steps", events.saturating_sub(2), limits.steps_max, "limits.steps_max")?;
    for (at, record) in run.records.iter_mut().enumerate() {
        check(record, limits).map_err(|refusal| Run::locate(at, events, refusal))?;
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
    json("data.arguments", step.arguments.as_ref(), limits)
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
    count("data.structure.edges", structure.edges.len(), limits.dependencies_max, "limits.dependencies_max")?;
    let mut ids: Vec<&StepId> = structure.nodes.iter().map(|node| &node.id).collect();
    ids.sort_unstable();
    if let Some([twice, _]) = ids.array_windows().find(|[one, next]| one == next) {
        return Err(Refusal::invalid("data.structure.nodes.id", format!("'{twice}' is given twice")));
    }
    for (field, id) in structure.edges.iter().flat_map(|edge| [("from", &edge.from), ("to", &edge.to)]) {
        if ids.binary_search(&id).is_err() {
            return Err(Refusal::invalid(format!("data.structure.edges.{field}"), format!("'{id}' is not a node")));
        }
    }
    // Only containment must be free of cycles: data flow and order may loop, as in a retry.
    let contains = structure.edges.iter().filter(|edge| edge.kind == EdgeKind::Contains).map(|edge| (&edge.from, &edge.to));
    match super::graph::cycle::find(contains) {
        Some(path) => {
            let path: Vec<_> = path.into_iter().map(StepId::as_str).collect();
            Err(Refusal::invalid("data.structure.edges", format!("contains closes the cycle {}", path.join(" -> "))))
        }
        None => Ok(()),
    }
}

fn within(field: &str, len: usize, max: usize, key: &'static str) -> Result<(), Refusal> {
    if len <= max { Ok(()) } else { Err(Refusal::TooLong { field: field.to_owned(), len, max, key }) }
}

pub(super) fn count(field: &str, count: usize, max: usize, key: &'static str) -> Result<(), Refusal> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{Kind, cloud, codec};
    use crate::time::Timestamp;

    const LIMITS: Limits = Limits {
        redactor: Redactor::builtin(),
        default_server: None,
        intent_bytes_max: 16,
        text_bytes_max: 12,
        json_bytes_max: 40,
        string_bytes_max: 8,
        steps_max: 2,
        dependencies_max: 4,
        open_executions_max: 1,
    };

    fn record(kind: Kind, data: &Value) -> NewRecord {
        NewRecord {
            id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
            time: Timestamp::from_micros(0),
            source: "test".into(),
            causation: None,
            envelope: None,
            event: codec::from_json(kind, kind.version(), &data.to_string()).unwrap(),
        }
    }

    fn with(mut data: Value, changes: &Value) -> Value {
        data.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        data
    }

    /// Returns the data of an accepted event, or the text of the refusal.
    fn accepted(kind: Kind, data: &Value) -> Result<Value, String> {
        let mut record = record(kind, data);
        check(&mut record, &LIMITS).map_err(|refusal| refusal.to_string())?;
        Ok(cloud::to_structured(&record)["data"].take())
    }

    fn check_refused(kind: Kind, data: Value, changes: &Value, expected: &str) {
        assert!(accepted(kind, &data).is_ok(), "{data} is accepted without the changes");
        assert_eq!(accepted(kind, &with(data, changes)), Err(expected.to_owned()));
    }

    #[test]
    fn kinds_that_pml_writes_itself_are_refused() {
        let template = json!({"name": "n", "description": "d", "edges": [], "checksum": "c"});
        let refused = check(&mut record(Kind::TemplateLoaded, &template), &LIMITS);
        assert_eq!(refused, Err(Refusal::NotPublishable { kind: "template.loaded" }));
    }

    #[test]
    fn a_long_source_is_refused() {
        let mut record = record(Kind::ToolRemoved, &json!({"tool": "a:x"}));
        record.source = "1234567890123".into();
        let expected = "source: is 13 bytes long, the limit is 12 (limits.text_bytes_max)";
        assert_eq!(check(&mut record, &LIMITS).unwrap_err().to_string(), expected);
    }

    #[test]
    fn tools_are_refused_for_each_text_beyond_its_limit() {
        let check = |changes: Value, expected: &str| {
            check_refused(Kind::ToolRegistered, json!({"tool": "a:x", "description": "d"}), &changes, expected);
        };
        let long = "1234567890123";
        check(json!({"name": long}), "data.name: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        check(json!({"description": long}), "data.description: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        check(
            json!({"annotations": {"title": long}}),
            "data.annotations.title: is 13 bytes long, the limit is 12 (limits.text_bytes_max)",
        );
        let schema = json!({"description": "12345678901234567890123"});
        check(json!({"input_schema": schema}), "data.input_schema: is 41 bytes long, the limit is 40 (limits.json_bytes_max)");
        check(
            json!({"output_schema": schema}),
            "data.output_schema: is 41 bytes long, the limit is 40 (limits.json_bytes_max)",
        );
    }

    #[test]
    fn executions_are_refused_for_a_blank_or_long_intent_and_long_texts() {
        let check = |changes: Value, expected: &str| {
            check_refused(Kind::ExecutionStarted, json!({"execution": "e1", "intent": "read"}), &changes, expected);
        };
        check(json!({"intent": " \n"}), "data.intent: is blank");
        check(
            json!({"intent": "12345678901234567"}),
            "data.intent: is 17 bytes long, the limit is 16 (limits.intent_bytes_max)",
        );
        check(json!({"agent": "1234567890123"}), "data.agent: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        let check = |changes: Value, expected: &str| {
            check_refused(Kind::ExecutionFinished, json!({"execution": "e1", "success": true}), &changes, expected);
        };
        check(json!({"error": "1234567890123"}), "data.error: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        check(json!({"code": "1234567890123"}), "data.code: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
    }

    fn step() -> Value {
        json!({"execution": "e1", "step": "s1", "tool": "a:x", "success": true})
    }

    #[test]
    fn steps_are_refused_for_too_much_and_for_depending_on_themselves() {
        let check = |changes: Value, expected: &str| check_refused(Kind::StepFinished, step(), &changes, expected);
        check(json!({"depends_on": ["a", "b", "c"]}), "data.depends_on: has 3 entries, the limit is 2 (limits.steps_max)");
        check(json!({"depends_on": ["a", "s1"]}), "depends_on: would close the cycle s1 -> s1");
        check(
            json!({"error_kind": "1234567890123"}),
            "data.error_kind: is 13 bytes long, the limit is 12 (limits.text_bytes_max)",
        );
        let arguments = json!({"arguments": {"path": "12345678901234567890123456789012"}});
        check(arguments.clone(), "data.arguments: is 43 bytes long, the limit is 40 (limits.json_bytes_max)");
        let start = json!({"execution": "e1", "step": "s1", "tool": "a:x"});
        let expected = "data.arguments: is 43 bytes long, the limit is 40 (limits.json_bytes_max)";
        check_refused(Kind::StepStarted, start, &arguments, expected);
    }

    #[test]
    fn a_step_is_cleaned_of_secrets_long_strings_and_repeated_dependencies() {
        let given = with(
            step(),
            &json!({"depends_on": ["b", "b"], "arguments": {"token": "t", "path": "123456789"}, "result_summary": "123456789"}),
        );
        let clean = accepted(Kind::StepFinished, &given).unwrap();
        assert_eq!(clean["depends_on"], json!(["b"]));
        assert_eq!(clean["arguments"], json!({"token": "[redacted]", "path": "12345678[cut 1 bytes]"}));
        assert_eq!(clean["result_summary"], "12345678[cut 1 bytes]");
        let given = json!({"execution": "e1", "step": "s1", "tool": "a:x", "arguments": {"api_key": 1}});
        assert_eq!(accepted(Kind::StepStarted, &given).unwrap()["arguments"], json!({"api_key": "[redacted]"}));
    }

    #[test]
    fn a_secret_in_the_name_of_a_tool_is_refused_and_a_word_for_one_is_not() {
        let problem = "holds what looks like a secret, which an id cannot";
        let secret = "a:ghp_a1B2c3D4e5a1B2c3D4e5a1B2";
        let start = json!({"execution": "e1", "step": "s1", "tool": "a:x"});
        check_refused(Kind::StepStarted, start.clone(), &json!({"tool": secret}), &format!("data.tool: {problem}"));
        check_refused(Kind::StepFinished, step(), &json!({"tool": secret}), &format!("data.tool: {problem}"));
        check_refused(
            Kind::StepFinished,
            step(),
            &json!({"depends_on": [&secret[2..]]}),
            &format!("data.depends_on: {problem}"),
        );
        for tool in ["password:generate", "token:create-v2", "secrets:get-value1"] {
            accepted(Kind::StepStarted, &with(start.clone(), &json!({"tool": tool}))).unwrap();
            accepted(Kind::ToolRegistered, &json!({"tool": tool, "description": "d"})).unwrap();
        }
    }

    #[test]
    fn capabilities_are_refused_for_texts_and_structures_that_make_no_sense() {
        let nodes = json!([{"id": "n1", "tool": "a:x"}, {"id": "n2", "tool": "b:x"}]);
        let capability = json!({"name": "n", "description": "d", "structure": {"nodes": nodes}});
        let check = |changes: Value, expected: &str| {
            check_refused(Kind::CapabilityDeclared, capability.clone(), &changes, expected);
        };
        let long = "1234567890123";
        check(json!({"name": " "}), "data.name: is blank");
        check(json!({"name": long}), "data.name: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        check(json!({"description": long}), "data.description: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        check(json!({"code": long}), "data.code: is 13 bytes long, the limit is 12 (limits.text_bytes_max)");
        check(
            json!({"parameters_schema": "123456789012345678901234567890123456789"}),
            "data.parameters_schema: is 41 bytes long, the limit is 40 (limits.json_bytes_max)",
        );
        let structure = |nodes: &Value, edges: &[(&str, &str, &str)]| {
            let edges: Vec<Value> =
                edges.iter().map(|(from, kind, to)| json!({"from": from, "to": to, "kind": kind})).collect();
            json!({"structure": {"nodes": nodes, "edges": edges}})
        };
        check(structure(&json!([]), &[]), "data.structure.nodes: is empty; a capability calls at least one tool");
        let three = json!([{"id": "1", "tool": "a:x"}, {"id": "2", "tool": "a:x"}, {"id": "3", "tool": "a:x"}]);
        check(structure(&three, &[]), "data.structure.nodes: has 3 entries, the limit is 2 (limits.steps_max)");
        check(
            structure(&nodes, &[("n1", "sequence", "n2"); 5]),
            "data.structure.edges: has 5 entries, the limit is 4 (limits.dependencies_max)",
        );
        let twice = json!([{"id": "n1", "tool": "a:x"}, {"id": "n1", "tool": "b:x"}]);
        check(structure(&twice, &[]), "data.structure.nodes.id: 'n1' is given twice");
        check(structure(&nodes, &[("n9", "provides", "n1")]), "data.structure.edges.from: 'n9' is not a node");
        check(structure(&nodes, &[("n1", "provides", "n9")]), "data.structure.edges.to: 'n9' is not a node");
        check(
            structure(&nodes, &[("n1", "contains", "n2"), ("n2", "contains", "n1")]),
            "data.structure.edges: contains closes the cycle n2 -> n1 -> n2",
        );
        let retry = structure(&nodes, &[("n1", "provides", "n2"), ("n2", "sequence", "n1")]);
        assert!(accepted(Kind::CapabilityDeclared, &with(capability.clone(), &retry)).is_ok(), "a retry loops");
    }
}
