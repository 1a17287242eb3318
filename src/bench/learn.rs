//! Measures reading of agents' logs: a session of Claude Code from a file to events. The floor reads the same file line by line and parses
//! each line with `serde_json`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde_json::{Value, json};

use super::{Case, Stopwatch, hook, median, peak_memory_mb, reset_peak_memory};
use crate::core::time::Timestamp;
use crate::readers::events::events;
use crate::readers::format::HEAD_LEN;
use crate::readers::{Reader, Run, recognise};

const RUNS: usize = 3;
/// Bytes read at once, as `pml learn` does.
const CHUNK_LEN: usize = 256 << 10;
/// Calls after each request.
const CALLS: usize = 5;
/// Lengths of results, in lines: most are short, some are whole files.
const RESULT_LINES: [usize; 8] = [1, 2, 3, 8, 12, 20, 60, 200];

/// Writes a session of about `megabytes` below `scratch` and measures how fast it is read; then how long a hook takes.
pub fn run(scratch: &Path, megabytes: usize) -> anyhow::Result<Vec<Case>> {
    std::fs::create_dir_all(scratch)?;
    let path = scratch.join("session.jsonl");
    write_session(&path, megabytes << 20)?;
    let bytes = usize::try_from(std::fs::metadata(&path)?.len())?;
    let before = peak_after_reset();
    let (mut floors, mut rates, mut event_rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let watch = Stopwatch::start();
        let lines = parse(&path)?;
        floors.push(watch.rate(bytes) / 1e6);
        anyhow::ensure!(lines > 0, "the session has no lines");
        let watch = Stopwatch::start();
        let count = learn(&path)?;
        rates.push(watch.rate(bytes) / 1e6);
        event_rates.push(watch.rate(count));
    }
    let (rate, floor) = (median(rates), median(floors));
    let mut cases = vec![
        Case { case: "claude_code", value: rate, unit: "MB/s", floor: Some(floor), ratio: Some(rate / floor) },
        Case { case: "claude_code_events", value: median(event_rates), unit: "events/s", floor: None, ratio: None },
    ];
    if let Some((before, after)) = before.zip(peak_memory_mb("self")) {
        cases.push(Case { case: "claude_code_memory", value: after - before, unit: "MB", floor: None, ratio: None });
    }
    cases.push(hook::run(scratch)?);
    Ok(cases)
}

fn peak_after_reset() -> Option<f64> {
    reset_peak_memory();
    peak_memory_mb("self")
}

/// The floor.
fn parse(path: &Path) -> anyhow::Result<usize> {
    let mut file = BufReader::with_capacity(CHUNK_LEN, File::open(path)?);
    let (mut line, mut lines) = (Vec::new(), 0);
    while file.read_until(b'\n', &mut line)? > 0 {
        let value: Value = serde_json::from_slice(&line)?;
        lines += usize::from(value.is_object());
        line.clear();
    }
    Ok(lines)
}

/// Reads the file as `pml learn` does. Returns the number of events.
fn learn(path: &Path) -> anyhow::Result<usize> {
    let mut file = File::open(path)?;
    let mut chunk = Vec::new();
    Read::by_ref(&mut file).take(HEAD_LEN as u64).read_to_end(&mut chunk)?;
    let (format, layout) = recognise(&chunk).context("the session is not recognised")?;
    let mut reader = Reader::new(format, layout, Arc::default());
    let mut count = 0;
    let mut take = |runs: Vec<Run>| count += runs.iter().map(|run| events(run, Timestamp::from_micros(0)).len()).sum::<usize>();
    while !chunk.is_empty() {
        take(reader.feed(&chunk));
        chunk.resize(CHUNK_LEN, 0);
        let len = file.read(&mut chunk)?;
        chunk.truncate(len);
    }
    take(reader.finish());
    Ok(count)
}

/// Writes requests, calls and results with the members that Claude Code writes; results stand twice in a line, as they do there.
fn write_session(path: &Path, len: usize) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let (mut written, mut number) = (0, 0);
    while written < len {
        let text = request(number);
        file.write_all(text.as_bytes())?;
        written += text.len();
        number += 1;
    }
    file.flush()?;
    Ok(())
}

fn request(number: usize) -> String {
    let time = |call: usize| {
        Timestamp::from_micros(i64::try_from(number * 60 + call).unwrap_or(0) * 1_000_000 + 1_772_000_000_000_000).to_string()
    };
    let line = |kind: &str, call: usize, more: Value| {
        let mut line = json!({
            "parentUuid": format!("p{number}-{call}"), "isSidechain": false, "userType": "external", "cwd": "/home/dev/shop",
            "sessionId": "5b6f0a52-0000-4000-8000-000000000001", "version": "2.0.14", "gitBranch": "main", "type": kind,
            "uuid": format!("{kind}-{number}-{call}"), "timestamp": time(call),
        });
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        line.to_string() + "\n"
    };
    let words =
        format!("Look at order {number} in the shop, find out why its total is wrong, and fix the sum of the discounts.");
    let mut text = line("user", 0, json!({"message": {"role": "user", "content": words}}));
    for call in 1..=CALLS {
        let id = format!("toolu_{number}_{call}");
        let (name, input) = match call {
            1 => ("Grep", json!({"pattern": format!("order_{number}"), "output_mode": "files_with_matches"})),
            2 => ("Read", json!({"file_path": format!("/home/dev/shop/src/order_{number}.rs")})),
            3 => (
                "Bash",
                json!({"command": format!("cd /home/dev/shop && cargo test order_{number}"), "description": "Run the test"}),
            ),
            4 => (
                "Edit",
                json!({"file_path": format!("/home/dev/shop/src/order_{number}.rs"), "old_string": "a - b", "new_string": "a + b"}),
            ),
            _ => ("mcp__tracker__close", json!({"issue": number})),
        };
        let usage = json!({"input_tokens": 12, "cache_read_input_tokens": 20_000 + number, "output_tokens": 180, "service_tier": "standard"});
        let content = json!([{"type": "text", "text": "I look at this next."}, {"type": "tool_use", "id": id, "name": name, "input": input}]);
        let message = json!({"id": format!("msg_{number}_{call}"), "type": "message", "role": "assistant", "model": "model-x", "content": content, "usage": usage});
        text += &line("assistant", call, json!({"message": message, "requestId": format!("req_{number}_{call}")}));
        let lines = RESULT_LINES[(number * 7 + call * 3) % RESULT_LINES.len()];
        let mut result = String::new();
        for at in 0..lines {
            let code = "= order.items.iter().map(|item| item.price).sum::<u64>();";
            writeln!(result, "{at:5}\tlet total_{at} {code} // \"{number}\"").expect("writing to a string");
        }
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": false}]);
        let more =
            json!({"message": {"role": "user", "content": content}, "toolUseResult": {"stdout": result, "interrupted": false}});
        text += &line("user", call, more);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_read_as_runs() {
        let home = tempfile::TempDir::new().unwrap();
        let path = home.path().join("session.jsonl");
        write_session(&path, 100_000).unwrap();
        let lines = parse(&path).unwrap();
        let requests = lines / (1 + 2 * CALLS);
        assert!(requests > 1 && lines == requests * (1 + 2 * CALLS));
        assert_eq!(learn(&path).unwrap(), requests * (CALLS + 2));
    }
}
