//! What agents did, from logs, exports, spans, hooks and skills: the readers of `pml-readers`, and the bodies of `POST /v1/traces`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pml::config::Config;
use pml::core::intake::{self, Limits};
use pml::core::redact::Redactor;
use pml::readers::events::events;
use pml::readers::format::Format;
use pml::readers::hook::{Hook, OpenRun};
use pml::readers::otlp::{self, DecodeError, Decoded};
use pml::readers::pieces::Layout;
use pml::readers::run::{ARGUMENTS_LEN_MAX, INTENT_LEN_MAX};
use pml::readers::skill::{self, Skill};
use pml::readers::span::Span;
use pml::readers::traces::{TraceLimits, Traces};
use pml::readers::{Options, Reader, Run, recognise};
use pml_fuzzer::{Form, Target};

use super::{JSON_TREE_MULTIPLE, target};
use crate::samples::{self, noon};

const WORDS: &[&str] = &[
    "type",
    "role",
    "user",
    "assistant",
    "tool",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "function_call_output",
    "call_id",
    "message",
    "messages",
    "content",
    "text",
    "input",
    "is_error",
    "isMeta",
    "isSidechain",
    "uuid",
    "parentUuid",
    "sessionId",
    "timestamp",
    "2026-03-02T09:02:30Z",
    "-1",
    "payload",
    "response_item",
    "event_msg",
    "method",
    "tools/call",
    "server_name",
    "tool_name",
    "status",
    "error",
    "resourceSpans",
    "scopeSpans",
    "spans",
    "attributes",
    "key",
    "value",
    "stringValue",
    "intValue",
    "kvlistValue",
    "arrayValue",
    "values",
    "traceId",
    "spanId",
    "parentSpanId",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "18446744073709551615",
    "gen_ai.operation.name",
    "execute_tool",
    "invoke_agent",
    "gen_ai.tool.name",
    "gen_ai.tool.call.arguments",
    "gen_ai.input.messages",
    "openinference.span.kind",
    "TOOL",
    "mcp.method.name",
    "observations",
    "parentObservationId",
    "run_type",
    "dotted_order",
    "inputs",
    "outputs",
    "password",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
];

/// What must hold of every run, and of the events that it is published as.
fn check(run: &Run, limits: &Limits) {
    assert!(!run.steps.is_empty() && !run.intent.trim().is_empty() && run.intent.len() <= INTENT_LEN_MAX);
    let mut known = BTreeSet::new();
    for step in &run.steps {
        assert!(step.arguments.as_ref().is_none_or(|arguments| arguments.as_str().len() <= ARGUMENTS_LEN_MAX));
        assert!(step.depends_on.iter().all(|on| known.contains(on)), "a step uses what came before");
        assert!(known.insert(step.id.clone()), "steps have different ids");
    }
    let events = events(run, noon());
    assert_eq!(events.len(), run.steps.len() + 2);
    assert!(events.is_sorted_by(|one, next| one.time < next.time), "times increase");
    for mut fact in events {
        let given = fact.clone();
        intake::check(&mut fact, limits).expect("an event of a reader is within the limits");
        assert_eq!(fact, given, "it holds nothing that has to be redacted");
    }
}

fn limits() -> Limits {
    Limits::from(&Config::load(None, []).unwrap())
}

/// A reader of files: whatever the chunks, the same runs.
pub(super) fn of_format(format: Format, sample: &str) -> Target {
    let (options, limits) = (Arc::new(Options::default()), limits());
    let form =
        if Path::new(sample).extension().is_some_and(|extension| extension == "jsonl") { Form::JsonLines } else { Form::Json };
    let mut target = target(format.name(), form, vec![samples::reader(sample)], WORDS, move |input| {
        // The format that is recognised in a changed file may be another one; it is a target of its own.
        let _ = recognise(input);
        let read = |chunk: usize| {
            let mut reader = Reader::new(format, Layout::of(input), Arc::clone(&options));
            let mut runs: Vec<Run> = input.chunks(chunk).flat_map(|part| reader.feed(part)).collect();
            runs.extend(reader.finish());
            (runs, reader.counts().clone())
        };
        let (runs, counts) = read(input.len().max(1));
        assert_eq!(read(1 + input.len() / 7), (runs.clone(), counts.clone()), "chunks make no difference");
        for run in &runs {
            check(run, &limits);
        }
        let found =
            [counts.ignored, counts.unknown, counts.damaged, counts.too_long, counts.without_calls, counts.without_request];
        if runs.is_empty() { Err(format!("no run, and {:?}", found.map(|count| count > 0))) } else { Ok(()) }
    });
    (target.memory_fixed, target.memory_multiple) = (1 << 20, JSON_TREE_MULTIPLE);
    target
}

type Decode = fn(&[u8], &Redactor, &mut dyn FnMut(Span)) -> Result<Decoded, DecodeError>;

/// A body of `POST /v1/traces`, from bytes to the events of the runs.
fn body(name: &'static str, form: Form, decode: Decode) -> Target {
    let (options, limits) = (Arc::new(Options::default()), limits());
    let mut target = target(name, form, Vec::new(), WORDS, move |input| {
        let mut spans = Vec::new();
        let decoded = decode(input, &options.redactor, &mut |span| spans.push(span)).map_err(|error| error.to_string())?;
        assert_eq!(decoded.accepted, spans.len() as u64);
        let mut traces = Traces::new(Arc::clone(&options), TraceLimits::default());
        for span in spans {
            traces.add(span, 0);
        }
        let runs = traces.take_all();
        for run in &runs {
            check(run, &limits);
        }
        let rejected = decoded.rejected > 0;
        if runs.is_empty() { Err(format!("no run, and spans rejected: {rejected}")) } else { Ok(()) }
    });
    (target.memory_fixed, target.memory_multiple) = (1 << 20, JSON_TREE_MULTIPLE);
    target
}

pub(super) fn otlp_protobuf() -> Target {
    body("otlp_protobuf", Form::Protobuf, otlp::decode_protobuf)
}

pub(super) fn otlp_json() -> Target {
    body("otlp_json", Form::Json, otlp::decode_json)
}

/// Events of a session's hooks, one per line; the run that is open goes through its stored form, as `pml hook` keeps it.
pub(super) fn hook() -> Target {
    let (redactor, limits) = (Redactor::builtin(), limits());
    let words =
        &["hook_event_name", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "SessionEnd", "session_id", "agent_id"];
    let mut target = target("hook", Form::JsonLines, Vec::new(), words, move |input| {
        let mut open: Option<OpenRun> = None;
        let mut answer = Err("nothing".to_owned());
        for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let hook = match Hook::read(line, &redactor) {
                Ok(hook) => hook,
                Err(error) => {
                    answer = Err(error.to_string());
                    continue;
                }
            };
            let (next, events) = hook.events(open, noon(), &redactor);
            open = next.map(|run| {
                let kept = serde_json::to_vec(&run).unwrap();
                let read: OpenRun = serde_json::from_slice(&kept).expect("what was kept can be read");
                assert_eq!(read, run);
                read
            });
            for mut fact in events {
                intake::check(&mut fact, &limits).expect("an event of a hook is within the limits");
                answer = Ok(());
            }
        }
        answer
    });
    target.memory_fixed = 1 << 20;
    target
}

/// `SKILL.md`: what is read is written, and read as the same.
pub(super) fn skill() -> Target {
    let words =
        &["---", "name:", "description:", "metadata:", "allowed-tools:", "- ", "  ", "|", ">", "\"", "'", "#", "`fs:read`"];
    let mut target = target("skill", Form::Text, vec![samples::reader("SKILL.md")], words, |input| {
        let text = String::from_utf8_lossy(input);
        let skill = Skill::parse(&text).map_err(|error| error.to_string())?;
        drop(skill.tools());
        // Control characters are not written.
        if skill.name.chars().chain(skill.description.chars()).any(char::is_control) {
            return Err("control characters".to_owned());
        }
        let written = skill.to_text();
        let again = Skill::parse(&written).expect("what was written can be read");
        assert_eq!((&again.name, &again.description), (&skill.name, &skill.description));
        assert!(skill::is_unchanged(&written), "nobody has changed it");
        skill.check(&skill.name).map_err(|error| error.to_string())
    });
    target.memory_fixed = 1 << 20;
    target
}
