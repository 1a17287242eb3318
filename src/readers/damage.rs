//! Damaged, truncated, enormous and hostile input: readers never fail, and what is whole is still read.

use std::sync::Arc;

use proptest::prelude::*;

use crate::events::events;
use crate::format::Format;
use crate::frozen::{SAMPLES, read};
use crate::otlp;
use crate::pieces::Layout;
use crate::reader::Reader;
use crate::run::{ARGUMENTS_LEN_MAX, INTENT_LEN_MAX, Options, Run};
use pml_core::redact::Redactor;
use pml_core::time::Timestamp;

/// Reads bytes in every format. Checks what must hold of all runs.
fn read_in_every_format(bytes: &[u8]) {
    for format in Format::ALL {
        for layout in [Layout::Lines, Layout::Objects, Layout::List, Layout::Data] {
            let mut reader = Reader::new(format, layout, Arc::default());
            let mut runs: Vec<Run> = bytes.chunks(1_000).flat_map(|part| reader.feed(part)).collect();
            runs.extend(reader.finish());
            for run in &runs {
                check(run);
            }
        }
    }
}

fn check(run: &Run) {
    assert!(!run.steps.is_empty() && !run.intent.trim().is_empty() && run.intent.len() <= INTENT_LEN_MAX);
    let mut known = std::collections::BTreeSet::new();
    for step in &run.steps {
        assert!(step.arguments.as_ref().is_none_or(|arguments| arguments.as_str().len() <= ARGUMENTS_LEN_MAX));
        assert!(step.depends_on.iter().all(|on| known.contains(on)), "a step uses what came before");
        assert!(known.insert(step.id.clone()), "steps have different ids");
    }
    assert!(events(run, Timestamp::from_micros(0)).len() == run.steps.len() + 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_never_fail(sample in 0..SAMPLES.len(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        let mut bytes = SAMPLES[sample].1.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_in_every_format(&bytes);
    }

    #[test]
    fn truncated_and_joined_input_never_fails(one in 0..SAMPLES.len(), other in 0..SAMPLES.len(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let (one, other) = (SAMPLES[one].1.as_bytes(), SAMPLES[other].1.as_bytes());
        let joined = [&one[from.index(one.len())..], &other[..to.index(other.len())]].concat();
        read_in_every_format(&joined);
    }

    #[test]
    fn any_bytes_are_a_protobuf_request_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut spans = 0;
        if let Ok(decoded) = otlp::decode_protobuf(&bytes, &Redactor::builtin(), &mut |_| spans += 1) {
            prop_assert_eq!(decoded.accepted, spans);
        }
    }
}

#[test]
fn damaged_lines_cost_only_themselves() {
    for (format, sample, _) in
        SAMPLES.into_iter().filter(|(_, sample, _)| !sample.starts_with(['[']) && !sample.starts_with("{\n"))
    {
        let (_, whole, counts) = read(sample.as_bytes(), sample.len(), Options::default());
        let hostile = [
            "{".to_owned(),
            "null".to_owned(),
            "[]".to_owned(),
            "\"text\"".to_owned(),
            "\u{0}\u{fffd}".to_owned(),
            r#"{"type":"user","message":{"content":"#.to_owned(),
            format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
            format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000)),
            r#"{"type":7,"role":[],"resourceSpans":{},"method":[],"id":{}}"#.to_owned(),
        ];
        let mut text = String::new();
        for line in sample.lines() {
            text.push_str(line);
            text.push('\n');
            for line in &hostile {
                text.push_str(line);
                text.push('\n');
            }
        }
        let mut reader = Reader::new(format, Layout::Lines, Arc::default());
        let mut runs = reader.feed(text.as_bytes());
        runs.extend(reader.finish());
        assert_eq!(runs, whole, "{}", format.name());
        let bad = reader.counts().damaged + reader.counts().unknown + reader.counts().ignored;
        let before = counts.damaged + counts.unknown + counts.ignored;
        let planted = (sample.lines().count() * hostile.len()) as u64;
        assert!(bad - before >= planted * 7 / 10, "{}: {bad} of {planted} are counted", format.name());
    }
}

#[test]
fn enormous_lines_are_skipped_or_cut() {
    let line = |content: &str, uuid: &str| {
        format!(r#"{{"type":"user","uuid":"{uuid}","sessionId":"s","message":{{"role":"user","content":"{content}"}}}}"#) + "\n"
    };
    let call = r#"{"type":"assistant","uuid":"a","sessionId":"s","message":{"content":[{"type":"tool_use","id":"t1","name":"Write","input":{"content":"BIG"}}]}}"#;
    let mut text = line("write it", "u1");
    text.push_str(&call.replace("BIG", &"x".repeat(2 << 20)));
    text.push('\n');
    text.push_str(&line(&"y".repeat(crate::pieces::PIECE_LEN_MAX), "u2"));
    text.push_str(&line("and then?", "u3"));
    let (_, runs, counts) = read(text.as_bytes(), 1 << 16, Options::default());
    assert_eq!((runs.len(), counts.too_long), (1, 1));
    check(&runs[0]);
}

#[test]
fn arguments_that_cannot_be_parsed_are_left_out() {
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for value in [nested.as_str(), "1e999", r#""\ud800""#] {
        // What looks like a secret is parsed to be redacted.
        let input = format!(r#"{{"password":"hunter2hunter2","value":{value}}}"#);
        let lines = [
            r#"{"type":"user","uuid":"u1","sessionId":"s","message":{"role":"user","content":"write it"}}"#.to_owned(),
            format!(
                r#"{{"type":"assistant","uuid":"a1","sessionId":"s","message":{{"content":[{{"type":"tool_use","id":"t1","name":"Write","input":{input}}}]}}}}"#
            ),
        ];
        let text = lines.join("\n");
        let mut reader = Reader::new(Format::ClaudeCode, Layout::Lines, Arc::default());
        let mut runs = reader.feed(text.as_bytes());
        runs.extend(reader.finish());
        let steps: Vec<_> = runs.iter().flat_map(|run| &run.steps).collect();
        assert_eq!((steps.len(), steps[0].arguments.as_ref()), (1, None), "{value}");
    }
}

#[test]
fn planted_secrets_are_in_no_run() {
    let secrets = [
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "hunter2hunter2",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "s3cr3tValueInUrl",
    ];
    let planted = format!(
        "token {} password={} key {} jwt {} at https://user:{}@host.example/x",
        secrets[0], secrets[1], secrets[2], secrets[3], secrets[4]
    );
    for (format, sample, _) in SAMPLES {
        // Every text of the sample that is a value gets the secrets.
        let mut text = String::new();
        for (at, part) in sample.split('"').enumerate() {
            let is_words = at % 2 == 1 && part.contains(' ') && !part.contains('\\') && !part.contains(':');
            text.push_str(if at == 0 { "" } else { "\"" });
            text.push_str(part);
            text.push_str(if is_words { &planted } else { "" });
        }
        let (_, runs, _) = read(text.as_bytes(), text.len(), Options::default());
        assert!(!runs.is_empty(), "{}", format.name());
        let all: Vec<_> = runs.iter().flat_map(|run| events(run, Timestamp::from_micros(0))).collect();
        let shown = format!("{runs:?} {all:?}");
        for secret in secrets {
            assert!(!shown.contains(secret), "{}: {secret} in {shown}", format.name());
        }
    }
}
