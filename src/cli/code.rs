//! `pml code`: checks and runs programs in TypeScript.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::execute;
use super::output::Output;
use super::remote::Remote;
use super::tools::{KnownTool, known};
use super::types::declared;
use super::{LogLocation, Outcome};
use crate::code::drawing::draw;
use crate::code::structure::{Callee, Reading};
use crate::config::Config;
use crate::core::id::ToolId;
use crate::execute::needs_approval;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Show what a program does without running it: its calls and the data flow between them, the types of the tools, what would need
    /// approval
    Check(CheckArguments),
    /// Run a program on the MCP servers of a running pml
    Run(RunArguments),
}

#[derive(Args)]
pub(super) struct CheckArguments {
    /// The program; - for standard input
    file: PathBuf,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct RunArguments {
    /// The program; - for standard input
    file: PathBuf,
    /// Arguments of the program, as a JSON object
    #[arg(long = "args", default_value = "{}", value_name = "JSON")]
    given: String,
    /// What the run is for, in words
    #[arg(long)]
    intent: Option<String>,
    /// Approve all calls beforehand
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::Check(arguments) => check(arguments, config, output).await,
        Command::Run(arguments) => run_program(&arguments, &config, output),
    }
}

fn run_program(arguments: &RunArguments, config: &Config, output: &Output) -> Outcome {
    let given: Map<String, Value> =
        serde_json::from_str(&arguments.given).map_err(|error| anyhow::anyhow!("--args: {error}"))?;
    let remote = Remote::new(&arguments.location, config);
    let body = json!({
        "code": source(&arguments.file)?,
        "arguments": given,
        "intent": arguments.intent,
        "approved": arguments.yes,
        "agent": "pml code run",
    });
    execute::follow_and_report(&remote, "/v1/execute", &body, output)
}

/// A problem that a run would meet.
struct Problem {
    line: u32,
    text: String,
}

async fn check(arguments: CheckArguments, config: Config, output: &Output) -> Outcome {
    let source = source(&arguments.file)?;
    let reading = crate::code::read(&source).map_err(|error| anyhow::anyhow!("{}:{error}", arguments.file.display()))?;
    let tools: BTreeMap<ToolId, KnownTool> =
        known(&arguments.location, &config).await?.into_iter().map(|tool| (tool.id.clone(), tool)).collect();
    let called: Vec<&KnownTool> = reading.tools().into_iter().filter_map(|tool| tools.get(tool)).collect();
    let approval: Vec<&str> = called
        .iter()
        .filter(|tool| needs_approval(tool.annotations.as_ref(), config.execute.approval))
        .map(|tool| tool.id.as_str())
        .collect();
    let problems = problems(&reading, &tools);
    let (drawing, types) = (draw(&reading), declared(called.iter().copied()));
    output.json(&json!({
        "calls": reading.calls.iter().map(|call| call.callee.to_string()).collect::<Vec<_>>(),
        "drawing": drawing,
        "types": types,
        "parameters": reading.parameters,
        "unresolved": reading.unresolved.iter().map(|part| format!("{}: {}", part.position, part.reason)).collect::<Vec<_>>(),
        "approval": approval,
        "problems": problems.iter().map(|problem| format!("line {}: {}", problem.line, problem.text)).collect::<Vec<_>>(),
    }));
    output.say(drawing.trim_end());
    if !called.is_empty() {
        output.say(format!("\n{}", types.trim_end()));
    }
    let waits = if approval.is_empty() { "no call that can be told beforehand".to_owned() } else { approval.join(", ") };
    output.say(format!("\napproval needed: {waits}"));
    for Problem { line, text } in &problems {
        output.say(format!("line {line}: {text}"));
    }
    Ok(u8::from(!problems.is_empty()))
}

fn source(file: &Path) -> anyhow::Result<String> {
    let read = if file.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    read.map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

/// Calls of tools that are not there, required arguments that nothing gives, and arguments that the tool does not have.
fn problems(reading: &Reading, tools: &BTreeMap<ToolId, KnownTool>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for call in &reading.calls {
        let mut add = |text: String| problems.push(Problem { line: call.position.line, text });
        let Callee::Tool(id) = &call.callee else { continue };
        let Some(tool) = tools.get(id) else {
            add(format!("no tool '{id}' is known"));
            continue;
        };
        let (Some(schema), Some(given)) = (&tool.input_schema, &call.names) else { continue };
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !given.contains(*name)) {
            add(format!("{id} is called without '{name}'"));
        }
        let known = schema["properties"].as_object();
        if let Some(known) = known.filter(|_| schema["additionalProperties"] == json!(false)) {
            given
                .iter()
                .filter(|name| !known.contains_key(*name))
                .for_each(|name| add(format!("{id} has no argument '{name}'")));
        }
    }
    problems
}
