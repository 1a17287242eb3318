//! One life of a simulated process: from its start to a crash or a stop, with the faults that it meets and its writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use super::faults::{FaultKind, Place};
use super::scenario::Bug;
use super::world::Shared;
use crate::archive::ArchivedRecords;
use crate::clock::{Clock, monotonic};
use crate::core::event::{Event, NewRecord};
use crate::core::id::Seq;
use crate::log::{AppendError, Appended};

/// How long a write takes, and the answer to it, in microseconds.
pub(super) const WRITE_US: u64 = 300;

#[derive(Debug, thiserror::Error)]
#[error("simulated fault")]
pub(super) struct Simulated;

/// One life of a process, as its ports see it.
pub(super) struct Life {
    pub(super) world: Arc<Shared>,
    /// The number of the process.
    pub(super) number: usize,
    /// Tells the lives of all processes apart.
    pub(super) id: u64,
    pub(super) clock: Clock,
    /// Set when the process has crashed or was stopped: nothing that it does has an effect any more.
    dead: watch::Sender<bool>,
    /// Where the process is to crash.
    crash: Mutex<Option<Place>>,
    /// Set between a call that was passed and its effect, if the process crashes then.
    is_last: AtomicBool,
    /// Faults of the next appends and reads.
    append_faults: Mutex<VecDeque<FaultKind>>,
    pub(super) read_faults: AtomicU64,
    until: Mutex<Until>,
    /// The last position that the process has heard of, and its watchers: one for each, since tokio wakes the receivers of one channel in
    /// a random order.
    tail: AtomicU64,
    tails: Mutex<Vec<watch::Sender<Seq>>>,
    /// Told when somebody has written.
    pub(super) written: Arc<Notify>,
    pub(super) jobs: mpsc::UnboundedSender<Job>,
    /// The records that tiering has moved, as this process reads them.
    pub(super) older: ArchivedRecords,
    /// The position of a record that is folded twice, by a planted bug; zero if there is none.
    pub(super) repeated: AtomicU64,
}

/// Until when conditions last.
#[derive(Clone, Copy)]
pub(super) struct Until {
    pub(super) slow: Instant,
    pub(super) full: Instant,
    pub(super) cut_off: Instant,
    pub(super) lag: Instant,
    pub(super) bus: Instant,
}

/// An append that waits for the writer.
pub(super) struct Job {
    pub(super) facts: Vec<Arc<NewRecord>>,
    pub(super) reply: oneshot::Sender<Result<Vec<Appended>, AppendError>>,
    /// Whether the process ends when this is written.
    pub(super) is_last: bool,
}

impl Life {
    pub(super) fn new(world: Arc<Shared>, number: usize, clock: Clock) -> Arc<Self> {
        let now = monotonic();
        let (jobs, queue) = mpsc::unbounded_channel();
        let tail = AtomicU64::new(world.stream.tail().0);
        let written = Arc::new(Notify::new());
        world.listeners.lock().push(Arc::clone(&written));
        let id = world.lives.fetch_add(1, Ordering::Relaxed);
        let older = ArchivedRecords::new(world.archive());
        let life = Arc::new(Self {
            world,
            number,
            id,
            clock,
            dead: watch::Sender::new(false),
            crash: Mutex::default(),
            is_last: AtomicBool::new(false),
            append_faults: Mutex::default(),
            read_faults: AtomicU64::new(0),
            until: Mutex::new(Until { slow: now, full: now, cut_off: now, lag: now, bus: now }),
            tail,
            tails: Mutex::default(),
            written,
            jobs,
            older,
            repeated: AtomicU64::new(0),
        });
        tokio::task::spawn_local(write(Arc::clone(&life), queue));
        tokio::task::spawn_local(hear_of_others(Arc::clone(&life)));
        life
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    pub(super) fn died(&self) -> watch::Receiver<bool> {
        self.dead.subscribe()
    }

    pub(super) fn die(&self) {
        self.dead.send_replace(true);
    }

    pub(super) fn crash_at(&self, place: Place) {
        *self.crash.lock() = Some(place);
    }

    pub(super) fn is_to_crash(&self) -> bool {
        self.crash.lock().is_some()
    }

    pub(super) fn add_append_fault(&self, kind: FaultKind) {
        self.append_faults.lock().push_back(kind);
    }

    pub(super) fn add_read_fault(&self) {
        self.read_faults.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_until(&self, set: impl FnOnce(&mut Until)) {
        set(&mut self.until.lock());
    }

    pub(super) fn until(&self) -> Until {
        *self.until.lock()
    }

    pub(super) fn is_cut_off(&self) -> bool {
        monotonic() < self.until().cut_off
    }

    /// The last position that the process has heard of.
    pub(super) fn tail(&self) -> Seq {
        Seq(self.tail.load(Ordering::Relaxed))
    }

    /// A watcher of the tail of its own.
    pub(super) fn watch_tail(&self) -> watch::Receiver<Seq> {
        let (sender, receiver) = watch::channel(self.tail());
        let mut tails = self.tails.lock();
        tails.retain(|tail| !tail.is_closed());
        tails.push(sender);
        receiver
    }

    /// Hears of a position.
    fn reach(&self, position: Seq) {
        if self.tail.fetch_max(position.0, Ordering::Relaxed) < position.0 {
            for tail in &*self.tails.lock() {
                tail.send_replace(position);
            }
        }
    }

    /// Ends all conditions and forgets the faults that were not met.
    pub(super) fn heal(&self) {
        let now = monotonic();
        self.set_until(|until| *until = Until { slow: now, full: now, cut_off: now, lag: now, bus: now });
        self.append_faults.lock().clear();
        self.read_faults.store(0, Ordering::Relaxed);
        *self.crash.lock() = None;
    }

    /// Passes a call of a port. Returns whether the call has its effect; the process may be dead afterwards.
    pub(super) fn pass(&self, site: &'static str, call: &'static str) -> bool {
        if self.is_dead() {
            return false;
        }
        self.world.coverage.lock().passed(site, call);
        let mut crash = self.crash.lock();
        let Some(place) = crash.as_mut().filter(|place| place.is_at(site, call)) else { return true };
        place.nth -= 1;
        if place.nth > 0 {
            return true;
        }
        let after = place.after;
        *crash = None;
        self.world.coverage.lock().crashed(site, call, after);
        if after {
            // The effect is in the world, and the process does not hear of it.
            self.is_last.store(true, Ordering::Relaxed);
            return true;
        }
        self.die();
        false
    }

    /// Whether the process is to crash once the call that was passed has had its effect. Asked right after [`Self::pass`].
    pub(super) fn is_last_call(&self) -> bool {
        self.is_last.swap(false, Ordering::Relaxed)
    }

    /// Crashes, if the call that was passed was the last one.
    pub(super) fn crashes_now(&self) -> bool {
        let due = self.is_last_call();
        if due {
            self.die();
        }
        due
    }

    /// What an append meets.
    fn next_append_fault(&self) -> Option<FaultKind> {
        let fault = self.append_faults.lock().pop_front();
        let until = self.until();
        let fault = fault.or_else(|| (monotonic() < until.full).then_some(FaultKind::DiskFull));
        if let Some(kind) = fault {
            self.world.coverage.lock().met(kind);
        }
        fault
    }
}

/// The writer of a process: one append at a time, in the order of the calls.
async fn write(life: Arc<Life>, mut queue: mpsc::UnboundedReceiver<Job>) {
    while let Some(Job { facts, reply, is_last }) = queue.recv().await {
        let slow = monotonic() < life.until().slow;
        if slow {
            life.world.coverage.lock().met(FaultKind::DiskSlow);
        }
        let early = life.world.bug == Some(Bug::AcknowledgeBeforeWrite);
        let positions = early.then(|| life.world.guess(&facts));
        let mut reply = Some(reply);
        if let Some(positions) = positions {
            // A planted bug: the answer comes first.
            answer(&mut reply, Ok(positions));
        }
        sleep(Duration::from_micros(WRITE_US * if slow || early { 100 } else { 1 })).await;
        if life.is_dead() {
            continue;
        }
        let outcome = life.commit(facts);
        if is_last {
            life.die();
        }
        sleep(Duration::from_micros(WRITE_US)).await;
        if !life.is_dead() {
            answer(&mut reply, outcome);
        }
    }
}

fn answer(
    reply: &mut Option<oneshot::Sender<Result<Vec<Appended>, AppendError>>>,
    outcome: Result<Vec<Appended>, AppendError>,
) {
    if let Some(reply) = reply.take() {
        // A caller that stopped waiting does not want the answer.
        drop(reply.send(outcome));
    }
}

impl Life {
    /// Writes into the stream, unless a fault prevents it.
    fn commit(&self, mut facts: Vec<Arc<NewRecord>>) -> Result<Vec<Appended>, AppendError> {
        let unknown = || Err(AppendError::Indeterminate(Simulated.into()));
        let mut fault = self.next_append_fault();
        if fault.is_none() && self.is_cut_off() {
            self.world.coverage.lock().met(FaultKind::Partition);
            // The request or the answer is lost.
            fault = Some(if facts.len().is_multiple_of(2) { FaultKind::ErrorAfter } else { FaultKind::Partition });
        }
        match fault {
            Some(FaultKind::ErrorBefore) => return Err(AppendError::Determinate(Simulated.into())),
            Some(FaultKind::DiskFull) => {
                return Err(AppendError::Full { place: "the disk".to_owned(), detail: "simulated".to_owned() });
            }
            Some(FaultKind::Partition) => return unknown(),
            Some(FaultKind::ErrorWithin) => facts.truncate(facts.len() / 2),
            _ => {}
        }
        if self.world.bug == Some(Bug::PromoteUnfinished) {
            facts.sort_by_key(|fact| !matches!(fact.event, Event::ModelPromoted(_)));
        }
        let facts = facts.into_iter().map(|fact| self.with_planted_id(fact)).collect();
        let appended = self.world.stream.append(facts, self.clock.now(), self.world.bug != Some(Bug::SkipDedupe));
        self.reach(self.world.stream.tail());
        self.world.notify();
        if matches!(fault, Some(FaultKind::ErrorWithin | FaultKind::ErrorAfter)) { unknown() } else { Ok(appended) }
    }

    /// A planted bug: traces have ids that do not follow from their execution.
    fn with_planted_id(&self, fact: Arc<NewRecord>) -> Arc<NewRecord> {
        if self.world.bug == Some(Bug::CloseTwice) && matches!(fact.event, Event::TraceCompleted(_)) {
            return Arc::new(NewRecord { id: self.clock.fresh_id(), ..NewRecord::clone(&fact) });
        }
        fact
    }
}

/// Moves the tail of a process when others write, late if it lags.
async fn hear_of_others(life: Arc<Life>) {
    while !life.is_dead() {
        life.written.notified().await;
        let until = life.until();
        let wait = until.lag.max(until.cut_off);
        if monotonic() < wait {
            if monotonic() < until.lag {
                life.world.coverage.lock().met(FaultKind::Lag);
            }
            tokio::time::sleep_until(wait).await;
        } else if life.world.processes > 1 {
            sleep(Duration::from_millis(1)).await;
        }
        life.reach(life.world.stream.tail());
    }
}
