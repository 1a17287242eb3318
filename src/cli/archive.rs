//! `pml log export`: the records as Parquet files that `DuckDB`, Polars and pandas open.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::config::Config;
use crate::core::id::{RecordId, Seq};
use crate::history::ArchiveWriter;

#[derive(Args)]
pub(super) struct Arguments {
    /// Directory to write, or to add to: what it holds already is not written again
    directory: PathBuf,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: &Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, config).await?;
    let mut appender = ArchiveWriter::open(&arguments.directory)?;
    let after = match appender.last() {
        Some(last) => check_same_log(&source, last, &arguments).await?,
        None => Seq::ZERO,
    };
    let bar = output.progress("exporting", source.tail()?.0.saturating_sub(after.0));
    let exporting = source.visit(after, |record| {
        appender.push(&record)?;
        bar.inc(1);
        Ok(true)
    });
    exporting.await?;
    bar.finish_and_clear();
    let last = appender.last().map_or(Seq::ZERO, |(seq, _)| seq);
    let written = appender.finish()?;
    let directory = arguments.directory.display();
    output.json(&json!({
        "directory": arguments.directory, "files": written.files, "records": written.records, "bytes": written.bytes,
    }));
    output.say(match written.records {
        0 => format!("{directory}: nothing new after {last}"),
        records => format!("{directory}: {records} records added in {} files, {} bytes", written.files, written.bytes),
    });
    Ok(0)
}

/// The log must hold the last record of the files: adding to the files of another log would make a history that never was.
async fn check_same_log(source: &Source, (seq, id): (Seq, RecordId), arguments: &Arguments) -> anyhow::Result<Seq> {
    let mut there = None;
    let looking = source.visit(Seq(seq.0 - 1), |record| {
        there = Some(record.fact.id).filter(|_| record.seq == seq);
        Ok(false)
    });
    looking.await?;
    let directory = arguments.directory.display();
    anyhow::ensure!(there == Some(id), "{directory} holds the events of another log: its last one, {id}, is not at {seq} here");
    Ok(seq)
}
