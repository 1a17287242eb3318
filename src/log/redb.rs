//! The embedded log: one redb file, one writer thread, group commit.
//!
//! # Layout
//! `blocks`: seq -> records in the compact form of `core::event::stored`, some dozens to a `block`. `id_index`: record id -> seq, the
//! dedupe index, in sorted runs (`ids`). `letters`: dead letters. `meta`: the `format` of the file and, of the dead letters, the last
//! number given, their count and their bytes. All tables change in the same transaction.
//!
//! # Writing
//! Callers put their facts into a bounded queue and wait. The writer takes what is waiting, up to a limit, writes it as one durable
//! transaction and then answers everybody: the price of one fsync is shared by all who came while the last one ran. The order of
//! the queue is the order of the log.
//!
//! # Reading
//! Readers see the last committed transaction and never meet the writer. Those who follow the tail are served from the last records
//! in memory (`recent`), so a live system decodes nothing it has just encoded.
//!
//! # What goes wrong
//! Every value carries a `checksum`, compared whenever it is read; the blocks and the runs also say where their neighbours are, so that
//! none can get lost. Damage is told as [`Damage`] and never repaired. After an I/O error the writer reopens the `file` until it works
//! again (`recovery`). While the file system has little `space`, events from outside are refused.

mod block;
mod checksum;
mod error;
#[cfg(feature = "testing")]
mod faults;
mod file;
mod format;
mod ids;
mod letters;
mod recovery;
mod space;
mod verify;
mod writer;

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use redb::{Builder, Database, ReadableDatabase, TableDefinition};
use tokio::sync::{mpsc, oneshot, watch};

use super::recent::Recent;
use super::{AppendError, Appended, Condition, Damage, EventLog, OpenError, ReadError};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::log::{DeadLetters, DeadPage, NewDeadLetter};
use crate::private;
use block::Outgoing;
pub use block::scan;
use error::StoreError;
#[cfg(feature = "testing")]
pub use faults::Faults;
use file::{LogFile, Opener};
use ids::RUNS;
use space::Space;
use writer::{Encoded, Job, Writer};

pub(super) const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("blocks");
pub(super) const DEAD: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("letters");

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
    /// With fewer bytes left on the file system the log says that it is low; zero: never.
    pub free_bytes_min: u64,
    /// Bytes of all dead letters together.
    pub dead_bytes_max: u64,
}

pub struct RedbLog {
    file: Arc<LogFile>,
    space: Space,
    jobs: mpsc::Sender<Job>,
    clock: Clock,
    tail: watch::Receiver<Seq>,
    failing: watch::Receiver<Option<String>>,
    recent: Arc<Recent>,
    /// Joined on drop, so that the file is released when the log is gone.
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

    /// The same on a disk that fails when it is told to.
    #[cfg(feature = "testing")]
    pub fn open_on(directory: &Path, options: RedbOptions, clock: Clock, faults: Faults) -> Result<Self, OpenError> {
        Self::open_by(directory, options, clock, Box::new(move |path| faults.open(&builder(), path)))
    }

    fn open_by(directory: &Path, options: RedbOptions, clock: Clock, open: Opener) -> Result<Self, OpenError> {
        let path = directory.join(Self::FILE_NAME);
        let storage = |error: std::io::Error| OpenError::Storage { path: path.clone(), source: error.into() };
        private::create_directory(directory).map_err(storage)?;
        let (file, last) = LogFile::open(path.clone(), open)?;
        let file = Arc::new(file);
        let (tail, tail_receiver) = watch::channel(last);
        let (failing, failing_receiver) = watch::channel(None);
        let (jobs, queue) = mpsc::channel(options.queue_appends_max);
        let recent = Arc::new(Recent::default());
        let space = Space::new(directory.to_owned(), options.free_bytes_min);
        let writer = Writer {
            file: Arc::clone(&file),
            options,
            clock: clock.clone(),
            last,
            tail,
            recent: Arc::clone(&recent),
            failing,
            outgoing: Outgoing::default(),
        };
        let writer =
            std::thread::Builder::new().name("pml-log".to_owned()).spawn(move || writer.run(queue)).map_err(storage)?;
        Ok(Self { file, space, jobs, clock, tail: tail_receiver, failing: failing_receiver, recent, writer: Some(writer) })
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

    /// Reads all that the file holds, records, ids and dead letters, and answers what is wrong with it, in words.
    pub fn verify(&self) -> BoxFuture<'static, Result<Vec<String>, ReadError>> {
        self.query(|database| Ok(verify::problems(database)?))
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

    /// Runs a read on a thread that may block. If the storage fails, the writer is told: it reopens the file.
    fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ReadError>> {
        let file = Arc::clone(&self.file);
        // Weak: a read under way must not keep the writer from ending.
        let jobs = self.jobs.downgrade();
        let work = move || {
            let opened = file.opened();
            let generation = file.generation();
            let database = opened.database()?;
            let outcome = error::guarded(|| read(database));
            if let (Err(ReadError::Storage(error)), Some(jobs)) = (&outcome, jobs.upgrade()) {
                // A full queue holds appends, which meet the same error.
                drop(jobs.try_send(Job::Reopen { generation, error: error.to_string() }));
            }
            outcome
        };
        async move {
            let done = tokio::task::spawn_blocking(work).await;
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
        let tail = *self.tail.borrow();
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

impl DeadLetters for RedbLog {
    fn bury(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>> {
        self.submit(|reply| Job::Bury { letters, reply })
    }

    fn list(&self, after: u64, limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>> {
        self.query(move |database| Ok(letters::list(database, after, limit)?))
    }

    fn remove(&self, numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>> {
        self.submit(|reply| Job::Exhume { numbers, reply })
    }
}
