//! `Rebuild` writes a new data directory from the records of another log, with the same positions and times and so the same state.

use std::path::Path;
use std::sync::Arc;

use super::staging::{Staging, StagingError};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, Record};
use crate::core::id::Seq;
use crate::core::state::State;
use crate::data_dir::open_log;
use crate::log::{AppendError, EventLog, OpenError, ReadError, RedbLog};

/// Records per append.
const BATCH_RECORDS: usize = 8_192;

/// Why a log cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error(transparent)]
    Staging(#[from] StagingError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot write the new log")]
    Append(#[from] AppendError),
    #[error("cannot read the new log back")]
    Read(#[from] ReadError),
    #[error("record {seq} came to stand at {at}: the records are not in order, or one id stands twice")]
    Position { seq: Seq, at: Seq },
}

/// A data directory that is being built. Nothing is left of it if it is dropped before [`finish`](Self::finish).
pub struct Rebuild {
    // Fields are dropped in order: the log before the directory that holds its file.
    log: RedbLog,
    staging: Staging,
    state: State,
    waiting: Vec<Record>,
}

impl Rebuild {
    /// Starts to build the data directory `target`, which must be empty or missing.
    pub fn begin(target: &Path, config: &Config, clock: Clock) -> Result<Self, RebuildError> {
        let staging = Staging::new(target)?;
        let log = open_log(config, staging.path(), clock)?;
        Ok(Self { log, staging, state: State::default(), waiting: Vec::new() })
    }

    /// The temporary directory, for further files of the data directory.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Adds the next record of the other log.
    pub async fn push(&mut self, record: Record) -> Result<(), RebuildError> {
        self.waiting.push(record);
        if self.waiting.len() == BATCH_RECORDS { self.write().await } else { Ok(()) }
    }

    async fn write(&mut self) -> Result<(), RebuildError> {
        let records = std::mem::take(&mut self.waiting);
        let positions: Vec<Seq> = records.iter().map(|record| record.seq).collect();
        let writing = self.log.restore(records.clone());
        for record in &records {
            self.state.apply(record);
        }
        for (seq, appended) in positions.into_iter().zip(writing.await?) {
            if appended.seq != seq || appended.duplicate {
                return Err(RebuildError::Position { seq, at: appended.seq });
            }
        }
        Ok(())
    }

    /// The state folded from the records so far.
    pub async fn state(&mut self) -> Result<&State, RebuildError> {
        self.write().await?;
        Ok(&self.state)
    }

    /// Appends a fact that the other log does not have.
    pub async fn append(&mut self, fact: NewRecord) -> Result<(), RebuildError> {
        self.write().await?;
        self.log.append(vec![Arc::new(fact)]).await?;
        for record in self.log.read(self.state.applied(), 1).await? {
            self.state.apply(&record);
        }
        Ok(())
    }

    /// Closes the log and renames the directory to `target`.
    pub async fn finish(mut self) -> Result<State, RebuildError> {
        self.write().await?;
        let Self { log, staging, state, .. } = self;
        drop(log);
        staging.commit()?;
        Ok(state)
    }
}
