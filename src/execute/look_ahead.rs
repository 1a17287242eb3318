//! Speculation: tools that only read are called before the turn of their task (`core::workflow::ahead`), also while a run waits for
//! approval. A result is used when the turn comes, if it is fresh; otherwise it is dropped. Both are recorded, also when the run or its
//! process ends during the call.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use super::call::{self, Called};
use super::journal::Line;
use super::run::Run;
use super::{Shared, events};
use crate::clock::Uptime;
use crate::core::event::StepSpeculated;
use crate::core::id::ToolId;
use crate::core::time::Timestamp;
use crate::core::workflow::Task;
use crate::core::workflow::ahead::callable_ahead;
use crate::core::workflow::progress::Progress;

/// Calls made before their turn, by the position of the task.
pub(super) type Ahead = BTreeMap<usize, EarlyCall>;

/// A call under way or ended. Dropped, it is cancelled and recorded.
pub(super) struct EarlyCall {
    /// Not owned: the runs that it keeps own their calls.
    shared: Weak<Shared>,
    event: StepSpeculated,
    /// When its run was created.
    created: Timestamp,
    began: (Timestamp, Uptime),
    /// `None` once it is recorded.
    call: Option<JoinHandle<Called>>,
}

impl EarlyCall {
    /// Waits for the call, whose turn has come. `None` if its result cannot be used.
    pub(super) async fn taken(mut self) -> Option<Called> {
        let (call, shared) = (self.call.as_mut()?, self.shared.upgrade()?);
        let ended = call.await.ok();
        let (now, fresh_ms) = (shared.parts.clock.now(), shared.parts.settings.speculate_ms);
        let is_usable = |called: &Called| called.outcome.is_ok() && now.millis_since(called.ended) <= fresh_ms;
        self.event.used = ended.as_ref().is_some_and(is_usable);
        self.call = None;
        self.record(ended.as_ref());
        ended.filter(|_| self.event.used)
    }

    fn record(&mut self, ended: Option<&Called>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (clock, (began, uptime)) = (&shared.parts.clock, self.began);
        self.event.duration_ms = ended.map_or_else(|| clock.uptime().millis_since(uptime), |called| called.duration_ms);
        self.event.success = ended.is_some_and(|called| called.outcome.is_ok());
        shared.append_soon(events::speculated(self.event.clone(), self.created, began, clock.now()));
    }
}

impl Drop for EarlyCall {
    fn drop(&mut self) {
        if let Some(mut call) = self.call.take() {
            let ended = (&mut call).now_or_never().and_then(Result::ok);
            call.abort();
            self.record(ended.as_ref());
        }
    }
}

impl Shared {
    /// Calls tasks whose turn has not come, at most as many as there is `room` for.
    pub(super) fn call_ahead(self: &Arc<Self>, run: &Run, progress: &Progress, ahead: &mut Ahead, room: usize) {
        let parts = &self.parts;
        if parts.settings.speculate_ms == 0 {
            return;
        }
        let only_reads = |tool: &ToolId| {
            let hints = parts.upstreams.tool(tool).ok().and_then(|tool| tool.annotations.clone());
            hints.is_some_and(|hints| hints.read_only == Some(true))
        };
        let finished = run.finished();
        for at in callable_ahead(&run.head.workflow, progress, only_reads) {
            let task = &run.head.workflow.tasks()[at];
            if ahead.len() >= room {
                return;
            }
            if let (false, Ok(arguments)) =
                (ahead.contains_key(&at), call::arguments(task, &finished, parts.upstreams.redactor()))
            {
                let began = (parts.clock.now(), parts.clock.uptime());
                run.note(&Line::Ahead { task: task.id.to_string(), began_us: began.0.micros() });
                let call = call::call(task.clone(), arguments, parts.upstreams.clone(), parts.clock.clone());
                let call = Some(parts.upstreams.hub().handle().spawn(call));
                let (shared, event, created) = (Arc::downgrade(self), not_used(run, task), run.head.created);
                ahead.insert(at, EarlyCall { shared, event, created, began, call });
            }
        }
    }

    /// Records the calls that were under way when the process of the run was killed. Those that were recorded are not recorded again.
    pub(super) fn record_lost(&self, run: &Run, calls: Vec<(String, Timestamp)>) {
        for (step, began) in calls {
            if let Some(task) = run.head.workflow.tasks().iter().find(|task| task.id.as_str() == step) {
                self.append_soon(events::speculated(not_used(run, task), run.head.created, began, began));
            }
        }
    }
}

/// A call of whose result nothing is known.
fn not_used(run: &Run, task: &Task) -> StepSpeculated {
    let (execution, step, tool) = (run.head.id.clone(), task.id.clone(), task.tool.clone());
    StepSpeculated { execution, step, tool, success: false, duration_ms: 0, used: false }
}

/// The calls made before their turn whose tasks have not finished, of a journal.
pub(super) fn unfinished(lines: &[Line]) -> Vec<(String, Timestamp)> {
    let is_finished = |name: &str| lines.iter().any(|line| matches!(line, Line::Finished(done) if done.task == name));
    let call = |line: &Line| match line {
        Line::Ahead { task, began_us } if !is_finished(task) => Some((task.clone(), Timestamp::from_micros(*began_us))),
        _ => None,
    };
    lines.iter().filter_map(call).collect()
}
