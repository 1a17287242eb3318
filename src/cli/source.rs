//! Sources of records for the commands: a running server, a data directory, NATS, or Parquet files.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use super::LogLocation;
use super::output::{progress_bar, working};
use super::remote::Remote;
use crate::archive::Archive;
use crate::ask::Asker;
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::core::event::{Record, cloud};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::data_dir::{open_log, stream_options};
use crate::history::Moment;
use crate::log::{ForeignMessages, JetStreamLog, RedbLog, SharedLog};
use crate::nats::Nats;
use crate::snapshot::{self, Store};
use crate::subject::Subjects;

/// Records read per batch.
const BATCH_RECORDS: usize = 4_096;

/// A source of records.
pub(super) enum Source {
    /// A log in a data directory or on NATS, and the store of its snapshots.
    Log(SharedLog, Store),
    Server(Remote),
    Archive(Archive),
}

impl Source {
    /// Opens the log that the arguments name.
    pub(super) async fn open(location: &LogLocation, config: &Config) -> anyhow::Result<Self> {
        match (&location.data, &location.nats) {
            (Some(directory), _) => Self::from_directory(directory, config),
            (None, Some(urls)) => Ok(Self::Log(Arc::new(open_on_nats(urls, config).await?), Store::configured(config)?)),
            (None, None) => Ok(Self::Server(Remote::new(location, config))),
        }
    }

    pub(super) fn from_directory(directory: &Path, config: &Config) -> anyhow::Result<Self> {
        Ok(Self::Log(Arc::new(open_existing(directory, config)?), Self::snapshot_store(directory, config)?))
    }

    /// Returns the store of the snapshots of the log in `directory`.
    pub(super) fn snapshot_store(directory: &Path, config: &Config) -> anyhow::Result<Store> {
        Ok(Store::configured(&Config { data_dir: directory.to_owned(), ..config.clone() })?)
    }

    /// Returns the position of the last record.
    pub(super) fn tail(&self) -> anyhow::Result<Seq> {
        match self {
            Self::Log(log, _) => Ok(*log.tail().borrow()),
            Self::Server(remote) => Ok(Seq(remote.get("/readyz")?["tail_seq"].as_u64().unwrap_or(0))),
            Self::Archive(archive) => Ok(archive.last().map_or(Seq::ZERO, |(seq, _)| seq)),
        }
    }

    /// Returns the messages found in the log stream that are no records.
    pub(super) fn foreign(&self) -> ForeignMessages {
        match self {
            Self::Log(log, _) => log.foreign(),
            Self::Server(_) | Self::Archive(_) => ForeignMessages::default(),
        }
    }

    /// Fails if the log does not reach as far as the moment, or begins after it.
    pub(super) async fn check(&self, moment: Moment) -> anyhow::Result<()> {
        match moment {
            Moment::At(seq) => {
                let tail = self.tail()?;
                anyhow::ensure!(seq <= tail, "position {seq} is beyond the end of the log; its last record is {tail}");
            }
            Moment::Time(time) => {
                let mut first = None;
                self.visit(Seq::ZERO, |record| {
                    first = Some(record.recorded_at);
                    Ok(false)
                })
                .await?;
                let first = first.ok_or_else(|| anyhow::anyhow!("{time}: the log is empty"))?;
                anyhow::ensure!(first <= time, "{time} is before the beginning of the log; its first record is of {first}");
            }
            Moment::Now => {}
        }
        Ok(())
    }

    /// Folds the state at a moment.
    pub(super) async fn state(&self, at: Moment) -> anyhow::Result<State> {
        self.check(at).await?;
        let mut state = self.starting_state(at.seq_lower_bound()).await;
        let begin = state.applied();
        let fold = |record: Record| {
            let included = at.includes(&record);
            if included {
                state.apply(&record);
            }
            Ok(included)
        };
        self.visit_shown("folding", begin, fold).await?;
        Ok(state)
    }

    /// Returns the state of the newest snapshot at or before `seq`, to fold on from; the empty state if there is none.
    pub(super) async fn starting_state(&self, seq: Seq) -> State {
        let Self::Log(log, store) = self else { return State::default() };
        let found = snapshot::newest_at_or_before(store, log.as_ref(), seq).await.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "folding without a snapshot");
            None
        });
        found.unwrap_or_default()
    }

    /// Returns an asker that answers from the state at a moment [default: now].
    pub(super) async fn asker(&self, at: Option<Moment>, config: &Config) -> anyhow::Result<Asker> {
        let state = self.state(at.unwrap_or(Moment::Now)).await?;
        let _indexing = working("indexing", std::io::stderr().is_terminal());
        Ok(Asker::from_state(state, config)?)
    }

    /// Visits the records after `after` up to the present tail, until `visit` returns `false`.
    pub(super) async fn visit(&self, after: Seq, mut visit: impl FnMut(Record) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        self.walk(after, async |record| visit(record)).await
    }

    /// Does the same with a progress bar that says what is done.
    pub(super) async fn visit_shown(
        &self,
        what: &'static str,
        after: Seq,
        mut visit: impl FnMut(Record) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let bar = progress_bar(what, self.tail()?.0.saturating_sub(after.0), std::io::stderr().is_terminal());
        let visiting = self.visit(after, |record| {
            bar.inc(1);
            visit(record)
        });
        visiting.await
    }

    /// Does the same as [`Source::visit`] with an asynchronous visitor.
    pub(super) async fn walk(
        &self,
        after: Seq,
        mut visit: impl AsyncFnMut(Record) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Log(log, _) => {
                let mut after = after;
                loop {
                    let records = log.read(after, BATCH_RECORDS).await?;
                    let Some(last) = records.last() else { return Ok(()) };
                    after = last.seq;
                    for record in records {
                        if !visit(record).await? {
                            return Ok(());
                        }
                    }
                }
            }
            Self::Server(remote) => {
                let path = format!("/v1/events?from={}&vectors=true", after.next());
                for line in remote.lines(&path, "application/x-ndjson")? {
                    if !visit(parse_record(&line?)?).await? {
                        break;
                    }
                }
            }
            Self::Archive(archive) => {
                for records in archive.read(after) {
                    for record in records? {
                        if !visit(record).await? {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Opens the log of a data directory; fails if there is none.
pub(super) fn open_existing(directory: &Path, config: &Config) -> anyhow::Result<RedbLog> {
    anyhow::ensure!(RedbLog::exists(directory), "{} holds no pml log", directory.display());
    Ok(open_log(config, directory, Clock::system())?)
}

/// Opens the log on NATS. Creates the streams of the workspace if they are missing.
pub(super) async fn open_on_nats(urls: &str, config: &Config) -> anyhow::Result<JetStreamLog> {
    let nats = connect(urls, config).await?;
    nats.provision(&config.dead, &config.log).await?;
    Ok(JetStreamLog::open(nats, stream_options(config, false), Clock::system()).await?)
}

/// Connects to NATS with the configured credentials.
pub(super) async fn connect(urls: &str, config: &Config) -> anyhow::Result<Nats> {
    let mut settings = config.nats.clone();
    settings.servers = urls.split(',').map(Secret::new).collect();
    Ok(Nats::connect(&settings, Subjects::new(config.workspace.parse()?)).await?)
}

/// Parses a record as the server streams it.
pub(super) fn parse_record(line: &str) -> anyhow::Result<Record> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    let seq = value["seq"].as_u64().ok_or_else(|| anyhow::anyhow!("the server sent a record without seq"))?;
    let recorded_at = value["recordedat"].as_str().unwrap_or_default().parse()?;
    let fact = cloud::from_structured(line.as_bytes(), recorded_at)?;
    Ok(Record { seq: Seq(seq), recorded_at, fact: fact.into() })
}
