//! The stream that all processes share: a model of what the disk and the JetStream server promise.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::core::event::{NewRecord, Record};
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::log::{AppendError, Appended, EventLog, ReadError};

/// An ordered sequence of records with unique ids. Positions may have holes.
pub(super) struct Stream {
    contents: Mutex<Contents>,
    last: watch::Sender<Seq>,
}

#[derive(Default)]
struct Contents {
    records: BTreeMap<Seq, Record>,
    positions: BTreeMap<RecordId, Seq>,
    /// The last position given, also to a message that is no record.
    last: Seq,
    /// The position of the last record that was written.
    tail: Seq,
    /// The position up to which tiering has removed records. They stay here for comparison, and readers get them from the archive.
    trimmed_to: Seq,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self { contents: Mutex::default(), last: watch::Sender::new(Seq::ZERO) }
    }

    /// Writes the facts that are not there yet; `dedupe` is false for a stream that forgets to look.
    pub(super) fn append(&self, facts: Vec<Arc<NewRecord>>, now: Timestamp, dedupe: bool) -> Vec<Appended> {
        let mut contents = self.contents.lock();
        let mut appended = Vec::with_capacity(facts.len());
        for fact in facts {
            if let Some(&seq) = contents.positions.get(&fact.id).filter(|_| dedupe) {
                appended.push(Appended { seq, duplicate: true });
                continue;
            }
            let seq = contents.last.next();
            contents.last = seq;
            contents.positions.entry(fact.id).or_insert(seq);
            contents.records.insert(seq, Record { seq, recorded_at: now, fact });
            appended.push(Appended { seq, duplicate: false });
        }
        let last = contents.records.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq);
        contents.tail = last;
        drop(contents);
        self.last.send_if_modified(|known| std::mem::replace(known, last) != last);
        appended
    }

    /// Takes a message that is no record: its position is a hole.
    pub(super) fn skip(&self) {
        let mut contents = self.contents.lock();
        contents.last = contents.last.next();
    }

    /// Removes records up to `to`, at most `count` of them; returns the position up to which all are removed.
    pub(super) fn trim(&self, to: Seq, count: usize) -> Seq {
        let mut contents = self.contents.lock();
        let from = contents.trimmed_to.next();
        if from <= to {
            let removed = contents.records.range(from..=to).take(count).last().map(|(seq, _)| *seq);
            contents.trimmed_to = removed.unwrap_or(to);
        }
        contents.trimmed_to
    }

    pub(super) fn trimmed_to(&self) -> Seq {
        self.contents.lock().trimmed_to
    }

    /// Loses the last records, as no stream may.
    pub(super) fn lose(&self, count: usize) {
        let mut contents = self.contents.lock();
        for _ in 0..count {
            if let Some((_, record)) = contents.records.pop_last() {
                contents.positions.remove(&record.fact.id);
            }
        }
    }

    /// The records after a position, at most `limit`, none beyond `until`, those that were removed included.
    pub(super) fn read(&self, after: Seq, until: Seq, limit: usize) -> Vec<Record> {
        let contents = self.contents.lock();
        let from = after.next();
        if from > until {
            return Vec::new();
        }
        contents.records.range(from..=until).take(limit).map(|(_, record)| record.clone()).collect()
    }

    pub(super) fn find(&self, id: RecordId) -> Option<Seq> {
        self.contents.lock().positions.get(&id).copied()
    }

    /// Everything.
    pub(super) fn records(&self) -> Vec<Record> {
        self.contents.lock().records.values().cloned().collect()
    }

    /// The position of the last record that was written.
    pub(super) fn tail(&self) -> Seq {
        self.contents.lock().tail
    }

    /// A watcher of the position of the last record.
    fn last(&self) -> watch::Receiver<Seq> {
        self.last.subscribe()
    }
}

/// The model of the stream as a log without faults, for comparisons with the real server.
pub struct ModelLog {
    stream: Stream,
    clock: Clock,
}

impl ModelLog {
    pub fn new(clock: Clock) -> Self {
        Self { stream: Stream::new(), clock }
    }

    /// Takes a message that is no record.
    pub fn take_foreign(&self) {
        self.stream.skip();
    }
}

impl EventLog for ModelLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        ready(Ok(self.stream.append(facts, self.clock.now(), true))).boxed()
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        let until = *self.stream.last().borrow();
        ready(Ok(self.stream.read(after, until, limit))).boxed()
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        ready(Ok(self.stream.find(id))).boxed()
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.stream.last()
    }
}
