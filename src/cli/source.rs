//! Reading records, from a running server or from a data directory.

use std::path::Path;

use super::Place;
use super::remote::Remote;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{Record, cloud};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::log::{EventLog, RedbLog};
use crate::runtime::open_log;

const BATCH_RECORDS: usize = 4_096;

pub(super) enum Source {
    Directory(Box<RedbLog>),
    Server(Remote),
}

impl Source {
    pub(super) fn open(place: &Place, config: &Config) -> anyhow::Result<Self> {
        match &place.data {
            Some(directory) => Ok(Self::Directory(Box::new(open_existing(directory, config)?))),
            None => Ok(Self::Server(Remote::new(place, config))),
        }
    }

    pub(super) fn tail(&self) -> anyhow::Result<Seq> {
        match self {
            Self::Directory(log) => Ok(*log.tail().borrow()),
            Self::Server(remote) => Ok(Seq(remote.get("/readyz")?["tail_seq"].as_u64().unwrap_or(0))),
        }
    }

    /// Everything folded.
    pub(super) async fn state(&self) -> anyhow::Result<State> {
        let mut state = State::default();
        let fold = |record: Record| {
            state.apply(&record);
            Ok(true)
        };
        self.visit(Seq::ZERO, fold).await?;
        Ok(state)
    }

    /// Visits the records after `after` up to the present tail, until `visit` says to stop.
    pub(super) async fn visit(&self, after: Seq, mut visit: impl FnMut(Record) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        match self {
            Self::Directory(log) => {
                let mut after = after;
                loop {
                    let records = log.read(after, BATCH_RECORDS).await?;
                    let Some(last) = records.last() else { return Ok(()) };
                    after = last.seq;
                    for record in records {
                        if !visit(record)? {
                            return Ok(());
                        }
                    }
                }
            }
            Self::Server(remote) => {
                let path = format!("/v1/events?from={}", after.next());
                for line in remote.lines(&path, "application/x-ndjson")? {
                    if !visit(parse_record(&line?)?)? {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

/// A log that must be there already.
pub(super) fn open_existing(directory: &Path, config: &Config) -> anyhow::Result<RedbLog> {
    anyhow::ensure!(RedbLog::exists(directory), "{} holds no pml log", directory.display());
    Ok(open_log(config, directory, Clock::system())?)
}

/// A record as the server streams it.
pub(super) fn parse_record(line: &str) -> anyhow::Result<Record> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    let seq = value["seq"].as_u64().ok_or_else(|| anyhow::anyhow!("the server sent a record without seq"))?;
    let recorded_at = value["recordedat"].as_str().unwrap_or_default().parse()?;
    let fact = cloud::from_structured(line.as_bytes(), recorded_at)?;
    Ok(Record { seq: Seq(seq), recorded_at, fact: fact.into() })
}
