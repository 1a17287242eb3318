//! Speculation: tools that only read are called before the turn of their task (`core::workflow::ahead`), also while a run waits for
//! approval. A result is used when the turn comes, if it is fresh; otherwise it is dropped. Both are recorded.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use super::call::{self, Called};
use super::run::Run;
use super::{Shared, events};
use crate::clock::Uptime;
use crate::core::id::ToolId;
use crate::core::workflow::ahead::callable_ahead;
use crate::core::workflow::progress::Progress;

/// Calls made before their turn, by the position of the task.
pub(super) type Ahead = BTreeMap<usize, EarlyCall>;

/// A call under way or ended. Dropped, it is cancelled.
pub(super) struct EarlyCall {
    began: Uptime,
    call: JoinHandle<Called>,
}

impl Drop for EarlyCall {
    fn drop(&mut self) {
        self.call.abort();
    }
}

impl Shared {
    /// Calls tasks whose turn has not come, at most as many as there is `room` for.
    pub(super) fn call_ahead(&self, run: &Run, progress: &Progress, ahead: &mut Ahead, room: usize) {
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
            if let (false, Ok(arguments)) = (ahead.contains_key(&at), call::arguments(task, &finished)) {
                let call = call::call(at, task.clone(), arguments, parts.upstreams.clone(), parts.clock.clone());
                let call = parts.upstreams.hub().handle().spawn(call);
                ahead.insert(at, EarlyCall { began: parts.clock.uptime(), call });
            }
        }
    }

    /// Waits for a call whose turn has come. `None` if its result cannot be used.
    pub(super) async fn taken(&self, run: &Run, at: usize, mut early: EarlyCall) -> Option<Called> {
        let ended = (&mut early.call).await.ok();
        let (now, fresh_ms) = (self.parts.clock.now(), self.parts.settings.speculate_ms);
        let is_usable = |called: &Called| called.outcome.is_ok() && now.millis_since(called.ended) <= fresh_ms;
        let used = ended.as_ref().is_some_and(is_usable);
        self.record_early(run, at, &early, ended.as_ref(), used);
        ended.filter(|_| used).map(|called| Called { speculated: true, ..called })
    }

    /// Drops calls whose turn did not come.
    pub(super) fn drop_ahead(&self, run: &Run, ahead: Ahead) {
        for (at, mut early) in ahead {
            let ended = (&mut early.call).now_or_never().and_then(Result::ok);
            self.record_early(run, at, &early, ended.as_ref(), false);
        }
    }

    fn record_early(&self, run: &Run, at: usize, early: &EarlyCall, ended: Option<&Called>, used: bool) {
        let clock = &self.parts.clock;
        let duration_ms = ended.map_or_else(|| clock.uptime().millis_since(early.began), |called| called.duration_ms);
        let success = ended.is_some_and(|called| called.outcome.is_ok());
        let task = &run.head.workflow.tasks()[at];
        self.append_soon(events::speculated(run, task, (success, duration_ms, used), clock.now()));
    }
}
