//! `pml replay`: replays a log to show a past state, to write a new data directory, or to publish a live stream.

use std::path::{Path, PathBuf};

use clap::Args;

use super::emit::{self, Emission};
use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::archive::Archive;
use crate::ask::catalogue;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::Kind;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::history::pace::Speed;
use crate::history::{Moment, Rebuild};
use crate::subject::Subject;

#[derive(Args)]
pub(super) struct Arguments {
    /// Last moment to replay: a position, a time such as 2026-01-31T12:00:00Z, or `now`
    #[arg(long, value_name = "SEQ|TIME", default_value = "now")]
    to: Moment,
    /// Read the files that `pml log export` wrote instead of a log
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "data", "nats"])]
    from_parquet: Option<PathBuf>,
    /// Write a new data directory with the same records at the same positions
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Publish the records on NATS as PREFIX.<kind>
    #[arg(long, value_name = "PREFIX", conflicts_with = "into")]
    publish: Option<Subject>,
    /// Speed relative to the recording, or `max`
    #[arg(long, default_value = "1", requires = "publish")]
    speed: Speed,
    /// The first record to publish: a position or a time
    #[arg(long, value_name = "SEQ|TIME", default_value = "1", requires = "publish")]
    from: Moment,
    /// NATS servers to publish to, separated by commas [default: those of --nats, or nats.servers]
    #[arg(long, value_name = "URL", requires = "publish")]
    bus: Option<String>,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: Config, output: &Output) -> Outcome {
    let source = match &arguments.from_parquet {
        Some(directory) => Source::Archive(Archive::open(directory.as_path())?),
        None => Source::open(&arguments.location, &config).await?,
    };
    if let Some(prefix) = &arguments.publish {
        let servers = arguments.bus.as_deref().or(arguments.location.nats.as_deref());
        let emission = Emission { prefix, servers, speed: arguments.speed, from: arguments.from, to: arguments.to };
        return emit::run(&source, emission, &config, output).await;
    }
    let state = match &arguments.into {
        Some(target) => rebuild(&source, arguments.to, target, &config, output).await?,
        None => source.state(arguments.to).await?,
    };
    if let Some(target) = &arguments.into {
        output.say(format!("{} holds the records up to {}", target.display(), state.applied()));
    }
    print(&state, output);
    Ok(0)
}

async fn rebuild(source: &Source, to: Moment, target: &Path, config: &Config, output: &Output) -> anyhow::Result<State> {
    let mut rebuild = Rebuild::begin(target, config, Clock::system())?;
    copy(source, to, &mut rebuild, output).await?;
    Ok(rebuild.finish().await?)
}

/// Copies the records up to a moment into a data directory that is being built.
pub(super) async fn copy(source: &Source, to: Moment, into: &mut Rebuild, output: &Output) -> anyhow::Result<()> {
    source.check(to).await?;
    let bar = output.progress("writing", source.tail()?.0);
    let copying = source.walk(Seq::ZERO, async |record| {
        let included = to.includes(&record);
        if included {
            into.push(record).await?;
            bar.inc(1);
        }
        Ok(included)
    });
    copying.await?;
    bar.finish_and_clear();
    Ok(())
}

/// Prints position, digest and counts of a state.
fn print(state: &State, output: &Output) {
    let summary = catalogue::state(state);
    output.json(&summary);
    output.say(format!("state at {}, digest {}", state.applied(), state.digest()));
    let sizes = ["tools", "capabilities", "edges", "traces", "open_executions", "intents", "texts_embedded"];
    let size_rows = sizes.map(|name| vec![name.replace('_', " "), summary[name].to_string()]);
    let kinds = Kind::ALL.into_iter().filter(|kind| state.count(*kind) > 0);
    let kind_rows = kinds.map(|kind| vec![kind.name().to_owned(), state.count(kind).to_string()]);
    output.table(&["item", "count"], size_rows.into_iter().chain(kind_rows));
}
