//! Admission: the decision on each event, from the executions in the log and in the groups under way, and from the events put off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Item;
use crate::clock::Uptime;
use crate::core::event::{Event, Record};
use crate::core::execution::admit;
use crate::core::id::{ExecutionId, RecordId};
use crate::core::intake::Limits;
use crate::core::refusal::Refusal;
use crate::core::state::State;
use crate::core::trace::Executions;

/// How long the other events of an execution are put off after its start was. Twice the longest pause before a sender's next attempt.
const PUT_OFF_MS: u64 = 60_000;
/// Executions that are put off at the same time. Events of further ones are refused as if their sender did not send them again.
const PUT_OFF_MAX: usize = 65_536;

/// `Admission` decides on events and applies the admitted ones at once, before they are in the log.
pub(super) struct Admission {
    /// The executions in the log and in the groups under way.
    executions: Executions,
    /// Events admitted here whose records have not come from the log yet; `executions` holds them already. All other records have
    /// another writer: another actor, an earlier incarnation of this one, a process that had the role before.
    own: BTreeSet<RecordId>,
    put_off: BTreeMap<ExecutionId, PutOff>,
    limits: Arc<Limits>,
}

/// Why and until when the events of an execution are put off.
struct PutOff {
    refusal: Refusal,
    until: Uptime,
}

/// The decision on one event.
pub(super) enum Decision {
    Admitted,
    /// Refers to something unknown that may still arrive.
    Waits(Refusal),
    Refused(Refusal),
    /// The log holds its id.
    Known,
}

impl Admission {
    pub(super) fn new(executions: Executions, limits: Arc<Limits>) -> Self {
        Self { executions, own: BTreeSet::new(), put_off: BTreeMap::new(), limits }
    }

    /// Decides on an event, and applies it to the executions if it is admitted.
    ///
    /// An event whose id is in `view` is not applied: its execution must not change by what the log does not take. Ids of the last moments
    /// are missing there; for those `forget_duplicate` and `discard_reopened` take back what matters.
    pub(super) fn decide(&mut self, item: &Item, view: &State, now: Uptime) -> Decision {
        let fact = match &item.content {
            Ok(fact) => fact,
            Err(refusal) => return Decision::Refused(Refusal::clone(refusal)),
        };
        if view.knows(fact.id) {
            return Decision::Known;
        }
        match admit(&self.executions, &fact.event, &self.limits) {
            Ok(()) => {
                if fact.event.execution().is_some() {
                    self.executions.apply(fact);
                    self.own.insert(fact.id);
                }
                Decision::Admitted
            }
            Err(refusal) if item.retried_by_sender && refusal.is_temporary() => {
                self.put_off(item, &refusal, now);
                Decision::Refused(refusal)
            }
            Err(refusal) if refusal.may_be_out_of_order() => match self.reason_to_put_off(item, now) {
                Some(reason) => Decision::Refused(reason),
                None => Decision::Waits(refusal),
            },
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    /// The refusal of an event that was held back and is still not admitted.
    pub(super) fn expired_refusal(&self, item: &Item, refusal: Refusal, now: Uptime) -> Refusal {
        self.reason_to_put_off(item, now).unwrap_or(refusal)
    }

    /// Puts off all events of the execution for a while.
    fn put_off(&mut self, item: &Item, refusal: &Refusal, now: Uptime) {
        if self.put_off.len() >= PUT_OFF_MAX {
            self.put_off.retain(|_, put_off| put_off.until > now);
        }
        if let Some(execution) = item.execution()
            && (self.put_off.len() < PUT_OFF_MAX || self.put_off.contains_key(execution))
        {
            let put_off = PutOff { refusal: refusal.clone(), until: now.plus_millis(PUT_OFF_MS) };
            self.put_off.insert(execution.clone(), put_off);
        }
    }

    /// The refusal with which an event is put off because its execution is.
    fn reason_to_put_off(&self, item: &Item, now: Uptime) -> Option<Refusal> {
        let put_off = self.put_off.get(item.execution()?)?;
        (item.retried_by_sender && put_off.until > now).then(|| put_off.refusal.clone())
    }

    /// Whether the event would be admitted now.
    pub(super) fn would_admit(&self, item: &Item) -> bool {
        item.content.as_ref().is_ok_and(|fact| admit(&self.executions, &fact.event, &self.limits).is_ok())
    }

    /// Applies a record of the log, unless it was applied when it was admitted. Returns whether it has another writer.
    pub(super) fn apply_record(&mut self, record: &Record) -> bool {
        let own = self.own.remove(&record.fact.id);
        if !own {
            self.executions.apply(&record.fact);
        }
        !own
    }

    /// Forgets that an event was admitted, because the log held it already and will bring no record of it.
    pub(super) fn forget_duplicate(&mut self, item: &Item) {
        if let Ok(fact) = &item.content {
            self.own.remove(&fact.id);
        }
    }

    /// Discards an execution that a duplicate start opened again. Only for a start at or before the position that the decision was
    /// based on: its execution was closed so long ago that it was forgotten. A later position means that an incarnation that panicked
    /// had left an append under way; that execution is open.
    pub(super) fn discard_reopened(&mut self, item: &Item) {
        if let Ok(fact) = &item.content
            && let Event::ExecutionStarted(started) = &fact.event
        {
            self.executions.discard(&started.execution);
        }
    }

    /// Whether finished executions that are not closed exceed `percent` of `open_executions_max`. At the maximum, new executions are
    /// refused.
    pub(super) fn finished_exceed(&self, percent: usize) -> bool {
        self.executions.finished_len().saturating_mul(100) > self.limits.open_executions_max.saturating_mul(percent)
    }
}
