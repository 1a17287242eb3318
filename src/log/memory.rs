//! The log in memory: the same contract without durability, for tests and for measuring what durability costs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::watch;

use super::{AppendError, Appended, EventLog, ReadError};
use crate::clock::Clock;
use crate::core::event::{NewRecord, Record};
use crate::core::id::{RecordId, Seq};

/// A log that holds its records in memory.
pub struct MemoryLog {
    clock: Clock,
    contents: Arc<Mutex<Contents>>,
    tail: watch::Sender<Seq>,
}

#[derive(Default)]
struct Contents {
    records: Vec<Record>,
    by_id: BTreeMap<RecordId, Seq>,
}

impl MemoryLog {
    pub fn new(clock: Clock) -> Self {
        Self { clock, contents: Arc::default(), tail: watch::Sender::new(Seq::ZERO) }
    }
}

impl EventLog for MemoryLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let mut appended = Vec::with_capacity(facts.len());
        for fact in facts {
            if let Some(&seq) = contents.by_id.get(&fact.id) {
                appended.push(Appended { seq, duplicate: true });
                continue;
            }
            let seq = Seq(contents.records.len() as u64 + 1);
            contents.by_id.insert(fact.id, seq);
            contents.records.push(Record { seq, recorded_at: self.clock.now(), fact });
            appended.push(Appended { seq, duplicate: false });
        }
        let last = Seq(contents.records.len() as u64);
        drop(contents);
        self.tail.send_if_modified(|tail| std::mem::replace(tail, last.max(*tail)) < last);
        ready(Ok(appended)).boxed()
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let from = usize::try_from(after.0).unwrap_or(usize::MAX).min(contents.records.len());
        let records = contents.records[from..].iter().take(limit).cloned().collect();
        ready(Ok(records)).boxed()
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        ready(Ok(contents.by_id.get(&id).copied())).boxed()
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.tail.subscribe()
    }
}
