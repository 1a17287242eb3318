//! `pml import` and `pml export`: read and write dataset directories. An import publishes ordinary events.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::output::Output;
use super::source::Source;
use super::target::Target;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::NewRecord;
use crate::core::id::Seq;
use crate::dataset::{Dataset, Exporter, TRAIN};

/// Events after which the progress is shown.
pub(super) const CHUNK_EVENTS: usize = 500;
/// Skipped lines shown to people, at most.
const SHOWN_MAX: usize = 10;

#[derive(Args)]
pub(super) struct ImportArguments {
    /// Directory with tools.jsonl and traces
    directory: PathBuf,
    /// File of the directory that holds the traces
    #[arg(long, default_value = TRAIN, value_name = "FILE")]
    traces: String,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn import(arguments: ImportArguments, config: Config, output: &Output) -> Outcome {
    let clock = Clock::system();
    let dataset = Dataset::load(&arguments.directory, &arguments.traces, clock.now())?;
    let traces = dataset.traces.len();
    let skipped: Vec<String> = dataset.skipped.iter().map(ToString::to_string).collect();
    for line in skipped.iter().take(SHOWN_MAX) {
        output.say(format!("skipped: {line}"));
    }
    let events = dataset_events(dataset, &clock);
    let bar = output.progress("importing", events.len() as u64);
    let mut target = Target::open(&arguments.location, &config).await?;
    for chunk in events.chunks(CHUNK_EVENTS) {
        target.send(chunk.iter().cloned()).await?;
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    let published = target.finish(output).await?;
    let mut counts = published.json();
    counts["traces"] = json!(traces);
    counts["skipped"] = json!(skipped);
    output.json(&counts);
    published.explain(output);
    output.say(format!("{traces} traces: {}; {} lines skipped", published.text(), skipped.len()));
    Ok(if published.refused == 0 && skipped.is_empty() { 0 } else { 3 })
}

/// Returns the events of a dataset: the tools, then every trace as an agent would publish it.
pub(super) fn dataset_events(dataset: Dataset, clock: &Clock) -> Vec<NewRecord> {
    let traces = dataset.traces.iter().flat_map(|trace| {
        // Each event of a trace has its own microsecond; the clock moves on by as many.
        trace.events(clock.now()).expect("ids were checked when the dataset was read")
    });
    dataset.tools.into_iter().chain(traces).collect()
}

#[derive(Args)]
pub(super) struct ExportArguments {
    /// Directory to write to
    directory: PathBuf,
    /// Share of the traces, the latest ones, to write to `traces_test.jsonl`
    #[arg(long, default_value_t = 0.2)]
    test_share: f64,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn export(arguments: ExportArguments, config: Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, &config).await?;
    let bar = output.progress("reading", source.tail()?.0);
    let mut exporter = Exporter::default();
    let reading = source.visit(Seq::ZERO, |record| {
        exporter.add_record(&record);
        bar.inc(1);
        Ok(true)
    });
    reading.await?;
    bar.finish_and_clear();
    let written = exporter.write(&arguments.directory, arguments.test_share)?;
    output.json(&json!(written));
    let directory = arguments.directory.display();
    output.say(format!("{directory}: {} tools, {} training and {} test traces", written.tools, written.train, written.test));
    Ok(0)
}
