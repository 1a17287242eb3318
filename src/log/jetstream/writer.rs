//! The one writer of this process: takes what waits, sends it, answers everybody.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::{self, message::PublishMessage};
use tokio::sync::{mpsc, oneshot};

use super::batch::{self, SendError};
use super::known::Known;
use super::message::Encoded;
use crate::config::AppendMode;
use crate::core::id::{RecordId, Seq};
use crate::log::error::Source;
use crate::log::{AppendError, Appended};
use crate::nats::Nats;
use crate::subject::Subjects;

/// How often an append is tried before its callers are told that it failed, and the pause between two attempts. A server that was
/// killed is back, and a cluster has a new leader, long before.
const ATTEMPTS_MAX: u32 = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);
/// How long the answer to "where does the stream end?" may take to come true here.
const READ_BACK_PATIENCE: Duration = Duration::from_secs(10);
/// How long an acknowledgement may take; and how long if the one before did not come. Those behind it were sent at the same time, so
/// waiting as long for each of them would hold everybody up. What comes later than that is found by reading back.
const ACK_PATIENCE: Duration = Duration::from_secs(5);
const FAILING_ACK_PATIENCE: Duration = Duration::from_millis(20);
/// Facts whose acknowledgements are awaited while the next ones are sent.
const PIPELINE_FACTS_MAX: usize = 8_192;

pub(super) struct Job {
    pub(super) facts: Vec<Encoded>,
    pub(super) reply: Reply,
}

pub(super) type Reply = oneshot::Sender<Result<Vec<Appended>, AppendError>>;

#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    jetstream: jetstream::Context,
    stream: String,
    pub(super) subjects: Subjects,
    mode: AppendMode,
    pub(super) known: Arc<Known>,
}

/// What the sender tells the one who waits for acknowledgements, fact by fact: an append may be larger than the pipeline.
enum Sent {
    Known(Appended),
    Waiting(Encoded, Result<PublishAckFuture, Source>),
    /// The append is complete.
    End(Reply),
}

/// A fact that is not known to be stored after it was sent.
struct Missing {
    /// Its place in the append.
    at: usize,
    fact: Encoded,
    /// Whether this process may have stored it. If not, the server knows the id, and the log as read so far does not.
    maybe_ours: bool,
}

/// What is known about a fact that is being appended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    Done(Appended),
}

impl Writer {
    pub(super) fn new(nats: &Nats, stream: String, known: Arc<Known>) -> Self {
        Self {
            client: nats.client().clone(),
            jetstream: nats.jetstream().clone(),
            stream,
            subjects: nats.subjects().clone(),
            mode: nats.settings().append,
            known,
        }
    }

    /// Ends when every sender is gone and everything is answered.
    pub(super) async fn run(self, queue: mpsc::Receiver<Job>) {
        match self.mode {
            AppendMode::Atomic => self.run_atomic(queue).await,
            AppendMode::Pipelined => self.run_pipelined(queue).await,
        }
    }

    /// Gets every fact into the stream once, in order, or says why not. `maybe_ours` are ids that an earlier attempt may have stored.
    pub(super) async fn settle(&self, facts: &[Encoded], maybe_ours: BTreeSet<RecordId>) -> (Vec<Fate>, Option<SendFailure>) {
        let (fates, failure) = self.try_to_settle(facts, maybe_ours).await;
        let open = facts.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Open);
        self.known.give_up(open.map(|(fact, _)| fact));
        (fates, failure)
    }

    async fn try_to_settle(&self, facts: &[Encoded], mut maybe_ours: BTreeSet<RecordId>) -> (Vec<Fate>, Option<SendFailure>) {
        let mut fates = vec![Fate::Open; facts.len()];
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
            } else if let Err(error) = self.known.learn_all().await {
                return (fates, Some(SendFailure::new(error.into(), &maybe_ours)));
            }
            loop {
                self.recognise(facts, &mut fates, &maybe_ours);
                let open = first_open(facts, &fates, if singly { 1 } else { batch::MESSAGES_MAX });
                if open.is_empty() {
                    return (fates, None);
                }
                let sent: Vec<Encoded> = open.iter().map(|at| facts[*at].clone()).collect();
                match self.send(&sent, singly).await {
                    Ok((seq, true)) if self.known.find(sent[0].id()).is_none() => {
                        // A record that has not come yet is found by reading back; a foreign message under this id never is.
                        pause = attempt > 0;
                        let problem = format!("the server holds the id {} at {seq}, which is not in the log", sent[0].id());
                        failure = Some(SendFailure::new(problem.into(), &maybe_ours));
                        break;
                    }
                    Ok((first, duplicate)) => {
                        for (at, seq) in open.iter().zip(first.0..) {
                            fates[*at] = Fate::Done(Appended { seq: Seq(seq), duplicate });
                        }
                    }
                    Err(error) => {
                        // A stream that names no duplicate although it refuses for one is asked message by message.
                        pause = !matches!(error, SendError::Duplicate);
                        singly |= matches!(error, SendError::Duplicate) && attempt > 0;
                        if matches!(error, SendError::Unknown(_)) {
                            maybe_ours.extend(sent.iter().map(Encoded::id));
                        }
                        let full = matches!(error, SendError::Full(_));
                        failure = Some(SendFailure::from_send(error, &self.stream, &maybe_ours));
                        if full {
                            // Trying again makes no room, and somebody has to be told.
                            return (fates, failure);
                        }
                        break;
                    }
                }
            }
        }
        (fates, failure)
    }

    /// Sends facts, all new as far as this process knows. Answers the position of the first, and whether it was a duplicate.
    async fn send(&self, facts: &[Encoded], singly: bool) -> Result<(Seq, bool), SendError> {
        self.known.sending(facts.iter());
        let outcome = if singly {
            batch::send_one(&self.client, &self.subjects, &facts[0]).await
        } else {
            batch::send_all(&self.client, &self.subjects, facts).await.map(|first| (first, false))
        };
        self.note(facts, &outcome);
        outcome
    }

    /// Takes note of what became of facts that were sent together.
    pub(super) fn note(&self, facts: &[Encoded], outcome: &Result<(Seq, bool), SendError>) {
        match outcome {
            Ok((first, duplicate)) => {
                let positions = (first.0..).map(|seq| Some(Seq(seq)).filter(|_| !duplicate));
                self.known.sent(facts.iter().zip(positions));
                // What the server calls a duplicate may be somebody else's message, which is not in the log.
                if facts.iter().all(|fact| self.known.find(fact.id()).is_some()) {
                    self.known.stored_up_to(*first);
                }
            }
            Err(SendError::Duplicate | SendError::Full(_) | SendError::Refused(_)) => {
                self.known.sent(facts.iter().map(|fact| (fact, None)));
            }
            // They may be stored, and come back.
            Err(SendError::Unknown(_)) => {}
        }
    }

    /// Facts whose ids are in the stream are done: as duplicates, or as ours if an attempt of ours may have put them there. An id that
    /// stands twice in `facts` is a duplicate of itself.
    fn recognise(&self, facts: &[Encoded], fates: &mut [Fate], maybe_ours: &BTreeSet<RecordId>) {
        let positions = self.known.find_all(facts.iter());
        let mut seen = BTreeSet::new();
        for ((fact, fate), position) in facts.iter().zip(fates).zip(positions) {
            let first = seen.insert(fact.id());
            if let (Fate::Open, Some(seq)) = (*fate, position) {
                *fate = Fate::Done(Appended { seq, duplicate: !(first && maybe_ours.contains(&fact.id())) });
            }
        }
    }

    /// Reads the stream up to its present end, so that what an attempt of unknown outcome stored is known.
    async fn read_back(&self) -> Result<(), Source> {
        let stream = self.jetstream.get_stream(&self.stream).await?;
        let end = Seq(stream.cached_info().state.last_sequence);
        Ok(tokio::time::timeout(READ_BACK_PATIENCE, self.known.follow_to(end)).await??)
    }

    async fn run_pipelined(self, mut queue: mpsc::Receiver<Job>) {
        let (sent, acknowledging) = mpsc::channel(PIPELINE_FACTS_MAX);
        let acknowledged = tokio::spawn(self.clone().acknowledge(acknowledging));
        while let Some(Job { facts, reply }) = queue.recv().await {
            if self.send_job(facts, &sent).await.is_err() || sent.send(Sent::End(reply)).await.is_err() {
                break;
            }
        }
        drop(sent);
        if acknowledged.await.is_err() {
            tracing::error!("the task that waits for acknowledgements had panicked");
        }
    }

    /// Sends the facts of one append without waiting for the server. The order of sending is the order of the log.
    async fn send_job(&self, facts: Vec<Encoded>, sent: &mpsc::Sender<Sent>) -> Result<(), mpsc::error::SendError<Sent>> {
        if let Err(error) = self.known.learn_all().await {
            for fact in facts {
                sent.send(Sent::Waiting(fact, Err(error.to_string().into()))).await?;
            }
            return Ok(());
        }
        let positions = self.known.find_all(facts.iter());
        let unknown = facts.iter().zip(&positions).filter(|(_, position)| position.is_none()).map(|(fact, _)| fact);
        self.known.sending(unknown);
        for (fact, position) in facts.into_iter().zip(positions) {
            let outcome = if let Some(seq) = position {
                Sent::Known(Appended { seq, duplicate: true })
            } else {
                let message = PublishMessage::build().headers(fact.headers()).payload(fact.payload.clone());
                let subject = self.subjects.log(fact.fact.event.kind());
                let ack = self.jetstream.send_publish(subject.as_str().to_owned(), message).await;
                Sent::Waiting(fact, ack.map_err(Into::into))
            };
            sent.send(outcome).await?;
        }
        Ok(())
    }

    /// Waits for acknowledgements in order. What has none is read back, and sent again if it is missing.
    async fn acknowledge(self, mut sent: mpsc::Receiver<Sent>) {
        let (mut fates, mut stored, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut failing = false;
        while let Some(outcome) = sent.recv().await {
            match outcome {
                Sent::Known(appended) => fates.push(Fate::Done(appended)),
                Sent::Waiting(fact, ack) => {
                    let patience = if failing { FAILING_ACK_PATIENCE } else { ACK_PATIENCE };
                    let ack = match ack {
                        Ok(ack) => tokio::time::timeout(patience, ack.into_future())
                            .await
                            .map_or_else(|late| Err(late.into()), |answer| answer.map_err(Into::into)),
                        Err(error) => Err(error),
                    };
                    failing = ack.is_err();
                    match ack {
                        Ok(ack) if ack.duplicate && self.known.find(fact.id()).is_none() => {
                            missing.push(Missing { at: fates.len(), fact, maybe_ours: false });
                            fates.push(Fate::Open);
                        }
                        Ok(ack) => {
                            let appended = Appended { seq: Seq(ack.sequence), duplicate: ack.duplicate };
                            stored.push((fact, appended));
                            fates.push(Fate::Done(appended));
                        }
                        Err(error) => {
                            tracing::warn!(%error, "an append was not acknowledged; reading back");
                            missing.push(Missing { at: fates.len(), fact, maybe_ours: true });
                            fates.push(Fate::Open);
                        }
                    }
                }
                Sent::End(reply) => {
                    let (stored, missing) = (std::mem::take(&mut stored), std::mem::take(&mut missing));
                    self.conclude(std::mem::take(&mut fates), stored, missing, reply).await;
                }
            }
        }
    }

    /// Answers one append, after what was not acknowledged is read back and, where it is missing, sent again.
    async fn conclude(&self, mut fates: Vec<Fate>, stored: Vec<(Encoded, Appended)>, missing: Vec<Missing>, reply: Reply) {
        self.known.sent(stored.iter().map(|(fact, appended)| (fact, Some(appended.seq).filter(|_| !appended.duplicate))));
        if let Some(last) = stored.iter().map(|(_, appended)| appended.seq).max() {
            self.known.stored_up_to(last);
        }
        let mut failure = None;
        if !missing.is_empty() {
            let maybe_ours = missing.iter().filter(|missing| missing.maybe_ours).map(|missing| missing.fact.id()).collect();
            let (places, facts): (Vec<usize>, Vec<Encoded>) = missing.into_iter().map(|one| (one.at, one.fact)).unzip();
            let (settled, why) = self.settle(&facts, maybe_ours).await;
            places.into_iter().zip(settled).for_each(|(at, fate)| fates[at] = fate);
            failure = why;
        }
        answer(reply, &fates, failure.as_ref());
    }
}

/// Why some facts are not known to be stored.
#[derive(Clone)]
pub(super) struct SendFailure {
    /// Some may be stored all the same.
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

/// The first places of `facts` that are still open, each id once, at most `max`.
fn first_open(facts: &[Encoded], fates: &[Fate], max: usize) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let open = facts.iter().zip(fates).enumerate().filter(|(_, (fact, fate))| **fate == Fate::Open && seen.insert(fact.id()));
    open.map(|(at, _)| at).take(max).collect()
}

pub(super) fn answer(reply: Reply, fates: &[Fate], failure: Option<&SendFailure>) {
    let done = |fate: &Fate| match fate {
        Fate::Done(appended) => Some(*appended),
        Fate::Open => None,
    };
    let outcome = if let Some(appended) = fates.iter().map(done).collect::<Option<Vec<_>>>() {
        Ok(appended)
    } else {
        let partly = fates.iter().filter_map(done).any(|appended| !appended.duplicate);
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
