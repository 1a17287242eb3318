//! Tiering in the simulator: the product's `tier` moves records to an archive of real files, which all processes share. It runs on the
//! thread of the simulation, where the actor of the product would take another one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use tokio::sync::watch;
use tokio::time::sleep;

use super::faults::FaultKind;
use super::life::{Life, Simulated, WRITE_US};
use super::ports::SimLog;
use super::scenario::Bug;
use super::world::Shared;
use crate::actors::ActorFailure;
use crate::archive::{Archive, ArchiveError, ArchivedRecords, HotLimits, TieringError, tier};
use crate::clock::monotonic;
use crate::core::event::Record;
use crate::core::id::Seq;
use crate::core::invariant;
use crate::log::{AppendError, OlderRecords, ReadError, TrimmedLog};

/// Records that stay in the log: fewer than any run has.
const LIMITS: HotLimits = HotLimits { records: 16, days: 0 };
/// The pause between two runs.
const PAUSE: Duration = Duration::from_secs(1);
/// Records that are removed at once.
const TRIMMED_AT_ONCE: usize = 12;
/// Lengths of pages in which the whole log is read at the end.
const PAGES: [usize; 2] = [7, usize::MAX];

/// Moves records while the lease is held, until `stop` or the end of the process.
pub(super) async fn run(life: Arc<Life>, mut stop: watch::Receiver<bool>) -> Result<(), ActorFailure> {
    let log = SimLog { life: Arc::clone(&life), site: "tiering" };
    let (archive, mut died) = (life.world.archive(), life.died());
    while !*stop.borrow_and_update() {
        tokio::select! {
            biased;
            _ = died.wait_for(|dead| *dead) => return Ok(()),
            _ = stop.changed() => continue,
            () = sleep(PAUSE) => {}
        }
        let moved = tokio::select! {
            biased;
            // The lock of the archive ends with the process that holds it.
            _ = died.wait_for(|dead| *dead) => return Ok(()),
            moved = tier(&log, &archive, LIMITS, life.clock.now()) => moved,
        };
        match moved {
            Ok(moved) => life.world.coverage.lock().moved += moved.map_or(0, |moved| moved.archived),
            // Tried again later.
            Err(TieringError::Read(_) | TieringError::Trim(_) | TieringError::Archive(ArchiveError::Busy(_))) => {}
            Err(error) => life.world.problems.lock().push(format!("tiering: {error}")),
        }
    }
    Ok(())
}

impl TrimmedLog for SimLog {
    fn trimmed_to(&self) -> Seq {
        self.life.world.stream.trimmed_to()
    }

    fn trim(&self, to: Seq) -> BoxFuture<'static, Result<Seq, AppendError>> {
        if !self.life.pass(self.site, "trim") {
            return pending().boxed();
        }
        let (is_last, life) = (self.life.is_last_call(), Arc::clone(&self.life));
        async move {
            sleep(Duration::from_micros(WRITE_US)).await;
            if life.is_dead() {
                return pending().await;
            }
            if monotonic() < life.until().full {
                life.world.coverage.lock().met(FaultKind::DiskFull);
                return Err(AppendError::Determinate(Simulated.into()));
            }
            let unknown = || Err(AppendError::Indeterminate(Simulated.into()));
            // The request or the answer is lost.
            let is_cut_off = life.is_cut_off();
            if is_cut_off && to.0.is_multiple_of(2) {
                return unknown();
            }
            let reached = life.trim(to);
            if is_last {
                life.die();
                return pending().await;
            }
            if is_cut_off { unknown() } else { Ok(reached) }
        }
        .boxed()
    }
}

impl Life {
    fn trim(&self, to: Seq) -> Seq {
        let stream = &self.world.stream;
        if to >= stream.tail() {
            self.world.problems.lock().push(format!("the last record, at {}, was to be removed", stream.tail()));
        }
        let too_far = self.world.bug == Some(Bug::TrimTooFar);
        stream.trim(if too_far { to.next() } else { to }, TRIMMED_AT_ONCE)
    }

    /// The records after a position: what tiering has removed from the archive, the rest from the stream. Without tiering the answer would
    /// be the same.
    pub(super) fn read_tiered(&self, after: Seq, until: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
        let records = read(&self.world, &self.older, after, until, limit)?;
        if records != self.world.stream.read(after, until, limit) {
            let problem = format!("{limit} records after {after} are others with tiering than without");
            self.world.problems.lock().push(problem);
        }
        Ok(records)
    }
}

fn read(world: &Shared, older: &ArchivedRecords, after: Seq, until: Seq, limit: usize) -> Result<Vec<Record>, ReadError> {
    let to = world.stream.trimmed_to().min(until);
    let mut records = if after < to { older.read(after, to, limit)? } else { Vec::new() };
    if records.len() < limit {
        records.extend(world.stream.read(after.max(to), until, limit - records.len()));
    }
    Ok(records)
}

/// I32: with and without tiering the log reads the same, and nothing was removed that the archive does not hold.
pub(super) fn reads_the_same(world: &Shared, records: &[Record]) -> Result<(), String> {
    let trimmed_to = world.stream.trimmed_to();
    if trimmed_to == Seq::ZERO {
        return Ok(());
    }
    let archive = Archive::open(world.archive()).map_err(|error| format!("the archive cannot be read: {error}"))?;
    invariant::removed_records_are_archived(trimmed_to, archive.last().map(|(last, _)| last))?;
    for limit in PAGES {
        let (older, mut found) = (ArchivedRecords::new(world.archive()), Vec::new());
        loop {
            let after = found.last().map_or(Seq::ZERO, |record: &Record| record.seq);
            let page = read(world, &older, after, world.stream.tail(), limit).map_err(|error| format!("tiered: {error}"))?;
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        if found != records {
            return Err(format!("in pages of {limit}, the tiered log is not the log"));
        }
    }
    Ok(())
}
