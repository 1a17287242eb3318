//! The graph-sync actor owns the [`State`]: it folds the log record by record and publishes immutable views for readers.

use std::sync::Arc;

use actix::{Actor, Context, Handler, ResponseFuture};
use serde_json::json;
use tokio::sync::watch;

use super::burst::Burst;
use super::follow::{Pace, follow};
use super::{ActorFailure, Records};
use crate::ask::handles::Mentions;
use crate::bus::SharedBus;
use crate::clock::{Clock, Uptime};
use crate::core::event::ModelVersion;
use crate::core::id::Seq;
use crate::core::state::{Notice, State};
use crate::failpoint;
use crate::log::SharedLog;
use crate::subject::Subjects;
use crate::views::LatestSender;

/// What the actor is built from.
#[derive(Clone)]
pub(crate) struct GraphSyncParts {
    pub(crate) log: SharedLog,
    pub(crate) views: LatestSender<State>,
    pub(crate) bus: SharedBus,
    pub(crate) subjects: Subjects,
    pub(crate) clock: Clock,
    pub(crate) mailbox: usize,
    pub(crate) batch_records_max: usize,
    pub(crate) burst: Burst,
    pub(crate) stop: watch::Receiver<bool>,
}

/// Runs the actor until `stop`, from the position of the newest view.
pub(crate) async fn run(parts: GraphSyncParts) -> Result<(), ActorFailure> {
    // A view is a complete fold up to its position, so a restarted actor continues from it. Records that were folded but not
    // published are folded again.
    let state = State::clone(&parts.views.borrow());
    let position = state.applied();
    let (log, stop, batch_max) = (Arc::clone(&parts.log), parts.stop.clone(), parts.batch_records_max);
    let burst = parts.burst.clone();
    let actor = GraphSync::create(|context| {
        context.set_mailbox_capacity(parts.mailbox);
        GraphSync {
            state,
            clock: parts.clock,
            stale: false,
            published: Uptime::ZERO,
            batch_records_max: batch_max,
            views: parts.views,
            bus: parts.bus,
            subjects: parts.subjects,
        }
    });
    follow(log, position, Pace { batch_max, gather: Pace::GATHER, burst: Some(burst) }, actor, stop).await
}

/// Interval between two views while records keep coming. The first write to a part of a map after a view copies that part, so views
/// are not published more often than a reader could notice. The tick after the last record publishes the last view.
const VIEW_EVERY_MS: u64 = 100;
/// The interval while the fold is more than a batch behind the log: a view would be old, and catching up comes first.
const VIEW_EVERY_BEHIND_MS: u64 = 1_000;

struct GraphSync {
    state: State,
    clock: Clock,
    /// Whether records were folded since the last view.
    stale: bool,
    published: Uptime,
    batch_records_max: usize,
    views: LatestSender<State>,
    bus: SharedBus,
    subjects: Subjects,
}

impl Actor for GraphSync {
    type Context = Context<Self>;
}

impl Handler<Records> for GraphSync {
    type Result = ResponseFuture<Result<(), ActorFailure>>;

    fn handle(&mut self, Records(records): Records, _: &mut Context<Self>) -> Self::Result {
        let mut notices = Vec::new();
        for record in &records {
            failpoint::pass("graph_sync.record");
            let told = self.state.apply(record);
            notices.extend(told.into_iter().map(|notice| describe(&self.state, record.seq, &notice)));
        }
        self.stale |= !records.is_empty();
        let now = self.clock.uptime();
        let behind = records.len() == self.batch_records_max;
        let every_ms = if behind { VIEW_EVERY_BEHIND_MS } else { VIEW_EVERY_MS };
        let due = records.is_empty() || now.millis_since(self.published) >= every_ms;
        if behind {
            // Freeing memory that another thread allocated takes a tenth of a fold, so another thread does it. Nothing waits for it.
            drop(tokio::task::spawn_blocking(move || drop(records)));
        }
        if self.stale && due {
            self.views.send_replace(Arc::new(self.state.clone()));
            self.published = now;
            self.stale = false;
        }
        let (bus, subjects) = (Arc::clone(&self.bus), self.subjects.clone());
        Box::pin(async move {
            for (what, payload) in notices {
                // A notice may be lost: it is derived, and a subscriber can always ask for the state.
                if let Err(error) = bus.publish(subjects.notify(what), payload.to_string().into_bytes().into()).await {
                    tracing::debug!(%error, what, "notice not published");
                }
            }
            Ok(())
        })
    }
}

/// The name of a notice and its payload.
fn describe(state: &State, seq: Seq, notice: &Notice) -> (&'static str, serde_json::Value) {
    match notice {
        Notice::CapabilityLearned { capability } => {
            let handle = state.capabilities.get(*capability).map(|known| &*known.handle);
            ("capability_learned", json!({"capability": capability.to_string(), "handle": handle, "based_on_seq": seq.0}))
        }
        Notice::EdgePromoted { from, to, kind } => {
            let mentions = Mentions::new(state);
            let (from, to) = (mentions.callee(from), mentions.callee(to));
            let handles = mentions.handles();
            ("edge_promoted", json!({"from": from, "to": to, "kind": kind.name(), "handles": handles, "based_on_seq": seq.0}))
        }
        Notice::ModelPromoted { version } => {
            ("model_promoted", json!({"version": version.as_str(), "part": version.part().name(), "based_on_seq": seq.0}))
        }
        Notice::ModelRolledBack { part, to } => (
            "model_rolled_back",
            json!({"part": part.name(), "to": to.as_ref().map(ModelVersion::as_str), "based_on_seq": seq.0}),
        ),
    }
}
