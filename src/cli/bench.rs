//! `pml bench`: speed, as ratios to a floor measured in the same run.

use clap::{Args, Subcommand};
use serde_json::json;

use super::Outcome;
use super::output::Output;
use super::scratch::Scratch;
use crate::bench::{Case, discover, ingest, replay};
use crate::config::Config;

#[derive(Subcommand)]
pub(super) enum Command {
    /// Publishing: the in-process client and HTTP, next to raw redb group commits of the same bytes
    Ingest(IngestArguments),
    /// Answering discover, next to embedding the question and one product with every vector
    Discover,
    /// Folding a log at start, next to a raw scan that only decodes
    Replay(ReplayArguments),
}

#[derive(Args)]
pub(super) struct IngestArguments {
    /// How many events
    #[arg(long, default_value_t = 200_000)]
    events: usize,
}

#[derive(Args)]
pub(super) struct ReplayArguments {
    /// How many events
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    let scratch = Scratch::new("bench")?;
    let (name, cases) = match command {
        Command::Discover => ("discover", discover::run(&config)?),
        Command::Ingest(arguments) => ("ingest", ingest::run(&config, scratch.path(), arguments.events).await?),
        Command::Replay(arguments) => ("replay", replay::run(&config, scratch.path(), arguments.events).await?),
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
