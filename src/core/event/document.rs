//! A whole run as one JSON document: the events of an execution without their envelopes, for agents that report when they are done.
//!
//! The ids of the events follow from the content, so that the same document twice is one run.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::cloud::Receipt;
use super::schema::{allow_further_members, constrain};
use super::text::Text;
use super::wire::{self, JsonText};
use super::{Event, NewRecord, cloud, codec, whole};
use crate::id::{ExecutionId, RecordId};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// The `source` of the events of a document that names none.
const SOURCE: &str = "run";

/// A whole run: what was wanted, the calls in the order they were made, and how it ended.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunDocument<'a> {
    /// What was wanted, in natural language.
    #[serde(borrow)]
    #[schemars(with = "String")]
    intent: Text<'a>,
    /// The id of the execution. With one, sending the document again is harmless; without, pml chooses one and answers it.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    execution: Option<Text<'a>>,
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    session: Option<Text<'a>>,
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    agent: Option<Text<'a>>,
    /// The execution that started this one.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    parent: Option<Text<'a>>,
    /// The producer, as the `source` of a CloudEvent.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    source: Option<Text<'a>>,
    /// When it began, as RFC 3339; the time of arrival if left out.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    started: Option<Text<'a>>,
    /// The calls, in the order they were made.
    #[serde(borrow)]
    steps: Vec<RunStep<'a>>,
    /// Whether the intent was fulfilled; if left out, whether the last step succeeded.
    #[serde(default)]
    success: Option<bool>,
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    error: Option<Text<'a>>,
    /// The program that was run, or `capability:<id>` of the capability that was, if the execution was one.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    code: Option<Text<'a>>,
}

/// One call of a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct RunStep<'a> {
    /// A tool, or `capability:<id>`.
    #[serde(borrow)]
    #[schemars(with = "String")]
    tool: Text<'a>,
    /// Unique within the run; `s1`, `s2` and so on if left out.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    step: Option<Text<'a>>,
    /// Steps above this one whose output it used.
    #[serde(borrow, default)]
    #[schemars(with = "Vec<String>")]
    depends_on: Vec<Text<'a>>,
    #[serde(default = "succeeded")]
    success: bool,
    #[serde(default, deserialize_with = "whole::optional")]
    duration_ms: Option<u64>,
    /// A short word for the failure: timeout, refused, `not_found`.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    error_kind: Option<Text<'a>>,
    /// Secrets are redacted before they are stored.
    #[serde(borrow, default)]
    arguments: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    result_summary: Option<Text<'a>>,
}

fn succeeded() -> bool {
    true
}

/// The JSON Schema of the document. It may have further members, which pml ignores.
pub fn schema() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(RunDocument<'static>)).expect("a schema is plain JSON");
    allow_further_members(&mut schema);
    constrain(&mut schema);
    schema
}

/// The events of a run: its start, its steps, its end.
#[derive(Debug)]
pub struct Run {
    pub execution: ExecutionId,
    pub records: Vec<NewRecord>,
    /// Paths of the members that were ignored, since a document has none of that name.
    pub ignored: Vec<String>,
}

impl Run {
    /// Returns the refusal of the event at position `at`, with its field as a path into the document.
    pub fn locate(at: usize, records: usize, refusal: Refusal) -> Refusal {
        let place = if at == 0 || at + 1 == records { String::new() } else { format!("steps[{}].", at - 1) };
        refusal.with_field(|field| format!("{place}{}", field.strip_prefix("data.").unwrap_or(field)))
    }
}

/// Reads a document. The receipt stands in for a missing `started` and for servers of tools, `fresh` for a missing `execution`.
pub fn read(bytes: &[u8], receipt: Receipt<'_>, fresh: RecordId) -> Result<Run, Refusal> {
    let text = cloud::utf8(bytes, "body")?;
    let read = codec::without_unknown_members("", text, |text| read_known(text, receipt, fresh));
    let in_body = |field: &str| if field == "event" { "body".to_owned() } else { field.to_owned() };
    read.map(|(run, ignored)| Run { ignored, ..run }).map_err(|refusal| refusal.with_field(in_body))
}

/// Reads a document in which an unknown member is an error.
fn read_known(text: &str, Receipt { now, default_server }: Receipt<'_>, fresh: RecordId) -> Result<Run, Refusal> {
    let document: RunDocument<'_> = codec::parse_json_at("", text)?;
    let started = document.started.as_deref().map(str::parse).transpose();
    let started: Timestamp = started.map_err(|error| Refusal::invalid("started", error))?.unwrap_or(now);
    let source: SmolStr = document.source.as_deref().unwrap_or(SOURCE).into();
    let execution = document.execution.as_ref().map_or_else(|| fresh.to_string(), |given| given.to_string());
    let last_success = document.steps.last().map(|step| step.success);
    let success = document.success.or(last_success).ok_or_else(|| Refusal::Missing { field: "success".to_owned() })?;

    let count = document.steps.len() + 2;
    let mut records = Vec::with_capacity(count);
    let mut add = |event: Result<Event, Refusal>, time: Timestamp| {
        let event = event.map_err(|refusal| Run::locate(records.len(), count, refusal))?;
        let id = RecordId::derived(Timestamp::from_micros(0), &["run", &source, &codec::to_json(&event).to_string()]);
        records.push(NewRecord { id, time, source: source.clone(), causation: None, envelope: None, event });
        Ok(())
    };
    let start = wire::ExecutionStarted {
        execution: execution.as_str().into(),
        intent: document.intent.0,
        session: owned(document.session),
        agent: owned(document.agent),
        parent: owned(document.parent),
    };
    add(start.try_into().map(Event::ExecutionStarted), started)?;
    let mut time = started;
    let server = codec::DefaultServer { configured: default_server, source: &source };
    let mut above = BTreeSet::new();
    for (at, step) in document.steps.into_iter().enumerate() {
        let mut step = finished_step(step, at, &execution, &mut above)?;
        server.complete(&mut step.tool);
        // Steps are ordered by their times, so each has one of its own.
        time = time.plus_millis(step.duration_ms.unwrap_or(0)).plus_micros(1);
        add(step.try_into().map(Event::StepFinished), time)?;
    }
    let end = wire::ExecutionFinished {
        execution: execution.as_str().into(),
        success,
        error: owned(document.error),
        code: owned(document.code),
    };
    add(end.try_into().map(Event::ExecutionFinished), time.plus_micros(1))?;
    let execution = execution.parse().map_err(|error| Refusal::invalid("execution", error))?;
    Ok(Run { execution, records, ignored: Vec::new() })
}

fn owned(text: Option<Text<'_>>) -> Option<std::borrow::Cow<'_, str>> {
    text.map(|text| text.0)
}

/// The event of the step at position `at`. `above` holds the names of the steps before it, and gets its own.
fn finished_step<'a>(
    step: RunStep<'a>,
    at: usize,
    execution: &'a str,
    above: &mut BTreeSet<String>,
) -> Result<wire::StepFinished<'a>, Refusal> {
    let name = step.step.map_or_else(|| format!("s{}", at + 1), |given| given.to_string());
    if let Some(unknown) = step.depends_on.iter().find(|on| !above.contains(&***on)) {
        let problem = format!("'{}' is not a step above this one", &**unknown);
        return Err(Refusal::invalid(format!("steps[{at}].depends_on"), problem));
    }
    if !above.insert(name.clone()) {
        return Err(Refusal::invalid(format!("steps[{at}].step"), format!("'{name}' is given twice")));
    }
    Ok(wire::StepFinished {
        execution: execution.into(),
        step: name.into(),
        tool: step.tool.0,
        depends_on: step.depends_on.into_iter().map(|on| on.0).collect(),
        success: step.success,
        duration_ms: step.duration_ms,
        error_kind: owned(step.error_kind),
        arguments: step.arguments,
        result_summary: owned(step.result_summary),
    })
}

/// An example of the document.
pub fn example() -> Value {
    json!({
        "execution": "zip-1", "intent": "zip the reports", "session": "s1",
        "steps": [
            {"tool": "fs:list", "arguments": {"path": "reports"}, "duration_ms": 12},
            {"tool": "zip:pack", "depends_on": ["s1"], "result_summary": "reports.zip"},
        ],
        "success": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
    const FRESH: RecordId = RecordId::from_bits(7);

    fn run(document: &Value) -> Result<Run, Refusal> {
        read(document.to_string().as_bytes(), NOW.into(), FRESH)
    }

    fn with(changes: Value) -> Value {
        let mut document = example();
        let Value::Object(changes) = changes else { panic!("changes are an object") };
        document.as_object_mut().unwrap().extend(changes);
        document
    }

    #[test]
    fn a_tool_without_a_server_gets_that_of_the_source() {
        let document = with(json!({"source": "/agents/weather-7", "steps": [{"tool": "get_weather"}]}));
        let records = run(&document).unwrap().records;
        let Event::StepFinished(step) = &records[1].event else { panic!("a step") };
        assert_eq!(step.tool.to_string(), "weather-7:get_weather");
    }

    #[test]
    fn a_document_is_the_events_of_its_run_and_the_same_document_the_same_events() {
        let first = run(&example()).unwrap();
        let kinds: Vec<&str> = first.records.iter().map(|record| record.event.kind().name()).collect();
        assert_eq!(kinds, ["execution.started", "step.finished", "step.finished", "execution.finished"]);
        assert!(first.records.is_sorted_by(|one, next| one.time < next.time));
        let Event::StepFinished(pack) = &first.records[2].event else { panic!("a step") };
        assert_eq!((pack.step.as_str(), pack.depends_on[0].as_str()), ("s2", "s1"));
        let later = read(example().to_string().as_bytes(), NOW.plus_millis(9).into(), FRESH).unwrap();
        let ids = |run: &Run| run.records.iter().map(|record| record.id).collect::<BTreeSet<_>>();
        assert_eq!((ids(&first), ids(&first).len()), (ids(&later), 4));
        assert_ne!(ids(&run(&with(json!({"intent": "zip them"}))).unwrap()), ids(&first));
    }

    #[test]
    fn what_is_left_out_follows_from_the_rest() {
        let document = json!({"intent": "x", "steps": [{"tool": "a:b"}, {"tool": "a:c", "success": false}]});
        let run = run(&document).unwrap();
        assert_eq!(run.execution.to_string(), FRESH.to_string());
        let Event::ExecutionFinished(end) = &run.records[3].event else { panic!("an end") };
        assert!(!end.success, "the last step failed");
    }

    #[test]
    fn a_refusal_names_the_field_of_the_document() {
        let check = |document: Value, expected: &str| assert_eq!(run(&document).unwrap_err().to_string(), expected);
        check(json!({"steps": []}), "intent: is missing");
        check(json!({"intent": "x", "steps": []}), "success: is missing");
        check(json!({"intent": "x", "steps": [{"tool": "a:b"}, {"step": "s2"}]}), "steps[1].tool: is missing");
        let odd = run(&json!({"intent": "x", "steps": [{"tool": "a b"}]})).unwrap_err();
        assert_eq!(odd.field(), "steps[0].tool");
        let twice = json!([{"tool": "a:b", "step": "s2"}, {"tool": "a:b"}]);
        check(with(json!({"steps": twice})), "steps[1].step: 's2' is given twice");
        let forward = json!([{"tool": "a:b", "depends_on": ["s2"]}, {"tool": "a:b"}]);
        check(with(json!({"steps": forward})), "steps[0].depends_on: 's2' is not a step above this one");
        check(json!({"intnet": "x", "steps": []}), "intnet: is no member of this kind of event; did you mean 'intent'?");
        let toll = json!({"intent": "x", "steps": [{"toll": "a:b"}]});
        assert_eq!(run(&toll).unwrap_err().field(), "steps.toll");
        assert_eq!(run(&with(json!({"started": "now"}))).unwrap_err().field(), "started");
        assert_eq!(run(&with(json!({"execution": ""}))).unwrap_err().field(), "execution");
        assert_eq!(read(b"{", NOW.into(), FRESH).unwrap_err().field(), "body");
    }

    #[test]
    fn members_that_a_document_does_not_have_are_ignored_as_those_of_events_are() {
        let steps = json!([{"tool": "fs:list", "tokens": 7}, {"tool": "zip:pack", "tokens": 9}]);
        let run = run(&with(json!({"model": "m", "steps": steps, "labels": ["x"]}))).unwrap();
        assert_eq!(
            (run.records.len(), run.ignored),
            (4, vec!["labels".to_owned(), "model".to_owned(), "steps.tokens".to_owned()])
        );
        assert!(schema().get("additionalProperties").is_none());
    }

    #[test]
    fn the_schema_has_every_member_of_the_example() {
        let schema = schema();
        for member in example().as_object().unwrap().keys() {
            assert!(schema["properties"].get(member).is_some(), "{member}");
        }
        assert!(schema.get("$defs").is_none(), "{schema}");
    }
}
