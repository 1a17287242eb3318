//! The writer task of this process: drains the queue, sends the facts, replies to each caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream;
use tokio::sync::{mpsc, oneshot};

use super::batch::{self, SendError};
use super::cache::StreamCache;
use super::message::EncodedMessage;
use crate::config::AppendMode;
use crate::core::id::{RecordId, Seq};
use crate::log::error::Source;
use crate::log::{AppendError, Appended, ReadError};
use crate::nats::{Nats, connection};
use crate::subject::Subjects;

/// How often an append is tried before it fails, and the pause between two attempts. A killed server restarts, and a cluster elects a
/// new leader, in less time.
const ATTEMPTS_MAX: u32 = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);
/// How long reading back up to the end of the stream may take.
const READ_BACK_PATIENCE: Duration = Duration::from_secs(10);

/// One append in the writer's queue.
pub(super) struct Job {
    pub(super) facts: Vec<EncodedMessage>,
    pub(super) reply: Reply,
}

pub(super) type Reply = oneshot::Sender<Result<Vec<Appended>, AppendError>>;

/// The writer's connection, settings and cache.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) jetstream: jetstream::Context,
    stream: String,
    pub(super) subjects: Subjects,
    mode: AppendMode,
    pub(super) cache: Arc<StreamCache>,
}

/// The status of a fact that is being appended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FactStatus {
    Pending,
    Done(Appended),
}

impl Writer {
    pub(super) fn new(nats: &Nats, stream: String, cache: Arc<StreamCache>) -> Self {
        Self {
            client: nats.client().clone(),
            jetstream: nats.jetstream().clone(),
            stream,
            subjects: nats.subjects().clone(),
            mode: nats.settings().append,
            cache,
        }
    }

    /// Runs until every sender is dropped and every append has its reply.
    pub(super) async fn run(self, queue: mpsc::Receiver<Job>) {
        match self.mode {
            AppendMode::Atomic => self.run_atomic(queue).await,
            AppendMode::Pipelined => self.run_pipelined(queue).await,
        }
    }

    /// Stores every fact once, in order, with retries; returns why if some stay pending. `maybe_ours` are the ids that an earlier attempt
    /// may have stored.
    pub(super) async fn ensure_stored(
        &self,
        facts: &[EncodedMessage],
        maybe_ours: BTreeSet<RecordId>,
    ) -> (Vec<FactStatus>, Option<SendFailure>) {
        let (statuses, failure) = self.retry_until_stored(facts, maybe_ours).await;
        let pending = facts.iter().zip(&statuses).filter(|(_, status)| **status == FactStatus::Pending);
        self.cache.forget_in_flight(pending.map(|(fact, _)| fact));
        (statuses, failure)
    }

    async fn retry_until_stored(
        &self,
        facts: &[EncodedMessage],
        mut maybe_ours: BTreeSet<RecordId>,
    ) -> (Vec<FactStatus>, Option<SendFailure>) {
        let mut statuses = vec![FactStatus::Pending; facts.len()];
        let mut failure = None;
        let mut singly = self.mode == AppendMode::Pipelined;
        let mut pause = false;
        for attempt in 0..ATTEMPTS_MAX {
            if pause {
                tokio::time::sleep(ATTEMPT_PAUSE).await;
            }
            if attempt > 0 || !maybe_ours.is_empty() {
                if let Err(error) = self.read_back().await {
                    pause = true;
                    failure = Some(SendFailure::new(error, &maybe_ours));
                    continue;
                }
            } else if let Err(error) = self.cache.wait_for_all_ids().await {
                return (statuses, Some(SendFailure::new(error.into(), &maybe_ours)));
            }
            loop {
                if let Err(error) = self.mark_stored(facts, &mut statuses, &maybe_ours) {
                    return (statuses, Some(SendFailure::new(error.into(), &maybe_ours)));
                }
                let pending = first_pending(facts, &statuses, if singly { 1 } else { batch::MESSAGES_MAX });
                if pending.is_empty() {
                    return (statuses, None);
                }
                let sent: Vec<EncodedMessage> = pending.iter().map(|index| facts[*index].clone()).collect();
                match self.send(&sent, singly).await {
                    Ok((seq, true)) if !self.cache.knows(sent[0].id()) => {
                        // Reading back finds a record that was not delivered yet, but never a foreign message with this id.
                        pause = attempt > 0;
                        let problem = format!("the server holds the id {} at {seq}, which is not in the log", sent[0].id());
                        failure = Some(SendFailure::new(problem.into(), &maybe_ours));
                        break;
                    }
                    Ok((first, duplicate)) => {
                        for (index, seq) in pending.iter().zip(first.0..) {
                            statuses[*index] = FactStatus::Done(Appended { seq: Seq(seq), duplicate });
                        }
                    }
                    Err(error) => {
                        // If a batch is refused for a duplicate that reading back does not find, its facts are sent one by one.
                        pause = !matches!(error, SendError::Duplicate);
                        singly |= matches!(error, SendError::Duplicate) && attempt > 0;
                        if matches!(error, SendError::Unknown(_)) {
                            maybe_ours.extend(sent.iter().map(EncodedMessage::id));
                        }
                        let full = matches!(error, SendError::Full(_));
                        failure = Some(SendFailure::from_send(error, &self.stream, &maybe_ours));
                        if full {
                            // Trying again makes no room, so the callers get the error at once.
                            return (statuses, failure);
                        }
                        break;
                    }
                }
            }
        }
        (statuses, failure)
    }

    /// Sends facts, all new as far as this process knows. Returns the position of the first, and whether it was a duplicate.
    async fn send(&self, facts: &[EncodedMessage], singly: bool) -> Result<(Seq, bool), SendError> {
        self.cache.add_in_flight(facts.iter());
        let outcome = if singly {
            batch::send_one(&self.client, &self.subjects, &facts[0]).await
        } else {
            batch::send_all(&self.client, &self.subjects, facts).await.map(|first| (first, false))
        };
        self.record_send(facts, &outcome);
        outcome
    }

    /// Adds the outcome of facts that were sent together to the cache.
    pub(super) fn record_send(&self, facts: &[EncodedMessage], outcome: &Result<(Seq, bool), SendError>) {
        match outcome {
            Ok((first, duplicate)) => {
                let positions = (first.0..).map(|seq| Some(Seq(seq)).filter(|_| !duplicate));
                self.cache.add_outcomes(facts.iter().zip(positions));
                // What the server reports as a duplicate may be a foreign message, which is not in the log.
                if !duplicate || facts.iter().all(|fact| self.cache.knows(fact.id())) {
                    self.cache.advance_tail(*first);
                }
            }
            Err(SendError::Duplicate | SendError::Full(_) | SendError::Refused(_)) => {
                self.cache.add_outcomes(facts.iter().map(|fact| (fact, None)));
            }
            // They may be stored; then the stream delivers them.
            Err(SendError::Unknown(_)) => {}
        }
    }

    /// Sets the status of the facts whose ids are in the stream to done: as stored by this process if an earlier attempt may have stored
    /// them, otherwise as duplicates. The second fact with the same id is a duplicate.
    fn mark_stored(
        &self,
        facts: &[EncodedMessage],
        statuses: &mut [FactStatus],
        maybe_ours: &BTreeSet<RecordId>,
    ) -> Result<(), ReadError> {
        let ids: Vec<RecordId> = facts.iter().map(EncodedMessage::id).collect();
        let positions = self.cache.find_all(&ids)?;
        let mut seen = BTreeSet::new();
        for ((fact, status), position) in facts.iter().zip(statuses).zip(positions) {
            let first = seen.insert(fact.id());
            if let (FactStatus::Pending, Some(seq)) = (*status, position) {
                *status = FactStatus::Done(Appended { seq, duplicate: !(first && maybe_ours.contains(&fact.id())) });
            }
        }
        Ok(())
    }

    /// Reads the stream up to its present end, so that facts stored by an attempt of unknown outcome are known.
    async fn read_back(&self) -> Result<(), Source> {
        let asking = self.jetstream.get_stream(&self.stream);
        let stream = connection::answer(&self.client, connection::number(&self.client), asking).await??;
        let end = Seq(stream.cached_info().state.last_sequence);
        Ok(tokio::time::timeout(READ_BACK_PATIENCE, self.cache.follow_to(end)).await??)
    }
}

/// Why some facts are not known to be stored.
#[derive(Clone)]
pub(super) struct SendFailure {
    /// Whether some of them may be stored all the same.
    unknown: bool,
    /// The stream that has no room.
    full: Option<String>,
    text: String,
}

impl SendFailure {
    fn new(error: Source, maybe_ours: &BTreeSet<RecordId>) -> Self {
        Self { unknown: !maybe_ours.is_empty(), full: None, text: error.to_string() }
    }

    fn from_send(error: SendError, stream: &str, maybe_ours: &BTreeSet<RecordId>) -> Self {
        match error {
            SendError::Duplicate => Self::new("the server knows one of the ids".into(), maybe_ours),
            SendError::Refused(error) => Self::new(error, maybe_ours),
            SendError::Full(error) => Self { full: Some(stream.to_owned()), ..Self::new(error.into(), maybe_ours) },
            SendError::Unknown(error) => Self { unknown: true, full: None, text: error.to_string() },
        }
    }
}

/// Returns the indices of the first pending facts, each id once, at most `max`.
fn first_pending(facts: &[EncodedMessage], statuses: &[FactStatus], max: usize) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let pending = facts
        .iter()
        .zip(statuses)
        .enumerate()
        .filter(|(_, (fact, status))| **status == FactStatus::Pending && seen.insert(fact.id()));
    pending.map(|(index, _)| index).take(max).collect()
}

/// Replies to one append.
pub(super) fn send_reply(reply: Reply, statuses: &[FactStatus], failure: Option<&SendFailure>) {
    let done = |status: &FactStatus| match status {
        FactStatus::Done(appended) => Some(*appended),
        FactStatus::Pending => None,
    };
    let outcome = if let Some(appended) = statuses.iter().map(done).collect::<Option<Vec<_>>>() {
        Ok(appended)
    } else {
        let partly = statuses.iter().filter_map(done).any(|appended| !appended.duplicate);
        let (unknown, text) = failure.map_or((true, "no reason"), |failure| (failure.unknown, failure.text.as_str()));
        Err(match failure.and_then(|failure| failure.full.as_ref()) {
            _ if unknown || partly => AppendError::Indeterminate(text.into()),
            Some(stream) => AppendError::Full { place: format!("the stream {stream}"), detail: text.to_owned() },
            None => AppendError::Determinate(text.into()),
        })
    };
    // A caller that stopped waiting does not want the answer.
    drop(reply.send(outcome));
}

/// Fails the appends in the queue: they must not be stored before those that could not be.
pub(super) fn fail_waiting(queue: &mut mpsc::Receiver<Job>) {
    while let Ok(Job { reply, .. }) = queue.try_recv() {
        let failed = AppendError::Determinate("appends before it could not be stored".into());
        // A caller that stopped waiting does not want the answer.
        drop(reply.send(Err(failed)));
    }
}
