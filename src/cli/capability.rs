//! `pml capability`: what a person decides about a capability; each decision can be taken back with `--undo`.

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::source::Source;
use super::train::writable;
use super::{LogLocation, Outcome};
use crate::ask::catalogue;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::intake::Limits;
use crate::decisions::{Decision, decision, decision_record};
use crate::history::Moment;
use crate::log::append_patiently;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Give a capability another name
    Rename(RenameArguments),
    /// Let another capability stand for this one too: it is no longer offered, and its runs count for the other
    Merge(MergeArguments),
    /// Mark a capability as approved by a person
    Approve(SwitchArguments),
    /// Stop offering a capability
    Retire(SwitchArguments),
}

#[derive(Args)]
pub(super) struct RenameArguments {
    /// Capability: its id or handle
    capability: String,
    /// New name
    #[arg(required_unless_present = "undo", conflicts_with = "undo")]
    name: Option<String>,
    /// Take the renaming back
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct MergeArguments {
    /// Capability: its id or handle
    capability: String,
    /// Capability that stands for both
    #[arg(required_unless_present = "undo", conflicts_with = "undo")]
    into: Option<String>,
    /// Take the merging back
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct SwitchArguments {
    /// Capability: its id or handle
    capability: String,
    /// Take the decision back
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    let (capability, wanted, location) = match command {
        Command::Rename(RenameArguments { capability, name, location, .. }) => (capability, Decision::Rename(name), location),
        Command::Merge(MergeArguments { capability, into, location, .. }) => (capability, Decision::Merge(into), location),
        Command::Approve(SwitchArguments { capability, undo, location }) => (capability, Decision::Approve(!undo), location),
        Command::Retire(SwitchArguments { capability, undo, location }) => (capability, Decision::Retire(!undo), location),
    };
    let changed = match Source::open(&location, &config).await? {
        Source::Server(remote) => {
            let (route, body) = match &wanted {
                Decision::Rename(name) => ("rename", json!({"name": name})),
                Decision::Merge(into) => ("merge", json!({"into": into})),
                Decision::Approve(approved) => ("approve", json!({"approved": approved})),
                Decision::Retire(retired) => ("retire", json!({"retired": retired})),
            };
            let name = capability.strip_prefix("capability:").unwrap_or(&capability);
            remote.ask(&format!("/v1/capabilities/{name}/{route}"), &body)?
        }
        source => record(&source, &capability, wanted, &config).await?,
    };
    let of = &changed["capability"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut state = vec![text(&of["status"])];
    state.extend(of["retired"].as_bool().filter(|retired| *retired).map(|_| "retired".to_owned()));
    state.extend(of["merged_into"].as_str().map(|into| format!("merged into {into}")));
    output.json(&changed);
    output.say(format!("capability:{} is called '{}': {}", text(&of["handle"]), text(&of["name"]), state.join(", ")));
    Ok(0)
}

/// Records a decision in a log that no server holds.
async fn record(source: &Source, capability: &str, wanted: Decision, config: &Config) -> anyhow::Result<Value> {
    let mut state = source.state(Moment::Now).await?;
    let (id, event) = decision(&state, capability, wanted, &Limits::from(config).redactor)?;
    let log = writable(source).expect("a location is a server or a log");
    let appended = append_patiently(log, vec![Arc::new(decision_record(event, &Clock::system()))]).await?;
    let folding = source.visit(state.applied(), |record| {
        state.apply(&record);
        Ok(true)
    });
    folding.await?;
    Ok(json!({"capability": catalogue::capability(&state, id), "seq": appended.first().map(|appended| appended.seq.0)}))
}
