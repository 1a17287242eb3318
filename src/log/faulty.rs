//! A log that injects append errors: before the write, in the middle of it, or after it. Reads are passed on unchanged, or all of them fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::watch;

use super::{AppendError, Appended, Condition, EventLog, ForeignMessages, ReadError, SharedLog};
use crate::core::event::{NewRecord, Record};
use crate::core::hash::mix;
use crate::core::id::{RecordId, Seq};

/// The fault injected into one call of `append`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Nothing is written; the caller gets `Determinate`.
    Before,
    /// The first half (rounded down) is written; the caller gets `Indeterminate`.
    Within,
    /// Everything is written; the caller gets `Indeterminate`.
    After,
}

#[derive(Debug, thiserror::Error)]
#[error("injected fault")]
struct Injected;

/// A log with injected faults around another log.
pub struct FaultyLog {
    inner: SharedLog,
    plan: Mutex<Box<dyn Iterator<Item = Fault> + Send>>,
    reads_fail: AtomicBool,
}

impl FaultyLog {
    /// `plan` gives one fault per call of `append`, in the order of the calls; calls after its end have none.
    pub fn new(inner: SharedLog, plan: impl Iterator<Item = Fault> + Send + 'static) -> Self {
        Self { inner, plan: Mutex::new(Box::new(plan)), reads_fail: AtomicBool::new(false) }
    }

    /// Lets all reads fail from now on, or none.
    pub fn fail_reads(&self, fail: bool) {
        self.reads_fail.store(fail, Ordering::Relaxed);
    }

    fn next_fault(&self) -> Fault {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).next().unwrap_or(Fault::None)
    }
}

/// Returns an endless plan in which all faults are equally frequent. Equal seeds give equal plans.
pub fn seeded(seed: u64) -> impl Iterator<Item = Fault> + Send {
    // SplitMix64 (Steele, Lea, Flood 2014): any seed is good, zero included.
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        match mix(state) % 4 {
            0 => Fault::None,
            1 => Fault::Before,
            2 => Fault::Within,
            _ => Fault::After,
        }
    })
}

impl EventLog for FaultyLog {
    fn append(&self, mut facts: Vec<Arc<NewRecord>>) -> BoxFuture<'static, Result<Vec<Appended>, AppendError>> {
        // The fault is drawn and the inner call made here, not in the future, because the order of calls is the order of appends.
        let fault = self.next_fault();
        if fault == Fault::Before {
            return ready(Err(AppendError::Determinate(Injected.into()))).boxed();
        }
        if fault == Fault::Within {
            facts.truncate(facts.len() / 2);
        }
        let written = self.inner.append(facts);
        if fault == Fault::None {
            return written;
        }
        async {
            // An error of the inner log takes precedence over the injected one.
            written.await?;
            Err(AppendError::Indeterminate(Injected.into()))
        }
        .boxed()
    }

    fn read(&self, after: Seq, limit: usize) -> BoxFuture<'static, Result<Vec<Record>, ReadError>> {
        if self.reads_fail.load(Ordering::Relaxed) {
            return ready(Err(ReadError::Storage(Injected.into()))).boxed();
        }
        self.inner.read(after, limit)
    }

    fn find(&self, id: RecordId) -> BoxFuture<'static, Result<Option<Seq>, ReadError>> {
        self.inner.find(id)
    }

    fn tail(&self) -> watch::Receiver<Seq> {
        self.inner.tail()
    }

    fn foreign(&self) -> ForeignMessages {
        self.inner.foreign()
    }

    fn condition(&self) -> Condition {
        self.inner.condition()
    }
}
