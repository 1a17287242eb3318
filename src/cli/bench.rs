//! `pml bench`: measures speed, as a ratio to a floor measured in the same run.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Outcome;
use super::output::Output;
use super::scratch::Scratch;
use crate::bench::{self, Case, code, discover, execute, ingest, paths, predict, replay, shgat, snapshot, stream};
use crate::config::Config;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Publish events in process and over HTTP; floor: raw redb group commits of the same bytes
    Ingest(IngestArguments),
    /// Answer discover; floor: embedding the question and one product with every vector
    Discover,
    /// Answer predict; floor: embedding the question and one product with every vector; while a model is trained: without training
    Predict,
    /// Run workflows; floor: the same calls made directly, the longest task, all runs
    Execute(ExecuteArguments),
    /// Start programs, make calls from them and read one; floors: what a start may take, a round trip between processes
    Code,
    /// Change hyperedges, ask for paths and suggest plans; floors: Dijkstra from scratch, a search, and one discover
    Paths,
    /// Pass messages, score and train with SHGAT; floor: one matrix product with as many multiplications
    Shgat,
    /// Time from publishing a step to receiving the prediction, embedded and over NATS; floor: a bare NATS round trip
    Stream(StreamArguments),
    /// Fold a log at start; floor: a scan that only decodes
    Replay(ReplayArguments),
    /// Write and read snapshots, start from one, and publish while one is taken
    Snapshot(SnapshotArguments),
}

#[derive(Args)]
pub(super) struct ExecuteArguments {
    /// Be the MCP server of the measurement
    #[arg(long, hide = true)]
    serve: bool,
}

#[derive(Args)]
pub(super) struct SnapshotArguments {
    /// Number of events
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
}

#[derive(Args)]
pub(super) struct IngestArguments {
    /// Number of events
    #[arg(long, default_value_t = 200_000)]
    events: usize,
    #[command(flatten)]
    nats: NatsArguments,
}

#[derive(Args)]
struct NatsArguments {
    /// Measure with the log on JetStream, on a nats-server started for the run
    #[arg(long)]
    nats: bool,
    /// The nats-server program
    #[arg(long, env = "PML_NATS_SERVER", value_name = "PATH", default_value = "nats-server")]
    nats_server: PathBuf,
}

#[derive(Args)]
pub(super) struct ReplayArguments {
    /// Number of events
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
    #[command(flatten)]
    nats: NatsArguments,
}

#[derive(Args)]
pub(super) struct StreamArguments {
    /// Duration of each rate in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// The nats-server program
    #[arg(long, env = "PML_NATS_SERVER", value_name = "PATH", default_value = "nats-server")]
    nats_server: PathBuf,
}

pub(super) async fn run(command: Command, mut config: Config, output: &Output) -> Outcome {
    if matches!(command, Command::Execute(ExecuteArguments { serve: true })) {
        execute::serve()?;
        return Ok(0);
    }
    // A training run beside a measurement would be measured.
    config.trainer.enabled = false;
    let scratch = Scratch::new("bench")?;
    let path = scratch.path();
    let (name, cases) = match command {
        Command::Execute(_) => ("execute", execute::run(&config, path).await?),
        Command::Discover => ("discover", discover::run(&config)?),
        Command::Predict => ("predict", predict::run(&config.trainer)?),
        Command::Code => ("code", code::run(&config).await?),
        Command::Paths => ("paths", paths::run(&config)?),
        Command::Shgat => ("shgat", shgat::run()?),
        Command::Stream(StreamArguments { seconds, nats_server }) => {
            ("stream", stream::run(&config, &nats_server, path, seconds).await?)
        }
        Command::Ingest(IngestArguments { events, nats }) if nats.nats => {
            ("ingest", bench::nats::ingest(&config, &nats.nats_server, path, events).await?)
        }
        Command::Ingest(arguments) => ("ingest", ingest::run(&config, path, arguments.events).await?),
        Command::Replay(ReplayArguments { events, nats }) if nats.nats => {
            ("replay", bench::nats::replay(&config, &nats.nats_server, path, events).await?)
        }
        Command::Snapshot(arguments) => ("snapshot", snapshot::run(&config, path, arguments.events).await?),
        Command::Replay(arguments) => ("replay", replay::run(&config, path, arguments.events).await?),
    };
    output.json(&json!({"bench": name, "cases": cases}));
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    let row = |case: &Case| {
        let Case { case, value, unit, floor, ratio } = case;
        vec![(*case).to_owned(), number(Some(*value), 0), (*unit).to_owned(), number(*floor, 0), number(*ratio, 2)]
    };
    output.table(&["case", "value", "unit", "floor", "ratio"], cases.iter().map(row));
    Ok(0)
}
