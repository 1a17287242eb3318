//! Appends as atomic batches. While the server stores and syncs one batch, all messages of the next one except the last, which commits
//! it, are already sent: batches are stored one after the other, in the order of the appends, without waiting for the network. If one
//! cannot be stored, all appends that wait fail too, so that none overtakes it.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;

use tokio::sync::mpsc;

use super::batch::{self, BatchId, SendError};
use super::message::EncodedMessage;
use super::writer::{FactStatus, Job, Reply, SendFailure, Writer, fail_waiting, send_reply};
use crate::core::id::{RecordId, Seq};
use crate::log::Appended;

/// Appends in order of arrival: the facts that are not in a batch yet, and the appends without a reply.
#[derive(Default)]
struct AppendQueue {
    facts: VecDeque<EncodedMessage>,
    waiting: VecDeque<QueuedAppend>,
}

/// One append, with the status of its first facts.
struct QueuedAppend {
    size: usize,
    statuses: Vec<FactStatus>,
    failure: Option<SendFailure>,
    reply: Reply,
}

/// The next batch of messages.
#[derive(Default)]
struct Batch {
    id: BatchId,
    facts: Vec<EncodedMessage>,
    ids: BTreeSet<RecordId>,
    /// How many messages are sent, counted from the first.
    sent: usize,
    /// The batch needs `ensure_stored`, because some fact may be in the stream already or sending failed. Nothing more is sent before.
    needs_check: bool,
    /// No more facts are added.
    full: bool,
}

impl AppendQueue {
    fn push(&mut self, Job { facts, reply }: Job) {
        self.waiting.push_back(QueuedAppend {
            size: facts.len(),
            statuses: Vec::with_capacity(facts.len()),
            failure: None,
            reply,
        });
        self.facts.extend(facts);
    }

    /// Adds the statuses of the next facts, and replies to the appends that are complete with them.
    fn add_statuses(&mut self, statuses: Vec<FactStatus>, failure: Option<&SendFailure>) {
        let mut statuses = statuses.into_iter();
        while let Some(first) = self.waiting.front_mut() {
            first.statuses.extend(statuses.by_ref().take(first.size - first.statuses.len()));
            if first.statuses.contains(&FactStatus::Pending) && first.failure.is_none() {
                first.failure = failure.cloned();
            }
            if first.statuses.len() < first.size {
                return;
            }
            let Some(QueuedAppend { statuses, failure, reply, .. }) = self.waiting.pop_front() else { return };
            send_reply(reply, &statuses, failure.as_ref());
        }
    }

    /// Fails all appends that wait.
    fn fail(&mut self, failure: &SendFailure) {
        self.facts.clear();
        for QueuedAppend { size, mut statuses, failure: own, reply } in self.waiting.drain(..) {
            statuses.resize(size, FactStatus::Pending);
            send_reply(reply, &statuses, own.as_ref().or(Some(failure)));
        }
    }
}

impl Batch {
    fn has_room(&self) -> bool {
        !self.full && self.facts.len() < batch::MESSAGES_MAX
    }

    /// Moves facts from the queue into the batch; `positions` are those of the facts that are in the stream. A fact that may be there
    /// already is not put into a batch with facts that are not.
    fn add_from(&mut self, appends: &mut AppendQueue, positions: &[Option<Seq>]) {
        for position in positions {
            let Some(fact) = appends.facts.front() else { return };
            let maybe_stored = position.is_some() || self.ids.contains(&fact.id());
            if maybe_stored && !self.needs_check && !self.facts.is_empty() {
                self.full = true;
            }
            if !self.has_room() {
                return;
            }
            self.needs_check |= maybe_stored;
            self.ids.insert(fact.id());
            self.facts.extend(appends.facts.pop_front());
        }
    }
}

impl Writer {
    /// Runs the atomic mode until the queue is closed and every append has its reply.
    pub(super) async fn run_atomic(self, mut queue: mpsc::Receiver<Job>) {
        let (mut appends, mut next) = (AppendQueue::default(), Batch::default());
        let mut open = true;
        loop {
            while next.facts.is_empty() && appends.facts.is_empty() {
                // An append without facts is complete once those before it are.
                appends.add_statuses(Vec::new(), None);
                let Some(job) = queue.recv().await else { return };
                appends.push(job);
            }
            while appends.facts.len() < batch::MESSAGES_MAX
                && let Ok(job) = queue.try_recv()
            {
                appends.push(job);
            }
            self.fill(&mut next, &mut appends).await;
            let mut storing = pin!(self.store(std::mem::take(&mut next)));
            let (statuses, failure) = loop {
                tokio::select! {
                    biased;
                    stored = &mut storing => break stored,
                    // If the batch is stored first, the next call continues where this one was cancelled.
                    () = self.fill(&mut next, &mut appends), if next.has_room() && !appends.facts.is_empty() => {}
                    job = queue.recv(), if open && next.has_room() => match job {
                        Some(job) => appends.push(job),
                        None => open = false,
                    },
                }
            };
            appends.add_statuses(statuses, failure.as_ref());
            if let Some(failure) = failure {
                // What waits must not be stored before what could not be.
                self.cache.forget_in_flight(std::mem::take(&mut next).facts.iter());
                appends.fail(&failure);
                fail_waiting(&mut queue);
            }
        }
    }

    /// Moves queued facts into the batch and sends all its messages except the last.
    async fn fill(&self, next: &mut Batch, appends: &mut AppendQueue) {
        let next_facts = appends.facts.iter().take(batch::MESSAGES_MAX - next.facts.len());
        let ids: Vec<RecordId> = next_facts.map(EncodedMessage::id).collect();
        let positions = self.cache.find_all(&ids);
        next.needs_check |= positions.is_err() || !self.cache.has_all_ids();
        next.add_from(appends, &positions.unwrap_or_else(|_| vec![None; ids.len()]));
        if next.needs_check {
            return;
        }
        let (last, others) = next.facts.split_last().expect("the queue was not empty");
        self.cache.add_in_flight(others[next.sent..].iter().chain([last]));
        for fact in &others[next.sent..] {
            if batch::stage(&self.client, &self.subjects, &next.id, next.sent + 1, fact).await.is_err() {
                next.needs_check = true;
                return;
            }
            next.sent += 1;
        }
    }

    /// Stores a batch, with retries if the commit fails.
    async fn store(&self, batch: Batch) -> (Vec<FactStatus>, Option<SendFailure>) {
        let mut maybe_ours = BTreeSet::new();
        if !batch.needs_check {
            debug_assert_eq!(batch.sent + 1, batch.facts.len(), "only the last message is left to send");
            let outcome =
                batch::commit(&self.client, &self.subjects, &batch.id, &batch.facts).await.map(|first| (first, false));
            self.record_send(&batch.facts, &outcome);
            match outcome {
                Ok((first, _)) => {
                    let done = |seq| FactStatus::Done(Appended { seq: Seq(seq), duplicate: false });
                    return ((first.0..).take(batch.facts.len()).map(done).collect(), None);
                }
                Err(SendError::Unknown(_)) => maybe_ours = batch.ids,
                Err(SendError::Duplicate | SendError::Full(_) | SendError::Refused(_)) => {}
            }
        }
        self.ensure_stored(&batch.facts, maybe_ours).await
    }
}
