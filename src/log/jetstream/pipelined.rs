//! The pipelined way of appending: single messages whose acknowledgements are awaited later, in order, by a task of their own.
//!
//! When an acknowledgement is late, or the connection is lost, nothing more is sent before the facts that may be lost are stored, so that
//! those after them do not overtake them. What was on its way by then may. If they cannot be stored, all appends that wait fail too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use tokio::sync::{mpsc, oneshot};

use super::cache::KnownBefore;
use super::message::EncodedMessage;
use super::writer::{FactStatus, Job, Reply, SendFailure, Writer, fail_waiting, send_reply};
use crate::core::id::Seq;
use crate::log::Appended;
use crate::log::error::Source;
use crate::nats::connection;

/// How long an acknowledgement may take, and how long if the previous one did not arrive: the messages were sent at the same time, so
/// waiting as long for each of them would delay all appends. On a connection that is gone none is waited for. Facts that are acknowledged
/// later are found by reading back.
const ACK_PATIENCE: Duration = Duration::from_secs(5);
const FAILING_ACK_PATIENCE: Duration = Duration::from_millis(20);
/// An acknowledgement that takes longer is late. A cluster needs longer to elect a new leader.
const LATE_AFTER: Duration = Duration::from_millis(250);
/// Most facts that wait for acknowledgements while the next ones are sent.
const PIPELINE_FACTS_MAX: usize = 8_192;

/// A message from the sending task to the acknowledging task, one per fact, because an append may be larger than the pipeline.
enum PipelineItem {
    Known(Appended),
    Waiting(SentFact, Result<PublishAckFuture, Source>),
    /// A fact that was not sent, because facts before it could not be stored.
    NotSent,
    /// The sending task waits until all facts before are stored. The answer is whether they are.
    Settle(oneshot::Sender<bool>),
    /// All facts of the append were sent.
    End(Reply),
}

/// A fact that was sent.
struct SentFact {
    fact: EncodedMessage,
    /// Whether this append sent it first. If an earlier one did, this one only repeats it.
    first: bool,
    /// The number of the connection that it was sent on, or of the one before.
    connection: u64,
}

/// A fact that was sent and is not known to be stored.
struct UnconfirmedFact {
    /// Its index in the append.
    index: usize,
    fact: EncodedMessage,
    /// Whether this append may have stored it. If not, an earlier append sent it, or the server knows the id and the log as read so far
    /// does not.
    maybe_ours: bool,
}

/// The append whose acknowledgements arrive.
#[derive(Default)]
struct OpenAppend {
    statuses: Vec<FactStatus>,
    stored: Vec<(EncodedMessage, Appended)>,
    missing: Vec<UnconfirmedFact>,
    failure: Option<SendFailure>,
}

/// The sending task.
struct Sender {
    writer: Writer,
    sent: mpsc::Sender<PipelineItem>,
    /// Whether an acknowledgement is late or did not come.
    late: Arc<AtomicBool>,
    /// The number of the connection that the last fact was sent on.
    connection: u64,
}

/// The acknowledging task has ended.
struct Ended;

impl Writer {
    /// Runs the pipelined mode until the queue is closed and every append has its reply.
    pub(super) async fn run_pipelined(self, mut queue: mpsc::Receiver<Job>) {
        let (sent, acknowledging) = mpsc::channel(PIPELINE_FACTS_MAX);
        let late = Arc::new(AtomicBool::new(false));
        let acknowledged = tokio::spawn(self.clone().acknowledge(acknowledging, Arc::clone(&late)));
        let connection = connection::number(&self.client);
        let mut sender = Sender { writer: self, sent, late, connection };
        while let Some(job) = queue.recv().await {
            match sender.send_job(job).await {
                Ok(true) => {}
                Ok(false) => fail_waiting(&mut queue),
                Err(Ended) => break,
            }
        }
        drop(sender);
        if acknowledged.await.is_err() {
            tracing::error!("the task that waits for acknowledgements had panicked");
        }
    }

    /// Waits for acknowledgements in order. Facts without one are read back, and sent again if they are missing.
    async fn acknowledge(self, mut sent: mpsc::Receiver<PipelineItem>, late: Arc<AtomicBool>) {
        let mut append = OpenAppend::default();
        let mut failing = false;
        while let Some(item) = sent.recv().await {
            match item {
                PipelineItem::Known(appended) => append.statuses.push(FactStatus::Done(appended)),
                PipelineItem::NotSent => append.statuses.push(FactStatus::Pending),
                PipelineItem::Waiting(fact, ack) => {
                    let ack = match ack {
                        Ok(ack) => wait_for(ack, &self.client, fact.connection, failing, &late).await,
                        Err(error) => Err(error),
                    };
                    failing = ack.is_err();
                    if failing {
                        late.store(true, Ordering::Relaxed);
                    }
                    append.add(fact, ack, |fact| self.cache.knows(fact.id()));
                }
                PipelineItem::Settle(settled) => {
                    self.settle(&mut append).await;
                    late.store(false, Ordering::Relaxed);
                    // An error means that the sending task has ended.
                    let _ended = settled.send(append.failure.is_none()).is_err();
                }
                PipelineItem::End(reply) => {
                    self.settle(&mut append).await;
                    let OpenAppend { statuses, failure, .. } = std::mem::take(&mut append);
                    send_reply(reply, &statuses, failure.as_ref());
                }
            }
        }
    }

    /// Adds the facts that were acknowledged to the cache. Those without an acknowledgement are read back and, if missing, sent again.
    async fn settle(&self, append: &mut OpenAppend) {
        let stored = std::mem::take(&mut append.stored);
        self.cache
            .add_outcomes(stored.iter().map(|(fact, appended)| (fact, Some(appended.seq).filter(|_| !appended.duplicate))));
        if let Some(last) = stored.iter().map(|(_, appended)| appended.seq).max() {
            self.cache.advance_tail(last);
        }
        if append.missing.is_empty() {
            return;
        }
        let missing = std::mem::take(&mut append.missing);
        let maybe_ours = missing.iter().filter(|missing| missing.maybe_ours).map(|missing| missing.fact.id()).collect();
        let (indices, facts): (Vec<usize>, Vec<EncodedMessage>) = missing.into_iter().map(|one| (one.index, one.fact)).unzip();
        let (found, why) = self.ensure_stored(&facts, maybe_ours).await;
        indices.into_iter().zip(found).for_each(|(index, status)| append.statuses[index] = status);
        append.failure = append.failure.take().or(why);
    }
}

impl Sender {
    /// Sends the facts of one append without waiting for the server. The order of sending is the order of the log. Returns whether facts
    /// could be sent: not if some before them could not be stored.
    async fn send_job(&mut self, Job { facts, reply }: Job) -> Result<bool, Ended> {
        let cache = Arc::clone(&self.writer.cache);
        let all_ids = cache.wait_for_all_ids().await;
        let known = match all_ids.and_then(|()| cache.add_unless_stored(&facts)) {
            Ok(known) => known,
            Err(error) => {
                for fact in facts {
                    let unsent = SentFact { fact, first: true, connection: self.connection };
                    self.pass_on(PipelineItem::Waiting(unsent, Err(error.to_string().into()))).await?;
                }
                self.pass_on(PipelineItem::End(reply)).await?;
                return Ok(true);
            }
        };
        let mut can_send = true;
        for (fact, known) in facts.into_iter().zip(known) {
            can_send = can_send && self.settle_if_late().await?;
            let item = if let KnownBefore::Stored(seq) = known {
                PipelineItem::Known(Appended { seq, duplicate: true })
            } else if can_send {
                let message = PublishMessage::build().headers(fact.headers()).payload(fact.payload.clone());
                let subject = self.writer.subjects.log(fact.fact.event.kind());
                let ack = self.writer.jetstream.send_publish(subject.as_str().to_owned(), message).await;
                let sent = SentFact { fact, first: known == KnownBefore::Nothing, connection: self.connection };
                PipelineItem::Waiting(sent, ack.map_err(Into::into))
            } else {
                if known == KnownBefore::Nothing {
                    cache.forget_in_flight(std::iter::once(&fact));
                }
                PipelineItem::NotSent
            };
            self.pass_on(item).await?;
        }
        self.pass_on(PipelineItem::End(reply)).await?;
        Ok(can_send)
    }

    async fn pass_on(&self, item: PipelineItem) -> Result<(), Ended> {
        self.sent.send(item).await.map_err(|_| Ended)
    }

    /// If facts that were sent may be lost, waits until they are stored. Returns whether they are.
    async fn settle_if_late(&mut self) -> Result<bool, Ended> {
        let present = connection::number(&self.writer.client);
        let is_connected = self.writer.client.connection_state() == State::Connected;
        if is_connected && present == self.connection && !self.late.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let (settled, answer) = oneshot::channel();
        self.pass_on(PipelineItem::Settle(settled)).await?;
        let is_stored = answer.await.map_err(|_| Ended)?;
        self.connection = connection::number(&self.writer.client);
        Ok(is_stored)
    }
}

impl OpenAppend {
    /// Adds a fact with its acknowledgement, if it has one; `is_known` says whether the log as read so far holds its id.
    fn add(
        &mut self,
        SentFact { fact, first, .. }: SentFact,
        ack: Result<PublishAck, Source>,
        is_known: impl Fn(&EncodedMessage) -> bool,
    ) {
        let maybe_ours = match ack {
            Ok(ack) if ack.duplicate && !is_known(&fact) => false,
            Ok(ack) => {
                let appended = Appended { seq: Seq(ack.sequence), duplicate: ack.duplicate };
                self.stored.push((fact, appended));
                self.statuses.push(FactStatus::Done(appended));
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "an append was not acknowledged; reading back");
                first
            }
        };
        self.missing.push(UnconfirmedFact { index: self.statuses.len(), fact, maybe_ours });
        self.statuses.push(FactStatus::Pending);
    }
}

/// Waits for the acknowledgement of a fact that was sent on `sent_on`, and sets `late` if it is. `failing` says that the one before it did
/// not come.
async fn wait_for(
    ack: PublishAckFuture,
    client: &Client,
    sent_on: u64,
    failing: bool,
    late: &AtomicBool,
) -> Result<PublishAck, Source> {
    let mut ack = ack.into_future();
    if failing {
        let is_gone = connection::number(client) != sent_on;
        let patience = if is_gone { Duration::ZERO } else { FAILING_ACK_PATIENCE };
        return Ok(tokio::time::timeout(patience, ack).await??);
    }
    if let Ok(in_time) = tokio::time::timeout(LATE_AFTER, &mut ack).await {
        return Ok(in_time?);
    }
    late.store(true, Ordering::Relaxed);
    let ack = connection::answer(client, sent_on, ack);
    Ok(tokio::time::timeout(ACK_PATIENCE.saturating_sub(LATE_AFTER), ack).await???)
}
