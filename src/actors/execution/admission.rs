//! What decisions rest on: the executions as the log and the groups under way have them, and what must come again later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Item;
use crate::clock::Uptime;
use crate::core::event::{Event, Record};
use crate::core::execution::admit;
use crate::core::id::{ExecutionId, RecordId};
use crate::core::intake::Limits;
use crate::core::refusal::Refusal;
use crate::core::trace::Executions;

/// How long the other events of an execution are put off after its start was. Twice the longest pause before an event comes again.
const PUT_OFF_MS: u64 = 60_000;
/// Executions that are put off at the same time. Events of others are refused for good, as if nobody would send them again.
const PUT_OFF_MAX: usize = 65_536;

pub(super) struct Admission {
    /// What the log holds about executions, plus what the groups under way add to it.
    executions: Executions,
    /// Events admitted here whose records have not been heard of: `executions` holds them already. All other records of the log were
    /// written by somebody else: another actor, an earlier life of this one, a process that had the role before.
    own: BTreeSet<RecordId>,
    put_off: BTreeMap<ExecutionId, PutOff>,
    limits: Arc<Limits>,
}

struct PutOff {
    refusal: Refusal,
    until: Uptime,
}

pub(super) enum Decision {
    Admitted,
    /// Refused for something that may still come.
    Waits(Refusal),
    Refused(Refusal),
}

impl Admission {
    pub(super) fn new(executions: Executions, limits: Arc<Limits>) -> Self {
        Self { executions, own: BTreeSet::new(), put_off: BTreeMap::new(), limits }
    }

    pub(super) fn decide(&mut self, item: &Item, now: Uptime) -> Decision {
        let fact = match &item.content {
            Ok(fact) => fact,
            Err(refusal) => return Decision::Refused(Refusal::clone(refusal)),
        };
        match admit(&self.executions, &fact.event, &self.limits) {
            Ok(()) => {
                if fact.event.execution().is_some() {
                    self.executions.apply(fact);
                    self.own.insert(fact.id);
                }
                Decision::Admitted
            }
            Err(refusal) if item.comes_again && refusal.is_temporary() => {
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

    /// Why an event that waited in vain is refused.
    pub(super) fn refuse(&self, item: &Item, refusal: Refusal, now: Uptime) -> Refusal {
        self.reason_to_put_off(item, now).unwrap_or(refusal)
    }

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

    /// An event that refers to something which was itself put off has to come again, too.
    fn reason_to_put_off(&self, item: &Item, now: Uptime) -> Option<Refusal> {
        let put_off = self.put_off.get(item.execution()?)?;
        (item.comes_again && put_off.until > now).then(|| put_off.refusal.clone())
    }

    /// Whether it would be admitted now.
    pub(super) fn would_admit(&self, item: &Item) -> bool {
        item.content.as_ref().is_ok_and(|fact| admit(&self.executions, &fact.event, &self.limits).is_ok())
    }

    /// Takes note of a record of the log, unless that was done when it was admitted. Answers whether somebody else wrote it.
    pub(super) fn hear(&mut self, record: &Record) -> bool {
        let own = self.own.remove(&record.fact.id);
        if !own {
            self.executions.apply(&record.fact);
        }
        !own
    }

    /// The event was admitted, but the log held it already: no record of it will be heard of.
    pub(super) fn was_duplicate(&mut self, item: &Item) {
        if let Ok(fact) = &item.content {
            self.own.remove(&fact.id);
        }
    }

    /// A start that was admitted although the log as heard then held it belongs to an execution closed so long ago that it was
    /// forgotten: it opened nothing. (A repeat of a record that the log did not hold then is another matter: a life of this actor
    /// that panicked may have left an append under way. That execution is open.)
    pub(super) fn undo_phantom(&mut self, item: &Item) {
        if let Ok(fact) = &item.content
            && let Event::ExecutionStarted(started) = &fact.event
        {
            self.executions.discard(&started.execution);
        }
    }

    /// Whether executions that are over and not closed take more than `percent` of the room for open ones. Events that go on as if
    /// nothing were the matter would soon be refused for being too many.
    pub(super) fn awaits_closings(&self, percent: usize) -> bool {
        self.executions.finished_len().saturating_mul(100) > self.limits.open_executions_max.saturating_mul(percent)
    }
}
