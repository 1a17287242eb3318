//! A group of events on its way: decided together, appended together.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::Item;
use super::admission::{Admission, Decision};
use crate::actors::ActorFailure;
use crate::clock::Uptime;
use crate::core::event::cloud;
use crate::core::id::{ExecutionId, Seq};
use crate::core::intake::Limits;
use crate::core::refusal::Refusal;
use crate::log::{Appended, SharedLog};
use crate::log::{DeadLetters, NewDeadLetter};
use crate::publisher::Verdict;

/// Events decided at once.
pub(super) const EVENTS_MAX: usize = 8_192;

pub(super) struct Group {
    /// The last record of the log that the decisions rest on.
    based_on: Seq,
    /// When they were made.
    now: Uptime,
    admitted: Vec<Item>,
    refused: Vec<(Item, Refusal)>,
    /// Refused for something that may still come.
    waiting: Vec<(Item, Refusal)>,
    /// Executions that changed, so that what waits for them deserves another look.
    pub(super) touched: BTreeSet<ExecutionId>,
}

/// A group after the write.
pub(super) struct Settled {
    pub(super) based_on: Seq,
    pub(super) appended: Vec<(Item, Appended)>,
    pub(super) refused: Vec<(Item, Verdict)>,
    pub(super) waiting: Vec<(Item, Refusal)>,
}

impl Group {
    /// With room for `events` that are admitted, as most are.
    pub(super) fn based_on(based_on: Seq, now: Uptime, events: usize) -> Self {
        Self {
            based_on,
            now,
            admitted: Vec::with_capacity(events),
            refused: Vec::new(),
            waiting: Vec::new(),
            touched: BTreeSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.admitted.is_empty() && self.refused.is_empty() && self.waiting.is_empty()
    }

    /// `held` says that events from earlier groups wait for something.
    pub(super) fn decide(&mut self, item: Item, admission: &mut Admission, held: bool) {
        match admission.decide(&item, self.now) {
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
        }
    }

    /// Decides again what waits for `execution`.
    pub(super) fn reconsider(&mut self, execution: &ExecutionId, admission: &mut Admission) {
        let concerned = |(item, _): &mut (Item, Refusal)| item.execution() == Some(execution);
        let again: Vec<_> = self.waiting.extract_if(.., concerned).collect();
        for (item, _) in again {
            self.decide(item, admission, true);
        }
    }

    /// Refuses what has waited long enough.
    pub(super) fn refuse(&mut self, expired: Vec<(Item, Refusal)>, admission: &Admission) {
        let refuse = |(item, refusal)| {
            let refusal = admission.refuse(&item, refusal, self.now);
            (item, refusal)
        };
        self.refused.extend(expired.into_iter().map(refuse));
    }

    /// The only write: append what was admitted, then bury what was refused, unless the log turns out to hold it already.
    pub(super) async fn write(self, log: SharedLog, burial: Burial) -> Result<Settled, ActorFailure> {
        let facts: Vec<_> = self.admitted.iter().filter_map(|item| item.content.as_ref().ok()).map(Arc::clone).collect();
        // Also when nothing was admitted: once this returns, the groups before this one are in the log, and what repeats an event of
        // theirs is found.
        let positions = log.append(facts).await?;
        let mut refused = Vec::with_capacity(self.refused.len());
        let mut letters = Vec::new();
        for (item, refusal) in self.refused {
            let verdict = if let Some(seq) = find(&log, &item).await? {
                Verdict::Duplicate { seq }
            } else {
                if !item.is_put_off_by(&refusal) {
                    letters.push((refusal.clone(), item.origin, item.bytes()));
                }
                Verdict::Refused(Box::new(refusal))
            };
            refused.push((item, verdict));
        }
        let mut waiting = Vec::new();
        for (item, refusal) in self.waiting {
            match find(&log, &item).await? {
                Some(seq) => refused.push((item, Verdict::Duplicate { seq })),
                None => waiting.push((item, refusal)),
            }
        }
        if !letters.is_empty() {
            burial.bury(letters).await?;
        }
        let appended = self.admitted.into_iter().zip(positions).collect();
        Ok(Settled { based_on: self.based_on, appended, refused, waiting })
    }
}

/// Where refused events go, and what is kept of them.
pub(super) struct Burial {
    pub(super) dead: Arc<dyn DeadLetters>,
    pub(super) limits: Arc<Limits>,
    pub(super) letter_bytes_max: usize,
}

impl Burial {
    async fn bury(self, refused: Vec<(Refusal, &'static str, Bytes)>) -> Result<(), ActorFailure> {
        let Self { dead, limits, letter_bytes_max } = self;
        // Looking through megabytes takes milliseconds, and this thread has others to answer.
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

    /// Whether whoever brought it keeps it and brings it again, because it is refused only for the moment.
    pub(super) fn is_put_off_by(&self, refusal: &Refusal) -> bool {
        self.comes_again && refusal.is_temporary()
    }

    /// The bytes to keep of a refused event.
    fn bytes(&self) -> Bytes {
        match (&self.original, &self.content) {
            (Some(bytes), _) => bytes.clone(),
            (None, Ok(fact)) => cloud::to_structured(fact).to_string().into_bytes().into(),
            (None, Err(_)) => Bytes::new(),
        }
    }
}
