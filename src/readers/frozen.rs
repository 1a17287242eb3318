//! Frozen samples of every format, made by hand from the documented fields, with the runs that each must give.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::format::{Format, recognise};
use crate::reader::{Counts, Reader};
use crate::run::{Options, Run};

/// Every sample with its format and the runs it gives, as `shown` prints them.
pub(crate) const SAMPLES: [(Format, &str, &str); 10] = [
    (Format::ClaudeCode, include_str!("samples/claude_code.jsonl"), include_str!("samples/claude_code.runs")),
    (Format::Codex, include_str!("samples/codex.jsonl"), include_str!("samples/codex.runs")),
    (Format::Messages, include_str!("samples/messages.jsonl"), include_str!("samples/messages.runs")),
    (Format::Mcpproxy, include_str!("samples/mcpproxy.jsonl"), include_str!("samples/mcpproxy.runs")),
    (Format::GatewayAudit, include_str!("samples/gateway_audit.jsonl"), include_str!("samples/gateway_audit.runs")),
    (Format::Otlp, include_str!("samples/otlp.jsonl"), include_str!("samples/otlp.runs")),
    (Format::Jaeger, include_str!("samples/jaeger.json"), include_str!("samples/jaeger.runs")),
    (Format::SpanRows, include_str!("samples/spans.jsonl"), include_str!("samples/spans.runs")),
    (Format::Langfuse, include_str!("samples/langfuse.json"), include_str!("samples/langfuse.runs")),
    (Format::Langsmith, include_str!("samples/langsmith.jsonl"), include_str!("samples/langsmith.runs")),
];

/// Reads a sample in chunks; the format must be recognised.
pub(crate) fn read(text: &[u8], chunk: usize, options: Options) -> (Format, Vec<Run>, Counts) {
    let (format, layout) = recognise(text).expect("a sample is recognised");
    let mut reader = Reader::new(format, layout, Arc::new(options));
    let mut runs: Vec<Run> = text.chunks(chunk).flat_map(|part| reader.feed(part)).collect();
    runs.extend(reader.finish());
    (format, runs, reader.counts().clone())
}

/// Prints runs, one line each, with a line for every step.
fn shown(runs: &[Run], counts: &Counts) -> String {
    let mut text = String::new();
    for run in runs {
        let session = run.session.as_ref().map_or("-", |session| session.as_str());
        let described = if run.intent_inferred { " (described)" } else { "" };
        let started = run.started.map_or_else(|| "-".to_owned(), |time| time.to_string());
        let ending = if run.ending.success { "success" } else { "failure" };
        writeln!(text, "{} {session} {started}: {}{described} => {ending}, {}", run.agent, run.intent, run.ending.basis.name())
            .unwrap();
        for step in &run.steps {
            let uses: Vec<&str> = step.depends_on.iter().map(pml_core::id::StepId::as_str).collect();
            let took = step.duration_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
            let sure = if step.success_inferred { "?" } else { "" };
            let result = if step.success { "ok" } else { step.error_kind.as_deref().unwrap_or("failed") };
            let error = step.error.as_ref().map_or_else(String::new, |error| format!(" '{error}'"));
            let arguments = step.arguments.as_ref().map_or("-", |arguments| arguments.as_str());
            writeln!(text, "    {} {} {arguments} uses {uses:?} {took}: {result}{sure}{error}", step.id, step.tool).unwrap();
        }
    }
    let Counts { pieces, ignored, unknown, damaged, without_calls, without_request, .. } = counts;
    writeln!(text, "{pieces} pieces, {ignored} ignored, {unknown} unknown, {damaged} damaged; {without_calls} without calls, {without_request} without request").unwrap();
    text
}

#[test]
fn every_sample_is_recognised_and_gives_its_runs() {
    for (expected_format, sample, expected) in SAMPLES {
        let (format, runs, counts) = read(sample.as_bytes(), sample.len(), Options::default());
        assert_eq!(format, expected_format);
        let shown = shown(&runs, &counts);
        assert!(shown == expected, "{} gives\n{shown}", format.name());
        assert_eq!((counts.runs, counts.bytes), (runs.len() as u64, sample.len() as u64));
    }
}

#[test]
fn the_size_of_chunks_makes_no_difference() {
    for (format, sample, _) in SAMPLES {
        let (_, whole, counts) = read(sample.as_bytes(), sample.len(), Options::default());
        for chunk in [1, 7, 100] {
            let (_, runs, same) = read(sample.as_bytes(), chunk, Options::default());
            assert!(runs == whole && same == counts, "{} in chunks of {chunk}", format.name());
        }
    }
}

#[test]
fn options_leave_out_runs_and_calls() {
    let sample = SAMPLES[0].1.as_bytes();
    let runs = |options: Options| read(sample, sample.len(), options).1;
    let since = Options { since: Some("2026-03-02T09:02:30Z".parse().unwrap()), ..Options::default() };
    assert_eq!(runs(since).len(), 1);
    let project = |name: &str| Options { project: Some(name.to_owned()), ..Options::default() };
    assert_eq!((runs(project("shop")).len(), runs(project("other")).len()), (3, 0));
    let excluded = Options { excluded_tools: vec!["claude-code:bash*".to_owned()], ..Options::default() };
    assert!(runs(excluded).iter().flat_map(|run| &run.steps).all(|step| !step.tool.as_str().contains("bash")));
}

#[test]
fn lines_against_the_order_of_time_give_the_same_runs() {
    let (_, sample, _) = SAMPLES[3];
    let reversed: Vec<&str> = sample.lines().rev().collect();
    let (_, forward, _) = read(sample.as_bytes(), sample.len(), Options::default());
    let (_, mut backward, _) = read(reversed.join("\n").as_bytes(), sample.len(), Options::default());
    let key = |run: &Run| (run.started, run.execution.to_string());
    let mut forward = forward;
    forward.sort_by_key(key);
    backward.sort_by_key(key);
    let plain = |runs: &[Run]| runs.iter().map(|run| (run.execution.clone(), run.steps.clone())).collect::<Vec<_>>();
    assert_eq!(plain(&forward), plain(&backward));
}

#[test]
fn the_same_content_in_a_copy_has_the_same_ids() {
    for (format, sample, _) in
        SAMPLES.into_iter().filter(|(format, ..)| *format != Format::Jaeger && *format != Format::Langfuse)
    {
        let ids = |text: &str| {
            let (_, runs, _) = read(text.as_bytes(), 4_096, Options::default());
            runs.into_iter().map(|run| run.execution).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(ids(sample), ids(&format!("{sample}{sample}")), "{}", format.name());
    }
}

#[test]
fn other_content_is_not_recognised() {
    for text in [
        "",
        "hello\nworld\n",
        "{}",
        "{\"a\": 1}\n{\"a\": 2}\n",
        "[1, 2, 3]",
        "\u{0}\u{1}\u{2}",
        "{\"data\": [",
        "name,age\nx,3\n",
    ] {
        assert_eq!(recognise(text.as_bytes()), None, "{text:?}");
    }
}
