//! The runs that this process knows: those under way, and ended ones for a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RunState;
use super::run::Run;
use super::work::Work;
use crate::clock::Uptime;
use crate::config;
use crate::core::id::ExecutionId;

/// Ended runs kept, at most, whatever their size.
const ENDED_MAX: usize = 10_000;

/// The runs in the order in which they were started.
#[derive(Default)]
pub(super) struct Shelf {
    runs: BTreeMap<u64, Arc<Run>>,
    numbers: BTreeMap<ExecutionId, u64>,
    next: u64,
}

impl Shelf {
    pub(super) fn add(&mut self, run: Arc<Run>) {
        self.numbers.insert(run.head.id.clone(), self.next);
        self.runs.insert(self.next, run);
        self.next += 1;
    }

    pub(super) fn get(&self, run: &ExecutionId) -> Option<Arc<Run>> {
        self.numbers.get(run).and_then(|number| self.runs.get(number)).cloned()
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.runs.values().rev()
    }

    pub(super) fn running(&self) -> impl Iterator<Item = ExecutionId> {
        self.runs.values().filter(|run| run.state() == RunState::Running).map(|run| run.head.id.clone())
    }

    /// How many runs are under way or wait for approval.
    pub(super) fn under_way(&self) -> usize {
        self.runs.values().filter(|run| run.ended.lock().is_none()).count()
    }

    /// The number of programs under way.
    pub(super) fn programs(&self) -> usize {
        self.runs.values().filter(|run| run.head.program.is_some() && run.ended.lock().is_none()).count()
    }

    /// A run of this work that a program of the run `caller` started, and that was interrupted.
    pub(super) fn interrupted_within(&self, caller: &ExecutionId, work: &Work) -> Option<ExecutionId> {
        let is_it = |run: &&Arc<Run>| {
            run.head.parent.as_ref() == Some(caller) && run.state() == RunState::Interrupted && work.is_that_of(run)
        };
        self.runs.values().find(is_it).map(|run| run.head.id.clone())
    }

    /// The run that waits for the approval with this token.
    pub(super) fn waiting_for(&self, token: &str) -> Option<Arc<Run>> {
        let waits = |run: &&Arc<Run>| matches!(run.state(), RunState::ApprovalRequired { token: own, .. } if own == token);
        self.runs.values().find(waits).cloned()
    }

    /// Removes ended runs that are too old, and the oldest while their results are too large.
    pub(super) fn make_room(&mut self, settings: &config::Execute, now: Uptime) {
        let keep_ms = settings.results_keep_s.saturating_mul(1_000);
        let mut ended: Vec<(u64, usize, bool)> = Vec::new();
        for (number, run) in &self.runs {
            let end = *run.ended.lock();
            if let Some(end) = end {
                ended.push((*number, run.result_bytes(), now.millis_since(end) > keep_ms));
            }
        }
        let (mut bytes, mut count) = (ended.iter().map(|(_, bytes, _)| bytes).sum::<usize>(), ended.len());
        for (number, run_bytes, old) in ended {
            if !old && bytes <= settings.results_bytes_max && count <= ENDED_MAX {
                continue;
            }
            bytes -= run_bytes;
            count -= 1;
            if let Some(run) = self.runs.remove(&number) {
                self.numbers.remove(&run.head.id);
                run.forget();
            }
        }
    }
}
