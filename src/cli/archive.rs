//! `pml log export`: writes the records of a log as Parquet files, which `DuckDB`, Polars and pandas can open.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::archive::ArchiveWriter;
use crate::config::Config;
use crate::core::id::{RecordId, Seq};

#[derive(Args)]
pub(super) struct Arguments {
    /// Directory to write to; records that it already holds are not written again
    directory: PathBuf,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(arguments: Arguments, config: &Config, output: &Output) -> Outcome {
    let source = Source::open(&arguments.location, config).await?;
    let mut archive = ArchiveWriter::open(arguments.directory.as_path())?;
    let after = match archive.last() {
        Some(last) => check_same_log(&source, last, &arguments).await?,
        None => Seq::ZERO,
    };
    let exporting = source.visit_shown("exporting", after, |record| {
        archive.push(&record)?;
        Ok(true)
    });
    exporting.await?;
    let last = archive.last().map_or(Seq::ZERO, |(seq, _)| seq);
    let written = archive.finish()?;
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

/// Checks that the log holds the last record of the files: records of two logs must not be mixed in one archive.
async fn check_same_log(source: &Source, (seq, id): (Seq, RecordId), arguments: &Arguments) -> anyhow::Result<Seq> {
    let mut found = None;
    let reading = source.visit(Seq(seq.0 - 1), |record| {
        found = Some(record.fact.id).filter(|_| record.seq == seq);
        Ok(false)
    });
    reading.await?;
    let directory = arguments.directory.display();
    anyhow::ensure!(found == Some(id), "{directory} holds the events of another log: its last one, {id}, is not at {seq} here");
    Ok(seq)
}
