//! The embedded log: one redb file, one writer thread, group commit.
//!
//! # Layout
//! `events`: seq -> records in the compact form of `core::event::stored`, some dozens to a `block`. `id_runs`: record id -> seq, the
//! dedupe index, in sorted runs (`ids`). `dead`: refused
//! events. `meta`: the format of the file, and about dead letters the last number given and how many bytes there are. All tables change in the same
//! transaction.
//!
//! # Writing
//! Callers put their facts into a bounded queue and wait. The writer takes what is waiting, up to a limit, writes it as one durable
//! transaction and then answers everybody: the price of one fsync is shared by all who came while the last one ran. The order of
//! the queue is the order of the log.
//!
//! # Reading
//! Readers see the last committed transaction and never meet the writer. Those who follow the tail are served from the last records
//! in memory (`recent`), so a live system decodes nothing it has just encoded.

mod block;
mod dead;
mod ids;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::{mpsc, oneshot, watch};

use super::recent::Recent;
use super::{AppendError, Appended, EventLog, OpenError, ReadError};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::dead::{DeadLetters, DeadPage, NewDeadLetter};
pub use block::scan;
use ids::RUNS;
use writer::{Encoded, Job, Writer};

pub(super) const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
pub(super) const DEAD: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("dead");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const FORMAT: u64 = 2;
/// Format 1 had an entry of the tree for every id.
const FORMAT_1_IDS: TableDefinition<'_, u128, u64> = TableDefinition::new("ids");
/// Page cache; the default of a gigabyte is more than the whole program should use.
const CACHE_BYTES: usize = 64 << 20;

#[derive(Clone, Debug)]
pub struct RedbOptions {
    /// Records that share one commit, at most.
    pub group_records_max: usize,
    /// Appends that may wait for the writer.
    pub queue_appends_max: usize,
    /// Dead letters kept; the oldest go first.
    pub dead_letters_max: usize,
    /// Bytes of all dead letters together.
    pub dead_bytes_max: u64,
}

pub struct RedbLog {
    database: Arc<Database>,
    jobs: mpsc::Sender<Job>,
    clock: Clock,
    tail: watch::Receiver<Seq>,
    recent: Arc<Recent>,
    /// Joined on drop, so that the file is released when the log is gone.
    writer: Option<std::thread::JoinHandle<()>>,
}

impl RedbLog {
    /// Name of the file in the data directory.
    pub const FILE_NAME: &str = "log.redb";

    /// Opens or creates the log in `directory`.
    pub fn open(directory: &Path, options: RedbOptions, clock: Clock) -> Result<Self, OpenError> {
        let path = directory.join(Self::FILE_NAME);
        let storage = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Storage { path: path.clone(), source };
        std::fs::create_dir_all(directory).map_err(|error| storage(error.into()))?;
        let database = match Database::builder().set_cache_size(CACHE_BYTES).create(&path) {
            Ok(database) => database,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(OpenError::InUse { path }),
            Err(error) => return Err(storage(error.into())),
        };
        let last = prepare(&database, &path)?;
        let (tail, tail_receiver) = watch::channel(last);
        let (jobs, queue) = mpsc::channel(options.queue_appends_max);
        let database = Arc::new(database);
        let recent = Arc::new(Recent::default());
        let writer = Writer::new(Arc::clone(&database), path.clone(), options, clock.clone(), last, tail, Arc::clone(&recent));
        let writer = std::thread::Builder::new()
            .name("pml-log".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|error| storage(error.into()))?;
        Ok(Self { database, jobs, clock, tail: tail_receiver, recent, writer: Some(writer) })
    }

    /// Whether `directory` holds a log.
    pub fn exists(directory: &Path) -> bool {
        directory.join(Self::FILE_NAME).exists()
    }

    /// Appends records of another log, which keep the time that log took them and, holes included, their positions. A record whose
    /// position lies before the tail gets the next one: the caller compares.
    pub fn restore(&self, records: Vec<Record>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let facts = Encoded::restored(records);
        self.submit(|reply| Job::Append { facts, reply })
    }

    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, AppendError>>) -> Job,
    ) -> BoxFuture<'static, Result<T, AppendError>> {
        let (reply, answer) = oneshot::channel();
        match self.jobs.try_send(job(reply)) {
            Ok(()) => async { answer.await.unwrap_or_else(|gone| Err(AppendError::Indeterminate(gone.into()))) }.boxed(),
            Err(mpsc::error::TrySendError::Full(_)) => ready(Err(AppendError::Busy)).boxed(),
            Err(mpsc::error::TrySendError::Closed(_)) => ready(Err(AppendError::Closed)).boxed(),
        }
    }

    /// Runs a read on a thread that may block.
    fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ReadError>> {
        let database = Arc::clone(&self.database);
        async move {
            let done = tokio::task::spawn_blocking(move || read(&database)).await;
            done.unwrap_or_else(|panicked| Err(ReadError::Storage(panicked.into())))
        }
        .boxed()
    }
}

impl Drop for RedbLog {
    fn drop(&mut self) {
        // Closing the queue ends the writer after what it holds is written.
        self.jobs = mpsc::channel(1).0;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the log's writer thread had panicked");
        }
    }
}

fn prepare(database: &Database, path: &Path) -> Result<Seq, OpenError> {
    let storage = |error: redb::Error| OpenError::Storage { path: PathBuf::from(path), source: error.into() };
    let work = || -> Result<(u64, Seq), redb::Error> {
        let transaction = database.begin_write()?;
        let (format, last) = {
            let mut meta = transaction.open_table(META)?;
            let found = meta.get(FORMAT_KEY)?.map(|format| format.value());
            if let Some(newer) = found.filter(|&found| found > FORMAT) {
                // Its tables may be of other types; dropping the transaction leaves them alone.
                return Ok((newer, Seq::ZERO));
            }
            let mut runs = transaction.open_table(RUNS)?;
            if found == Some(1) {
                let old = transaction.open_table(FORMAT_1_IDS)?;
                let entries = old.iter()?.map(|entry| entry.map(|(id, seq)| (id.value(), Seq(seq.value()))));
                ids::add(&mut runs, entries.collect::<Result<Vec<_>, _>>()?.into_iter())?;
                drop(old);
                transaction.delete_table(FORMAT_1_IDS)?;
            }
            meta.insert(FORMAT_KEY, FORMAT)?;
            transaction.open_table(DEAD)?;
            let last = transaction.open_table(EVENTS)?.last()?.map_or(0, |(seq, _)| seq.value());
            (found.unwrap_or(FORMAT), Seq(last))
        };
        transaction.commit()?;
        Ok((format, last))
    };
    let (found, last) = work().map_err(storage)?;
    if found > FORMAT {
        return Err(OpenError::NewerFormat { path: PathBuf::from(path), found, known: FORMAT });
    }
    Ok(last)
}

fn storage(error: impl Into<redb::Error>) -> ReadError {
    ReadError::Storage(error.into().into())
}

impl EventLog for RedbLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let now = self.clock.now();
        let facts = Encoded::new(facts.into_iter().map(|fact| (fact, now)));
        self.submit(|reply| Job::Append { facts, reply })
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        if let Some(records) = self.recent.read(after, limit) {
            return ready(Ok(records)).boxed();
        }
        self.query(move |database| {
            let mut records = Vec::new();
            block::scan(database, after, limit, |seq, bytes| {
                records.push(stored::decode(seq, bytes).map_err(|source| ReadError::Corrupt { seq, source })?);
                Ok(())
            })?;
            Ok(records)
        })
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        self.query(move |database| {
            let runs = database.begin_read().map_err(storage)?.open_table(RUNS).map_err(storage)?;
            ids::find(&runs, id).map_err(storage)
        })
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.tail.clone()
    }
}

impl DeadLetters for RedbLog {
    fn bury(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>> {
        self.submit(|reply| Job::Bury { letters, reply })
    }

    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>> {
        self.query(move |database| dead::list(database, after, limit))
    }

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>> {
        self.submit(|reply| Job::Exhume { numbers, reply })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ids_of_a_file_of_format_1_are_known() {
        let directory = tempfile::TempDir::new().unwrap();
        let id = |number: u128| RecordId::from_bits(number * 3);
        {
            let database = Database::create(directory.path().join(RedbLog::FILE_NAME)).unwrap();
            let transaction = database.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert(FORMAT_KEY, 1).unwrap();
            let mut ids = transaction.open_table(FORMAT_1_IDS).unwrap();
            for number in 1..=1_000 {
                ids.insert(id(number).to_bits(), u64::try_from(number).unwrap()).unwrap();
            }
            drop(ids);
            transaction.commit().unwrap();
        }
        let options = RedbOptions { group_records_max: 10, queue_appends_max: 10, dead_letters_max: 10, dead_bytes_max: 1_000 };
        for _ in 0..2 {
            let log = RedbLog::open(directory.path(), options.clone(), Clock::system()).unwrap();
            assert_eq!(log.find(id(1)).await.unwrap(), Some(Seq(1)));
            assert_eq!(log.find(id(1_000)).await.unwrap(), Some(Seq(1_000)));
            assert_eq!(log.find(RecordId::from_bits(4)).await.unwrap(), None);
        }
    }
}
