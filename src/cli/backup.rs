//! `pml backup` and `pml restore`: a log as one file. A running server can be backed up.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use futures_util::StreamExt;
use serde_json::json;

use super::output::Output;
use super::source::Source;
use super::{LogLocation, Outcome};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::id::Seq;
use crate::history::Rebuild;
use crate::history::backup::{Decoder, encode_log};
use crate::private;

#[derive(Args)]
pub(super) struct BackupArguments {
    /// File to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct RestoreArguments {
    /// File that `pml backup` wrote
    file: PathBuf,
    /// Data directory to create; it must be empty or missing [default: the configured `data_dir`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(super) async fn backup(arguments: BackupArguments, config: Config, output: &Output) -> Outcome {
    let file = &arguments.file;
    if file.exists() {
        return Err(anyhow::anyhow!("{} exists; a backup overwrites nothing", file.display()).into());
    }
    let source = Source::open(&arguments.location, &config).await?;
    let part = part_path(file);
    let written = match write(&source, &part, output).await {
        Ok(()) => check(&part, output),
        Err(error) => Err(error),
    };
    let (records, last) = match written {
        Ok(checked) => checked,
        Err(error) => {
            // An incomplete file must not be mistaken for a backup. The first error matters more than one of removing it.
            drop(std::fs::remove_file(&part));
            return Err(error.into());
        }
    };
    std::fs::rename(&part, file).with_context(|| format!("cannot write {}", file.display()))?;
    let bytes = file.metadata()?.len();
    output.json(&json!({"file": file, "records": records, "last_seq": last.0, "bytes": bytes}));
    output.say(format!("{}: {records} records up to {last}, {bytes} bytes", file.display()));
    Ok(0)
}

fn part_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

async fn write(source: &Source, part: &Path, output: &Output) -> anyhow::Result<()> {
    let file = private::create_file(part).with_context(|| format!("cannot write {}", part.display()))?;
    let bar = output.progress("bytes written:", 0);
    let mut writer = BufWriter::new(bar.wrap_write(&file));
    match source {
        Source::Server(remote) => drop(std::io::copy(&mut remote.bytes("/v1/backup")?, &mut writer)?),
        Source::Log(log, _) => {
            let mut pieces = std::pin::pin!(encode_log(Arc::clone(log)));
            while let Some(piece) = pieces.next().await {
                writer.write_all(&piece?)?;
            }
        }
        Source::Archive(_) => anyhow::bail!("the files of `pml log export` are their own backup"),
    }
    writer.flush()?;
    Ok(file.sync_all()?)
}

/// Reads the whole file again, to be sure that it can be restored. Returns the number of records and the last position.
fn check(part: &Path, output: &Output) -> anyhow::Result<(u64, Seq)> {
    let bar = output.progress("records checked:", 0);
    let (mut count, mut last) = (0, Seq::ZERO);
    for records in decoder(part)? {
        let records = records?;
        count += records.len() as u64;
        bar.set_position(count);
        last = records.last().map_or(last, |record| record.seq);
    }
    Ok((count, last))
}

fn decoder(file: &Path) -> anyhow::Result<Decoder<impl Read>> {
    let input = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Decoder::begin(BufReader::new(input)).with_context(|| file.display().to_string())
}

pub(super) async fn restore(arguments: RestoreArguments, config: Config, output: &Output) -> Outcome {
    let target = arguments.data.as_deref().unwrap_or(&config.data_dir);
    let decoder = decoder(&arguments.file)?;
    let mut rebuild = Rebuild::begin(target, &config, Clock::system())?;
    let bar = output.progress("records restored:", 0);
    for records in decoder {
        for record in records.with_context(|| arguments.file.display().to_string())? {
            rebuild.push(record).await?;
            bar.inc(1);
        }
    }
    let state = rebuild.finish().await?;
    bar.finish_and_clear();
    let digest = state.digest().to_string();
    output.json(&json!({"data_dir": target, "records": state.events(), "last_seq": state.applied().0, "digest": digest}));
    output.say(format!("{}: {} records up to {}, digest {digest}", target.display(), state.events(), state.applied()));
    Ok(0)
}
