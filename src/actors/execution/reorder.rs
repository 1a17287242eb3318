//! The reorder buffer holds back events that refer to something unknown that may still arrive.

use std::collections::BTreeMap;

use super::Item;
use crate::clock::Uptime;
use crate::core::id::ExecutionId;
use crate::core::refusal::Refusal;

/// Events that are held back, by execution.
pub(super) struct Reorder {
    wait_ms: u64,
    events_max: usize,
    held: BTreeMap<ExecutionId, Vec<Held>>,
    len: usize,
}

struct Held {
    item: Item,
    refusal: Refusal,
    until: Uptime,
}

impl Reorder {
    pub(super) fn new(wait_ms: u64, events_max: usize) -> Self {
        Self { wait_ms, events_max, held: BTreeMap::new(), len: 0 }
    }

    /// Holds back an event of an execution. When `events_max` are held, it expires at once.
    pub(super) fn hold(&mut self, item: Item, refusal: Refusal, now: Uptime) {
        let execution = item.execution().expect("only events of executions refer to others").clone();
        let until = if self.len < self.events_max { now.plus_millis(self.wait_ms) } else { now };
        self.len += 1;
        self.held.entry(execution).or_default().push(Held { item, refusal, until });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes and returns the events held back for `execution`.
    pub(super) fn release(&mut self, execution: &ExecutionId) -> Vec<Item> {
        let held = self.held.remove(execution).unwrap_or_default();
        self.len -= held.len();
        held.into_iter().map(|held| held.item).collect()
    }

    /// Removes and returns the events that were held back for `wait_ms`.
    pub(super) fn expire(&mut self, now: Uptime) -> Vec<(Item, Refusal)> {
        let mut expired = Vec::new();
        for held in self.held.values_mut() {
            expired.extend(held.extract_if(.., |held| held.until <= now).map(|held| (held.item, held.refusal)));
        }
        self.held.retain(|_, held| !held.is_empty());
        self.len -= expired.len();
        expired
    }
}
