//! The pipelined way of appending: messages whose acknowledgements are awaited later, in order, by a task of their own. Several facts of an
//! append share one acknowledgement where they can be chained (`chain`).
//!
//! When an acknowledgement is late, or the connection is lost, nothing more is sent before the facts that may be lost are stored, so that
//! those after them do not overtake them. What was on its way by then may, unless it is chained. If they cannot be stored, all appends that
//! wait fail too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::cache::KnownBefore;
use super::chain::{LINKS_MAX, SoleWriter};
use super::message::EncodedMessage;
use super::writer::{FactStatus, Job, Reply, SendFailure, Writer, fail_waiting, send_reply};
use crate::core::id::{RecordId, Seq};
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

/// A message from the sending task to the acknowledging task.
enum PipelineItem {
    Known(Appended),
    Waiting(SentFacts, Result<PublishAckFuture, Source>),
    /// A fact that was not sent, because facts before it could not be stored.
    NotSent,
    /// The sending task waits until all facts before are stored. The answer is whether they are.
    Settle(oneshot::Sender<bool>),
    /// All facts of the append were sent.
    End(Reply),
}

/// Facts of one append that were sent one after the other and share an acknowledgement.
struct SentFacts {
    facts: Vec<EncodedMessage>,
    /// Whether this append sent them first. If an earlier one did, this one only repeats them.
    first: bool,
    /// The number of the connection that they were sent on, or of the one before.
    connection: u64,
    /// Their places in the pipeline.
    _places: Option<OwnedSemaphorePermit>,
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
    /// A place for each fact that waits for its acknowledgement.
    places: Arc<Semaphore>,
    /// Whether an acknowledgement is late or did not come.
    late: Arc<AtomicBool>,
    /// Whether facts may be chained.
    may_chain: Arc<AtomicBool>,
    /// The id of the last fact that was sent, unless all that was sent is stored.
    last: Option<RecordId>,
    /// The number of the connection that the last fact was sent on.
    connection: u64,
}

/// The acknowledging task has ended.
struct Ended;

impl Writer {
    /// Runs the pipelined mode until the queue is closed and every append has its reply.
    pub(super) async fn run_pipelined(self, mut queue: mpsc::Receiver<Job>) {
        let (sent, acknowledging) = mpsc::channel(PIPELINE_FACTS_MAX);
        let (late, may_chain) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let alone = SoleWriter::new(Arc::clone(&may_chain));
        let acknowledged = tokio::spawn(self.clone().acknowledge(acknowledging, Arc::clone(&late), alone));
        let connection = connection::number(&self.client);
        let places = Arc::new(Semaphore::new(PIPELINE_FACTS_MAX));
        let mut sender = Sender { writer: self, sent, places, late, may_chain, last: None, connection };
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
    async fn acknowledge(self, mut sent: mpsc::Receiver<PipelineItem>, late: Arc<AtomicBool>, mut alone: SoleWriter) {
        let mut append = OpenAppend::default();
        let mut failing = false;
        while let Some(item) = sent.recv().await {
            match item {
                PipelineItem::Known(appended) => append.statuses.push(FactStatus::Done(appended)),
                PipelineItem::NotSent => append.statuses.push(FactStatus::Pending),
                PipelineItem::Waiting(facts, ack) => {
                    let ack = match ack {
                        Ok(ack) => wait_for(ack, &self.client, facts.connection, failing, &late).await,
                        Err(error) => Err(error),
                    };
                    failing = ack.is_err();
                    if failing {
                        alone.broken();
                        // Before the places of these facts are free: the sending task takes what comes then for a new beginning.
                        late.store(true, Ordering::Release);
                    }
                    append.add(facts, ack, &mut alone, |fact| self.cache.knows(fact.id()));
                }
                PipelineItem::Settle(settled) => {
                    self.settle(&mut append).await;
                    late.store(false, Ordering::Release);
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
                let unsent = SentFacts { facts, first: true, connection: self.connection, _places: None };
                self.pass_on(PipelineItem::Waiting(unsent, Err(error.to_string().into()))).await?;
                self.pass_on(PipelineItem::End(reply)).await?;
                return Ok(true);
            }
        };
        let mut can_send = true;
        let mut facts = facts.into_iter().zip(known).peekable();
        while let Some((fact, known)) = facts.next() {
            can_send = can_send && self.settle_if_late().await?;
            match known {
                KnownBefore::Stored(seq) => self.pass_on(PipelineItem::Known(Appended { seq, duplicate: true })).await?,
                KnownBefore::InFlight if can_send => self.repeat(fact).await?,
                KnownBefore::Nothing if can_send => {
                    let mut links = vec![fact];
                    let links_max = if self.last.is_some() && self.may_chain.load(Ordering::Acquire) { LINKS_MAX } else { 1 };
                    while links.len() < links_max
                        && let Some((fact, _)) = facts.next_if(|(_, known)| *known == KnownBefore::Nothing)
                    {
                        links.push(fact);
                    }
                    self.send(links).await?;
                }
                KnownBefore::InFlight | KnownBefore::Nothing => {
                    if known == KnownBefore::Nothing {
                        cache.forget_in_flight(std::iter::once(&fact));
                    }
                    self.pass_on(PipelineItem::NotSent).await?;
                }
            }
        }
        self.pass_on(PipelineItem::End(reply)).await?;
        Ok(can_send)
    }

    /// Sends facts, chained to what was sent before if that is allowed; otherwise there is only one of them.
    async fn send(&mut self, facts: Vec<EncodedMessage>) -> Result<(), Ended> {
        let places = self.places_for(facts.len()).await?;
        let is_chained = self.may_chain.load(Ordering::Acquire) || facts.len() > 1;
        let mut last = self.last.filter(|_| is_chained);
        let (final_fact, others) = facts.split_last().expect("at least one fact is sent");
        let mut sent = Ok(());
        for fact in others {
            let subject = self.writer.subjects.log(fact.fact.event.kind()).as_str().to_owned();
            let headers = fact.headers_after(last.replace(fact.id()));
            sent = self.writer.client.publish_with_headers(subject, headers, fact.payload.clone()).await;
            if sent.is_err() {
                break;
            }
        }
        let ack = match sent {
            Ok(()) => self.publish(final_fact, last).await,
            Err(error) => Err(error.into()),
        };
        // Also if it was not sent: what follows must not be stored then.
        self.last = Some(final_fact.id());
        let sent = SentFacts { facts, first: true, connection: self.connection, _places: Some(places) };
        self.pass_on(PipelineItem::Waiting(sent, ack)).await
    }

    /// Sends a fact that an earlier append, or this one, has sent.
    async fn repeat(&mut self, fact: EncodedMessage) -> Result<(), Ended> {
        let places = self.places_for(1).await?;
        let ack = self.publish(&fact, None).await;
        let sent = SentFacts { facts: vec![fact], first: false, connection: self.connection, _places: Some(places) };
        self.pass_on(PipelineItem::Waiting(sent, ack)).await
    }

    /// Sends a fact with a request for its acknowledgement.
    async fn publish(&self, fact: &EncodedMessage, after: Option<RecordId>) -> Result<PublishAckFuture, Source> {
        let message = PublishMessage::build().headers(fact.headers_after(after)).payload(fact.payload.clone());
        let subject = self.writer.subjects.log(fact.fact.event.kind()).as_str().to_owned();
        Ok(self.writer.jetstream.send_publish(subject, message).await?)
    }

    /// Waits for free places in the pipeline.
    async fn places_for(&self, facts: usize) -> Result<OwnedSemaphorePermit, Ended> {
        let places = u32::try_from(facts).map_err(|_| Ended)?;
        Arc::clone(&self.places).acquire_many_owned(places).await.map_err(|_| Ended)
    }

    async fn pass_on(&self, item: PipelineItem) -> Result<(), Ended> {
        self.sent.send(item).await.map_err(|_| Ended)
    }

    /// If facts that were sent may be lost, waits until they are stored. Returns whether they are.
    async fn settle_if_late(&mut self) -> Result<bool, Ended> {
        if self.places.available_permits() == PIPELINE_FACTS_MAX {
            // Nothing is on its way that this could overtake. If something failed, `late` is set by now.
            self.last = None;
        }
        let present = connection::number(&self.writer.client);
        let is_connected = self.writer.client.connection_state() == State::Connected;
        if is_connected && present == self.connection && !self.late.load(Ordering::Acquire) {
            return Ok(true);
        }
        let (settled, answer) = oneshot::channel();
        self.pass_on(PipelineItem::Settle(settled)).await?;
        let is_stored = answer.await.map_err(|_| Ended)?;
        self.connection = connection::number(&self.writer.client);
        self.last = None;
        Ok(is_stored)
    }
}

impl OpenAppend {
    /// Adds facts with their acknowledgement, if they have one; `is_known` says whether the log as read so far holds the id of a fact.
    fn add(
        &mut self,
        SentFacts { facts, first, .. }: SentFacts,
        ack: Result<PublishAck, Source>,
        alone: &mut SoleWriter,
        is_known: impl Fn(&EncodedMessage) -> bool,
    ) {
        let count = facts.len() as u64;
        let maybe_ours = match ack {
            // The acknowledgement of a duplicate says nothing about the facts before it.
            Ok(ack) if ack.duplicate && count == 1 && is_known(&facts[0]) => {
                let appended = Appended { seq: Seq(ack.sequence), duplicate: true };
                return self.add_stored(facts, std::iter::once(appended));
            }
            Ok(ack) if ack.duplicate => count > 1,
            Ok(ack) => {
                let first = Seq((ack.sequence + 1).saturating_sub(count));
                alone.stored(first, Seq(ack.sequence));
                return self.add_stored(facts, (first.0..).map(|seq| Appended { seq: Seq(seq), duplicate: false }));
            }
            Err(error) if is_broken_chain(&error) => {
                tracing::debug!(%error, "another process wrote between facts of this one; reading back");
                first
            }
            Err(error) => {
                tracing::warn!(%error, "an append was not acknowledged; reading back");
                first
            }
        };
        for fact in facts {
            self.missing.push(UnconfirmedFact { index: self.statuses.len(), fact, maybe_ours });
            self.statuses.push(FactStatus::Pending);
        }
    }

    fn add_stored(&mut self, facts: Vec<EncodedMessage>, appended: impl Iterator<Item = Appended>) {
        for (fact, appended) in facts.into_iter().zip(appended) {
            self.stored.push((fact, appended));
            self.statuses.push(FactStatus::Done(appended));
        }
    }
}

/// Whether the server refused a fact because it would not have come right after the one that it names.
fn is_broken_chain(error: &Source) -> bool {
    let refused = error.downcast_ref::<PublishError>();
    refused.is_some_and(|error| error.kind() == PublishErrorKind::WrongLastMessageId)
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
