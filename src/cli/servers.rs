//! `pml servers`: the MCP servers whose tools pml calls. Changes are made in the servers file; a running server notices within a second.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::output::Output;
use super::remote::{Remote, Unreachable};
use super::{LogLocation, Outcome};
use crate::config::Config;
use crate::core::id::ToolId;
use crate::core::intake::Limits;
use crate::upstream::probe;
use crate::upstream::servers_file::{ServersFile, ServersFileError};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Add a server: a command with its arguments, or a URL
    Add(AddArguments),
    /// Remove a server; what was learnt with its tools is kept
    Remove(NameArguments),
    /// List the servers, with the state that a running pml gives them
    List(ListArguments),
    /// Start or reach a server, list its tools, and end it
    Test(NameArguments),
    /// Switch a server, or one tool of it, on
    Enable(TargetArguments),
    /// Switch a server, or one tool of it, off: it is neither found nor called
    Disable(TargetArguments),
    /// Add the servers of an agent's configuration file (Claude, Cursor, VS Code, Codex)
    Import(ImportArguments),
    /// Approve the changed definition of a tool in quarantine
    Approve(ApproveArguments),
}

#[derive(Args)]
pub(super) struct AddArguments {
    /// Name of the server, the first half of its tools' ids
    name: String,
    /// URL of a server that speaks streamable HTTP
    #[arg(long, conflicts_with = "command", required_unless_present = "command")]
    url: Option<String>,
    /// Header for the URL, as NAME=VALUE; ${VARIABLE} stands for a variable of the server's environment
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    headers: Vec<String>,
    /// Environment variable of the command, as NAME=VALUE
    #[arg(long = "env", value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,
    /// Command and arguments, after --
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Args)]
pub(super) struct NameArguments {
    /// Name of the server
    name: String,
}

#[derive(Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct TargetArguments {
    /// Name of a server, or id of a tool such as fs:write
    target: String,
}

#[derive(Args)]
pub(super) struct ImportArguments {
    /// JSON or TOML file
    file: PathBuf,
}

#[derive(Args)]
pub(super) struct ApproveArguments {
    /// Id of the tool
    tool: ToolId,
    /// Hash of the definition that you looked at [default: the present one]
    #[arg(long, value_name = "HASH")]
    definition: Option<String>,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::Add(arguments) => add(arguments, &config, output),
        Command::Remove(NameArguments { name }) => change(&config, output, &name, "removed", |file| file.remove(&name)),
        Command::List(arguments) => list(&arguments, &config, output),
        Command::Test(NameArguments { name }) => test(&name, &config, output).await,
        Command::Enable(TargetArguments { target }) => switch(&config, output, &target, true),
        Command::Disable(TargetArguments { target }) => switch(&config, output, &target, false),
        Command::Import(arguments) => import(&arguments, &config, output),
        Command::Approve(arguments) => approve(&arguments, &config, output),
    }
}

/// Changes the servers file and says what was done.
fn change(
    config: &Config,
    output: &Output,
    what: &str,
    done: &str,
    change: impl FnOnce(&mut ServersFile) -> Result<(), ServersFileError>,
) -> Outcome {
    let path = &config.upstream.file;
    let mut file = ServersFile::read(path)?;
    change(&mut file)?;
    file.write()?;
    output.json(&json!({"changed": what, "done": done, "file": path}));
    output.say(format!("{what} {done} in {}; a running server notices within a second", path.display()));
    Ok(0)
}

fn add(arguments: AddArguments, config: &Config, output: &Output) -> Outcome {
    let entry = match &arguments.url {
        Some(url) => json!({"type": "http", "url": url, "headers": pairs("--header", &arguments.headers)?}),
        None => json!({
            "command": arguments.command.first(),
            "args": arguments.command.get(1..).unwrap_or_default(),
            "env": pairs("--env", &arguments.env)?,
        }),
    };
    change(config, output, &arguments.name, "added", |file| file.add(&arguments.name, entry))
}

fn pairs(flag: &str, texts: &[String]) -> anyhow::Result<Map<String, Value>> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| anyhow::anyhow!("{flag} {text}: write NAME=VALUE"))?;
        Ok((name.to_owned(), json!(value)))
    };
    texts.iter().map(pair).collect()
}

fn switch(config: &Config, output: &Output, target: &str, enabled: bool) -> Outcome {
    let done = if enabled { "switched on" } else { "switched off" };
    change(config, output, target, done, |file| match target.parse::<ToolId>() {
        Ok(tool) => file.set_tool_enabled(tool.server(), tool.name(), enabled),
        Err(_) => file.set_enabled(target, enabled),
    })
}

fn import(arguments: &ImportArguments, config: &Config, output: &Output) -> Outcome {
    let mut file = ServersFile::read(&config.upstream.file)?;
    let (added, left_out) = file.import(&arguments.file)?;
    file.write()?;
    output.json(&json!({"added": added, "left_out": left_out, "file": config.upstream.file}));
    for (name, reason) in &left_out {
        output.say(format!("{name} is left out: {reason}"));
    }
    output.say(format!("{} servers added to {}", added.len(), config.upstream.file.display()));
    Ok(if left_out.is_empty() { 0 } else { 3 })
}

/// Lists the servers of a running pml; without one, those of the file.
fn list(arguments: &ListArguments, config: &Config, output: &Output) -> Outcome {
    let servers = match Remote::new(&arguments.location, config).get("/v1/servers") {
        Ok(answer) => answer["servers"].clone(),
        Err(error) if error.is::<Unreachable>() && arguments.location.url.is_none() => listed_in_file(config)?,
        Err(error) => return Err(error.into()),
    };
    output.json(&json!({"servers": servers}));
    let servers = servers.as_array().cloned().unwrap_or_default();
    if servers.is_empty() {
        output.say(format!("no servers; add one with `pml servers add` ({})", config.upstream.file.display()));
        return Ok(0);
    }
    output
        .table(&["server", "state", "tools", "calls", "errors", "in quarantine", "target", "problem"], servers.iter().map(row));
    Ok(0)
}

fn row(server: &Value) -> Vec<String> {
    let text = |name: &str| server[name].as_str().unwrap_or_default().to_owned();
    let names = |name: &str| {
        let items = server[name].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let count = server["tools"].as_array().map_or(String::new(), |tools| tools.len().to_string());
    let number = |name: &str| server[name].as_u64().map_or(String::new(), |number| number.to_string());
    vec![
        text("server"),
        text("state"),
        count,
        number("calls"),
        number("errors"),
        names("quarantined"),
        text("target"),
        text("problem"),
    ]
}

fn listed_in_file(config: &Config) -> anyhow::Result<Value> {
    let entries = ServersFile::read(&config.upstream.file)?.entries();
    let server = |(name, entry): (String, Result<crate::upstream::servers_file::ServerEntry, String>)| match entry {
        Ok(entry) => json!({"server": name, "state": if entry.disabled { "disabled" } else { "not running" }}),
        Err(problem) => json!({"server": name, "state": "failed", "problem": problem}),
    };
    Ok(entries.into_iter().map(server).collect())
}

async fn test(name: &str, config: &Config, output: &Output) -> Outcome {
    let entry = ServersFile::read(&config.upstream.file)?.entries().remove(name);
    let entry = entry.ok_or_else(|| ServersFileError::Unknown(name.to_owned()))?;
    let entry = entry.map_err(|problem| ServersFileError::Entry { name: name.to_owned(), problem })?;
    let asking = output.working("asking the server");
    let found = probe(&entry, &config.upstream, &Limits::from(config).redactor).await;
    drop(asking);
    match found {
        Ok(probe) => {
            output.json(&json!({
                "server": name, "ok": true, "implementation": probe.implementation, "protocol": probe.protocol, "tools": probe.tools,
            }));
            let version = probe.implementation.unwrap_or_else(|| "unnamed".to_owned());
            output.say(format!("{name} works: {version}, protocol {}", probe.protocol.unwrap_or_default()));
            output.say(format!("{} tools: {}", probe.tools.len(), probe.tools.join(", ")));
            Ok(0)
        }
        Err(error) => {
            output.json(&json!({"server": name, "ok": false, "problem": error.problem, "stderr": error.stderr}));
            output.say(format!("{name} {}", error.problem));
            for line in &error.stderr {
                output.say(format!("  {line}"));
            }
            Ok(1)
        }
    }
}

fn approve(arguments: &ApproveArguments, config: &Config, output: &Output) -> Outcome {
    let body = json!({"tool": arguments.tool.as_str(), "definition": arguments.definition});
    let answer = Remote::new(&arguments.location, config).ask("/v1/servers/approve", &body)?;
    output.json(&answer);
    output.say(format!("{} is offered again", arguments.tool));
    Ok(0)
}
