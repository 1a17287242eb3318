//! `pml log copy`: the same records in another place. A copy that was interrupted goes on where it stopped.

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

/// Records under way at once.
const BATCH_RECORDS: usize = 4_096;

#[derive(Args)]
pub(super) struct Arguments {
    /// Data directory, or `nats://host:4222`
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Data directory, or `nats://host:4222`; it holds no log, or the beginning of this one
    #[arg(long, value_name = "PLACE")]
    to: String,
}

enum Log {
    Directory(RedbLog),
    Nats(JetStreamLog),
}

impl Log {
    async fn open(place: &str, config: &Config, must_exist: bool) -> anyhow::Result<Self> {
        Ok(if place.contains("://") {
            Self::Nats(open_on_nats(place, config).await?)
        } else if must_exist {
            Self::Directory(open_existing(Path::new(place), config)?)
        } else {
            Self::Directory(open_log(config, Path::new(place), Clock::system())?)
        })
    }

    fn as_log(&self) -> &dyn EventLog {
        match self {
            Self::Directory(log) => log,
            Self::Nats(log) => log,
        }
    }

    /// Appends with the times the records have.
    async fn restore(&self, records: Vec<Record>) -> anyhow::Result<Vec<Appended>> {
        Ok(match self {
            Self::Directory(log) => log.restore(records).await?,
            Self::Nats(log) => log.restore(records).await?,
        })
    }
}

pub(super) async fn run(arguments: Arguments, config: &Config, output: &Output) -> Outcome {
    let from = Log::open(&arguments.from, config, true).await?;
    let to = Log::open(&arguments.to, config, false).await?;
    let bar = output.progress("copying", from.as_log().tail().borrow().0);
    let mut state = State::default();
    let mut copied = 0;
    loop {
        let records = from.as_log().read(state.applied(), BATCH_RECORDS).await?;
        if records.is_empty() {
            break;
        }
        let there = to.as_log().read(state.applied(), records.len()).await?;
        if let Some((ours, theirs)) = records.iter().zip(&there).find(|(ours, theirs)| ours != theirs) {
            return Err(
                anyhow::anyhow!("record {} of {} is another one than record {}", theirs.seq, arguments.to, ours.seq).into()
            );
        }
        let missing: Vec<Record> = records[there.len()..].to_vec();
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

/// A log with holes cannot be copied into one that has none: the positions are part of what the state knows.
fn check_positions(expected: &[Seq], appended: &[Appended]) -> anyhow::Result<()> {
    for (seq, appended) in expected.iter().zip(appended) {
        ensure!(!appended.duplicate, "record {seq} repeats the id of record {}", appended.seq);
        if appended.seq != *seq {
            bail!("record {seq} came to stand at {}: the log copied from has holes", appended.seq);
        }
    }
    Ok(())
}
