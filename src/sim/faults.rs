//! What goes wrong in a run, and when: a list that follows from the seed.

use pml_model::random::Random;

/// The time in which faults begin, in milliseconds.
const BEGIN_MS: usize = 5_000;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The process ends at one of its next calls of a port, before or after the call has its effect.
    Crash,
    /// The process is stopped in order, and started again.
    Stop,
    /// An actor panics at a failpoint.
    Panic,
    /// An append fails before anything is written.
    ErrorBefore,
    /// An append fails after half of it is written.
    ErrorWithin,
    /// An append is written and its answer is lost.
    ErrorAfter,
    /// A read fails.
    ReadError,
    /// Appends fail for lack of room.
    DiskFull,
    /// Appends take long.
    DiskSlow,
    /// The process does not reach the stream nor its leases.
    Partition,
    /// What others write arrives late.
    Lag,
    /// The wall clock is set forward or back.
    ClockJump,
    /// Somebody deletes the lease of the process.
    LeaseLost,
    /// Somebody writes a message into the stream that is no record.
    Foreign,
    /// Messages on the bus are lost, and sent twice.
    BusTrouble,
    /// A snapshot is taken, from which later processes start.
    Snapshot,
}

impl FaultKind {
    pub const ALL: [Self; 16] = [
        Self::Crash,
        Self::Stop,
        Self::Panic,
        Self::ErrorBefore,
        Self::ErrorWithin,
        Self::ErrorAfter,
        Self::ReadError,
        Self::DiskFull,
        Self::DiskSlow,
        Self::Partition,
        Self::Lag,
        Self::ClockJump,
        Self::LeaseLost,
        Self::Foreign,
        Self::BusTrouble,
        Self::Snapshot,
    ];
}

/// The calls of ports: a process can crash at each, before and after it has its effect.
pub const CALLS: [&str; 15] = [
    "execution.append",
    "execution.find",
    "execution.read",
    "dead.store",
    "trace.append",
    "trace.read",
    "graph_sync.read",
    "graph_sync.publish",
    "trainer.append",
    "trainer.read",
    "runner.append",
    "tool.call",
    "lease.write",
    "tiering.read",
    "tiering.trim",
];

/// The failpoints of the parts that are simulated: an actor can panic at each.
pub const POINTS: [&str; 7] = [
    "execution.publish",
    "trace.record",
    "graph_sync.record",
    "tiering.page",
    "tiering.written",
    "tiering.compared",
    "tiering.trimmed",
];

/// Where a process crashes, or an actor panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// One of [`CALLS`] or [`POINTS`]; `None` is any, except writing a lease, which is the most frequent by far.
    pub name: Option<&'static str>,
    /// How many of these from now; 1 is the next one.
    pub nth: u64,
    /// Whether a call has its effect before the crash.
    pub after: bool,
}

impl Place {
    /// One of these names, or the place that comes after a number of any.
    fn choose(names: &[&'static str], tiering: bool, any_max: usize, random: &mut Random) -> Self {
        const NTH_MAX: usize = 4;
        let chosen = (random.below(2) == 0).then(|| names[random.below(names.len())]);
        let name = chosen.filter(|name| tiering || !name.starts_with("tiering."));
        let nth = 1 + random.below(if name.is_some() { NTH_MAX } else { any_max }) as u64;
        Self { name, nth, after: random.below(2) == 0 }
    }

    /// Whether this call or failpoint counts.
    pub(super) fn is_at(&self, part: &str, call: &str) -> bool {
        self.name.map_or(part != "lease", |name| name.split_once('.') == Some((part, call)))
    }
}

/// One fault of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at_ms: u64,
    pub process: usize,
    pub kind: FaultKind,
    /// The place of a crash or a panic.
    pub place: Option<Place>,
    /// Decides other details: how long, how far.
    pub detail: u64,
}

impl Fault {
    /// A number below `end` that follows from the details; different `use_` give different numbers.
    pub(super) fn choose(&self, use_: u64, end: usize) -> usize {
        Random::new(self.detail.wrapping_add(use_.wrapping_mul(0x1234_5678_9abc_def1))).below(end)
    }
}

/// The faults of a seed.
pub(super) fn plan(seed: u64, processes: usize, tiering: bool) -> Vec<Fault> {
    // Other numbers than those of the agents.
    let mut random = Random::new(!seed);
    let count = random.below(9);
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let at_ms = random.below(BEGIN_MS) as u64;
            let process = random.below(processes);
            // Crashes are what most of the care is for.
            let is_crash = random.below(4) == 0;
            let kind = if is_crash { FaultKind::Crash } else { FaultKind::ALL[random.below(FaultKind::ALL.len())] };
            let place = match kind {
                FaultKind::Crash => Some(Place::choose(&CALLS, tiering, 60, &mut random)),
                FaultKind::Panic => Some(Place::choose(&POINTS, tiering, 40, &mut random)),
                _ => None,
            };
            Fault { at_ms, process, kind, place, detail: random.next_u64() }
        })
        .collect();
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}
