//! `pml log`: reads, copies, exports and verifies the records of a log.

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;

use super::output::{Output, print_line};
use super::source::{Source, open_existing, parse_record};
use super::{LogLocation, Outcome};
use crate::config::Config;
use crate::core::event::{Event, Kind, ModelVersion, Record, cloud};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::history::Moment;
use crate::log::{ForeignMessages, OpenError};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Print the last records, then new ones as they are appended
    Tail(TailArguments),
    /// Print the records in order
    Cat(CatArguments),
    /// Copy a log from a data directory to NATS or back; the state folded from the copy is the same, bit for bit
    Copy(super::copy::Arguments),
    /// Write the records as Parquet files, by day; a second run adds new records
    Export(super::archive::Arguments),
    /// Check the checksums and the order of all records, fold them and print the digest
    Verify(VerifyArguments),
}

#[derive(Args)]
pub(super) struct TailArguments {
    /// Number of last records
    #[arg(short = 'n', long, default_value_t = 10)]
    lines: u64,
    /// Do not wait for new records (implied by --data)
    #[arg(long)]
    no_follow: bool,
    /// With --json, include vectors of texts and parameters of models
    #[arg(long)]
    vectors: bool,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct CatArguments {
    /// First position
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Last position, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "SEQ|TIME", default_value = "now")]
    to: Moment,
    /// Only records of this kind
    #[arg(long)]
    kind: Option<String>,
    /// With --json, include vectors of texts and parameters of models
    #[arg(long)]
    vectors: bool,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct VerifyArguments {
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::Tail(arguments) => tail(arguments, &config, output).await,
        Command::Cat(arguments) => cat(arguments, &config, output).await,
        Command::Copy(arguments) => super::copy::run(arguments, &config, output).await,
        Command::Export(arguments) => super::archive::run(arguments, &config, output).await,
        Command::Verify(arguments) => verify(arguments, &config, output).await,
    }
}

async fn tail(arguments: TailArguments, config: &Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, config).await?;
    let mut after = Seq(source.tail()?.0.saturating_sub(arguments.lines));
    let reading = source.visit(after, |record| {
        after = record.seq;
        print(&record, arguments.vectors, output);
        Ok(true)
    });
    reading.await?;
    if let (Source::Server(remote), false) = (&source, arguments.no_follow) {
        for line in remote.lines(&format!("/v1/events?from={}&vectors=true", after.next()), "text/event-stream")? {
            if let Some(data) = line?.strip_prefix("data: ") {
                print(&parse_record(data)?, arguments.vectors, output);
            }
        }
    }
    Ok(0)
}

async fn cat(arguments: CatArguments, config: &Config, output: &Output) -> Outcome {
    let kind: Option<Kind> = match &arguments.kind {
        Some(name) => Some(name.parse().map_err(|_| anyhow::anyhow!("--kind: '{name}' is no kind of event"))?),
        None => None,
    };
    let source = Source::open(&arguments.location, config).await?;
    source.check(arguments.to).await?;
    let reading = source.visit(Seq(arguments.from.saturating_sub(1)), |record| {
        if !arguments.to.includes(&record) {
            return Ok(false);
        }
        if kind.is_none_or(|kind| record.event().kind() == kind) {
            print(&record, arguments.vectors, output);
        }
        Ok(true)
    });
    reading.await?;
    Ok(0)
}

fn print(record: &Record, vectors: bool, output: &Output) {
    if output.is_json() {
        print_line(&cloud::record_to_text(record, vectors));
    } else {
        let kind = record.event().kind();
        print_line(&format!("{:>8}  {}  {:<19} {}", record.seq.0, record.fact.time, kind.name(), summary(record.event())));
    }
}

/// Describes an event in one line.
fn summary(event: &Event) -> String {
    let outcome = |success: bool| if success { "ok" } else { "failed" };
    match event {
        Event::ToolRegistered(event) => event.tool.to_string(),
        Event::ToolRemoved(event) => event.tool.to_string(),
        Event::ToolQuarantined(event) => event.listed.tool.to_string(),
        Event::ToolApproved(event) => format!("{}  {}", event.tool, event.definition),
        Event::ToolOutputInferred(event) => event.tool.to_string(),
        Event::ExecutionStarted(event) => format!("{}  {:?}", event.execution, event.intent),
        Event::StepStarted(event) => format!("{}  {} {}", event.execution, event.step, event.tool),
        Event::StepFinished(event) => format!("{}  {} {} {}", event.execution, event.step, event.tool, outcome(event.success)),
        Event::StepSpeculated(event) => {
            let used = if event.used { "used" } else { "dropped" };
            format!("{}  {} {} {}, {used}", event.execution, event.step, event.tool, outcome(event.success))
        }
        Event::ExecutionFinished(event) => format!("{}  {}", event.execution, outcome(event.success)),
        Event::CapabilityDeclared(event) => event.name.clone(),
        Event::CapabilityRenamed(event) => {
            format!("{}  {}", event.capability, event.name.as_deref().unwrap_or("its own name again"))
        }
        Event::CapabilityMerged(event) => {
            let into = event.into.map_or_else(|| "itself again".to_owned(), |into| into.to_string());
            format!("{}  into {into}", event.capability)
        }
        Event::CapabilityApproved(event) => {
            format!("{}  {}", event.capability, if event.approved { "approved" } else { "no longer approved" })
        }
        Event::CapabilityRetired(event) => {
            format!("{}  {}", event.capability, if event.retired { "retired" } else { "in use again" })
        }
        Event::FeedbackGiven(event) => format!("{:?}", event.verdict),
        Event::TemplateLoaded(event) => format!("{} ({} edges)", event.name, event.edges.len()),
        Event::TraceCompleted(event) => format!("{}  {} steps, {}", event.execution, event.steps.len(), outcome(event.success)),
        Event::EmbeddingComputed(event) => format!("{} {}", event.model, event.text_hash),
        Event::PredictionServed(event) => format!("{} candidates", event.ranked.len()),
        Event::ModelTrained(event) => {
            format!("{}  {}: {}", event.version, if event.accepted { "accepted" } else { "refused" }, event.reason)
        }
        Event::ModelParameters(event) => {
            format!("{}  piece {} of {}, {} bytes", event.version, event.piece + 1, event.pieces, event.bytes.len())
        }
        Event::ModelPromoted(event) => format!("{}  {}", event.version, event.reason),
        Event::ModelRolledBack(event) => {
            let to = event.to.as_ref().map_or("none", ModelVersion::as_str);
            format!("{} back to {to}  {}", event.part, event.reason)
        }
        Event::LogForked(event) => format!("after {} of another log, {} settings", event.parent_seq, event.settings.len()),
    }
}

async fn verify(arguments: VerifyArguments, config: &Config, output: &Output) -> Outcome {
    let (source, mut problems) = match &arguments.location.data {
        Some(directory) => {
            let log = match open_existing(directory, config) {
                Ok(log) => Arc::new(log),
                // A log too damaged to be opened is a finding, not a failure of the command.
                Err(error) if error.downcast_ref().is_some_and(|error| matches!(error, OpenError::Damaged { .. })) => {
                    return Ok(report(&State::default(), &[error_chain(&error)], &ForeignMessages::default(), output));
                }
                Err(error) => return Err(error.into()),
            };
            let problems = {
                let _checking = output.working("checking the file");
                log.verify().await?
            };
            (Source::Log(log, Source::snapshot_store(directory, config)?), problems)
        }
        None => (Source::open(&arguments.location, config).await?, Vec::new()),
    };
    let mut state = State::default();
    let damaged = !problems.is_empty();
    let reading = source.visit_shown("verifying", Seq::ZERO, |record| {
        if record.seq <= state.applied() {
            problems.push(format!("record {} stands after record {}", record.seq, state.applied()));
        }
        if state.knows(record.fact.id) {
            problems.push(format!("record {} repeats the id {}", record.seq, record.fact.id));
        }
        state.apply(&record);
        Ok(true)
    });
    if let Err(error) = reading.await
        && !damaged
    {
        problems.push(error_chain(&error));
    }
    if let Source::Server(remote) = &source {
        let serving = remote.get("/v1/state")?;
        let same_position = serving["applied_seq"].as_u64() == Some(state.applied().0);
        if same_position && serving["digest"].as_str() != Some(&state.digest().to_string()) {
            problems.push(format!("the server's state at {} differs from a fold of its log", state.applied()));
        }
    }
    Ok(report(&state, &problems, &source.foreign(), output))
}

/// Returns an error with its causes.
fn error_chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Prints the result of verifying and returns the exit code.
fn report(state: &State, problems: &[String], foreign: &ForeignMessages, output: &Output) -> u8 {
    let digest = state.digest().to_string();
    // ForeignMessages messages are not damage: every reader skips the same ones.
    output.json(&json!({
        "records": state.events(),
        "last_seq": state.applied().0,
        "digest": digest,
        "problems": problems,
        "foreign": foreign.count,
    }));
    for shown in &foreign.shown {
        output.say(format!("skipped: {shown}"));
    }
    for problem in problems {
        output.say(format!("damaged: {problem}"));
    }
    output.say(format!("{} records up to {}, digest {digest}", state.events(), state.applied()));
    if problems.is_empty() { 0 } else { 5 }
}
