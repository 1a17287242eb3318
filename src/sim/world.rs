//! A run: builds the world, lets agents work while faults happen, heals everything, waits until all is quiet, and checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use pml_model::random::Random;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::agents;
use super::check;
use super::executor;
use super::faults::{Fault, FaultKind, Place};
use super::lease::LeaseKey;
use super::process::Process;
use super::scenario::{Bug, Coverage, Outcome, Scenario};
use super::stream::Stream;
use crate::archive::ArchiveStore;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{NewRecord, Record, stored};
use crate::core::id::{RecordId, Seq};
use crate::core::intake::Limits;
use crate::core::state::State;
use crate::core::time::Timestamp;
use crate::execute::Runner;
use crate::failpoint;
use crate::log::{Appended, NewDeadLetter};
use crate::publisher::Verdict;

/// When the simulated world begins.
const START_US: i64 = 1_769_860_800_000_000;
/// How long a crashed process is down.
const DOWN: Duration = Duration::from_millis(150);
/// Longest time in which all agents get their verdicts once everything works again.
const AGENTS_WAIT: Duration = Duration::from_secs(25);
/// Longest time in which everything is folded and closed after that.
const SETTLE_WAIT: Duration = Duration::from_secs(12);
/// How long the place of a crash or a panic is waited for, after the last fault.
const PLACE_WAIT: Duration = Duration::from_secs(3);
/// Records that a planted bug loses.
const LOST_TAIL: usize = 2;

/// What the parts of all processes share.
pub(super) struct Shared {
    pub(super) config: &'static Config,
    pub(super) limits: Arc<Limits>,
    pub(super) processes: usize,
    pub(super) tiering: bool,
    pub(super) bug: Option<Bug>,
    pub(super) stream: Stream,
    /// The processes that are told when somebody has written.
    pub(super) listeners: Mutex<Vec<Arc<Notify>>>,
    pub(super) lease: LeaseKey,
    /// Lives of processes so far.
    pub(super) lives: AtomicU64,
    pub(super) letters: Mutex<Vec<NewDeadLetter>>,
    pub(super) sent: Mutex<BTreeMap<RecordId, NewRecord>>,
    pub(super) verdicts: Mutex<Vec<(RecordId, Verdict)>>,
    pub(super) snapshots: Mutex<Vec<Arc<State>>>,
    /// Calls of tools by key: how many were made, how many were answered with success.
    pub(super) calls: Mutex<BTreeMap<String, [u64; 2]>>,
    /// What was found wrong while the run went on.
    pub(super) problems: Mutex<Vec<String>>,
    /// Where processes keep their files.
    pub(super) directory: PathBuf,
    pub(super) coverage: Arc<Mutex<Coverage>>,
}

impl Shared {
    /// Where tiering moves records to; all processes share it.
    pub(super) fn archive(&self) -> ArchiveStore {
        self.directory.join("archive").as_path().into()
    }

    /// Tells all processes that somebody has written.
    pub(super) fn notify(&self) {
        for listener in &*self.listeners.lock() {
            listener.notify_one();
        }
    }

    /// The answer to an append that has not happened yet.
    pub(super) fn guess(&self, facts: &[Arc<NewRecord>]) -> Vec<Appended> {
        let mut last = self.stream.tail();
        let mut guess = |fact: &Arc<NewRecord>| {
            if let Some(seq) = self.stream.find(fact.id) {
                return Appended { seq, duplicate: true };
            }
            last = last.next();
            Appended { seq: last, duplicate: false }
        };
        facts.iter().map(&mut guess).collect()
    }
}

/// The world of a run.
pub(super) struct World {
    pub(super) shared: Arc<Shared>,
    pub(super) processes: Mutex<Vec<Option<Process>>>,
    clocks: Vec<Clock>,
    /// Whether an actor is to panic.
    panic_armed: Arc<AtomicBool>,
}

/// A directory of its own for a run.
fn directory() -> PathBuf {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("pml-sim-{}-{number}", std::process::id()))
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nothing is left behind; a directory that was never made is none.
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// Quick settings, so that a few seconds hold much. Read once: it takes longer than many a run.
static CONFIG: LazyLock<(Config, Arc<Limits>)> = LazyLock::new(|| {
    let settings = [
        ("TRACE__SETTLE_MS", "30"),
        ("TRACE__LATE_MS", "400"),
        ("TRACE__ABANDON_MS", "1500"),
        ("EXECUTION__REORDER_WAIT_MS", "600"),
    ];
    let named = settings.map(|(name, value)| (format!("PML__{name}"), value.to_owned()));
    let config = Config::load(None, named).expect("these settings are valid");
    let limits = Arc::new(Limits::from(&config));
    (config, limits)
});

/// Runs a scenario on the thread at hand, whose clock is paused.
pub(super) async fn simulate(scenario: &Scenario) -> Result<Outcome, String> {
    let began = crate::clock::monotonic();
    let start = Timestamp::from_micros(START_US);
    let shared = Arc::new(Shared {
        config: &CONFIG.0,
        limits: Arc::clone(&CONFIG.1),
        processes: scenario.processes,
        tiering: scenario.tiering,
        bug: scenario.bug,
        stream: Stream::new(),
        listeners: Mutex::default(),
        lease: LeaseKey::default(),
        lives: AtomicU64::new(0),
        letters: Mutex::default(),
        sent: Mutex::default(),
        verdicts: Mutex::default(),
        snapshots: Mutex::default(),
        calls: Mutex::default(),
        problems: Mutex::default(),
        directory: directory(),
        coverage: Arc::default(),
    });
    let clocks: Vec<Clock> = (0..scenario.processes).map(|number| Clock::simulated(start, number as u64)).collect();
    let world = Arc::new(World { shared, processes: Mutex::default(), clocks, panic_armed: Arc::default() });
    failpoint::decide_here(None);
    // An earlier process has found them.
    let tools = executor::registrations(start);
    world.shared.sent.lock().extend(tools.iter().map(|fact| (fact.id, fact.clone())));
    world.shared.stream.append(tools.into_iter().map(Arc::new).collect(), start, true);
    for number in 0..scenario.processes {
        let process = world.start_process(number);
        world.processes.lock().push(Some(process));
    }
    let mut random = Random::new(scenario.seed);
    let mut working = JoinSet::new();
    for agent in 0..2 + random.below(3) {
        let (world, own) = (Arc::clone(&world), Random::new(random.next_u64()));
        working.spawn_local(agents::run(world, agent, own, start.plus_millis(agent as u64 * 1_000)));
    }
    for user in 0..random.below(3) {
        working.spawn_local(executor::user(Arc::clone(&world), user, Random::new(random.next_u64())));
    }
    let keeper = tokio::task::spawn_local(Arc::clone(&world).restart_dead_processes());
    world.inject(&scenario.faults).await;
    world.heal();
    let finished = timeout(AGENTS_WAIT, async { while working.join_next().await.is_some() {} }).await;
    finished.map_err(|_| "agents still have no verdicts long after everything was healed".to_owned())?;
    world.settle().await?;
    keeper.abort();
    check::invariants(&world)?;
    let outcome = world.outcome(began.elapsed());
    for process in world.processes.lock().iter().flatten() {
        process.life.die();
    }
    Ok(outcome)
}

impl World {
    fn start_process(&self, number: usize) -> Process {
        let newest = self.shared.snapshots.lock().last().cloned();
        let state = newest.map(|state| State::clone(&state)).unwrap_or_default();
        Process::start(&self.shared, number, self.clocks[number].clone(), state)
    }

    /// The runner of a process that is there.
    pub(super) fn runner(&self, number: usize) -> Option<Runner> {
        let processes = self.processes.lock();
        processes[number].as_ref().filter(|process| !process.life.is_dead()).map(|process| process.runner.clone())
    }

    /// Starts every process again a while after it has ended.
    async fn restart_dead_processes(self: Arc<Self>) {
        loop {
            sleep(DOWN).await;
            for number in 0..self.shared.processes {
                let is_dead = self.processes.lock()[number].as_ref().is_some_and(|process| process.life.is_dead());
                if !is_dead {
                    continue;
                }
                if self.shared.bug == Some(Bug::LoseTail) {
                    self.shared.stream.lose(LOST_TAIL);
                }
                let process = self.start_process(number);
                self.processes.lock()[number] = Some(process);
            }
        }
    }

    async fn inject(&self, faults: &[Fault]) {
        let began = crate::clock::monotonic();
        for fault in faults {
            tokio::time::sleep_until(began + Duration::from_millis(fault.at_ms)).await;
            self.apply(fault).await;
        }
        // A crash or a panic comes when its place is reached.
        let end = crate::clock::monotonic() + PLACE_WAIT;
        while self.waits_for_place() && crate::clock::monotonic() < end {
            sleep(Duration::from_millis(50)).await;
        }
        sleep(Duration::from_millis(200)).await;
    }

    fn waits_for_place(&self) -> bool {
        let processes = self.processes.lock();
        let is_armed = |process: &Process| !process.life.is_dead() && process.life.is_to_crash();
        self.panic_armed.load(Ordering::Relaxed) || processes.iter().flatten().any(is_armed)
    }

    async fn apply(&self, fault: &Fault) {
        let life = match &self.processes.lock()[fault.process] {
            Some(process) => Arc::clone(&process.life),
            None => return,
        };
        let until = crate::clock::monotonic() + Duration::from_millis(20 + fault.choose(1, 1_500) as u64);
        let met = |kind| self.shared.coverage.lock().met(kind);
        match fault.kind {
            FaultKind::Crash => fault.place.into_iter().for_each(|place| life.crash_at(place)),
            FaultKind::Stop => {
                met(FaultKind::Stop);
                let process = self.processes.lock()[fault.process].take();
                if let Some(process) = process {
                    process.stop().await;
                }
                let process = self.start_process(fault.process);
                self.processes.lock()[fault.process] = Some(process);
            }
            FaultKind::Panic => fault.place.into_iter().for_each(|place| self.arm_panic(place)),
            kind @ (FaultKind::ErrorBefore | FaultKind::ErrorWithin | FaultKind::ErrorAfter) => life.add_append_fault(kind),
            FaultKind::ReadError => life.add_read_fault(),
            FaultKind::DiskFull => life.set_until(|conditions| conditions.full = until),
            FaultKind::DiskSlow => life.set_until(|conditions| conditions.slow = until),
            FaultKind::Partition => life.set_until(|conditions| conditions.cut_off = until),
            FaultKind::Lag => life.set_until(|conditions| conditions.lag = until),
            FaultKind::BusTrouble => life.set_until(|conditions| conditions.bus = until),
            FaultKind::ClockJump => {
                met(FaultKind::ClockJump);
                let jump_ms = 1 << fault.choose(2, 24);
                let now = life.clock.now();
                let back = Timestamp::from_micros(now.micros() - jump_ms * 1_000);
                life.clock.set_wall(if fault.choose(3, 2) == 0 { now.plus_millis(jump_ms.unsigned_abs()) } else { back });
            }
            FaultKind::LeaseLost => {
                met(FaultKind::LeaseLost);
                self.shared.lease.delete();
            }
            FaultKind::Foreign => {
                met(FaultKind::Foreign);
                self.shared.stream.skip();
            }
            FaultKind::Snapshot => {
                met(FaultKind::Snapshot);
                self.take_snapshot(fault.process);
            }
        }
    }

    /// Lets the failpoint at this place panic.
    fn arm_panic(&self, mut place: Place) {
        let (coverage, armed) = (Arc::clone(&self.shared.coverage), Arc::clone(&self.panic_armed));
        armed.store(true, Ordering::Relaxed);
        failpoint::decide_here(Some(Box::new(move |point| {
            let is_there = point.split_once('.').is_some_and(|(part, name)| place.is_at(part, name));
            if !is_there || place.nth == 0 {
                return false;
            }
            place.nth -= 1;
            if place.nth == 0 {
                armed.store(false, Ordering::Relaxed);
                let mut coverage = coverage.lock();
                *coverage.panics.entry(point.to_owned()).or_default() += 1;
                coverage.met(FaultKind::Panic);
            }
            place.nth == 0
        })));
    }

    /// Keeps the view of a process, as a snapshot does; every second one goes through its files.
    fn take_snapshot(&self, number: usize) {
        let Some(view) = self.processes.lock()[number].as_ref().map(|process| process.views.current()) else { return };
        if view.applied() > Seq::ZERO {
            self.shared.snapshots.lock().push(view);
        }
    }

    /// Ends all faults.
    fn heal(&self) {
        failpoint::decide_here(None);
        for process in self.processes.lock().iter().flatten() {
            process.life.heal();
        }
    }

    /// Waits until every process has folded everything and every execution that finished is closed.
    async fn settle(&self) -> Result<(), String> {
        let settled = async {
            loop {
                sleep(Duration::from_millis(200)).await;
                let last = self.shared.stream.tail();
                let is_quiet = |process: &Option<Process>| {
                    process.as_ref().is_some_and(|process| {
                        let view = process.views.current();
                        view.applied() >= last && view.executions.is_empty()
                    })
                };
                let processes = self.processes.lock();
                if processes.iter().all(is_quiet) {
                    return;
                }
            }
        };
        timeout(SETTLE_WAIT, settled).await.map_err(|_| {
            let at = |process: &Option<Process>| process.as_ref().map(|process| process.views.current().applied().0);
            let (last, at) = (self.shared.stream.tail(), self.processes.lock().iter().map(at).collect::<Vec<_>>());
            format!("executions are still open, or views behind, long after everything was healed: {at:?} of {last}")
        })
    }

    fn outcome(&self, simulated: Duration) -> Outcome {
        let records = self.shared.stream.records();
        let mut hash = blake3::Hasher::new();
        let line = |record: &Record| {
            let (kind, at) = (record.event().kind(), record.recorded_at);
            format!("{} {at} {} {kind}", record.seq, record.fact.id)
        };
        let history = records.iter().map(line).collect();
        for record in &records {
            hash.update(&record.seq.0.to_le_bytes());
            hash.update(&stored::encode(&record.fact, record.recorded_at));
        }
        hash.update(format!("{:?}", self.shared.verdicts.lock()).as_bytes());
        let digest = hash.finalize().to_hex()[..16].to_owned();
        Outcome { digest, history, simulated, coverage: self.shared.coverage.lock().clone() }
    }
}
