//! The execution actor decides which published events are admitted, appends them, and answers when they are durable.
//!
//! Waiting events are decided and appended as one group while the next group gathers. Decisions rest on the log and on the groups
//! under way; if a group fails, the actor is rebuilt from the log. An event that refers to something unknown may have overtaken it, so
//! it is held back for a while (`reorder`) before it is refused. A refused event becomes a dead letter, with two exceptions: if the
//! log holds its id, it is a duplicate, and the answer is the position of the first one; if the refusal is temporary
//! (`Refusal::is_temporary`) and the sender keeps the event and sends it again, the event is put off.

mod admission;
mod group;
mod reorder;
mod repeats;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::announce::Announcements;
use super::burst::Burst;
use super::follow::{Pace, follow};
use super::{ActorFailure, Records};
use crate::clock::Clock;
use crate::config;
use crate::core::event::{Kind, NewRecord};
use crate::core::id::Seq;
use crate::core::intake::Limits;
use crate::core::refusal::Refusal;
use crate::failpoint;
use crate::log::{AppendError, Condition, DeadLetters, SharedLog};
use crate::metrics::{ByKind, ByReason, Metrics};
use crate::publisher::{AddressSender, Publish, PublishError, RequestPlace, Reservation, Verdict};
use crate::views::Views;
use admission::Admission;
use group::{DeadLetterWriter, Group, Settled};
use reorder::Reorder;

/// Groups appended at the same time and not yet acknowledged. Those that wait for the log's writer share its next commit.
const GROUPS_UNDER_WAY_MAX: usize = 32;
/// Groups of any size: one is written, the next one waits for the log's writer and is in its next commit. Further ones start only with
/// [`NEXT_GROUP_EVENTS_MIN`] events, so that their overhead is small.
const GROUPS_OF_ANY_SIZE: usize = 2;
const NEXT_GROUP_EVENTS_MIN: usize = 64;
/// Share of `open_executions_max` that finished executions may take before bursts no longer pause the actors that close them.
const FINISHED_NO_PAUSE_PERCENT: usize = 50;
/// Share of `open_executions_max` that finished executions may take before events wait until some are closed.
const FINISHED_WAIT_PERCENT: usize = 75;
/// Records of the log handled at once: few enough that the allocator reuses the memory of a batch.
const BATCH_RECORDS_MAX: usize = 2_048;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct ExecutionParts {
    pub(crate) log: SharedLog,
    pub(crate) dead: Arc<dyn DeadLetters>,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) limits: Arc<Limits>,
    pub(crate) settings: config::Execution,
    pub(crate) letter_bytes_max: usize,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) address: AddressSender,
    pub(crate) announcements: Announcements,
    pub(crate) burst: Burst,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`: catches up with the log, then announces its address to publishers.
pub(crate) async fn run(parts: ExecutionParts) -> Result<(), ActorFailure> {
    let view = parts.views.current();
    let mut executions = view.executions.clone().without_traces();
    let mut position = view.applied();
    loop {
        let records = parts.log.read(position, BATCH_RECORDS_MAX).await?;
        let Some(last) = records.last() else { break };
        position = last.seq;
        for record in &records {
            executions.apply(&record.fact);
        }
    }
    let (log, stop, address) = (Arc::clone(&parts.log), parts.stop.clone(), parts.address.clone());
    let burst = parts.burst.clone();
    let actor = Execution::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let reorder = Reorder::new(parts.settings.reorder_wait_ms, parts.settings.reorder_events_max);
        let admission = Admission::new(executions, Arc::clone(&parts.limits));
        Execution {
            parts,
            admission,
            applied: position,
            reorder,
            queue: VecDeque::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: 0,
            groups_under_way: 0,
        }
    });
    address.send_replace(Some(actor.clone().recipient()));
    let pace = Pace { batch_max: BATCH_RECORDS_MAX, gather: Pace::GATHER, burst: Some(burst) };
    let ended = follow(log, position, pace, actor.clone(), stop).await;
    address.send_replace(None);
    // An error means that it has ended by itself.
    let _gone = actor.send(End).await.is_err();
    ended
}

/// The end of the records. Whoever waits for a verdict keeps the actor alive, and would wait in vain for what a record releases.
#[derive(Message)]
#[rtype(result = "()")]
struct End;

/// The execution actor.
pub(crate) struct Execution {
    parts: ExecutionParts,
    admission: Admission,
    /// The last record of the log that `admission` has applied.
    applied: Seq,
    reorder: Reorder,
    queue: VecDeque<Item>,
    /// Requests that wait for the verdicts on some of their events.
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    /// Events that wait for their verdict.
    waiting: usize,
    /// Groups that are being written.
    groups_under_way: usize,
}

/// One event of a publish request.
struct Item {
    request: u64,
    index: usize,
    origin: &'static str,
    /// The sender keeps the event and sends it again if it is refused temporarily.
    retried_by_sender: bool,
    original: Option<Bytes>,
    content: Result<Arc<NewRecord>, Box<Refusal>>,
}

/// A publish request that waits for verdicts.
struct Request {
    verdicts: Vec<Option<Verdict>>,
    missing: usize,
    /// Before `reply`: whoever waits for the answer learns of a failure after the order is broken.
    place: Option<RequestPlace>,
    reply: oneshot::Sender<Result<Vec<Verdict>, PublishError>>,
    /// Held until the request is answered or dropped.
    _reservation: Reservation,
}

impl Actor for Execution {
    type Context = Context<Self>;
}

impl Handler<Publish> for Execution {
    type Result = ResponseFuture<Result<Vec<Verdict>, PublishError>>;

    fn handle(&mut self, publish: Publish, context: &mut Context<Self>) -> Self::Result {
        let Publish { items, origin, retried_by_sender, reservation, place } = publish;
        failpoint::pass("execution.publish");
        if place.as_ref().is_some_and(|place| !place.take()) {
            return Box::pin(async { Err(PublishError::Busy) });
        }
        if items.is_empty() {
            place.into_iter().for_each(RequestPlace::answer);
            return Box::pin(async { Ok(Vec::new()) });
        }
        match self.parts.log.condition() {
            Condition::Good => {}
            low @ Condition::Low { .. } => {
                let full = PublishError::Full(format!("the log has too little room: {low}").into());
                return Box::pin(async { Err(full) });
            }
            Condition::Failing { .. } => return Box::pin(async { Err(PublishError::Failing) }),
        }
        if self.queue.len() + items.len() > self.parts.settings.queue_events_max {
            self.parts.metrics.busy.inc();
            return Box::pin(async { Err(PublishError::Busy) });
        }
        let (reply, answer) = oneshot::channel();
        let request = self.next_request;
        self.next_request += 1;
        self.waiting += items.len();
        if !self.admission.finished_exceed(FINISHED_NO_PAUSE_PERCENT) {
            self.parts.burst.report(self.waiting);
        }
        let (verdicts, missing) = (vec![None; items.len()], items.len());
        self.requests.insert(request, Request { verdicts, missing, place, reply, _reservation: reservation });
        self.queue.extend(items.into_iter().enumerate().map(|(index, item)| Item {
            request,
            index,
            origin,
            retried_by_sender,
            original: item.original,
            content: item.content,
        }));
        self.start_next_group(context);
        Box::pin(async { answer.await.unwrap_or(Err(PublishError::Unknown)) })
    }
}

impl Handler<Records> for Execution {
    type Result = Result<(), ActorFailure>;

    /// Applies records that others wrote: traces, groups of an earlier incarnation of this actor, late appends of the process that had
    /// the role before. A tick refuses events that were held back for too long.
    fn handle(&mut self, Records(records): Records, context: &mut Context<Self>) -> Self::Result {
        for record in &records {
            if self.admission.apply_record(record)
                && !self.reorder.is_empty()
                && let Some(execution) = record.event().execution()
            {
                self.queue.extend(self.reorder.release(execution));
            }
            self.applied = record.seq;
        }
        self.start_next_group(context);
        Ok(())
    }
}

impl Handler<End> for Execution {
    type Result = ();

    fn handle(&mut self, _: End, context: &mut Context<Self>) {
        self.answer_all(&PublishError::Unknown);
        context.stop();
    }
}

impl Execution {
    /// Starts the next group unless enough are under way: decides and writes it; [`answer_settled`](Self::answer_settled) does the rest.
    fn start_next_group(&mut self, context: &mut Context<Self>) {
        let large_enough = self.groups_under_way < GROUPS_OF_ANY_SIZE || self.queue.len() >= NEXT_GROUP_EVENTS_MIN;
        if self.groups_under_way == GROUPS_UNDER_WAY_MAX || !large_enough {
            return;
        }
        let group = self.decide();
        if group.is_empty() {
            return;
        }
        self.groups_under_way += 1;
        let dead_letters = DeadLetterWriter {
            dead: Arc::clone(&self.parts.dead),
            limits: Arc::clone(&self.parts.limits),
            letter_bytes_max: self.parts.letter_bytes_max,
        };
        let work = group.write(Arc::clone(&self.parts.log), dead_letters, &self.parts.announcements).into_actor(self);
        context.spawn(work.map(|settled, actor, context| match settled {
            Ok(settled) => {
                actor.answer_settled(settled);
                actor.groups_under_way -= 1;
                actor.start_next_group(context);
            }
            Err(failure) => {
                // `admission` may now be ahead of the log, so the actor stops and is rebuilt from the log. Requests that are
                // dropped are answered with an unknown outcome.
                tracing::error!(error = &failure as &dyn std::error::Error, "cannot append; starting over from the log");
                if let ActorFailure::Append(full @ AppendError::Full { .. }) = &failure {
                    actor.answer_all(&PublishError::Full(full.to_string().into()));
                }
                context.stop();
            }
        }));
    }

    /// Decides which of the queued events are admitted, refused, or held back: none while the followers of the log are too far behind.
    /// Reads the clock and does no other I/O.
    fn decide(&mut self) -> Group {
        let outruns = self.parts.burst.outruns_followers(*self.parts.log.tail().borrow());
        let events = if outruns { 0 } else { self.queue.len().min(group::EVENTS_MAX) };
        let now = self.parts.clock.uptime();
        let mut group = Group::based_on(self.applied, self.parts.views.current(), now, events);
        let held = !self.reorder.is_empty();
        for _ in 0..events {
            // The queue is tried again with every batch of records, hence after every trace.
            if self.admission.finished_exceed(FINISHED_WAIT_PERCENT) {
                break;
            }
            let Some(item) = self.queue.pop_front() else { break };
            group.decide(item, &mut self.admission, held);
        }
        while let Some(execution) = group.touched.pop_first() {
            for item in self.reorder.release(&execution) {
                group.decide(item, &mut self.admission, true);
            }
            group.reconsider(&execution, &mut self.admission);
        }
        group.refuse_expired(self.reorder.expire(now), &self.admission);
        group
    }

    /// Answers the events of a written group, and holds back those that wait for others.
    fn answer_settled(&mut self, settled: Settled) {
        self.count(&settled);
        for (item, seq) in settled.appended {
            self.answer(&item, Verdict::Accepted { seq });
        }
        for (item, verdict) in settled.not_taken {
            let is_stale = match &verdict {
                Verdict::Duplicate { seq } => *seq <= settled.based_on,
                Verdict::Refused(_) => true,
                Verdict::Accepted { .. } => false,
            };
            self.admission.forget(&item, is_stale);
            self.answer(&item, verdict);
        }
        for (item, verdict) in settled.refused {
            self.answer(&item, verdict);
        }
        let now = self.parts.clock.uptime();
        for (item, refusal) in settled.waiting {
            // A group decided meanwhile may contain what this event waits for.
            if self.admission.would_admit(&item) {
                self.queue.push_back(item);
            } else {
                self.reorder.hold(item, refusal, now);
            }
        }
    }

    /// Answers every waiting request with an error.
    fn answer_all(&mut self, error: &PublishError) {
        for request in std::mem::take(&mut self.requests).into_values() {
            // An error means that the sender stopped waiting.
            drop(request.reply.send(Err(error.clone())));
        }
    }

    /// Counts the verdicts of a group in the metrics.
    fn count(&self, settled: &Settled) {
        let metrics = &self.parts.metrics;
        let mut accepted: BTreeMap<Kind, u64> = BTreeMap::new();
        for (item, _) in &settled.appended {
            if let Ok(fact) = &item.content {
                *accepted.entry(fact.event.kind()).or_default() += 1;
            }
        }
        for (kind, count) in accepted {
            metrics.accepted.get_or_create(&ByKind { kind: kind.name() }).inc_by(count);
        }
        for (item, verdict) in settled.refused.iter().chain(&settled.not_taken) {
            match verdict {
                Verdict::Refused(refusal) if item.is_put_off_by(refusal) => metrics.put_off.inc(),
                Verdict::Refused(refusal) => metrics.refused.get_or_create(&ByReason { reason: refusal.reason() }).inc(),
                Verdict::Accepted { .. } | Verdict::Duplicate { .. } => metrics.duplicate.inc(),
            };
        }
    }

    /// Stores the verdict on one event, and answers its request when no verdict is missing.
    fn answer(&mut self, item: &Item, verdict: Verdict) {
        // A missing request was already answered with an error.
        let Some(request) = self.requests.get_mut(&item.request) else { return };
        request.verdicts[item.index] = Some(verdict);
        request.missing -= 1;
        self.waiting -= 1;
        if request.missing == 0 {
            let request = self.requests.remove(&item.request).expect("the request was just found");
            if let Some(place) = request.place {
                place.answer();
            }
            let verdicts = request.verdicts.into_iter().map(|verdict| verdict.expect("none is missing")).collect();
            // An error means that the sender stopped waiting.
            drop(request.reply.send(Ok(verdicts)));
        }
    }
}
