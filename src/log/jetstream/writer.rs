//! The writer task of this process: drains the queue, sends the facts, replies to each caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::{self, message::PublishMessage};
use tokio::sync::{mpsc, oneshot};

use super::batch::{self, SendError};
use super::cache::StreamCache;
use super::message::EncodedMessage;
use crate::config::AppendMode;
use crate::core::id::{RecordId, Seq};
use crate::log::error::Source;
use crate::log::{AppendError, Appended};
use crate::nats::Nats;
use crate::subject::Subjects;

/// How often an append is tried before it fails, and the pause between two attempts. A killed server restarts, and a cluster elects a
/// new leader, in less time.
const ATTEMPTS_MAX: u32 = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);
/// How long reading back up to the end of the stream may take.
const READ_BACK_PATIENCE: Duration = Duration::from_secs(10);
/// How long an acknowledgement may take, and how long if the previous one did not arrive: the messages were sent at the same time, so
/// waiting as long for each of them would delay all appends. Facts that are acknowledged later are found by reading back.
const ACK_PATIENCE: Duration = Duration::from_secs(5);
const FAILING_ACK_PATIENCE: Duration = Duration::from_millis(20);
/// Most facts that wait for acknowledgements while the next ones are sent.
const PIPELINE_FACTS_MAX: usize = 8_192;

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
    jetstream: jetstream::Context,
    stream: String,
    pub(super) subjects: Subjects,
    mode: AppendMode,
    pub(super) cache: Arc<StreamCache>,
}

/// A message from the sending task to the acknowledging task, one per fact, because an append may be larger than the pipeline.
enum PipelineItem {
    Known(Appended),
    Waiting(EncodedMessage, Result<PublishAckFuture, Source>),
    /// All facts of the append were sent.
    End(Reply),
}

/// A fact that was sent and is not known to be stored.
struct UnconfirmedFact {
    /// Its index in the append.
    index: usize,
    fact: EncodedMessage,
    /// Whether this process may have stored it. If not, the server knows the id, and the log as read so far does not.
    maybe_ours: bool,
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
                self.mark_stored(facts, &mut statuses, &maybe_ours);
                let pending = first_pending(facts, &statuses, if singly { 1 } else { batch::MESSAGES_MAX });
                if pending.is_empty() {
                    return (statuses, None);
                }
                let sent: Vec<EncodedMessage> = pending.iter().map(|index| facts[*index].clone()).collect();
                match self.send(&sent, singly).await {
                    Ok((seq, true)) if self.cache.find(sent[0].id()).is_none() => {
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
                if facts.iter().all(|fact| self.cache.find(fact.id()).is_some()) {
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
    fn mark_stored(&self, facts: &[EncodedMessage], statuses: &mut [FactStatus], maybe_ours: &BTreeSet<RecordId>) {
        let positions = self.cache.find_all(facts.iter());
        let mut seen = BTreeSet::new();
        for ((fact, status), position) in facts.iter().zip(statuses).zip(positions) {
            let first = seen.insert(fact.id());
            if let (FactStatus::Pending, Some(seq)) = (*status, position) {
                *status = FactStatus::Done(Appended { seq, duplicate: !(first && maybe_ours.contains(&fact.id())) });
            }
        }
    }

    /// Reads the stream up to its present end, so that facts stored by an attempt of unknown outcome are known.
    async fn read_back(&self) -> Result<(), Source> {
        let stream = self.jetstream.get_stream(&self.stream).await?;
        let end = Seq(stream.cached_info().state.last_sequence);
        Ok(tokio::time::timeout(READ_BACK_PATIENCE, self.cache.follow_to(end)).await??)
    }

    /// Runs the pipelined mode until the queue is closed and every append has its reply.
    async fn run_pipelined(self, mut queue: mpsc::Receiver<Job>) {
        let (sent, acknowledging) = mpsc::channel(PIPELINE_FACTS_MAX);
        let acknowledged = tokio::spawn(self.clone().acknowledge(acknowledging));
        while let Some(Job { facts, reply }) = queue.recv().await {
            if self.send_job(facts, &sent).await.is_err() || sent.send(PipelineItem::End(reply)).await.is_err() {
                break;
            }
        }
        drop(sent);
        if acknowledged.await.is_err() {
            tracing::error!("the task that waits for acknowledgements had panicked");
        }
    }

    /// Sends the facts of one append without waiting for the server. The order of sending is the order of the log.
    async fn send_job(
        &self,
        facts: Vec<EncodedMessage>,
        sent: &mpsc::Sender<PipelineItem>,
    ) -> Result<(), mpsc::error::SendError<PipelineItem>> {
        if let Err(error) = self.cache.wait_for_all_ids().await {
            for fact in facts {
                sent.send(PipelineItem::Waiting(fact, Err(error.to_string().into()))).await?;
            }
            return Ok(());
        }
        let positions = self.cache.find_all(facts.iter());
        let unknown = facts.iter().zip(&positions).filter(|(_, position)| position.is_none()).map(|(fact, _)| fact);
        self.cache.add_in_flight(unknown);
        for (fact, position) in facts.into_iter().zip(positions) {
            let outcome = if let Some(seq) = position {
                PipelineItem::Known(Appended { seq, duplicate: true })
            } else {
                let message = PublishMessage::build().headers(fact.headers()).payload(fact.payload.clone());
                let subject = self.subjects.log(fact.fact.event.kind());
                let ack = self.jetstream.send_publish(subject.as_str().to_owned(), message).await;
                PipelineItem::Waiting(fact, ack.map_err(Into::into))
            };
            sent.send(outcome).await?;
        }
        Ok(())
    }

    /// Waits for acknowledgements in order. Facts without one are read back, and sent again if they are missing.
    async fn acknowledge(self, mut sent: mpsc::Receiver<PipelineItem>) {
        let (mut statuses, mut stored, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut failing = false;
        while let Some(outcome) = sent.recv().await {
            match outcome {
                PipelineItem::Known(appended) => statuses.push(FactStatus::Done(appended)),
                PipelineItem::Waiting(fact, ack) => {
                    let patience = if failing { FAILING_ACK_PATIENCE } else { ACK_PATIENCE };
                    let ack = match ack {
                        Ok(ack) => tokio::time::timeout(patience, ack.into_future())
                            .await
                            .map_or_else(|late| Err(late.into()), |answer| answer.map_err(Into::into)),
                        Err(error) => Err(error),
                    };
                    failing = ack.is_err();
                    match ack {
                        Ok(ack) if ack.duplicate && self.cache.find(fact.id()).is_none() => {
                            missing.push(UnconfirmedFact { index: statuses.len(), fact, maybe_ours: false });
                            statuses.push(FactStatus::Pending);
                        }
                        Ok(ack) => {
                            let appended = Appended { seq: Seq(ack.sequence), duplicate: ack.duplicate };
                            stored.push((fact, appended));
                            statuses.push(FactStatus::Done(appended));
                        }
                        Err(error) => {
                            tracing::warn!(%error, "an append was not acknowledged; reading back");
                            missing.push(UnconfirmedFact { index: statuses.len(), fact, maybe_ours: true });
                            statuses.push(FactStatus::Pending);
                        }
                    }
                }
                PipelineItem::End(reply) => {
                    let (stored, missing) = (std::mem::take(&mut stored), std::mem::take(&mut missing));
                    self.finish_append(std::mem::take(&mut statuses), stored, missing, reply).await;
                }
            }
        }
    }

    /// Replies to one append, after facts without an acknowledgement were read back and, if missing, sent again.
    async fn finish_append(
        &self,
        mut statuses: Vec<FactStatus>,
        stored: Vec<(EncodedMessage, Appended)>,
        missing: Vec<UnconfirmedFact>,
        reply: Reply,
    ) {
        self.cache
            .add_outcomes(stored.iter().map(|(fact, appended)| (fact, Some(appended.seq).filter(|_| !appended.duplicate))));
        if let Some(last) = stored.iter().map(|(_, appended)| appended.seq).max() {
            self.cache.advance_tail(last);
        }
        let mut failure = None;
        if !missing.is_empty() {
            let maybe_ours = missing.iter().filter(|missing| missing.maybe_ours).map(|missing| missing.fact.id()).collect();
            let (indices, facts): (Vec<usize>, Vec<EncodedMessage>) =
                missing.into_iter().map(|one| (one.index, one.fact)).unzip();
            let (found, why) = self.ensure_stored(&facts, maybe_ours).await;
            indices.into_iter().zip(found).for_each(|(index, status)| statuses[index] = status);
            failure = why;
        }
        send_reply(reply, &statuses, failure.as_ref());
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
