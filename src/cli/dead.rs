//! `pml dead`: lists dead letters (refused events) and publishes them again.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::Output;
use super::publish::PublishReport;
use super::remote::Remote;
use super::source::{connect, open_existing};
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, cloud};
use crate::core::intake::Limits;
use crate::gateway::http::DeadLetterDto;
use crate::log::{DeadLetters, DeadPage, StreamDeadLetters};
use crate::nats::Repeats;

/// Dead letters read per page when all are published again.
const PAGE_LETTERS: usize = 500;

#[derive(Subcommand)]
pub(super) enum Command {
    /// List refused events with the reason, oldest first
    List(ListArguments),
    /// Publish refused events again
    Redrive(RedriveArguments),
}

#[derive(Args)]
pub(super) struct ListArguments {
    /// Number of events at most
    #[arg(long, default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct RedriveArguments {
    /// Numbers from the list [default: all]
    numbers: Vec<u64>,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::List(arguments) => list(arguments, &config, output).await,
        Command::Redrive(arguments) => match &arguments.location.nats {
            Some(urls) => redrive_on_nats(urls, &arguments.numbers, &config, output).await,
            None => redrive(&arguments, &config, output),
        },
    }
}

async fn list(arguments: ListArguments, config: &Config, output: &Output) -> Outcome {
    let store: Option<Box<dyn DeadLetters>> = match (&arguments.location.data, &arguments.location.nats) {
        (Some(directory), _) => Some(Box::new(open_existing(directory, config)?)),
        (None, Some(urls)) => {
            Some(Box::new(StreamDeadLetters::new(connect(urls, config).await?, Clock::system(), Limits::from(config).redactor)))
        }
        (None, None) => None,
    };
    let (mut letters, mut after): (Vec<Value>, _) = (Vec::new(), Some(0));
    while let Some(number) = after.filter(|_| letters.len() < arguments.limit) {
        let limit = arguments.limit - letters.len();
        if let Some(store) = &store {
            let page = store.list(number, limit).await.map_err(anyhow::Error::from)?;
            letters.extend(page.letters.into_iter().map(|letter| json!(DeadLetterDto::from(letter))));
            after = page.next;
        } else {
            let page = Remote::new(&arguments.location, config).get(&format!("/v1/dead?after={number}&limit={limit}"))?;
            letters.extend(page["dead"].as_array().cloned().unwrap_or_default());
            after = page["next"].as_u64();
        }
    }
    output.json(&json!({"dead": letters}));
    if letters.is_empty() {
        output.say("no refused events");
        return Ok(0);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row =
        |letter: &Value| ["number", "at", "origin", "message", "event"].map(|name| shorten(&text(&letter[name]))).to_vec();
    output.table(&["number", "time", "origin", "reason", "event"], letters.iter().map(row));
    Ok(0)
}

fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 160;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn redrive(arguments: &RedriveArguments, config: &Config, output: &Output) -> Outcome {
    if arguments.location.data.is_some() {
        return Err(anyhow::anyhow!("events are sent to a running server; start one with `pml serve --data DIR`").into());
    }
    let numbers = (!arguments.numbers.is_empty()).then_some(&arguments.numbers);
    let body = json!({"numbers": numbers}).to_string();
    let (status, answer) =
        Remote::new(&arguments.location, config).post("/v1/dead/redrive", "application/json", body.as_bytes())?;
    let mut report = PublishReport::default();
    report.add(status, answer)?;
    Ok(report.print(output))
}

/// Puts dead letters on the work queue again. A letter that is no event is left in place.
async fn redrive_on_nats(urls: &str, numbers: &[u64], config: &Config, output: &Output) -> Outcome {
    let nats = connect(urls, config).await?;
    let dead = StreamDeadLetters::new(nats.clone(), Clock::system(), Limits::from(config).redactor);
    let (mut after, mut sent, mut unreadable) = (Some(0), Vec::new(), Vec::new());
    while let Some(number) = after {
        let DeadPage { letters: mut page, next, .. } = dead.list(number, PAGE_LETTERS).await.map_err(anyhow::Error::from)?;
        after = next;
        page.retain(|letter| numbers.is_empty() || numbers.contains(&letter.number));
        let mut facts: Vec<NewRecord> = Vec::new();
        let mut numbers_sent = Vec::new();
        for letter in page {
            if let Some(len) = letter.letter.cut_from {
                let error = format!("it was cut from {len} bytes and cannot be sent again");
                unreadable.push(json!({"number": letter.number, "error": error}));
                continue;
            }
            match cloud::from_structured(&letter.letter.bytes, Clock::system().now()) {
                Ok(fact) => {
                    facts.push(fact);
                    numbers_sent.push(letter.number);
                }
                Err(refusal) => unreadable.push(json!({"number": letter.number, "error": refusal.to_string()})),
            }
        }
        nats.enqueue(&facts, Repeats::Accepted).await.map_err(anyhow::Error::from)?;
        // Removed only after they are queued: a letter may be sent twice, but none is lost.
        dead.remove(numbers_sent.clone()).await.map_err(anyhow::Error::from)?;
        sent.extend(numbers_sent);
    }
    output.json(&json!({"queued": sent, "unreadable": unreadable}));
    for letter in &unreadable {
        output.say(format!("{} is kept: {}", letter["number"], letter["error"].as_str().unwrap_or_default()));
    }
    output.say(format!(
        "{} events sent to the work queue; `pml dead list` shows those that are refused again, with the new reason",
        sent.len()
    ));
    Ok(if unreadable.is_empty() { 0 } else { 3 })
}
