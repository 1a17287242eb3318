//! execution: takes what agents publish, decides what is admitted, appends it, and answers only then.
//!
//! What waits is decided and appended as one group while the next one gathers. A decision rests on what the log holds and on the
//! groups under way; if one of those fails, the actor starts over from the log. An event that refers to something unknown may only
//! have overtaken it; it is held back for a while (`reorder`) before it is refused. What is refused goes to the dead letters, unless the log already holds that id: then
//! it is a repeat, and the answer is where the first one stands. What is refused only for the moment (`Refusal::is_temporary`) is no
//! dead letter if whoever brought it keeps it and brings it again.

mod admission;
mod group;
mod reorder;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, ResponseFuture, WrapFuture};
use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::burst::Burst;
use super::follow::follow;
use super::{ActorFailure, Records};
use crate::clock::Clock;
use crate::config;
use crate::core::event::{Kind, NewRecord};
use crate::core::id::Seq;
use crate::core::intake::Limits;
use crate::core::refusal::Refusal;
use crate::failpoint;
use crate::log::{AppendError, Appended, Condition, DeadLetters, SharedLog};
use crate::metrics::{ByKind, ByReason, Metrics};
use crate::publisher::{Announce, Publish, PublishError, Room, Verdict};
use crate::views::Views;
use admission::Admission;
use group::{Burial, Group, Settled};
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
    pub(crate) address: Announce,
    pub(crate) burst: Burst,
    pub(crate) stop: watch::Receiver<bool>,
}

/// One life of the actor: catches up with the log, then opens its door.
pub(crate) async fn run(parts: ExecutionParts) -> Result<(), ActorFailure> {
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
    let burst = parts.burst.clone();
    let actor = Execution::create(|context| {
        context.set_mailbox_capacity(parts.settings.mailbox);
        let reorder = Reorder::new(parts.settings.reorder_wait_ms, parts.settings.reorder_events_max);
        let admission = Admission::new(executions, Arc::clone(&parts.limits));
        Execution {
            parts,
            admission,
            heard: position,
            reorder,
            queue: VecDeque::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: 0,
            groups_under_way: 0,
        }
    });
    address.send_replace(Some(actor.clone().recipient()));
    let ended = follow(log, position, BATCH_RECORDS_MAX, actor, Some(burst), stop).await;
    address.send_replace(None);
    ended
}

pub(crate) struct Execution {
    parts: ExecutionParts,
    admission: Admission,
    /// The last record of the log that `admission` holds.
    heard: Seq,
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
    comes_again: bool,
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

    fn handle(&mut self, publish: Publish, context: &mut Context<Self>) -> Self::Result {
        let Publish { items, origin, comes_again, room } = publish;
        failpoint::pass("execution.publish");
        if items.is_empty() {
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
        if !self.admission.awaits_closings(CLOSING_MATTERS_PERCENT) {
            self.parts.burst.report(self.waiting);
        }
        self.requests.insert(request, Request { verdicts: vec![None; items.len()], missing: items.len(), reply, _room: room });
        self.queue.extend(items.into_iter().enumerate().map(|(index, item)| Item {
            request,
            index,
            origin,
            comes_again,
            original: item.original,
            content: item.content,
        }));
        self.pump(context);
        Box::pin(async { answer.await.unwrap_or(Err(PublishError::Unknown)) })
    }
}

impl Handler<Records> for Execution {
    type Result = Result<(), ActorFailure>;

    /// What others wrote: closings, what an earlier life left under way, what a process that had the role before wrote late. Also the
    /// tick that lets events stop waiting for what never came.
    fn handle(&mut self, Records(records): Records, context: &mut Context<Self>) -> Self::Result {
        for record in &records {
            if self.admission.hear(record)
                && !self.reorder.is_empty()
                && let Some(execution) = record.event().execution()
            {
                self.queue.extend(self.reorder.release(execution));
            }
            self.heard = record.seq;
        }
        self.pump(context);
        Ok(())
    }
}

impl Execution {
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
        let burial = Burial {
            dead: Arc::clone(&self.parts.dead),
            limits: Arc::clone(&self.parts.limits),
            letter_bytes_max: self.parts.letter_bytes_max,
        };
        let work = group.write(Arc::clone(&self.parts.log), burial).into_actor(self);
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
                if let ActorFailure::Append(full @ AppendError::Full { .. }) = &failure {
                    actor.answer_all(&PublishError::Full(full.to_string().into()));
                }
                context.stop();
            }
        }));
    }

    /// Pure but for the clock: which of the waiting events are admitted, refused, or held back.
    fn decide(&mut self) -> Group {
        let take = self.queue.len().min(group::EVENTS_MAX);
        let now = self.parts.clock.uptime();
        let mut group = Group::based_on(self.heard, now, take);
        let held = !self.reorder.is_empty();
        for _ in 0..take {
            // Every closing that the log brings is a reason to look again.
            if self.admission.awaits_closings(CLOSING_FIRST_PERCENT) {
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
        group.refuse(self.reorder.expire(now), &self.admission);
        group
    }

    /// After the write: verdicts, and what has to wait.
    fn settle(&mut self, settled: Settled) {
        self.count(&settled);
        for (item, Appended { seq, duplicate }) in settled.appended {
            if duplicate {
                self.admission.was_duplicate(&item);
            }
            if duplicate && seq <= settled.based_on {
                self.admission.undo_phantom(&item);
            }
            self.answer(&item, if duplicate { Verdict::Duplicate { seq } } else { Verdict::Accepted { seq } });
        }
        for (item, verdict) in settled.refused {
            self.answer(&item, verdict);
        }
        let now = self.parts.clock.uptime();
        for (item, refusal) in settled.waiting {
            // The group decided meanwhile may have brought what this one waits for.
            if self.admission.would_admit(&item) {
                self.queue.push_back(item);
            } else {
                self.reorder.hold(item, refusal, now);
            }
        }
    }

    /// Tells everybody who waits why there will be no verdict.
    fn answer_all(&mut self, error: &PublishError) {
        for request in std::mem::take(&mut self.requests).into_values() {
            // Whoever stopped waiting does not want the answer.
            drop(request.reply.send(Err(error.clone())));
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
        for (item, verdict) in &settled.refused {
            match verdict {
                Verdict::Refused(refusal) if item.is_put_off_by(refusal) => metrics.put_off.inc(),
                Verdict::Refused(refusal) => metrics.refused.get_or_create(&ByReason { reason: refusal.reason() }).inc(),
                Verdict::Accepted { .. } | Verdict::Duplicate { .. } => metrics.duplicate.inc(),
            };
        }
    }

    fn answer(&mut self, item: &Item, verdict: Verdict) {
        // One that is not there was told that there is no room.
        let Some(request) = self.requests.get_mut(&item.request) else { return };
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
