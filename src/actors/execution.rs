//! execution: takes what agents publish, decides what is admitted, appends it, and answers only then.
//!
//! What waits is decided and appended as one group while the next one gathers. A decision rests on what the log holds and on the
//! groups under way; if one of those fails, the actor starts over from the log. An event that refers to something unknown may only
//! have overtaken it; it is held back for a while (`reorder`) before it is refused. What is refused goes to the dead letters, unless the log already holds that id: then
//! it is a repeat, and the answer is where the first one stands.

mod group;
mod reorder;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::follow::follow;
use super::graph_sync::Views;
use super::rush::Rush;
use super::{Failure, Records};
use crate::clock::Clock;
use crate::config;
use crate::core::event::{Event, Kind, NewRecord};
use crate::core::execution::admit;
use crate::core::id::Seq;
use crate::core::intake::{self, Limits};
use crate::core::refusal::Refusal;
use crate::core::trace::Executions;
use crate::dead::DeadLetters;
use crate::failpoint;
use crate::log::{Appended, SharedLog};
use crate::metrics::{ByKind, ByReason, Metrics};
use crate::publisher::Room;
use group::{Group, Settled};
use reorder::Reorder;

/// Groups handed to the log and not yet acknowledged. Those that wait for the log's writer share its next commit.
const GROUPS_UNDER_WAY_MAX: usize = 32;
/// While a group is under way, the next one waits until it holds this many events, so that a group is worth its overhead.
const NEXT_GROUP_EVENTS_MIN: usize = 64;
/// How much of the room for open executions those may take that are over and not yet closed: beyond the first share, a burst of events
/// no longer comes before their closing; beyond the second, events wait for it.
const CLOSING_MATTERS_PERCENT: usize = 50;
const CLOSING_FIRST_PERCENT: usize = 75;
/// Records handled at once when following the log: few enough that a batch is memory the allocator has at hand.
const BATCH_RECORDS_MAX: usize = 2_048;

/// An event that has passed the door it came through, or was refused there.
///
/// Boxed on both sides, by the sender's thread: events are handed on often.
#[derive(Debug)]
pub struct Incoming {
    pub content: Result<Arc<NewRecord>, Box<Refusal>>,
    /// As received; without it, a refused event is kept in the form it would have had on the wire.
    pub original: Option<Bytes>,
}

impl Incoming {
    /// An event as a door read it, after it has passed the intake.
    pub(crate) fn received(read: Result<NewRecord, Refusal>, original: Bytes, limits: &Limits) -> Self {
        let content = read.and_then(|mut fact| {
            intake::check(&mut fact, limits)?;
            Ok(Arc::new(fact))
        });
        Self { content: content.map_err(Box::new), original: Some(original) }
    }
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In the log, durably.
    Accepted { seq: Seq },
    /// The log held this id already.
    Duplicate { seq: Seq },
    /// Not in the log; kept as a dead letter.
    Refused(Box<Refusal>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Nothing was taken.
    #[error("too many events are waiting (execution.queue_events_max, execution.queue_bytes_max); try again in a moment")]
    Busy,
    /// Nothing was taken.
    #[error(
        "events are not taken yet: the execution actor is catching up with the log, or cannot read it; try again in a moment"
    )]
    NotReady,
    /// Nothing was taken.
    #[error("this process takes no events: it is stopping, or the role 'execution' belongs to another one")]
    Closed,
    /// Some of it may have been taken. Sending it again, with the same ids, is safe.
    #[error("the outcome is unknown; send it again with the same ids")]
    Unknown,
}

#[derive(Message)]
#[rtype(result = "Result<Vec<Verdict>, PublishError>")]
pub(crate) struct Publish {
    pub(crate) items: Vec<Incoming>,
    pub(crate) origin: &'static str,
    pub(crate) room: Room,
}

/// Where publishers find the present incarnation.
pub(crate) type Door = watch::Sender<Option<actix::Addr<Execution>>>;

#[derive(Clone)]
pub(crate) struct ExecutionParts {
    pub(crate) log: SharedLog,
    pub(crate) dead: Arc<dyn DeadLetters>,
    pub(crate) views: Views,
    pub(crate) clock: Clock,
    pub(crate) limits: Arc<Limits>,
    pub(crate) settings: config::Execution,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) address: Door,
    pub(crate) rush: Rush,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life of the actor: catches up with the log, then opens its door.
pub(crate) async fn run(parts: ExecutionParts) -> Result<(), Failure> {
    let view = parts.views.current();
    let mut executions = view.executions.clone();
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
    let rush = parts.rush.clone();
    let actor = Execution::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let reorder = Reorder::new(parts.settings.reorder_wait_ms, parts.settings.reorder_events_max);
        Execution {
            parts,
            executions,
            heard: position,
            own_from: None,
            reorder,
            queue: VecDeque::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: 0,
            groups_under_way: 0,
        }
    });
    address.send_replace(Some(actor.clone()));
    let ended = follow(log, position, BATCH_RECORDS_MAX, actor, Some(rush), stop).await;
    address.send_replace(None);
    ended
}

pub(crate) struct Execution {
    parts: ExecutionParts,
    /// What the log holds about executions, plus what the groups under way add to it.
    executions: Executions,
    /// The last record of the log that `executions` holds.
    heard: Seq,
    /// The first record that this life of the actor wrote. What stands before it and was not there when this life began was still
    /// under way when the life before ended.
    own_from: Option<Seq>,
    reorder: Reorder,
    queue: VecDeque<Item>,
    /// Requests that still wait for the verdict on some event.
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    /// Events that wait for their verdict.
    waiting: usize,
    /// How many groups are being written.
    groups_under_way: usize,
}

/// One event of a request.
struct Item {
    request: u64,
    index: usize,
    origin: &'static str,
    original: Option<Bytes>,
    content: Result<Arc<NewRecord>, Box<Refusal>>,
}

struct Request {
    verdicts: Vec<Option<Verdict>>,
    missing: usize,
    reply: oneshot::Sender<Result<Vec<Verdict>, PublishError>>,
    _room: Room,
}

impl Actor for Execution {
    type Context = Context<Self>;
}

impl Handler<Publish> for Execution {
    type Result = ResponseFuture<Result<Vec<Verdict>, PublishError>>;

    fn handle(&mut self, Publish { items, origin, room }: Publish, context: &mut Context<Self>) -> Self::Result {
        failpoint::pass("execution.publish");
        if items.is_empty() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        if self.queue.len() + items.len() > self.parts.settings.queue_events_max {
            self.parts.metrics.busy.inc();
            return Box::pin(async { Err(PublishError::Busy) });
        }
        let (reply, answer) = oneshot::channel();
        let request = self.next_request;
        self.next_request += 1;
        self.waiting += items.len();
        if !self.awaits_closings(CLOSING_MATTERS_PERCENT) {
            self.parts.rush.note(self.waiting);
        }
        self.requests.insert(request, Request { verdicts: vec![None; items.len()], missing: items.len(), reply, _room: room });
        self.queue.extend(items.into_iter().enumerate().map(|(index, item)| Item {
            request,
            index,
            origin,
            original: item.original,
            content: item.content,
        }));
        self.pump(context);
        Box::pin(async { answer.await.unwrap_or(Err(PublishError::Unknown)) })
    }
}

impl Handler<Records> for Execution {
    type Result = Result<(), Failure>;

    /// The closings that the trace actor wrote, and what an earlier life left under way; the rest are this actor's own records,
    /// noted when they were admitted. Also the tick that lets events stop waiting for what never came.
    fn handle(&mut self, Records(records): Records, context: &mut Context<Self>) -> Self::Result {
        for record in &records {
            let not_own = self.own_from.is_none_or(|own| record.seq < own);
            if not_own || record.event().kind() == Kind::TraceCompleted {
                self.executions.apply(&record.fact);
            }
            self.heard = record.seq;
        }
        self.pump(context);
        Ok(())
    }
}

impl Execution {
    /// Whether executions that are over and not closed take more than `percent` of the room for open ones. Events that go on as if
    /// nothing were the matter would soon be refused for being too many.
    fn awaits_closings(&self, percent: usize) -> bool {
        self.executions.finished_len().saturating_mul(100) > self.parts.limits.open_executions_max.saturating_mul(percent)
    }

    /// Starts the next group unless enough are under way: decide, append, bury; `settle` gets the rest done.
    fn pump(&mut self, context: &mut Context<Self>) {
        let worth_it = self.groups_under_way == 0 || self.queue.len() >= NEXT_GROUP_EVENTS_MIN;
        if self.groups_under_way == GROUPS_UNDER_WAY_MAX || !worth_it {
            return;
        }
        let group = self.decide();
        if group.is_empty() {
            return;
        }
        self.groups_under_way += 1;
        let work = group.write(Arc::clone(&self.parts.log), Arc::clone(&self.parts.dead)).into_actor(self);
        context.spawn(work.map(|settled, actor, context| match settled {
            Ok(settled) => {
                actor.settle(settled);
                actor.groups_under_way -= 1;
                actor.pump(context);
            }
            Err(failure) => {
                // What this actor believes about open executions may now be ahead of the log. The next life reads the log;
                // everybody who waits learns that the outcome is unknown when their request is dropped.
                tracing::error!(error = &failure as &dyn std::error::Error, "cannot append; starting over from the log");
                context.stop();
            }
        }));
    }

    /// Pure but for the clock: which of the waiting events are admitted, refused, or held back.
    fn decide(&mut self) -> Group {
        let take = self.queue.len().min(group::EVENTS_MAX);
        let mut group = Group::based_on(self.heard, take);
        let held = !self.reorder.is_empty();
        for _ in 0..take {
            // Every closing that the log brings is a reason to look again.
            if self.awaits_closings(CLOSING_FIRST_PERCENT) {
                break;
            }
            let Some(item) = self.queue.pop_front() else { break };
            group.decide(item, &mut self.executions, &self.parts.limits, held);
        }
        while let Some(execution) = group.touched.pop_first() {
            for item in self.reorder.release(&execution) {
                group.decide(item, &mut self.executions, &self.parts.limits, true);
            }
            group.reconsider(&execution, &mut self.executions, &self.parts.limits);
        }
        group.refused.extend(self.reorder.expire(self.parts.clock.now()));
        group
    }

    /// After the write: verdicts, and what has to wait.
    fn settle(&mut self, settled: Settled) {
        self.count(&settled);
        for (item, Appended { seq, duplicate }) in settled.appended {
            if duplicate && seq <= settled.based_on {
                self.undo_phantom(&item);
            }
            if !duplicate {
                self.own_from.get_or_insert(seq);
            }
            self.answer(&item, if duplicate { Verdict::Duplicate { seq } } else { Verdict::Accepted { seq } });
        }
        for (item, verdict) in settled.refused {
            self.answer(&item, verdict);
        }
        let now = self.parts.clock.now();
        for (item, refusal) in settled.waiting {
            // The group decided meanwhile may have brought what this one waits for.
            let healed =
                item.content.as_ref().is_ok_and(|fact| admit(&self.executions, &fact.event, &self.parts.limits).is_ok());
            if healed {
                self.queue.push_back(item);
            } else {
                self.reorder.hold(item, refusal, now);
            }
        }
    }

    /// A start that was admitted although the log as heard then held it belongs to an execution closed so long ago that it was
    /// forgotten: it opened nothing. (A repeat of a record that the log did not hold then is another matter: a life of this actor
    /// that panicked may have left an append under way. That execution is open.)
    fn undo_phantom(&mut self, item: &Item) {
        if let Ok(fact) = &item.content
            && let Event::ExecutionStarted(started) = &fact.event
        {
            self.executions.discard(&started.execution);
        }
    }

    fn count(&self, settled: &Settled) {
        let metrics = &self.parts.metrics;
        let mut accepted: BTreeMap<Kind, u64> = BTreeMap::new();
        for (item, appended) in &settled.appended {
            match &item.content {
                Ok(fact) if !appended.duplicate => *accepted.entry(fact.event.kind()).or_default() += 1,
                _ => {
                    metrics.duplicate.inc();
                }
            }
        }
        for (kind, count) in accepted {
            metrics.accepted.get_or_create(&ByKind { kind: kind.name() }).inc_by(count);
        }
        for (_, verdict) in &settled.refused {
            match verdict {
                Verdict::Refused(refusal) => metrics.refused.get_or_create(&ByReason { reason: refusal.reason() }).inc(),
                Verdict::Accepted { .. } | Verdict::Duplicate { .. } => metrics.duplicate.inc(),
            };
        }
    }

    fn answer(&mut self, item: &Item, verdict: Verdict) {
        let request = self.requests.get_mut(&item.request).expect("a request stays until its last verdict");
        request.verdicts[item.index] = Some(verdict);
        request.missing -= 1;
        self.waiting -= 1;
        if request.missing == 0 {
            let request = self.requests.remove(&item.request).expect("it was just there");
            let verdicts = request.verdicts.into_iter().map(|verdict| verdict.expect("none is missing")).collect();
            // Whoever stopped waiting does not want the answer.
            drop(request.reply.send(Ok(verdicts)));
        }
    }
}
