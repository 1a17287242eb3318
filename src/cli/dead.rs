//! `pml dead`: refused events.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::publish::Report;
use super::remote::Remote;
use super::source::open_existing;
use super::{Outcome, Place};
use crate::config::Config;
use crate::dead::DeadLetters;
use crate::gateway::DeadLetterDto;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Refused events with the reason, oldest first
    List(ListArguments),
    /// Send refused events through the door again
    Redrive(RedriveArguments),
}

#[derive(Args)]
pub(super) struct ListArguments {
    /// How many
    #[arg(long, default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(super) struct RedriveArguments {
    /// Numbers from the list; all if none is given
    numbers: Vec<u64>,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::List(arguments) => list(arguments, &config, output).await,
        Command::Redrive(arguments) => redrive(&arguments, &config, output),
    }
}

async fn list(arguments: ListArguments, config: &Config, output: &Output) -> Outcome {
    let letters: Vec<Value> = if let Some(directory) = &arguments.place.data {
        from_directory(directory, arguments.limit, config).await?
    } else {
        let answer = Remote::new(&arguments.place, config).get(&format!("/v1/dead?limit={}", arguments.limit))?;
        answer["dead"].as_array().cloned().unwrap_or_default()
    };
    output.json(&json!({"dead": letters}));
    if letters.is_empty() {
        output.say("no refused events");
        return Ok(0);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row =
        |letter: &Value| ["number", "at", "origin", "message", "event"].map(|name| shorten(&text(&letter[name]))).to_vec();
    output.table(&["number", "at", "from", "why", "event"], letters.iter().map(row));
    Ok(0)
}

async fn from_directory(directory: &Path, limit: usize, config: &Config) -> anyhow::Result<Vec<Value>> {
    let letters = open_existing(directory, config)?.list(0, limit).await?;
    Ok(letters.into_iter().map(|letter| json!(DeadLetterDto::from(letter))).collect())
}

fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 160;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn redrive(arguments: &RedriveArguments, config: &Config, output: &Output) -> Outcome {
    if arguments.place.data.is_some() {
        return Err(anyhow::anyhow!("events are sent to a running server; start one with `pml serve --data DIR`").into());
    }
    let numbers = (!arguments.numbers.is_empty()).then_some(&arguments.numbers);
    let body = json!({"numbers": numbers}).to_string();
    let (status, answer) =
        Remote::new(&arguments.place, config).post("/v1/dead/redrive", "application/json", body.as_bytes())?;
    let mut report = Report::default();
    report.add(status, answer)?;
    Ok(report.print(output))
}
