//! `pml execute`: runs a workflow, a capability or a plan for an intent on a running server and shows its progress.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};

use super::output::Output;
use super::remote::Remote;
use super::{LogLocation, Outcome};
use crate::config::Config;

#[derive(Args)]
#[command(group = clap::ArgGroup::new("what"))]
pub(super) struct Arguments {
    /// JSON file with {"tasks": [...]}; - for standard input
    #[arg(group = "what", required_unless_present_any = ["capability", "token", "resume", "abort", "intent"])]
    file: Option<PathBuf>,
    /// Run this capability, by name or id
    #[arg(long, group = "what")]
    capability: Option<String>,
    /// Approve what a run waits for
    #[arg(long = "continue", value_name = "TOKEN", group = "what")]
    token: Option<String>,
    /// Resume an interrupted or failed run from its first unfinished task
    #[arg(long, value_name = "RUN", group = "what")]
    resume: Option<String>,
    /// End a run, or refuse its approval
    #[arg(long, value_name = "RUN", group = "what")]
    abort: Option<String>,
    /// Arguments of the capability or of the plan, as a JSON object
    #[arg(long = "arguments", default_value = "{}", value_name = "JSON")]
    given: String,
    /// What the run is for, in words; alone, a plan for it is run if it is sure and has its arguments
    #[arg(long)]
    intent: Option<String>,
    /// Approve all calls beforehand
    #[arg(long)]
    yes: bool,
    /// Take over the finished tasks of this earlier run
    #[arg(long, value_name = "RUN")]
    reuse: Option<String>,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) fn run(arguments: Arguments, config: &Config, output: &Output) -> Outcome {
    if arguments.location.data.is_some() || arguments.location.nats.is_some() {
        return Err(anyhow::anyhow!("a running server executes workflows; start one with `pml serve`").into());
    }
    let remote = Remote::new(&arguments.location, config);
    let (path, body) = request(&arguments)?;
    follow_and_report(&remote, path, &body, output)
}

/// Sends a request about a run, shows its progress and reports how it ended.
pub(super) fn follow_and_report(remote: &Remote, path: &str, body: &Value, output: &Output) -> Outcome {
    let last = follow(remote, path, body, output)?;
    output.json(&last);
    report(&last, output);
    Ok(match last["status"].as_str() {
        Some("succeeded") => 0,
        Some("aborted") if path.ends_with("/abort") => 0,
        _ => 1,
    })
}

/// The route and the body of the request that the arguments ask for.
fn request(arguments: &Arguments) -> anyhow::Result<(&'static str, Value)> {
    if let Some(token) = &arguments.token {
        return Ok(("/v1/execute/continue", json!({"token": token})));
    }
    if let Some(run) = &arguments.resume {
        return Ok(("/v1/execute/continue", json!({"run": run})));
    }
    if let Some(run) = &arguments.abort {
        return Ok(("/v1/execute/abort", json!({"run": run})));
    }
    let mut body =
        json!({"intent": arguments.intent, "approved": arguments.yes, "reuse": arguments.reuse, "agent": "pml execute"});
    let given: Map<String, Value> =
        serde_json::from_str(&arguments.given).map_err(|error| anyhow::anyhow!("--arguments: {error}"))?;
    body["capability"] = json!(arguments.capability);
    body["arguments"] = Value::Object(given);
    if let Some(file) = &arguments.file {
        let read =
            if file.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
        let text = read.with_context(|| format!("cannot read {}", file.display()))?;
        body["workflow"] = serde_json::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    }
    Ok(("/v1/execute", body))
}

/// Sends the request and shows the tasks while they run. Returns the last state of the run.
fn follow(remote: &Remote, path: &str, body: &Value, output: &Output) -> anyhow::Result<Value> {
    if path.ends_with("/abort") {
        return remote.ask(path, body);
    }
    let mut view = TaskView::new(output);
    for event in remote.events(path, body)? {
        let (name, run) = event?;
        view.show(&run);
        if name == "done" {
            return Ok(run);
        }
    }
    anyhow::bail!("the server ended the stream before the run; `pml executions list` shows what it did")
}

/// One line per task on a terminal, in the order of the workflow, indented by its depth in the DAG.
struct TaskView {
    bars: Option<MultiProgress>,
    lines: Vec<ProgressBar>,
}

impl TaskView {
    fn new(output: &Output) -> Self {
        let visible = !output.is_json() && std::io::stderr().is_terminal();
        Self { bars: visible.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr())), lines: Vec::new() }
    }

    fn show(&mut self, run: &Value) {
        let Some(bars) = &self.bars else { return };
        let tasks: Vec<&Value> = run["tasks"].as_array().into_iter().flatten().collect();
        let style = ProgressStyle::with_template("{msg}").expect("a valid template");
        while self.lines.len() < tasks.len() {
            self.lines.push(bars.add(ProgressBar::new(1).with_style(style.clone())));
        }
        for (line, task) in self.lines.iter().zip(&tasks) {
            line.set_message(format!("{}{}", "  ".repeat(depth(task, &tasks)), task_line(task)));
        }
        if run["status"] != "running" {
            self.lines.iter().for_each(ProgressBar::finish);
        }
    }
}

/// How many tasks stand before this one on the longest way.
fn depth(task: &Value, tasks: &[&Value]) -> usize {
    let before = task["depends_on"].as_array().into_iter().flatten();
    let found = before.filter_map(|on| tasks.iter().find(|other| other["id"] == *on));
    found.map(|other| depth(other, tasks) + 1).max().unwrap_or(0)
}

fn task_line(task: &Value) -> String {
    let text = |name: &str| task[name].as_str().unwrap_or_default();
    let mark = match text("status") {
        "succeeded" => "+",
        "failed" => "x",
        "running" => ">",
        "skipped" => "-",
        _ => ".",
    };
    let took = task["duration_ms"].as_u64().map(|ms| format!("  {ms} ms")).unwrap_or_default();
    let problem = task["error"]["message"].as_str().map(|problem| format!("  {problem}")).unwrap_or_default();
    format!("{mark} {}  {}{took}{problem}", text("id"), text("tool"))
}

/// What a program wrote and returned.
fn report_program(run: &Value, output: &Output) {
    if let Some(console) = run["console"].as_str() {
        output.say(console.trim_end());
    }
    if let Some(problem) = run["error"]["message"].as_str() {
        output.say(problem);
    }
    if let Some(bytes) = run["result_bytes"].as_u64() {
        output.say(format!("{bytes} bytes: GET /v1/execute/{}/result", run["run"].as_str().unwrap_or_default()));
    } else if let Some(result) = run.get("result") {
        output.say(result.to_string());
    }
}

fn report(run: &Value, output: &Output) {
    let text = |name: &str| run[name].as_str().unwrap_or_default();
    for task in run["tasks"].as_array().into_iter().flatten() {
        output.say(task_line(task));
        if let Some(bytes) = task["result_bytes"].as_u64() {
            output.say(format!(
                "    {bytes} bytes: GET /v1/execute/{}/{}",
                text("run"),
                task["id"].as_str().unwrap_or_default()
            ));
        } else if !task["result"].is_null() {
            output.say(format!("    {}", task["result"]));
        }
    }
    report_program(run, output);
    output.say(format!("{} {}", text("run"), text("status")).trim_start());
    let names = |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    if text("status") == "approval_required" {
        let why = if run["plan"]["sure"] == false { "the plan is not sure" } else { "these tasks may destroy something" };
        output.say(format!("{why}: {}", names(&run["approve"])));
        output.say(format!("to let it run: pml execute --continue {}", text("token")));
    }
    for missing in run["missing"].as_array().into_iter().flatten() {
        let text = |name: &str| missing[name].as_str().unwrap_or_default();
        output.say(format!(
            "{} ({}) needs {}: give them with --arguments",
            text("task"),
            text("tool"),
            names(&missing["arguments"])
        ));
    }
}
