//! `pml bench`: measures speed, as a ratio to a floor measured in the same run.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Outcome;
use super::output::Output;
use super::scratch::Scratch;
use crate::bench::scale::{Curves, Exponents, SizeCosts};
use crate::bench::{
    self, Case, code, dashboard, discover, execute, ingest, learn, paths, predict, replay, scale, shgat, snapshot, stream,
};
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
    /// Read a session of Claude Code; floor: its lines parsed with `serde_json`
    Learn(LearnArguments),
    /// Change hyperedges, ask for paths and suggest plans; floors: Dijkstra from scratch, a search, and one discover
    Paths,
    /// Pass messages, score and train with SHGAT; floor: one matrix product with as many multiplications
    Shgat,
    /// Time from publishing a step to receiving the prediction, embedded and over NATS; floor: a durable append of the same bytes and one delivery
    Stream(StreamArguments),
    /// Publish while 50 pages are open, and predict while the time slider is dragged; floors: without
    Dashboard(DashboardArguments),
    /// Fold a log at start; floor: a scan that only decodes
    Replay(ReplayArguments),
    /// What a growing history costs: disk, fold, memory, start; with the exponent of each
    Scale(ScaleArguments),
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
pub(super) struct LearnArguments {
    /// Size of the session
    #[arg(long, default_value_t = 200)]
    megabytes: usize,
}

#[derive(Args)]
pub(super) struct SnapshotArguments {
    /// Number of events
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
    #[command(flatten)]
    nats: NatsArguments,
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
pub(super) struct ScaleArguments {
    /// Numbers of events, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000,5000000,20000000")]
    events: Vec<usize>,
}

#[derive(Args)]
pub(super) struct DashboardArguments {
    /// Duration of each part in seconds
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Be the pages of the measurement
    #[arg(long, hide = true)]
    pages: Option<SocketAddr>,
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
    if let Command::Dashboard(DashboardArguments { pages: Some(address), .. }) = command {
        dashboard::pages(address)?;
        return Ok(0);
    }
    // A training run beside a measurement would be measured.
    config.trainer.enabled = false;
    let scratch = Scratch::new("bench")?;
    let path = scratch.path();
    let measuring = output.working("measuring");
    if let Command::Scale(ScaleArguments { events }) = command {
        let curves = scale::run(&config, path, events).await?;
        drop(measuring);
        print_curves(&curves, output);
        return Ok(0);
    }
    let (name, cases) = match command {
        Command::Execute(_) => ("execute", execute::run(&config, path).await?),
        Command::Scale(_) => unreachable!("it was measured above"),
        Command::Discover => ("discover", discover::run(&config)?),
        Command::Predict => ("predict", predict::run(&config.trainer)?),
        Command::Code => ("code", code::run(&config).await?),
        Command::Learn(arguments) => ("learn", learn::run(path, arguments.megabytes)?),
        Command::Paths => ("paths", paths::run(&config)?),
        Command::Shgat => ("shgat", shgat::run()?),
        Command::Dashboard(arguments) => ("dashboard", dashboard::run(&config, path, arguments.seconds).await?),
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
        Command::Snapshot(SnapshotArguments { events, nats }) if nats.nats => {
            ("snapshot", bench::nats::startup::run(&config, &nats.nats_server, path, events).await?)
        }
        Command::Snapshot(arguments) => ("snapshot", snapshot::run(&config, path, arguments.events).await?),
        Command::Replay(arguments) => ("replay", replay::run(&config, path, arguments.events).await?),
    };
    drop(measuring);
    output.json(&json!({"bench": name, "cases": cases}));
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    let row = |case: &Case| {
        let Case { case, value, unit, floor, ratio } = case;
        vec![(*case).to_owned(), number(Some(*value), 0), (*unit).to_owned(), number(*floor, 0), number(*ratio, 2)]
    };
    output.table(&["case", "value", "unit", "floor", "ratio"], cases.iter().map(row));
    Ok(0)
}

/// Prints a row for each size, and one with the exponents.
fn print_curves(curves: &Curves, output: &Output) {
    output.json(&json!({"bench": "scale", "sizes": curves.sizes, "exponents": curves.exponents}));
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    let row = |size: &SizeCosts| {
        let SizeCosts { records, log_mb, fold_s, peak_memory_mb, snapshot_mb, start_ms } = *size;
        let costs = [(Some(log_mb), 0), (Some(fold_s), 2), (peak_memory_mb, 0), (Some(snapshot_mb), 1), (Some(start_ms), 0)];
        let costs = costs.map(|(cost, digits)| number(cost, digits));
        std::iter::once(number(Some(records), 0)).chain(costs).collect::<Vec<_>>()
    };
    let exponents = curves.exponents.iter().map(|exponents| {
        let Exponents { log, fold, peak_memory, snapshot, start } = *exponents;
        let costs = [log, fold, peak_memory, snapshot, start].map(|exponent| number(exponent, 2));
        std::iter::once("exponent".to_owned()).chain(costs).collect()
    });
    let columns = ["records", "log MB", "fold s", "peak memory MB", "snapshot MB", "start ms"];
    output.table(&columns, curves.sizes.iter().map(row).chain(exponents));
}
