//! A group of events that are decided and appended together.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::Item;
use super::admission::{Admission, Decision};
use super::repeats;
use crate::actors::ActorFailure;
use crate::actors::announce::Announcements;
use crate::clock::Uptime;
use crate::core::event::cloud;
use crate::core::id::{ExecutionId, Seq};
use crate::core::intake::Limits;
use crate::core::invariant;
use crate::core::refusal::Refusal;
use crate::core::state::State;
use crate::log::{Appended, SharedLog};
use crate::log::{DeadLetters, NewDeadLetter};
use crate::publisher::Verdict;

/// Events decided at once.
pub(super) const EVENTS_MAX: usize = 8_192;

/// The decisions on the events of a group, before the write.
pub(super) struct Group {
    /// The last record of the log that the decisions are based on.
    based_on: Seq,
    /// The state whose ids are known, and the time of the decisions.
    view: Arc<State>,
    now: Uptime,
    admitted: Vec<Item>,
    /// Events whose ids the log holds, or will once this group and those before it are written.
    known: Vec<Item>,
    refused: Vec<(Item, Refusal)>,
    /// Events that refer to something unknown that may still arrive.
    waiting: Vec<(Item, Refusal)>,
    /// Executions that changed, so that events waiting for them are decided again.
    pub(super) touched: BTreeSet<ExecutionId>,
}

/// A group after the write.
pub(super) struct Settled {
    pub(super) based_on: Seq,
    pub(super) appended: Vec<(Item, Seq)>,
    /// Events that were admitted and whose ids the log held: duplicates and conflicts.
    pub(super) not_taken: Vec<(Item, Verdict)>,
    pub(super) refused: Vec<(Item, Verdict)>,
    pub(super) waiting: Vec<(Item, Refusal)>,
}

impl Group {
    /// An empty group with capacity for `events` admitted events, as most are.
    pub(super) fn based_on(based_on: Seq, view: Arc<State>, now: Uptime, events: usize) -> Self {
        Self {
            based_on,
            view,
            now,
            admitted: Vec::with_capacity(events),
            known: Vec::new(),
            refused: Vec::new(),
            waiting: Vec::new(),
            touched: BTreeSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.admitted.is_empty() && self.known.is_empty() && self.refused.is_empty() && self.waiting.is_empty()
    }

    /// Decides on an event and adds it. `held` says whether events of earlier groups are held back.
    pub(super) fn decide(&mut self, item: Item, admission: &mut Admission, held: bool) {
        match admission.decide(&item, &self.view, self.now) {
            Decision::Admitted => {
                if let Some(execution) = item.execution()
                    && (held || !self.waiting.is_empty())
                {
                    self.touched.insert(execution.clone());
                }
                self.admitted.push(item);
            }
            Decision::Waits(refusal) => self.waiting.push((item, refusal)),
            Decision::Refused(refusal) => self.refused.push((item, refusal)),
            Decision::Known => self.known.push(item),
        }
    }

    /// Decides again on the events that wait for `execution`.
    pub(super) fn reconsider(&mut self, execution: &ExecutionId, admission: &mut Admission) {
        let concerned = |(item, _): &mut (Item, Refusal)| item.execution() == Some(execution);
        let again: Vec<_> = self.waiting.extract_if(.., concerned).collect();
        for (item, _) in again {
            self.decide(item, admission, true);
        }
    }

    /// Refuses events that were held back for too long.
    pub(super) fn refuse_expired(&mut self, expired: Vec<(Item, Refusal)>, admission: &Admission) {
        let refuse = |(item, refusal)| {
            let refusal = admission.expired_refusal(&item, refusal, self.now);
            (item, refusal)
        };
        self.refused.extend(expired.into_iter().map(refuse));
    }

    /// Appends the admitted events, then writes the refused ones to the dead letters, unless the log holds them already. The append is
    /// in the log's queue when this returns, so that groups are appended in the order of the calls, whichever is polled first.
    pub(super) fn write(
        self,
        log: SharedLog,
        dead_letters: DeadLetterWriter,
        announcements: &Announcements,
    ) -> impl Future<Output = Result<Settled, ActorFailure>> + use<> {
        let facts: Vec<_> = self.admitted.iter().filter_map(|item| item.content.as_ref().ok()).map(Arc::clone).collect();
        debug_assert_eq!(invariant::steps_finish_once(facts.iter().map(Arc::as_ref)), Ok(()));
        // Also when nothing was admitted: once this is done, the groups before this one are in the log, and duplicates of their events
        // are found.
        let appending = log.append(facts);
        announcements.announce(self.admitted.iter().filter_map(|item| item.content.as_ref().ok()));
        async move { self.settle(appending.await?, &log, dead_letters).await }
    }

    async fn settle(
        self,
        positions: Vec<Appended>,
        log: &SharedLog,
        dead_letters: DeadLetterWriter,
    ) -> Result<Settled, ActorFailure> {
        debug_assert_eq!(
            invariant::acknowledged_records_are_readable(positions.iter().map(|appended| appended.seq), *log.tail().borrow()),
            Ok(())
        );
        let (mut repeated, mut refused, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for (item, refusal) in self.refused {
            match find(log, &item).await? {
                Some(seq) => repeated.push((item, seq)),
                None => refused.push((item, Verdict::Refused(Box::new(refusal)))),
            }
        }
        for (item, refusal) in self.waiting {
            match find(log, &item).await? {
                Some(seq) => repeated.push((item, seq)),
                None => waiting.push((item, refusal)),
            }
        }
        for item in self.known {
            match find(log, &item).await? {
                Some(seq) => repeated.push((item, seq)),
                // The group that had the event with this id failed, and the actor has stopped itself.
                None => return Err(ActorFailure::Gone),
            }
        }
        let mut appended = Vec::with_capacity(self.admitted.len());
        let mut not_taken = Vec::new();
        for (item, Appended { seq, duplicate }) in self.admitted.into_iter().zip(positions) {
            if duplicate {
                not_taken.push((item, seq));
            } else {
                appended.push((item, seq));
            }
        }
        refused.extend(repeats::verdicts(log, repeated).await?);
        let not_taken = repeats::verdicts(log, not_taken).await?;
        let letters: Vec<_> =
            refused.iter().chain(&not_taken).filter_map(|(item, verdict)| item.dead_letter(verdict)).collect();
        if !letters.is_empty() {
            dead_letters.write(letters).await?;
        }
        Ok(Settled { based_on: self.based_on, appended, not_taken, refused, waiting })
    }
}

/// `DeadLetterWriter` redacts refused events, cuts them to `letter_bytes_max` and stores them.
pub(super) struct DeadLetterWriter {
    pub(super) dead: Arc<dyn DeadLetters>,
    pub(super) limits: Arc<Limits>,
    pub(super) letter_bytes_max: usize,
}

impl DeadLetterWriter {
    async fn write(self, refused: Vec<(Refusal, &'static str, Bytes)>) -> Result<(), ActorFailure> {
        let Self { dead, limits, letter_bytes_max } = self;
        // Redacting megabytes takes milliseconds, for which this thread must not block.
        let letters = tokio::task::spawn_blocking(move || {
            let letter = |(refusal, origin, bytes): (Refusal, &str, Bytes)| {
                NewDeadLetter::new(&refusal, origin, &bytes, &limits.redactor, letter_bytes_max)
            };
            refused.into_iter().map(letter).collect()
        });
        let letters = letters.await.expect("redacting does not panic");
        Ok(dead.store(letters).await?)
    }
}

/// The position of an event that the log holds already.
async fn find(log: &SharedLog, item: &Item) -> Result<Option<Seq>, ActorFailure> {
    match &item.content {
        Ok(fact) => Ok(log.find(fact.id).await?),
        Err(_) => Ok(None),
    }
}

impl Item {
    pub(super) fn execution(&self) -> Option<&ExecutionId> {
        self.content.as_ref().ok().and_then(|fact| fact.event.execution())
    }

    /// Whether the refusal only puts the event off: it is temporary, and the sender sends the event again.
    pub(super) fn is_put_off_by(&self, refusal: &Refusal) -> bool {
        self.retried_by_sender && refusal.is_temporary()
    }

    /// The refusal, origin and bytes that make the dead letter of an event with this verdict; none if it needs no letter.
    fn dead_letter(&self, verdict: &Verdict) -> Option<(Refusal, &'static str, Bytes)> {
        match verdict {
            Verdict::Refused(refusal) if !self.is_put_off_by(refusal) => {
                Some((Refusal::clone(refusal), self.origin, self.bytes()))
            }
            Verdict::Refused(_) | Verdict::Accepted { .. } | Verdict::Duplicate { .. } => None,
        }
    }

    /// The bytes of a refused event for its dead letter.
    fn bytes(&self) -> Bytes {
        match (&self.original, &self.content) {
            (Some(bytes), _) => bytes.clone(),
            (None, Ok(fact)) => cloud::to_structured(fact).to_string().into_bytes().into(),
            (None, Err(_)) => Bytes::new(),
        }
    }
}
