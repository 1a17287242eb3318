//! The embedded log: one redb file, one writer thread, group commit.
//!
//! # Layout
//! `blocks`: seq -> records in the compact form of `core::event::stored`, some dozens per `block`. `id_index`: record id -> seq, the
//! dedupe index, in sorted runs (`ids`). `letters`: dead letters. `meta`: the `format` of the file and, for the dead letters, the last
//! number given, their count and their bytes. All tables change in the same transaction.
//!
//! # Writing
//! Callers put their facts into a bounded queue and wait. The writer drains the queue, up to a limit, writes one durable transaction and
//! then replies to every caller: all appends that arrived during the last fsync share the next one. The order of the queue is the
//! order of the log.
//!
//! # Reading
//! Records that tiering has removed are read from the archive (`OlderRecords`); their ids stay in the index.
//! Readers see the last committed transaction and never wait for the writer. Readers that follow the tail are served from the newest
//! records in memory (`recent`), so the process does not decode what it has just encoded.
//!
//! # Errors
//! Every value carries a `checksum`, checked at every read; blocks and runs also store where their neighbours end, so that a missing one
//! is noticed. Damage is reported as [`Damage`] and never repaired. After an I/O error the writer reopens the `file` until that works
//! (`recovery`). While the file system has little free `space`, events from outside are refused.

mod block;
mod checksum;
mod error;
#[cfg(feature = "testing")]
mod faults;
mod file;
mod format;
#[cfg(feature = "testing")]
pub mod fuzzing;
pub(super) mod ids;
mod letters;
mod recovery;
mod space;
mod verify;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use redb::{Builder, Database, ReadableDatabase, TableDefinition};
use tokio::sync::{mpsc, oneshot, watch};

use super::error::archive_unknown;
use super::recent::RecentRecords;
use super::{AppendError, Appended, Condition, Damage, EventLog, OlderRecords, OpenError, ReadError, TrimmedLog};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::log::{DeadLetters, DeadPage, NewDeadLetter};
use crate::private;
use block::PendingRecords;
pub use block::scan;
pub(super) use error::{StoreError, guarded};
#[cfg(feature = "testing")]
pub use faults::Faults;
use file::{LogFile, Opener};
use format::Trimmed;
use ids::RUNS;
use space::Space;
use writer::{EncodedFacts, Job, Writer};

/// Last position of a block -> block.
pub(super) const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("blocks");
/// Number of a dead letter -> letter.
pub(super) const DEAD: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("letters");

/// Page cache; the default of a gigabyte is more than the whole program should use.
const CACHE_BYTES: usize = 64 << 20;

/// The settings of a [`RedbLog`].
#[derive(Clone, Debug)]
pub struct RedbOptions {
    /// Most records in one commit.
    pub group_records_max: usize,
    /// Appends that may wait for the writer.
    pub queue_appends_max: usize,
    /// Most dead letters kept; the oldest are dropped first.
    pub dead_letters_max: usize,
    /// With fewer free bytes on the file system the log's condition is `Low`; zero turns the check off.
    pub free_bytes_min: u64,
    /// Most bytes of all dead letters together.
    pub dead_bytes_max: u64,
    /// Where records are that were removed from the file.
    pub older: Option<Arc<dyn OlderRecords>>,
}

/// The log in a redb file, with its writer thread.
pub struct RedbLog {
    file: Arc<LogFile>,
    space: Space,
    jobs: mpsc::Sender<Job>,
    clock: Clock,
    tail: watch::Receiver<Seq>,
    failing: watch::Receiver<Option<String>>,
    recent: Arc<RecentRecords>,
    /// The position up to which records were removed.
    trimmed_to: Arc<AtomicU64>,
    older: Option<Arc<dyn OlderRecords>>,
    /// Joined on drop, so that the file is released when the log is dropped.
    writer: Option<std::thread::JoinHandle<()>>,
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

impl RedbLog {
    /// Name of the file in the data directory.
    pub const FILE_NAME: &str = "log.redb";

    /// Opens or creates the log in `directory`.
    pub fn open(directory: &Path, options: RedbOptions, clock: Clock) -> Result<Self, OpenError> {
        Self::open_by(directory, options, clock, Box::new(|path| builder().create(path)))
    }

    /// Opens or creates the log on a disk with injected `faults`.
    #[cfg(feature = "testing")]
    pub fn open_with_faults(directory: &Path, options: RedbOptions, clock: Clock, faults: Faults) -> Result<Self, OpenError> {
        Self::open_by(directory, options, clock, Box::new(move |path| faults.open(&builder(), path)))
    }

    fn open_by(directory: &Path, options: RedbOptions, clock: Clock, open: Opener) -> Result<Self, OpenError> {
        let path = directory.join(Self::FILE_NAME);
        let storage = |error: std::io::Error| OpenError::Storage { path: path.clone(), source: error.into() };
        private::create_directory(directory).map_err(storage)?;
        let (file, last) = LogFile::open(path.clone(), open)?;
        let trimmed = file.lock().database().and_then(|database| guarded(|| Trimmed::of(database)));
        let trimmed = trimmed.map_err(|error| format::open_error(&path, error))?;
        let trimmed_to = Arc::new(AtomicU64::new(trimmed.to.0));
        let file = Arc::new(file);
        let (tail, tail_receiver) = watch::channel(last);
        let (failing, failing_receiver) = watch::channel(None);
        let (jobs, queue) = mpsc::channel(options.queue_appends_max);
        let recent = Arc::new(RecentRecords::default());
        let space = Space::new(directory.to_owned(), options.free_bytes_min);
        let older = options.older.clone();
        let writer = Writer {
            file: Arc::clone(&file),
            options,
            clock: clock.clone(),
            last,
            tail,
            recent: Arc::clone(&recent),
            trimmed_to: Arc::clone(&trimmed_to),
            failing,
            pending: PendingRecords::default(),
        };
        let writer =
            std::thread::Builder::new().name("pml-log".to_owned()).spawn(move || writer.run(queue)).map_err(storage)?;
        Ok(Self {
            file,
            space,
            jobs,
            clock,
            tail: tail_receiver,
            failing: failing_receiver,
            recent,
            trimmed_to,
            older,
            writer: Some(writer),
        })
    }

    /// Returns whether `directory` holds a log.
    pub fn exists(directory: &Path) -> bool {
        directory.join(Self::FILE_NAME).exists()
    }

    /// Appends records of another log with their `recorded_at` and their positions, holes included. A record whose position is not
    /// after the tail gets the next position, so the caller compares.
    pub fn restore(&self, records: Vec<Record>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let facts = EncodedFacts::from_records(records);
        self.submit(|reply| Job::Append { facts, reply })
    }

    /// Reads all records, ids and dead letters of the file and returns a description of each problem found.
    pub fn verify(&self) -> BoxFuture<'static, Result<Vec<String>, ReadError>> {
        self.query(|database| Ok(verify::find_problems(database)?))
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

    fn reads(&self) -> Reads {
        // Weak: a running read must not keep the writer from ending.
        Reads { file: Arc::clone(&self.file), jobs: self.jobs.downgrade() }
    }

    fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ReadError>> {
        self.reads().query(read)
    }
}

/// What a read needs of the log.
#[derive(Clone)]
struct Reads {
    file: Arc<LogFile>,
    jobs: mpsc::WeakSender<Job>,
}

impl Reads {
    /// Runs a read on a blocking thread. If the storage fails, tells the writer to reopen the file.
    fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ReadError>> {
        let Self { file, jobs } = self.clone();
        let work = move || {
            let guard = file.lock();
            let generation = file.generation();
            let database = guard.database()?;
            let outcome = guarded(|| read(database));
            if let (Err(ReadError::Storage(error)), Some(jobs)) = (&outcome, jobs.upgrade()) {
                // If the queue is full, its appends will run into the same error.
                drop(jobs.try_send(Job::Reopen { generation, error: error.to_string() }));
            }
            outcome
        };
        async move { joined(tokio::task::spawn_blocking(work).await) }.boxed()
    }

    /// Reads records of the file.
    fn records(&self, after: Seq, limit: usize, tail: Seq) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        self.query(move |database| {
            let mut records = Vec::new();
            block::scan(database, after, limit, |seq, bytes| {
                records.push(stored::decode(seq, bytes).map_err(|source| ReadError::Corrupt { seq, source })?);
                Ok(())
            })?;
            let last = records.last().map_or(after, |record| record.seq);
            if records.len() < limit && last < tail {
                return Err(ReadError::Damaged(Damage::Gap { after: last, before: tail.next() }));
            }
            Ok(records)
        })
    }

    /// Reads records that were removed from the file up to `trimmed_to`, and goes on with those of the file.
    async fn with_older(
        self,
        (after, limit, tail): (Seq, usize, Seq),
        older: Option<Arc<dyn OlderRecords>>,
        trimmed_to: Arc<AtomicU64>,
    ) -> Result<Vec<Record>, ReadError> {
        loop {
            let to = Seq(trimmed_to.load(Ordering::Acquire));
            let older = older.clone().ok_or_else(|| archive_unknown(to))?;
            let mut records = joined(tokio::task::spawn_blocking(move || older.read(after, to, limit)).await)?;
            if records.len() == limit {
                return Ok(records);
            }
            match self.records(to, limit - records.len(), tail).await {
                // More was removed meanwhile.
                Err(ReadError::Damaged(Damage::Gap { .. })) if trimmed_to.load(Ordering::Acquire) > to.0 => {}
                outcome => {
                    records.extend(outcome?);
                    return Ok(records);
                }
            }
        }
    }
}

/// Converts the outcome of a blocking task.
fn joined<T>(done: Result<Result<T, ReadError>, tokio::task::JoinError>) -> Result<T, ReadError> {
    done.unwrap_or_else(|panicked| Err(ReadError::Storage(panicked.into())))
}

impl Drop for RedbLog {
    fn drop(&mut self) {
        // Closing the queue ends the writer once its jobs are written.
        self.jobs = mpsc::channel(1).0;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the log's writer thread had panicked");
        }
    }
}

impl EventLog for RedbLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let now = self.clock.now();
        let facts = EncodedFacts::new(facts.into_iter().map(|fact| (fact, now)));
        self.submit(|reply| Job::Append { facts, reply })
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        if let Some(records) = self.recent.read(after, limit) {
            return ready(Ok(records)).boxed();
        }
        let (tail, trimmed_to, reads) = (*self.tail.borrow(), Arc::clone(&self.trimmed_to), self.reads());
        let older = self.older.clone();
        async move {
            if after >= Seq(trimmed_to.load(Ordering::Acquire)) {
                match reads.records(after, limit, tail).await {
                    // It was removed meanwhile.
                    Err(ReadError::Damaged(Damage::Gap { .. })) if trimmed_to.load(Ordering::Acquire) > after.0 => {}
                    outcome => return outcome,
                }
            }
            reads.with_older((after, limit, tail), older, trimmed_to).await
        }
        .boxed()
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        self.query(move |database| {
            let find = || -> Result<_, StoreError> { ids::find(&database.begin_read()?.open_table(RUNS)?, id) };
            Ok(find()?)
        })
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.tail.clone()
    }

    fn condition(&self) -> Condition {
        if let Some(error) = &*self.failing.borrow() {
            return Condition::Failing { error: error.clone() };
        }
        match self.space.shortage() {
            Some(free_bytes) => Condition::Low { free_bytes, free_bytes_min: self.space.free_bytes_min },
            None => Condition::Good,
        }
    }
}

impl TrimmedLog for RedbLog {
    fn trimmed_to(&self) -> Seq {
        Seq(self.trimmed_to.load(Ordering::Acquire))
    }

    fn trim(&self, to: Seq) -> BoxFuture<'static, Result<Seq, AppendError>> {
        self.submit(|reply| Job::Trim { to, reply })
    }
}

impl DeadLetters for RedbLog {
    fn store(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>> {
        self.submit(|reply| Job::StoreLetters { letters, reply })
    }

    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>> {
        self.query(move |database| Ok(letters::list(database, after, limit)?))
    }

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>> {
        self.submit(|reply| Job::RemoveLetters { numbers, reply })
    }
}
