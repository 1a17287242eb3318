//! `pml log copy`: copies a log to another data directory or to NATS. An interrupted copy is resumed by running it again.

use std::path::Path;

use anyhow::{bail, ensure};
use clap::Args;
use serde_json::json;

use super::Outcome;
use super::output::Output;
use super::source::{open_existing, open_on_nats};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::core::state::State;
use crate::data_dir::open_log;
use crate::log::{Appended, EventLog, JetStreamLog, RedbLog};

/// Records copied per batch.
const BATCH_RECORDS: usize = 4_096;

#[derive(Args)]
pub(super) struct Arguments {
    /// Source: a data directory, or `nats://host:4222`
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// Target: a data directory, or `nats://host:4222`, that holds no log or the beginning of the source
    #[arg(long, value_name = "DIR|URL")]
    to: String,
}

/// One end of a copy.
enum CopyLog {
    Directory(RedbLog),
    Nats(JetStreamLog),
}

impl CopyLog {
    async fn open(location: &str, config: &Config, must_exist: bool) -> anyhow::Result<Self> {
        Ok(if location.contains("://") {
            Self::Nats(open_on_nats(location, config).await?)
        } else if must_exist {
            Self::Directory(open_existing(Path::new(location), config)?)
        } else {
            Self::Directory(open_log(config, Path::new(location), Clock::system())?)
        })
    }

    fn as_log(&self) -> &dyn EventLog {
        match self {
            Self::Directory(log) => log,
            Self::Nats(log) => log,
        }
    }

    /// Appends the records and keeps their times.
    async fn restore(&self, records: Vec<Record>) -> anyhow::Result<Vec<Appended>> {
        Ok(match self {
            Self::Directory(log) => log.restore(records).await?,
            Self::Nats(log) => log.restore(records).await?,
        })
    }
}

pub(super) async fn run(arguments: Arguments, config: &Config, output: &Output) -> Outcome {
    let from = CopyLog::open(&arguments.from, config, true).await?;
    let to = CopyLog::open(&arguments.to, config, false).await?;
    let bar = output.progress("copying", from.as_log().tail().borrow().0);
    let mut state = State::default();
    let mut copied = 0;
    loop {
        let records = from.as_log().read(state.applied(), BATCH_RECORDS).await?;
        if records.is_empty() {
            break;
        }
        let existing = to.as_log().read(state.applied(), records.len()).await?;
        if let Some((ours, theirs)) = records.iter().zip(&existing).find(|(ours, theirs)| ours != theirs) {
            return Err(
                anyhow::anyhow!("record {} of {} is another one than record {}", theirs.seq, arguments.to, ours.seq).into()
            );
        }
        let missing: Vec<Record> = records[existing.len()..].to_vec();
        copied += missing.len();
        let expected: Vec<Seq> = missing.iter().map(|record| record.seq).collect();
        check_positions(&expected, &to.restore(missing).await?)?;
        bar.inc(records.len() as u64);
        for record in &records {
            state.apply(record);
        }
    }
    bar.finish_and_clear();
    let rest = to.as_log().read(state.applied(), 1).await?;
    if let Some(more) = rest.first() {
        return Err(anyhow::anyhow!("{} goes on after the copy, with record {}", arguments.to, more.seq).into());
    }
    let digest = state.digest().to_string();
    output.json(&json!({"records": state.events(), "copied": copied, "last_seq": state.applied().0, "digest": digest}));
    output.say(format!("{copied} records copied, {} in all up to {}, digest {digest}", state.events(), state.applied()));
    Ok(0)
}

/// Checks that every record kept its position, which is part of the state: a log with gaps cannot be copied into one without.
fn check_positions(expected: &[Seq], appended: &[Appended]) -> anyhow::Result<()> {
    for (seq, appended) in expected.iter().zip(appended) {
        ensure!(!appended.duplicate, "record {seq} repeats the id of record {}", appended.seq);
        if appended.seq != *seq {
            bail!("record {seq} came to stand at {}: the log copied from has holes", appended.seq);
        }
    }
    Ok(())
}
