//! Appends as atomic batches. While the server stores one batch and syncs it, the messages of the next are already sent, all but the
//! last, which commits it: batches are stored one after the other, in the order of the appends, and nobody waits for the network.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;

use tokio::sync::mpsc;

use super::batch::{self, BatchId, SendError};
use super::message::Encoded;
use super::writer::{Fate, Job, Reply, SendFailure, Writer, answer};
use crate::core::id::{RecordId, Seq};
use crate::log::Appended;

/// Appends in the order they came: what is not in a batch yet, and who waits for what.
#[derive(Default)]
struct Line {
    facts: VecDeque<Encoded>,
    waiting: VecDeque<Waiting>,
}

/// One append, with what became of its first facts.
struct Waiting {
    size: usize,
    fates: Vec<Fate>,
    failure: Option<SendFailure>,
    reply: Reply,
}

/// The next messages of the log.
#[derive(Default)]
struct Batch {
    id: BatchId,
    facts: Vec<Encoded>,
    ids: BTreeSet<RecordId>,
    /// How many of the first messages are sent.
    sent: usize,
    /// Some fact may be in the stream already. Nothing is sent before that is looked into.
    doubtful: bool,
    /// No more facts are taken.
    full: bool,
}

impl Line {
    fn push(&mut self, Job { facts, reply }: Job) {
        self.waiting.push_back(Waiting { size: facts.len(), fates: Vec::with_capacity(facts.len()), failure: None, reply });
        self.facts.extend(facts);
    }

    /// Answers the appends that are complete with `fates`, those of the next facts in line.
    fn answer(&mut self, fates: Vec<Fate>, failure: Option<&SendFailure>) {
        let mut fates = fates.into_iter();
        while let Some(first) = self.waiting.front_mut() {
            first.fates.extend(fates.by_ref().take(first.size - first.fates.len()));
            if first.fates.contains(&Fate::Open) && first.failure.is_none() {
                first.failure = failure.cloned();
            }
            if first.fates.len() < first.size {
                return;
            }
            let Some(Waiting { fates, failure, reply, .. }) = self.waiting.pop_front() else { return };
            answer(reply, &fates, failure.as_ref());
        }
    }
}

impl Batch {
    fn has_room(&self) -> bool {
        !self.full && self.facts.len() < batch::MESSAGES_MAX
    }

    /// Takes facts from the line; `known` are the positions of those that are in the stream. A fact that may be there already goes
    /// into a batch of its own kind.
    fn take(&mut self, line: &mut Line, known: &[Option<Seq>]) {
        for position in known {
            let Some(fact) = line.facts.front() else { return };
            let doubtful = position.is_some() || self.ids.contains(&fact.id());
            if doubtful && !self.doubtful && !self.facts.is_empty() {
                self.full = true;
            }
            if !self.has_room() {
                return;
            }
            self.doubtful |= doubtful;
            self.ids.insert(fact.id());
            self.facts.extend(line.facts.pop_front());
        }
    }
}

impl Writer {
    pub(super) async fn run_atomic(self, mut queue: mpsc::Receiver<Job>) {
        let (mut line, mut next) = (Line::default(), Batch::default());
        let mut open = true;
        loop {
            while next.facts.is_empty() && line.facts.is_empty() {
                // An append of nothing is complete once those before it are.
                line.answer(Vec::new(), None);
                let Some(job) = queue.recv().await else { return };
                line.push(job);
            }
            while line.facts.len() < batch::MESSAGES_MAX
                && let Ok(job) = queue.try_recv()
            {
                line.push(job);
            }
            self.fill(&mut next, &mut line).await;
            let mut storing = pin!(self.store(std::mem::take(&mut next)));
            let (fates, failure) = loop {
                tokio::select! {
                    biased;
                    stored = &mut storing => break stored,
                    // When the batch is stored first, this goes on where it was.
                    () = self.fill(&mut next, &mut line), if next.has_room() && !line.facts.is_empty() => {}
                    job = queue.recv(), if open && next.has_room() => match job {
                        Some(job) => line.push(job),
                        None => open = false,
                    },
                }
            };
            line.answer(fates, failure.as_ref());
        }
    }

    /// Takes what is in line into the batch and sends it, but for the last.
    async fn fill(&self, next: &mut Batch, line: &mut Line) {
        let known = self.known.find_all(line.facts.iter().take(batch::MESSAGES_MAX - next.facts.len()));
        next.take(line, &known);
        next.doubtful |= !self.known.has_learnt_all();
        if next.doubtful {
            return;
        }
        let (last, others) = next.facts.split_last().expect("something was in line");
        self.known.sending(others[next.sent..].iter().chain([last]));
        for fact in &others[next.sent..] {
            if batch::stage(&self.client, &self.subjects, &next.id, next.sent + 1, fact).await.is_err() {
                next.doubtful = true;
                return;
            }
            next.sent += 1;
        }
    }

    /// Stores a batch, whatever it takes.
    async fn store(&self, batch: Batch) -> (Vec<Fate>, Option<SendFailure>) {
        let mut maybe_ours = BTreeSet::new();
        if !batch.doubtful {
            debug_assert_eq!(batch.sent + 1, batch.facts.len(), "only the last message is left to send");
            let outcome =
                batch::commit(&self.client, &self.subjects, &batch.id, &batch.facts).await.map(|first| (first, false));
            self.note(&batch.facts, &outcome);
            match outcome {
                Ok((first, _)) => {
                    let done = |seq| Fate::Done(Appended { seq: Seq(seq), duplicate: false });
                    return ((first.0..).take(batch.facts.len()).map(done).collect(), None);
                }
                Err(SendError::Unknown(_)) => maybe_ours = batch.ids,
                Err(SendError::Duplicate | SendError::Full(_) | SendError::Refused(_)) => {}
            }
        }
        self.settle(&batch.facts, maybe_ours).await
    }
}
