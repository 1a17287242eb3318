//! `pml report`: what pml would have saved on a history, each step predicted before it is learnt.

mod html;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::config::Config;
use crate::core::event::Record;
use crate::core::id::{Seq, ToolId};
use crate::dataset::{Dataset, TEST, TRAIN};
use crate::embed;
use crate::eval::learn::START;
use crate::eval::prequential::dataset_records;
use crate::eval::report::{FailingTool, Habit, Report, Reporter};
use crate::readers::report::{Coverage, Share};

#[derive(Args)]
pub(super) struct Arguments {
    /// Dataset directory [default: the history of the log]
    #[arg(conflicts_with_all = ["url", "data", "nats"])]
    directory: Option<PathBuf>,
    /// Also write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let embedder = embed::open(&config.embedding)?;
    let mut reporter =
        Reporter::new(&*embedder, config.embedding.batch_texts_max).context("cannot start a thread to predict in")?;
    let name = if let Some(directory) = &arguments.directory {
        read_dataset(&mut reporter, directory, output)?;
        directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    } else {
        let source = Source::open(&arguments.location, &config).await?;
        let apply = |record: Record| {
            reporter.apply(&record)?;
            Ok(true)
        };
        source.visit_shown("predicted and learnt:", Seq::ZERO, apply).await?;
        "own history".to_owned()
    };
    if reporter.steps() == 0 {
        return Err(
            anyhow::anyhow!("the history holds no completed run with calls; `pml learn` reads those of your agents").into()
        );
    }
    let report = reporter.finish();
    if let Some(file) = &arguments.html {
        std::fs::write(file, html::page(&report, &name)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    output.json(&json_of(&report, &name));
    print(&report, &name, output);
    if let Some(file) = &arguments.html {
        output.say(format!("\nthe same with plots: {}", file.display()));
    }
    Ok(0)
}

fn read_dataset(reporter: &mut Reporter<'_>, directory: &Path, output: &Output) -> anyhow::Result<()> {
    let mut dataset = Dataset::load(directory, TRAIN, START)?.complete()?;
    if directory.join(TEST).exists() {
        dataset.traces.extend(Dataset::load(directory, TEST, START)?.complete()?.traces);
    }
    let bar = output.progress("traces predicted and learnt:", dataset.traces.len() as u64);
    for record in dataset_records(dataset, START) {
        let is_trace = matches!(record.event(), crate::core::event::Event::TraceCompleted(_));
        reporter.apply(&record)?;
        bar.inc(u64::from(is_trace));
    }
    bar.finish_and_clear();
    Ok(())
}

fn share_json(share: Share) -> Value {
    json!({"value": share.value, "low": share.low, "high": share.high})
}

fn coverage_json(coverage: &Coverage) -> Value {
    json!({
        "threshold": coverage.threshold, "taken": coverage.taken, "right": coverage.right,
        "coverage": share_json(coverage.coverage), "precision_reached": share_json(coverage.reached),
    })
}

fn json_of(report: &Report, name: &str) -> Value {
    let coverages = report.coverages.iter().map(|(hindsight, forward)| {
        json!({
            "precision": hindsight.precision, "hindsight": coverage_json(hindsight), "forward": coverage_json(forward),
        })
    });
    let habit =
        |habit: &Habit| json!({"capability": habit.name, "runs": habit.runs, "success": habit.success, "calls": habit.summary});
    let failing = |tool: &FailingTool| {
        let instead = tool.instead.as_ref().map(|(tool, count)| json!({"tool": tool.as_str(), "times": count}));
        json!({"tool": tool.tool.as_str(), "calls": tool.calls, "failed": tool.failed, "worked_instead": instead})
    };
    let never: Vec<&str> = report.never_used.iter().map(ToolId::as_str).collect();
    json!({
        "history": name, "runs": report.runs, "steps": report.steps, "decisions": report.predictions.len(),
        "coverage": coverages.collect::<Vec<_>>(),
        "definition_tokens": {
            "tools": report.tools_defined, "catalogue": report.tokens.catalogue, "needed": report.tokens.needed,
            "kept_out": report.tokens.kept_out(),
        },
        "time": {
            "total_ms": report.time.total_ms, "saved_ms": report.time.saved_ms, "hits": report.time.hits,
            "misses": report.time.misses,
        },
        "habits": {"count": report.habits_count, "most_run": report.habits.iter().map(habit).collect::<Vec<_>>()},
        "failing": report.failing.iter().map(failing).collect::<Vec<_>>(),
        "never_used": {"count": report.never_used_count, "first": never},
    })
}

/// A share in percent with its interval.
fn percent(share: Share) -> String {
    format!("{:.1} % ({:.1} to {:.1})", share.value * 100.0, share.low * 100.0, share.high * 100.0)
}

/// The rows of the table of coverages.
fn coverage_rows(report: &Report) -> Vec<Vec<String>> {
    let row = |(hindsight, forward): &(Coverage, Coverage)| {
        vec![
            format!("{:.0} %", hindsight.precision * 100.0),
            percent(hindsight.coverage),
            percent(forward.coverage),
            percent(forward.reached),
        ]
    };
    report.coverages.iter().map(row).collect()
}

const COVERAGE_HEADER: [&str; 4] =
    ["precision", "decisions, best threshold", "decisions, threshold chosen step by step", "precision reached so"];

/// Sentences about tokens and time, where the history says something about them.
fn sentences(report: &Report) -> Vec<String> {
    let mut sentences = Vec::new();
    let tokens = report.tokens;
    if tokens.catalogue > 0 {
        sentences.push(format!(
            "definitions: {} of {} tokens of tool definitions stay out of the context with discover ({} tools, {} runs)",
            tokens.kept_out(),
            tokens.catalogue,
            report.tools_defined,
            report.runs
        ));
    } else {
        sentences.push("definitions: no tool has one in this history, so nothing is said about tokens".to_owned());
    }
    let time = report.time;
    if time.total_ms > 0 {
        sentences.push(format!(
            "running ahead: {} s of {} s saved by read-only calls that are predicted with 90 % precision ({} used, {} in vain)",
            time.saved_ms / 1_000,
            time.total_ms / 1_000,
            time.hits,
            time.misses
        ));
    } else {
        sentences.push("running ahead: the history holds no durations, so nothing is said about time".to_owned());
    }
    sentences
}

fn print(report: &Report, name: &str, output: &Output) {
    output.say(format!(
        "{name}: {} runs, {} steps, each predicted before it was learnt. A model decides {} times: before each step and at the end of \
         a run; where the call is predicted, it need not.",
        report.runs,
        report.steps,
        report.predictions.len()
    ));
    output.table(&COVERAGE_HEADER, coverage_rows(report));
    output.say("shares of all decisions, with 95 % intervals\n");
    for sentence in sentences(report) {
        output.say(sentence);
    }
    output.say(format!("\nprocedures that ran at least three times: {}", report.habits_count));
    let habit = |habit: &Habit| vec![habit.name.clone(), habit.runs.to_string(), format!("{:.0} %", habit.success * 100.0)];
    if !report.habits.is_empty() {
        output.table(&["capability", "runs", "success"], report.habits.iter().map(habit).collect::<Vec<_>>());
    }
    if !report.failing.is_empty() {
        output.say("\ntools that fail most, and what worked next:");
        output.table(&["tool", "calls", "failed", "worked next"], report.failing.iter().map(failing_row).collect::<Vec<_>>());
    }
    let never: Vec<&str> = report.never_used.iter().map(ToolId::as_str).collect();
    if !never.is_empty() {
        output.say(format!("\n{} tools were never used: {} ...", report.never_used_count, never.join(", ")));
    }
}

fn failing_row(tool: &FailingTool) -> Vec<String> {
    let instead = tool.instead.as_ref().map_or_else(|| "-".to_owned(), |(tool, count)| format!("{tool} ({count})"));
    vec![tool.tool.to_string(), tool.calls.to_string(), tool.failed.to_string(), instead]
}
