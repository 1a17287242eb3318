//! Admission: the decision on each event, from the executions in the log and in the groups under way, and from the events put off.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use super::Item;
use super::repeats::is_same;
use crate::clock::Uptime;
use crate::core::event::{NewRecord, Record};
use crate::core::execution::admit;
use crate::core::hash::mix;
use crate::core::id::{ExecutionId, RecordId};
use crate::core::intake::Limits;
use crate::core::refusal::Refusal;
use crate::core::state::State;
use crate::core::trace::Executions;

/// How long the other events of an execution are put off after its start was. Twice the longest pause before a sender's next attempt.
const PUT_OFF_MS: u64 = 60_000;
/// Executions that are put off at the same time. Events of further ones are refused as if their sender did not send them again.
const PUT_OFF_MAX: usize = 65_536;

#[expect(clippy::disallowed_types, reason = "every event is looked up; nothing iterates over the map")]
type FactsById = std::collections::HashMap<RecordId, Arc<NewRecord>, SeededIds>;

/// Builds hashers for record ids: two multiplications per id instead of the many rounds of the default. Producers choose ids, so the seed
/// differs from process to process and nobody can make them collide.
#[derive(Clone)]
struct SeededIds(u64);

impl Default for SeededIds {
    fn default() -> Self {
        Self(std::hash::RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for SeededIds {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("record ids are hashed as one number");
    }

    fn write_u128(&mut self, id: u128) {
        for half in [id, id >> 64] {
            let half = u64::try_from(half & u128::from(u64::MAX)).expect("64 bits");
            self.0 = mix(self.0 ^ half);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// `Admission` decides on events and applies the admitted ones at once, before they are in the log.
pub(super) struct Admission {
    /// The executions in the log and in the groups under way.
    executions: Executions,
    /// Events admitted here whose records have not come from the log yet; `executions` holds them already. All other records have
    /// another writer: another actor, an earlier incarnation of this one, a process that had the role before.
    own: FactsById,
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
    /// The log holds its id, or will once the groups under way are written.
    Known,
}

impl Admission {
    pub(super) fn new(executions: Executions, limits: Arc<Limits>) -> Self {
        Self { executions, own: FactsById::default(), put_off: BTreeMap::new(), limits }
    }

    /// Decides on an event, and applies it to the executions if it is admitted.
    ///
    /// An event whose id is in `view` or under way is not applied: its execution must not change by what the log does not take. For the ids
    /// that the log has and the view has not yet, `forget` restores the execution.
    pub(super) fn decide(&mut self, item: &Item, view: &State, now: Uptime) -> Decision {
        let fact = match &item.content {
            Ok(fact) => fact,
            Err(refusal) => return Decision::Refused(Refusal::clone(refusal)),
        };
        if view.knows(fact.id) || self.own.contains_key(&fact.id) {
            return Decision::Known;
        }
        let admitted = view
            .check_definition(fact)
            .and_then(|()| view.check_room(&fact.event))
            .and_then(|()| admit(&self.executions, &fact.event, &self.limits));
        match admitted {
            Ok(()) => {
                if fact.event.execution().is_some() {
                    self.executions.apply(fact);
                    self.own.insert(fact.id, Arc::clone(fact));
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
        match self.own.remove(&record.fact.id) {
            // Most records come back as the very facts that were appended.
            Some(own) if Arc::ptr_eq(&own, &record.fact) || is_same(&own, &record.fact) => return false,
            // Another writer was first with this id, and what was admitted here is a conflict.
            Some(own) => self.executions.take_back(&own),
            None => {}
        }
        self.executions.apply(&record.fact);
        true
    }

    /// Forgets an event that was admitted and that the log did not take, because it held the id already. If its record is not to come
    /// (`is_stale`), the event is taken back. It is to come for a duplicate after the position that the decision was based on: an incarnation
    /// that panicked had left its append under way. If a record with the id has come meanwhile, nothing is left to forget.
    pub(super) fn forget(&mut self, item: &Item, is_stale: bool) {
        let Ok(fact) = &item.content else { return };
        // Otherwise a later event has the same id.
        if self.own.get(&fact.id).is_some_and(|own| Arc::ptr_eq(own, fact)) {
            self.own.remove(&fact.id);
            if is_stale {
                self.executions.take_back(fact);
            }
        }
    }

    /// Whether finished executions that are not closed exceed `percent` of `open_executions_max`. At the maximum, new executions are
    /// refused.
    pub(super) fn finished_exceed(&self, percent: usize) -> bool {
        self.executions.finished_len().saturating_mul(100) > self.limits.open_executions_max.saturating_mul(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::core::event::cloud;
    use crate::core::id::Seq;
    use crate::core::time::Timestamp;

    fn item(id: &str, kind: &str, step: &str) -> Item {
        let data = match kind {
            "execution.started" => r#"{"execution": "e1", "intent": "x"}"#.to_owned(),
            _ => format!(r#"{{"execution": "e1", "step": "{step}", "tool": "fs:read", "success": true}}"#),
        };
        let event = format!(r#"{{"specversion": "1.0", "id": "{id}", "source": "me", "type": "pml.{kind}", "data": {data}}}"#);
        let fact = cloud::from_structured(event.as_bytes(), Timestamp::from_micros(0)).unwrap();
        let content = Ok(Arc::new(fact));
        Item { request: 0, index: 0, origin: "test", retried_by_sender: false, original: None, content }
    }

    /// Decides before anything is folded.
    fn decided(admission: &mut Admission, item: &Item) -> &'static str {
        match admission.decide(item, &State::default(), Clock::system().uptime()) {
            Decision::Admitted => "admitted",
            Decision::Waits(_) => "waits",
            Decision::Refused(_) => "refused",
            Decision::Known => "known",
        }
    }

    #[test]
    fn a_step_whose_id_is_taken_does_not_happen() {
        let mut admission = Admission::new(Executions::default(), Arc::new(Limits::from(&Config::load(None, []).unwrap())));
        let (start, first) = (item("1", "execution.started", ""), item("2", "step.finished", "s1"));
        let (conflict, second) = (item("2", "step.finished", "s2"), item("3", "step.finished", "s2"));
        assert_eq!([&start, &first].map(|item| decided(&mut admission, item)), ["admitted"; 2]);
        assert_eq!(decided(&mut admission, &conflict), "known", "the event with this id is under way");
        for (seq, item) in (1..).zip([&start, &first]) {
            let fact = Arc::clone(item.content.as_ref().unwrap());
            admission.apply_record(&Record { seq: Seq(seq), recorded_at: fact.time, fact });
        }
        assert_eq!(decided(&mut admission, &conflict), "admitted", "neither under way nor in the view");
        assert_eq!(decided(&mut admission, &second), "refused", "the step was just admitted");
        admission.forget(&conflict, true);
        assert_eq!(decided(&mut admission, &second), "admitted");
    }

    /// Another process was first with the id, and its record comes before the answer to the append here.
    #[test]
    fn a_step_of_another_writer_happens_although_an_event_with_its_id_was_admitted() {
        let mut admission = Admission::new(Executions::default(), Arc::new(Limits::from(&Config::load(None, []).unwrap())));
        let (start, theirs, ours) =
            (item("1", "execution.started", ""), item("2", "step.finished", "s1"), item("2", "step.finished", "s2"));
        let record = |seq: u64, item: &Item| {
            let fact = Arc::clone(item.content.as_ref().unwrap());
            Record { seq: Seq(seq), recorded_at: fact.time, fact }
        };
        assert!(admission.apply_record(&record(1, &start)));
        assert_eq!(decided(&mut admission, &ours), "admitted");
        assert!(admission.apply_record(&record(2, &theirs)), "it is not the event that was admitted");
        admission.forget(&ours, true);
        assert_eq!(decided(&mut admission, &item("3", "step.finished", "s1")), "refused", "it has happened");
        assert_eq!(decided(&mut admission, &item("4", "step.finished", "s2")), "admitted", "it has not");
    }
}
