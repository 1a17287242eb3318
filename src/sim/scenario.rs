//! What decides a run, and what comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::faults::{self, CALLS, Fault, FaultKind, POINTS, Place};

/// A bug that is planted on purpose: the simulator must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    AcknowledgeBeforeWrite,
    SkipDedupe,
    LoseTail,
    CloseTwice,
    KeepLease,
    ApplyTwice,
    PromoteUnfinished,
    RepeatApproved,
    /// Refused events leave no dead letter.
    ForgetLetters,
    /// Tiering removes one record more than it has compared.
    TrimTooFar,
}

impl Bug {
    pub const ALL: [Self; 10] = [
        Self::AcknowledgeBeforeWrite,
        Self::SkipDedupe,
        Self::LoseTail,
        Self::CloseTwice,
        Self::KeepLease,
        Self::ApplyTwice,
        Self::PromoteUnfinished,
        Self::RepeatApproved,
        Self::ForgetLetters,
        Self::TrimTooFar,
    ];
}

/// All that decides a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub processes: usize,
    /// Whether the oldest records move to an archive.
    pub tiering: bool,
    pub faults: Vec<Fault>,
    pub bug: Option<Bug>,
}

impl Scenario {
    /// The scenario of a seed; odd seeds have three processes, a third of all have tiering.
    pub fn of(seed: u64) -> Self {
        let processes = if seed.is_multiple_of(2) { 1 } else { 3 };
        let tiering = (seed / 2).is_multiple_of(3);
        Self { seed, processes, tiering, faults: faults::plan(seed, processes, tiering), bug: None }
    }

    /// One process with tiering and this fault alone, from the beginning.
    pub fn with_fault(seed: u64, kind: FaultKind, place: Place) -> Self {
        let fault = Fault { at_ms: 0, process: 0, kind, place: Some(place), detail: seed };
        Self { seed, processes: 1, tiering: true, faults: vec![fault], bug: None }
    }
}

/// What runs met, for the count of what the simulator covers.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Faults that had an effect.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Calls of ports, by part and call: how often passed, crashed before, crashed after.
    pub calls: BTreeMap<(&'static str, &'static str), [u64; 3]>,
    /// Failpoints that panicked.
    pub panics: BTreeMap<String, u64>,
    /// Records that tiering has moved.
    pub moved: u64,
}

impl Coverage {
    pub(super) fn met(&mut self, kind: FaultKind) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(super) fn passed(&mut self, site: &'static str, call: &'static str) {
        self.calls.entry((site, call)).or_default()[0] += 1;
    }

    pub(super) fn crashed(&mut self, site: &'static str, call: &'static str, after: bool) {
        self.calls.entry((site, call)).or_default()[1 + usize::from(after)] += 1;
        self.met(FaultKind::Crash);
    }

    /// What no run met: kinds of faults, calls at which no process crashed, before or after them, and failpoints that did not panic.
    pub fn missing(&self) -> Vec<String> {
        let kinds = FaultKind::ALL.into_iter().filter(|kind| !self.faults.contains_key(kind));
        let mut missing: Vec<String> = kinds.map(|kind| format!("no run met {kind:?}")).collect();
        for name in CALLS {
            let counts = name.split_once('.').and_then(|call| self.calls.get(&call)).copied().unwrap_or_default();
            for (place, count) in [("before", counts[1]), ("after", counts[2])] {
                if count == 0 {
                    missing.push(format!("no process crashed {place} {name}"));
                }
            }
        }
        missing.extend(
            POINTS.into_iter().filter(|point| !self.panics.contains_key(*point)).map(|point| format!("no panic at {point}")),
        );
        let is_unlisted = |(part, call): &&(&str, &str)| !CALLS.contains(&format!("{part}.{call}").as_str());
        missing.extend(
            self.calls.keys().filter(is_unlisted).map(|(part, call)| format!("{part}.{call} is missing in the list of calls")),
        );
        missing
    }

    /// Adds what other runs met.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (call, counts) in &other.calls {
            let sums = self.calls.entry(*call).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        for (point, count) in &other.panics {
            *self.panics.entry(point.clone()).or_default() += count;
        }
        self.moved += other.moved;
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// A hash of everything that reached the log and the agents. The same scenario gives the same.
    pub digest: String,
    /// The records of the log, a line each.
    pub history: Vec<String>,
    /// How much time passed in the run.
    pub simulated: Duration,
    pub coverage: Coverage,
}
