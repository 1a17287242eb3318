//! The ports of one simulated process: its log, dead letters and bus, with faults. Each call is a place where the process may crash.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::faults::FaultKind;
use super::life::{Job, Life, Simulated};
use super::scenario::Bug;
use crate::bus::{Bus, BusError, MemoryBus, Subscription};
use crate::clock::monotonic;
use crate::core::event::{NewRecord, Record};
use crate::core::id::{RecordId, Seq};
use crate::log::{AppendError, Appended, Condition, Damage, DeadLetters, DeadPage, EventLog, NewDeadLetter, ReadError};
use crate::subject::{Pattern, Subject};

/// How long an operation of a process that is cut off takes to fail.
const CUT_OFF_WAIT: Duration = Duration::from_millis(80);

/// The log of a process, as one of its parts sees it.
pub(super) struct SimLog {
    pub(super) life: Arc<Life>,
    /// The part that calls.
    pub(super) site: &'static str,
}

impl EventLog for SimLog {
    fn append(&self, facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        if !self.life.pass(self.site, "append") {
            return pending().boxed();
        }
        let (reply, answer) = oneshot::channel();
        let is_last = self.life.is_last_call();
        if self.life.jobs.send(Job { facts, reply, is_last }).is_err() {
            return pending().boxed();
        }
        async {
            match answer.await {
                Ok(outcome) => outcome,
                Err(_) => pending().await,
            }
        }
        .boxed()
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        if !self.life.pass(self.site, "read") || self.life.crashes_now() {
            return pending().boxed();
        }
        let (life, site) = (Arc::clone(&self.life), self.site);
        async move {
            let until = life.tail();
            let failing =
                life.read_faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            if failing {
                life.world.coverage.lock().met(FaultKind::ReadError);
                return Err(ReadError::Storage(Simulated.into()));
            }
            if life.is_cut_off() && after < until {
                sleep(CUT_OFF_WAIT).await;
                return Err(ReadError::Storage(Simulated.into()));
            }
            if life.is_dead() {
                return pending().await;
            }
            let repeated = Seq(if site == "graph_sync" { life.repeated.load(Ordering::Relaxed) } else { 0 });
            if repeated > Seq::ZERO {
                return Ok(life.read_with_repeat(repeated, after, limit));
            }
            let records = life.read_tiered(after, until, limit)?;
            let last = records.last().map_or(after, |record| record.seq);
            if records.len() < limit && last < until {
                return Err(ReadError::Damaged(Damage::Gap { after: last, before: until.next() }));
            }
            Ok(records)
        }
        .boxed()
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        if !self.life.pass(self.site, "find") || self.life.crashes_now() {
            return pending().boxed();
        }
        let life = Arc::clone(&self.life);
        async move {
            let until = life.tail();
            Ok(life.world.stream.find(id).filter(|seq| *seq <= until))
        }
        .boxed()
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.life.watch_tail()
    }

    fn condition(&self) -> Condition {
        if monotonic() < self.life.until().full {
            return Condition::Failing { error: "simulated".to_owned() };
        }
        Condition::Good
    }
}

impl Life {
    /// A planted bug: the record at `repeated` comes once more, as another record, and all later ones a position later.
    fn read_with_repeat(&self, repeated: Seq, after: Seq, limit: usize) -> Vec<Record> {
        let (stream, until) = (&self.world.stream, self.tail());
        if after < repeated {
            return stream.read(after, repeated, limit);
        }
        let mut records = Vec::new();
        if let (true, Some(record)) = (after == repeated, stream.read(Seq(repeated.0 - 1), repeated, 1).pop()) {
            let fact = NewRecord { id: RecordId::derived(record.fact.time, &["again"]), ..NewRecord::clone(&record.fact) };
            records.push(Record { seq: after.next(), fact: Arc::new(fact), ..record });
        }
        let later = stream.read(Seq(after.0.saturating_sub(1)).max(repeated), until, limit);
        records.extend(later.into_iter().map(|record| Record { seq: record.seq.next(), ..record }));
        records
    }
}

/// The dead letters of a process; all processes share them.
pub(super) struct SimDeadLetters(pub(super) Arc<Life>);

impl DeadLetters for SimDeadLetters {
    fn store(&self, letters: Vec<NewDeadLetter>) -> BoxFuture<'static, Result<(), AppendError>> {
        if !self.0.pass("dead", "store") {
            return pending().boxed();
        }
        if self.0.world.bug != Some(Bug::ForgetLetters) {
            self.0.world.letters.lock().extend(letters);
        }
        if self.0.crashes_now() {
            return pending().boxed();
        }
        async { Ok(()) }.boxed()
    }

    fn list(&self, _after: u64, _limit: usize) -> BoxFuture<'static, Result<DeadPage, ReadError>> {
        async { Ok(DeadPage::default()) }.boxed()
    }

    fn remove(&self, _numbers: Vec<u64>) -> BoxFuture<'static, Result<(), AppendError>> {
        async { Ok(()) }.boxed()
    }
}

/// The bus of a process: in trouble it loses every other message and sends the rest twice.
pub(super) struct SimBus {
    pub(super) life: Arc<Life>,
    pub(super) inner: MemoryBus,
}

impl Bus for SimBus {
    fn publish(&self, subject: Subject, payload: Arc<[u8]>) -> BoxFuture<'static, Result<(), BusError>> {
        if !self.life.pass("graph_sync", "publish") || self.life.crashes_now() {
            return pending().boxed();
        }
        if monotonic() >= self.life.until().bus {
            return self.inner.publish(subject, payload);
        }
        self.life.world.coverage.lock().met(FaultKind::BusTrouble);
        if payload.len().is_multiple_of(2) {
            return async { Err(BusError::Unavailable(Simulated.into())) }.boxed();
        }
        let (first, second) = (self.inner.publish(subject.clone(), Arc::clone(&payload)), self.inner.publish(subject, payload));
        async {
            first.await?;
            second.await
        }
        .boxed()
    }

    fn subscribe(&self, pattern: Pattern, queue_len_max: usize) -> BoxFuture<'static, Result<Subscription, BusError>> {
        self.inner.subscribe(pattern, queue_len_max)
    }

    fn listeners(&self) -> Vec<Pattern> {
        self.inner.listeners()
    }
}
