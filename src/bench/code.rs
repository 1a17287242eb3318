//! Measures code mode: a process from its start to the first call of its program, one more call, and reading a program.

use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Case, Stopwatch, median};
use crate::code::sandbox::{ChildCommand, Launch, Limits, Sandbox};
use crate::config::Config;
use crate::runtime::sandbox;

const STARTS: usize = 50;
const RUNS: usize = 10;
const CALLS: u32 = 1_000;
const READS: usize = 200;
/// What the way from the start of a process to its first call may take, in microseconds.
const START_US_MAX: f64 = 15_000.0;
/// About the bytes of a call and of its answer.
const MESSAGE_BYTES: usize = 100;

/// Measures the three cases.
pub async fn run(config: &Config) -> anyhow::Result<Vec<Case>> {
    let command = sandbox();
    let limits = Limits { calls_max: usize::MAX, ..config.code.limits(usize::MAX) };
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(program(&command, limits, 1).await?.0);
    }
    let (mut calls, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (first, last) = program(&command, limits, CALLS + 1).await?;
        calls.push((last - first) / f64::from(CALLS));
        floors.push(round_trip().await?);
    }
    let source = hundred_lines();
    let mut reads = Vec::new();
    for _ in 0..READS {
        let watch = Stopwatch::start();
        crate::code::read(&source)?;
        reads.push(micros(watch.elapsed()));
    }
    let (start, call, floor) = (median(starts), median(calls), median(floors));
    Ok(vec![
        Case { case: "start", value: start, unit: "us", floor: Some(START_US_MAX), ratio: Some(START_US_MAX / start) },
        Case { case: "call_overhead", value: call, unit: "us", floor: Some(floor), ratio: Some(floor / call) },
        Case { case: "read_100_lines", value: median(reads), unit: "us", floor: None, ratio: None },
    ])
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Makes calls one after the other in a new process. Returns the time until the first of them and until the last, in microseconds.
async fn program(command: &ChildCommand, limits: Limits, calls: u32) -> anyhow::Result<(f64, f64)> {
    let nothing = RawValue::from_string("{}".to_owned())?;
    let launch = Launch {
        javascript: format!("for (let i = 0; i < {calls}; i++) await tools.s.x({{ i }});"),
        arguments: nothing.clone(),
        clock_ms: 0,
        seed: 0,
    };
    let times: Mutex<Vec<f64>> = Mutex::new(Vec::new());
    let watch = Stopwatch::start();
    let sandbox = Sandbox::start(command, limits)?;
    let outcome = sandbox
        .run(launch, |_| {
            if let Ok(mut times) = times.lock() {
                times.push(micros(watch.elapsed()));
            }
            std::future::ready(Ok(nothing.clone()))
        })
        .await;
    outcome.result?;
    let times = times.into_inner().unwrap_or_default();
    Ok((*times.first().context("at least one call")?, *times.last().context("at least one call")?))
}

/// The floor of a call: as many bytes through the pipes of a process that sends them back. In microseconds.
async fn round_trip() -> anyhow::Result<f64> {
    let mut cat = tokio::process::Command::new("cat");
    let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().context("cat")?;
    let (mut input, mut output) = (child.stdin.take().context("a pipe")?, child.stdout.take().context("a pipe")?);
    let (message, mut answer) = ([b'x'; MESSAGE_BYTES], [0; MESSAGE_BYTES]);
    input.write_all(&message).await?;
    output.read_exact(&mut answer).await?;
    let watch = Stopwatch::start();
    for _ in 0..CALLS {
        input.write_all(&message).await?;
        output.read_exact(&mut answer).await?;
    }
    Ok(micros(watch.elapsed()) / f64::from(CALLS))
}

/// A program of a hundred lines: steps that use the result of the one before, branches and a loop.
fn hundred_lines() -> String {
    let block = "let v = await tools.fs.read({ path: 'a.txt' });\nif (v.ok) {\n  v = await tools.s.clean({ v, mode: `m${v.mode}` });\n} else {\n  console.log(v.error);\n}\nfor (const item of v.items) {\n  await tools.db.put({ item, id: item.id });\n}\nawait tools.mail.send({ body: v });\n";
    (0..10).map(|at| block.replace('v', &format!("v{at}")).replace("mov", "mo")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_is_read_has_a_hundred_lines_and_forty_calls() {
        let source = hundred_lines();
        assert_eq!((source.lines().count(), crate::code::read(&source).unwrap().calls.len()), (100, 40));
    }
}
