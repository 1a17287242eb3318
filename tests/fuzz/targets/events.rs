//! Events, runs, workflows, ids and subjects: what agents and other programs send.

use async_nats::HeaderMap;
use pml::config::Config;
use pml::core::event::cloud::{self, Receipt};
use pml::core::event::document;
use pml::core::id::{Callee, CapabilityId, ExecutionId, RecordId, SessionId, StepId, ToolId};
use pml::core::intake::{self, Limits};
use pml::core::time::Timestamp;
use pml::core::workflow::Workflow;
use pml::log::read_message;
use pml::subject::{Pattern, Subject, Workspace};
use pml_fuzzer::{Form, Target};

use super::{JSON_TREE_MULTIPLE, target};
use crate::samples::{events, facts, noon};

const WORDS: &[&str] = &[
    "specversion",
    "1.0",
    "id",
    "source",
    "type",
    "time",
    "dataschema",
    "data",
    "causation",
    "subject",
    "traceparent",
    "tracestate",
    "pml.step.finished",
    "pml.tool.registered",
    "pml.execution.started",
    "pml.model.trained",
    "recordedat",
    "urn:pml:step.finished/v2",
    "execution",
    "step",
    "tool",
    "depends_on",
    "arguments",
    "intent",
    "success",
    "input_schema",
    "fs:read",
    "capability:00112233445566778899aabbccddeeff",
    "2026-01-31T12:00:02.450Z",
    "9999-12-31T23:59:60Z",
    "-262144-01-01T00:00:00Z",
    "password",
    "sk-ant-api03-",
    "-----BEGIN PRIVATE KEY-----",
    "Bearer ",
];

fn limits() -> Limits {
    Limits::from(&Config::load(None, []).unwrap())
}

fn receipt() -> Receipt<'static> {
    Receipt { now: noon(), default_server: Some("fs") }
}

/// What a gateway does with an event: read, check, redact, and write it in all forms.
fn take(received: cloud::Received, limits: &Limits) -> Result<(), String> {
    let mut fact = received.fact;
    intake::check(&mut fact, limits).map_err(|refusal| refusal.redacted(&limits.redactor).to_string())?;
    let written = cloud::to_structured(&fact).to_string();
    let again = cloud::receive_structured(written.as_bytes(), receipt()).expect("an accepted event can be read again").fact;
    assert_eq!(again, fact, "an accepted event comes back as it was");
    let stored = pml::core::event::stored::encode(&fact, noon());
    let back = pml::core::event::stored::decode(pml::core::id::Seq(1), &stored).expect("what was stored can be read");
    assert_eq!(*back.fact, fact, "a stored event comes back as it was");
    Ok(())
}

pub(super) fn structured() -> Target {
    let limits = limits();
    target("cloudevents", Form::Json, events(), WORDS, move |input| {
        let _ = cloud::given_id(input);
        take(cloud::receive_structured(input, receipt()).map_err(|refusal| refusal.to_string())?, &limits)
    })
}

pub(super) fn batch() -> Target {
    let events: Vec<Vec<u8>> = events();
    let batch = |events: &[Vec<u8>]| [b"[".as_slice(), &events.join(&b',')[..], b"]"].concat();
    let samples = events.chunks(4).map(batch).chain([b"[]".to_vec()]).collect();
    target("batch", Form::Json, samples, WORDS, |input| {
        let parts = cloud::split_batch(input, 1_000).map_err(|refusal| refusal.to_string())?;
        for part in parts {
            drop(cloud::receive_structured(part.as_bytes(), receipt()));
        }
        Ok(())
    })
}

/// Header lines, an empty line, the body.
fn split(input: &[u8]) -> (Vec<(String, String)>, &[u8]) {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let lines = String::from_utf8_lossy(&input[..end]).into_owned();
    let pairs = lines.lines().filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned()));
    (pairs.collect(), input.get(end + 2..).unwrap_or_default())
}

fn joined(headers: impl IntoIterator<Item = (String, String)>, body: &[u8]) -> Vec<u8> {
    let lines: Vec<String> = headers.into_iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    [lines.concat().as_bytes(), b"\n", body].concat()
}

pub(super) fn binary() -> Target {
    let samples = facts().iter().map(cloud::to_binary).map(|(headers, body)| joined(headers, &body)).collect();
    let limits = limits();
    target("headers", Form::Text, samples, WORDS, move |input| {
        let (headers, body) = split(input);
        let borrowed = || headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        drop(cloud::join_binary(borrowed(), body));
        take(cloud::receive_binary(borrowed(), body, receipt()).map_err(|refusal| refusal.to_string())?, &limits)
    })
}

/// Facts as the stream holds them.
fn recorded_samples() -> Vec<Vec<u8>> {
    facts().iter().map(|fact| cloud::recorded_to_structured(fact, noon())).collect()
}

pub(super) fn recorded() -> Target {
    target("recorded", Form::Json, recorded_samples(), WORDS, |input| {
        let (fact, at) = cloud::recorded_from_structured(input).map_err(|refusal| refusal.to_string())?;
        let again = cloud::recorded_from_structured(&cloud::recorded_to_structured(&fact, at)).expect("it can be read again");
        assert_eq!(again, (fact, at));
        Ok(())
    })
}

pub(super) fn stream_message() -> Target {
    let sample = |fact: &pml::core::event::NewRecord| {
        let subject = format!("pml.default.log.{}", fact.event.kind().name());
        let headers =
            [("subject", subject), ("Nats-Msg-Id", fact.id.to_string()), ("content-type", cloud::STRUCTURED.to_owned())];
        joined(headers.map(|(name, value)| (name.to_owned(), value)), &cloud::recorded_to_structured(fact, noon()))
    };
    target("stream", Form::Text, facts().iter().map(sample).collect(), WORDS, |input| {
        let (lines, body) = split(input);
        let (mut headers, mut subject) = (HeaderMap::new(), String::new());
        for (name, value) in lines {
            if name == "subject" {
                subject = value;
            } else if !value.contains(['\r', '\n'])
                && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
                && !name.is_empty()
            {
                headers.append(name, value);
            }
        }
        read_message(&subject, &headers, body).map_err(|error| error.to_string())?.map(drop).ok_or_else(|| "foreign".to_owned())
    })
}

pub(super) fn run_document() -> Target {
    let limits = limits();
    let samples = vec![document::example().to_string().into_bytes()];
    target("run", Form::Json, samples, WORDS, move |input| {
        let fresh = RecordId::from_parts(noon(), 1);
        let mut run = document::read(input, receipt(), fresh).map_err(|refusal| refusal.to_string())?;
        intake::check_run(&mut run, &limits).map_err(|refusal| refusal.to_string())
    })
}

pub(super) fn workflow() -> Target {
    const TASKS: &str = r#"{"tasks":[{"id":"a","tool":"fs:read","arguments":{"path":"/x"}},
        {"id":"b","tool":"fs:write","arguments":{"text":"$a.content[0].text","n":{"m":["$a"]}},"depends_on":["a"]}]}"#;
    let mut target = target(
        "workflow",
        Form::Json,
        vec![TASKS.into()],
        &["$a", "$b.x[1]", "tasks", "depends_on", "id", "a", "b"],
        |input| {
            let json = serde_json::from_slice(input).map_err(|_| "no JSON".to_owned())?;
            let workflow = Workflow::from_json(&json, 100).map_err(|error| error.to_string())?;
            let again = Workflow::from_json(&workflow.to_json(), 100).expect("a workflow that was built is valid");
            assert_eq!(again.layers(), workflow.layers());
            Ok(())
        },
    );
    target.memory_multiple = JSON_TREE_MULTIPLE;
    target
}

pub(super) fn ids() -> Target {
    let samples = [
        "fs:read",
        "01KG9YS9WWNJTC233YVB6K3590",
        "019c13f7-a3d0-7c21-9b42-5e8a2d1f6c03",
        "run-1",
        "s1",
        "capability:00112233445566778899aabbccddeeff",
        "2026-01-31T12:00:02.450000Z",
    ];
    target("ids", Form::Text, samples.map(Into::into).to_vec(), WORDS, |input| {
        let text = std::str::from_utf8(input).map_err(|_| "no text".to_owned())?;
        let mut taken = 0;
        macro_rules! check {
            ($($kind:ty),*) => {
                $(if let Ok(id) = text.parse::<$kind>() {
                    taken += 1;
                    assert_eq!(id.to_string().parse::<$kind>().ok(), Some(id), "an id comes back as it was");
                })*
            };
        }
        check!(RecordId, ExecutionId, StepId, ToolId, SessionId, Callee, CapabilityId, Timestamp);
        if taken == 0 { Err("none".to_owned()) } else { Ok(()) }
    })
}

pub(super) fn subjects() -> Target {
    let samples = ["pml.default.log.step.finished", "pml.*.log.>", "default", "pml.default.in.tool.registered", ">"];
    target("subjects", Form::Text, samples.map(Into::into).to_vec(), &["pml", ".", "*", ">", "log", "default"], |input| {
        let text = std::str::from_utf8(input).map_err(|_| "no text".to_owned())?;
        let (subject, pattern) = (text.parse::<Subject>(), text.parse::<Pattern>());
        let workspace = text.parse::<Workspace>();
        if let (Ok(subject), Ok(pattern)) = (&subject, &pattern) {
            assert!(pattern.matches(subject), "a subject matches itself: {text}");
        }
        if let Ok(subject) = &subject {
            assert!(">".parse::<Pattern>().unwrap().matches(subject));
        }
        if subject.is_ok() || pattern.is_ok() || workspace.is_ok() { Ok(()) } else { Err("none".to_owned()) }
    })
}
