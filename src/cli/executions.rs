//! `pml executions`: what ran when, from the log.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::config::Config;
use crate::core::event::{Event, Record};
use crate::core::id::{ExecutionId, Seq};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List executions, the newest first
    List(ListArguments),
    /// Show every event of one execution
    Show(ShowArguments),
}

#[derive(Args)]
pub(super) struct ListArguments {
    /// Number of executions at most
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Only executions that called this tool
    #[arg(long)]
    tool: Option<String>,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct ShowArguments {
    execution: ExecutionId,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::List(arguments) => list(arguments, &config, output).await,
        Command::Show(arguments) => show(&arguments, &config, output).await,
    }
}

async fn list(arguments: ListArguments, config: &Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, config).await?;
    let mut found: std::collections::VecDeque<Value> = std::collections::VecDeque::new();
    let visit = |record: Record| {
        if let Event::TraceCompleted(trace) = record.event() {
            let tools: Vec<String> = trace.steps.iter().map(|step| step.tool.to_string()).collect();
            if arguments.tool.as_ref().is_none_or(|tool| tools.contains(tool)) {
                if found.len() == arguments.limit {
                    found.pop_back();
                }
                found.push_front(json!({
                    "execution": trace.execution.as_str(),
                    "started": trace.started.to_string(),
                    "duration_ms": trace.ended.millis_since(trace.started),
                    "status": if trace.abandoned { "abandoned" } else if trace.success { "succeeded" } else { "failed" },
                    "agent": trace.agent,
                    "intent": trace.intent,
                    "tools": tools,
                }));
            }
        }
        Ok(true)
    };
    source.visit_shown("reading", Seq::ZERO, visit).await?;
    found.truncate(arguments.limit);
    output.json(&json!({"executions": found}));
    if found.is_empty() {
        output.say("no executions");
        return Ok(0);
    }
    let row = |execution: &Value| {
        let text = |name: &str| execution[name].as_str().unwrap_or_default().to_owned();
        let tools = execution["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        vec![
            text("execution"),
            text("started"),
            execution["duration_ms"].to_string(),
            text("status"),
            text("intent"),
            tools.join(", "),
        ]
    };
    output.table(&["execution", "started", "ms", "status", "intent", "tools"], found.iter().map(row));
    Ok(0)
}

async fn show(arguments: &ShowArguments, config: &Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, config).await?;
    let mut events = Vec::new();
    let visit = |record: Record| {
        if record.event().execution() == Some(&arguments.execution) {
            events.extend(described(&record));
        }
        Ok(true)
    };
    source.visit_shown("reading", Seq::ZERO, visit).await?;
    if events.is_empty() {
        return Err(anyhow::anyhow!("the log holds no execution '{}'", arguments.execution).into());
    }
    output.json(&json!({"execution": arguments.execution.as_str(), "events": events}));
    let text = |event: &Value, name: &str| event[name].as_str().map_or_else(String::new, str::to_owned);
    let row = |event: &Value| ["seq", "time", "what", "step", "tool", "details"].map(|name| text(event, name)).to_vec();
    output.table(&["seq", "time", "what", "step", "tool", "details"], events.iter().map(row));
    Ok(0)
}

/// One line about an event of the execution.
fn described(record: &Record) -> Option<Value> {
    let (step, tool, details) = match record.event() {
        Event::ExecutionStarted(event) => (String::new(), String::new(), event.intent.clone()),
        Event::StepStarted(event) => {
            let arguments = event.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
            (event.step.to_string(), event.tool.to_string(), arguments)
        }
        Event::StepFinished(event) => {
            let outcome = event.error_kind.clone().unwrap_or_else(|| if event.success { "ok" } else { "failed" }.to_owned());
            let took = event.duration_ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
            let summary = event.result_summary.as_ref().map(|summary| format!(": {summary}")).unwrap_or_default();
            (event.step.to_string(), event.tool.to_string(), format!("{outcome}{took}{summary}"))
        }
        Event::ExecutionFinished(event) => {
            let outcome =
                if event.success { "succeeded".to_owned() } else { event.error.clone().unwrap_or_else(|| "failed".to_owned()) };
            (String::new(), String::new(), outcome)
        }
        Event::TraceCompleted(trace) => {
            let closed = if trace.abandoned { "abandoned" } else { "closed" };
            (String::new(), String::new(), format!("{closed} with {} steps", trace.steps.len()))
        }
        _ => return None,
    };
    Some(json!({
        "seq": record.seq.to_string(), "time": record.fact.time.to_string(), "what": record.event().kind().name(),
        "step": step, "tool": tool, "details": details,
    }))
}
