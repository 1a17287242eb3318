//! The one writer: takes what waits, commits it once, answers everybody.

use std::sync::Arc;

use redb::WriteTransaction;
use tokio::sync::{mpsc, oneshot, watch};

use super::block::Outgoing;
use super::error::guarded;
use super::file::LogFile;
use super::ids::{self, RUNS, Standing};
use super::{AppendError, Appended, RedbOptions, StoreError, letters};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::log::NewDeadLetter;
use crate::log::recent::Recent;

/// Past this size a crash would make the next start slow; from then on commits also save what recovery needs, at about twice the
/// time per commit.
const QUICK_REPAIR_FROM_BYTES: u64 = 512 << 20;
/// Room made for a record before it is encoded.
const USUAL_RECORD_BYTES: usize = 256;

/// Facts with their stored forms. Made by the caller's thread: the writer's time is everybody's.
pub(super) struct Encoded {
    /// Each with when it was taken, and the end of its stored form in `bytes`.
    facts: Vec<(Arc<NewRecord>, Timestamp, usize)>,
    bytes: Vec<u8>,
    /// Where the facts stood in the log they come from; empty for new ones.
    positions: Vec<Seq>,
}

impl Encoded {
    pub(super) fn new(facts: impl ExactSizeIterator<Item = (Arc<NewRecord>, Timestamp)>) -> Self {
        let mut bytes = Vec::with_capacity(facts.len() * USUAL_RECORD_BYTES);
        let encode = |(fact, recorded_at): (Arc<NewRecord>, Timestamp)| {
            bytes = stored::encode_after(&fact, recorded_at, std::mem::take(&mut bytes));
            (fact, recorded_at, bytes.len())
        };
        Self { facts: facts.map(encode).collect(), bytes, positions: Vec::new() }
    }

    /// Records of another log, which keep their times and, where they stand after everything here, their positions.
    pub(super) fn restored(records: Vec<Record>) -> Self {
        let positions = records.iter().map(|record| record.seq).collect();
        Self { positions, ..Self::new(records.into_iter().map(|record| (record.fact, record.recorded_at))) }
    }
}

pub(super) enum Job {
    Append {
        facts: Encoded,
        reply: oneshot::Sender<Result<Vec<Appended>, AppendError>>,
    },
    Bury {
        letters: Vec<NewDeadLetter>,
        reply: oneshot::Sender<Result<(), AppendError>>,
    },
    Exhume {
        numbers: Vec<u64>,
        reply: oneshot::Sender<Result<(), AppendError>>,
    },
    /// A reader of this generation of the file met an I/O error.
    Reopen {
        generation: u64,
        error: String,
    },
}

impl Job {
    fn size(&self) -> usize {
        match self {
            Self::Append { facts, .. } => facts.facts.len(),
            Self::Bury { letters, .. } => letters.len(),
            Self::Exhume { numbers, .. } => numbers.len(),
            Self::Reopen { .. } => 0,
        }
    }

    /// The ids of the facts to append.
    fn ids(&self) -> impl Iterator<Item = RecordId> {
        let facts = match self {
            Self::Append { facts, .. } => facts.facts.as_slice(),
            Self::Bury { .. } | Self::Exhume { .. } | Self::Reopen { .. } => &[],
        };
        facts.iter().map(|(fact, ..)| fact.id)
    }

    pub(super) fn fail(self, error: AppendError) {
        // A caller that stopped waiting does not want the answer.
        match self {
            Self::Append { reply, .. } => drop(reply.send(Err(error))),
            Self::Bury { reply, .. } | Self::Exhume { reply, .. } => drop(reply.send(Err(error))),
            Self::Reopen { .. } => {}
        }
    }
}

/// Why nothing was written, and the group, so that everybody can be told.
type Failed = Box<(StoreError, Vec<Job>)>;

/// What to tell one caller once the transaction is durable.
enum Done {
    Appended(oneshot::Sender<Result<Vec<Appended>, AppendError>>, Vec<Appended>),
    Changed(oneshot::Sender<Result<(), AppendError>>),
    Nothing,
}

impl Done {
    /// A caller that stopped waiting does not want the answer.
    fn tell(self, outcome: Result<(), AppendError>) {
        match self {
            Self::Appended(reply, appended) => drop(reply.send(outcome.map(|()| appended))),
            Self::Changed(reply) => drop(reply.send(outcome)),
            Self::Nothing => {}
        }
    }
}

pub(super) struct Writer {
    pub(super) file: Arc<LogFile>,
    pub(super) options: RedbOptions,
    pub(super) clock: Clock,
    pub(super) last: Seq,
    pub(super) tail: watch::Sender<Seq>,
    pub(super) recent: Arc<Recent>,
    /// Why nothing can be written at the moment.
    pub(super) failing: watch::Sender<Option<String>>,
    /// What the transaction under way holds; empty between two, its memory kept.
    pub(super) outgoing: Outgoing,
}

impl Writer {
    /// Ends when every sender is gone and the queue is empty.
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

    /// An error is one of the storage, and everybody has been told: the file must be reopened.
    fn commit(&mut self, group: Vec<Job>) -> Result<(), StoreError> {
        let file = Arc::clone(&self.file);
        let opened = file.opened();
        let mut transaction = match opened.database().and_then(|database| Ok(database.begin_write()?)) {
            Ok(transaction) => transaction,
            Err(error) => return Err(fail_all(group, error)),
        };
        let large = std::fs::metadata(self.file.path()).is_ok_and(|file| file.len() > QUICK_REPAIR_FROM_BYTES);
        transaction.set_quick_repair(large);
        let jobs = group.len();
        self.outgoing.clear();
        let done = match self.write(&transaction, group) {
            Ok(done) => done,
            Err(failed) => return Err(fail_all(failed.1, failed.0)),
        };
        debug_assert_eq!(done.len(), jobs);
        if let Err(error) = transaction.commit() {
            tracing::error!(%error, "commit failed; what it held may or may not be in the log");
            for done in done {
                done.tell(Err(AppendError::Indeterminate(error.to_string().into())));
            }
            return Err(error.into());
        }
        let last = self.outgoing_last();
        self.last = last;
        self.recent.extend(self.outgoing.drain(), &self.clock);
        self.tail.send_if_modified(|tail| std::mem::replace(tail, last) != last);
        for done in done {
            done.tell(Ok(()));
        }
        Ok(())
    }

    /// Writes the group into the open transaction.
    fn write(&mut self, transaction: &WriteTransaction, mut group: Vec<Job>) -> Result<Vec<Done>, Failed> {
        let mut results = Vec::with_capacity(group.len());
        let outcome = (|| -> Result<(), StoreError> {
            let mut runs = transaction.open_table(RUNS)?;
            let ids = ids::Group::new(&runs, group.iter().flat_map(Job::ids))?;
            let mut positions = Vec::new();
            for job in &mut group {
                results.push(match job {
                    Job::Append { facts, .. } => self.append(&ids, &mut positions, facts),
                    Job::Bury { letters, .. } => {
                        letters::bury(transaction, letters, &self.options, &self.clock)?;
                        Vec::new()
                    }
                    Job::Exhume { numbers, .. } => {
                        letters::remove(transaction, numbers)?;
                        Vec::new()
                    }
                    Job::Reopen { generation, error } if *generation == self.file.generation() => {
                        return Err(StoreError::Closed(std::mem::take(error)));
                    }
                    Job::Reopen { .. } => Vec::new(),
                });
            }
            if group.iter().any(|job| matches!(job, Job::Bury { .. } | Job::Exhume { .. })) {
                letters::count(transaction)?;
            }
            ids.add(&mut runs, &positions)?;
            self.outgoing.write(transaction, self.last)
        })();
        if let Err(error) = outcome {
            return Err(Box::new((error, group)));
        }
        let done = group.into_iter().zip(results).map(|(job, appended)| match job {
            Job::Append { reply, .. } => Done::Appended(reply, appended),
            Job::Bury { reply, .. } | Job::Exhume { reply, .. } => Done::Changed(reply),
            Job::Reopen { .. } => Done::Nothing,
        });
        Ok(done.collect())
    }

    /// The last position given, counting what the transaction under way holds.
    fn outgoing_last(&self) -> Seq {
        self.outgoing.records.last().map_or(self.last, |(record, _)| record.seq)
    }

    /// `positions` are those of the facts of the group before these.
    fn append(&mut self, ids: &ids::Group, positions: &mut Vec<Seq>, facts: &mut Encoded) -> Vec<Appended> {
        let mut appended = Vec::with_capacity(facts.facts.len());
        let mut start = 0;
        for (at, (fact, recorded_at, end)) in facts.facts.drain(..).enumerate() {
            let stored = &facts.bytes[std::mem::replace(&mut start, end)..end];
            let next = self.outgoing_last().next();
            let (seq, duplicate) = match ids.standing(positions.len()) {
                Standing::New => (facts.positions.get(at).map_or(next, |position| next.max(*position)), false),
                Standing::Known(seq) => (seq, true),
                Standing::Repeats(first) => (positions[first], true),
            };
            positions.push(seq);
            appended.push(Appended { seq, duplicate });
            if !duplicate {
                self.outgoing.push(Record { seq, recorded_at, fact }, stored);
            }
        }
        appended
    }
}

/// Tells everybody that nothing was written, and hands back why.
fn fail_all(group: Vec<Job>, error: StoreError) -> StoreError {
    tracing::error!(%error, "nothing of this group was written");
    for job in group {
        job.fail(error.determinate());
    }
    error
}
