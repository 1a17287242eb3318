//! The writer thread: drains the queue, commits a group of jobs in one transaction, replies to each caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::WriteTransaction;
use tokio::sync::{mpsc, oneshot, watch};

use super::block::{self, PendingRecords};
use super::error::guarded;
use super::file::LogFile;
use super::ids::{self, IdStatus, RUNS};
use super::{AppendError, Appended, RedbOptions, StoreError, letters};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::core::invariant::{ids_are_unique, positions_increase};
use crate::core::time::Timestamp;
use crate::log::NewDeadLetter;
use crate::log::recent::RecentRecords;

/// From this file size on commits also save what recovery needs, which takes about twice the time per commit, because recovering a
/// larger file after a crash would make the next start slow. A file doubles when it is full, so this is a gigabyte of records.
const QUICK_REPAIR_FROM_BYTES: u64 = 3 << 29;
/// Bytes reserved for a record before it is encoded.
const USUAL_RECORD_BYTES: usize = 256;

/// Facts with their stored forms. Encoded on the caller's thread, because all appends share the writer thread.
pub(super) struct EncodedFacts {
    /// Each with its `recorded_at` and the end of its stored form in `bytes`.
    facts: Vec<(Arc<NewRecord>, Timestamp, usize)>,
    bytes: Vec<u8>,
    /// The positions of the facts in the log they come from; empty for new facts.
    positions: Vec<Seq>,
}

impl EncodedFacts {
    pub(super) fn new(facts: impl ExactSizeIterator<Item = (Arc<NewRecord>, Timestamp)>) -> Self {
        let mut bytes = Vec::with_capacity(facts.len() * USUAL_RECORD_BYTES);
        let encode = |(fact, recorded_at): (Arc<NewRecord>, Timestamp)| {
            bytes = stored::encode_after(&fact, recorded_at, std::mem::take(&mut bytes));
            (fact, recorded_at, bytes.len())
        };
        Self { facts: facts.map(encode).collect(), bytes, positions: Vec::new() }
    }

    /// Encodes records of another log, which keep their `recorded_at` and, where they are after the tail, their positions.
    pub(super) fn from_records(records: Vec<Record>) -> Self {
        let positions = records.iter().map(|record| record.seq).collect();
        Self { positions, ..Self::new(records.into_iter().map(|record| (record.fact, record.recorded_at))) }
    }
}

/// A job in the writer's queue.
pub(super) enum Job {
    Append {
        facts: EncodedFacts,
        reply: oneshot::Sender<Result<Vec<Appended>, AppendError>>,
    },
    StoreLetters {
        letters: Vec<NewDeadLetter>,
        reply: oneshot::Sender<Result<(), AppendError>>,
    },
    RemoveLetters {
        numbers: Vec<u64>,
        reply: oneshot::Sender<Result<(), AppendError>>,
    },
    Trim {
        to: Seq,
        reply: oneshot::Sender<Result<Seq, AppendError>>,
    },
    /// A reader of this generation of the file had an I/O error.
    Reopen {
        generation: u64,
        error: String,
    },
}

impl Job {
    /// Returns how much the job counts towards `group_records_max`.
    fn size(&self) -> usize {
        match self {
            Self::Append { facts, .. } => facts.facts.len(),
            Self::StoreLetters { letters, .. } => letters.len(),
            Self::RemoveLetters { numbers, .. } => numbers.len(),
            Self::Trim { .. } | Self::Reopen { .. } => 0,
        }
    }

    /// Returns the ids of the facts to append.
    fn ids(&self) -> impl Iterator<Item = RecordId> {
        let facts = match self {
            Self::Append { facts, .. } => facts.facts.as_slice(),
            Self::StoreLetters { .. } | Self::RemoveLetters { .. } | Self::Trim { .. } | Self::Reopen { .. } => &[],
        };
        facts.iter().map(|(fact, ..)| fact.id)
    }

    /// Replies with `error`.
    pub(super) fn fail(self, error: AppendError) {
        // A caller that stopped waiting does not want the answer.
        match self {
            Self::Append { reply, .. } => drop(reply.send(Err(error))),
            Self::StoreLetters { reply, .. } | Self::RemoveLetters { reply, .. } => drop(reply.send(Err(error))),
            Self::Trim { reply, .. } => drop(reply.send(Err(error))),
            Self::Reopen { .. } => {}
        }
    }
}

/// Why nothing was written, and the group, whose callers get the error.
type FailedGroup = Box<(StoreError, Vec<Job>)>;

/// The reply to one caller, sent once the transaction is durable.
enum GroupReply {
    Appended(oneshot::Sender<Result<Vec<Appended>, AppendError>>, Vec<Appended>),
    Changed(oneshot::Sender<Result<(), AppendError>>),
    Trimmed(oneshot::Sender<Result<Seq, AppendError>>, Seq),
    None,
}

impl GroupReply {
    fn send(self, outcome: Result<(), AppendError>) {
        // A caller that stopped waiting does not want the answer.
        match self {
            Self::Appended(reply, appended) => drop(reply.send(outcome.map(|()| appended))),
            Self::Changed(reply) => drop(reply.send(outcome)),
            Self::Trimmed(reply, to) => drop(reply.send(outcome.map(|()| to))),
            Self::None => {}
        }
    }
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) file: Arc<LogFile>,
    pub(super) options: RedbOptions,
    pub(super) clock: Clock,
    pub(super) last: Seq,
    pub(super) tail: watch::Sender<Seq>,
    pub(super) recent: Arc<RecentRecords>,
    /// The position up to which records were removed.
    pub(super) trimmed_to: Arc<AtomicU64>,
    /// Why the log cannot be written at the moment, if it cannot.
    pub(super) failing: watch::Sender<Option<String>>,
    /// The new records of the current transaction; empty between two, with its memory kept.
    pub(super) pending: PendingRecords,
}

impl Writer {
    /// Runs until every sender is dropped and the queue is empty.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let mut size = first.size();
            let mut group = vec![first];
            while size < self.options.group_records_max {
                let Ok(job) = queue.try_recv() else { break };
                size += job.size();
                group.push(job);
            }
            if let Err(error) = guarded(|| self.commit(group))
                && !self.recover(&error, &mut queue)
            {
                return;
            }
        }
    }

    /// Commits a group and replies to its callers. An error comes from the storage, so the file must be reopened.
    fn commit(&mut self, group: Vec<Job>) -> Result<(), StoreError> {
        let file = Arc::clone(&self.file);
        let guard = file.lock();
        let mut transaction = match guard.database().and_then(|database| Ok(database.begin_write()?)) {
            Ok(transaction) => transaction,
            Err(error) => return Err(fail_all(group, error)),
        };
        let large = std::fs::metadata(self.file.path()).is_ok_and(|file| file.len() > QUICK_REPAIR_FROM_BYTES);
        transaction.set_quick_repair(large);
        let jobs = group.len();
        self.pending.clear();
        let replies = match self.write(&transaction, group) {
            Ok(replies) => replies,
            Err(failed) => return Err(fail_all(failed.1, failed.0)),
        };
        debug_assert_eq!(replies.len(), jobs);
        if let Err(error) = transaction.commit() {
            tracing::error!(%error, "commit failed; its records may or may not be in the log");
            for reply in replies {
                reply.send(Err(AppendError::Indeterminate(error.to_string().into())));
            }
            return Err(error.into());
        }
        let new = || self.pending.records.iter().map(|(record, _)| record);
        debug_assert_eq!(positions_increase(self.last, new().map(|record| record.seq)), Ok(()));
        debug_assert_eq!(ids_are_unique(new().map(|record| record.fact.id)), Ok(()));
        let last = self.last_pending();
        self.last = last;
        self.recent.extend(self.pending.drain(), &self.clock);
        self.tail.send_if_modified(|tail| std::mem::replace(tail, last) != last);
        for reply in replies {
            if let GroupReply::Trimmed(_, to) = &reply {
                self.trimmed_to.fetch_max(to.0, Ordering::AcqRel);
            }
            reply.send(Ok(()));
        }
        Ok(())
    }

    /// Writes the group into the open transaction.
    fn write(&mut self, transaction: &WriteTransaction, mut group: Vec<Job>) -> Result<Vec<GroupReply>, FailedGroup> {
        let mut results = Vec::with_capacity(group.len());
        let mut trimmed_to = Seq::ZERO;
        let outcome = (|| -> Result<(), StoreError> {
            let mut runs = transaction.open_table(RUNS)?;
            let ids = ids::IdGroup::new(&runs, group.iter().flat_map(Job::ids))?;
            let mut positions = Vec::new();
            for job in &mut group {
                results.push(match job {
                    Job::Append { facts, .. } => self.append(&ids, &mut positions, facts),
                    Job::StoreLetters { letters, .. } => {
                        letters::store(transaction, letters, &self.options, &self.clock)?;
                        Vec::new()
                    }
                    Job::RemoveLetters { numbers, .. } => {
                        letters::remove(transaction, numbers)?;
                        Vec::new()
                    }
                    Job::Trim { to, .. } => {
                        let before_tail = Seq(self.last.0.saturating_sub(1));
                        trimmed_to = block::trim(transaction, (*to).min(before_tail))?.to;
                        Vec::new()
                    }
                    Job::Reopen { generation, error } if *generation == self.file.generation() => {
                        return Err(StoreError::Closed(std::mem::take(error)));
                    }
                    Job::Reopen { .. } => Vec::new(),
                });
            }
            if group.iter().any(|job| matches!(job, Job::StoreLetters { .. } | Job::RemoveLetters { .. })) {
                letters::store_count(transaction)?;
            }
            ids.add(&mut runs, &positions)?;
            self.pending.write(transaction, self.last)
        })();
        if let Err(error) = outcome {
            return Err(Box::new((error, group)));
        }
        let replies = group.into_iter().zip(results).map(|(job, appended)| match job {
            Job::Append { reply, .. } => GroupReply::Appended(reply, appended),
            Job::StoreLetters { reply, .. } | Job::RemoveLetters { reply, .. } => GroupReply::Changed(reply),
            Job::Trim { reply, .. } => GroupReply::Trimmed(reply, trimmed_to),
            Job::Reopen { .. } => GroupReply::None,
        });
        Ok(replies.collect())
    }

    /// Returns the last position given, including those of the current transaction.
    fn last_pending(&self) -> Seq {
        self.pending.records.last().map_or(self.last, |(record, _)| record.seq)
    }

    /// Gives positions to the facts of one append. `positions` holds those of the facts before them in the group.
    fn append(&mut self, ids: &ids::IdGroup, positions: &mut Vec<Seq>, facts: &mut EncodedFacts) -> Vec<Appended> {
        let mut appended = Vec::with_capacity(facts.facts.len());
        let mut start = 0;
        for (index, (fact, recorded_at, end)) in facts.facts.drain(..).enumerate() {
            let stored = &facts.bytes[std::mem::replace(&mut start, end)..end];
            let next = self.last_pending().next();
            let (seq, duplicate) = match ids.status(positions.len()) {
                IdStatus::New => (facts.positions.get(index).map_or(next, |position| next.max(*position)), false),
                IdStatus::Known(seq) => (seq, true),
                IdStatus::Repeats(first) => (positions[first], true),
            };
            positions.push(seq);
            appended.push(Appended { seq, duplicate });
            if !duplicate {
                self.pending.push(Record { seq, recorded_at, fact }, stored);
            }
        }
        appended
    }
}

/// Replies to every caller of the group that nothing was written. Returns the error.
fn fail_all(group: Vec<Job>, error: StoreError) -> StoreError {
    tracing::error!(%error, "nothing of this group was written");
    for job in group {
        job.fail(error.determinate());
    }
    error
}
