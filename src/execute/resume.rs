//! Going on with a run: after an approval, an interruption or a failure.

use super::run::Run;
use super::{RunError, RunOptions, RunState, Runner};
use crate::core::id::ExecutionId;

impl Runner {
    /// Approves what the run waits for, and lets it go on. Returns its id.
    pub fn approve(&self, token: &str) -> Result<ExecutionId, RunError> {
        self.0.parts.upstreams.is_here().map_err(RunError::Elsewhere)?;
        let run = {
            let known = self.0.shelf.lock();
            let run = known.waiting_for(token).ok_or(RunError::UnknownToken)?;
            // Under the lock, so that a token works once.
            run.set_state(RunState::Running);
            run
        };
        if self.0.parts.views.current().executions.is_closed(&run.head.id) {
            // A program has begun, so the log may have closed its execution in the meantime.
            run.set_state(RunState::Interrupted);
            return self.resume(&run.head.id);
        }
        *run.ended.lock() = None;
        self.drive(&run);
        Ok(run.head.id.clone())
    }

    /// Goes on with an interrupted or failed run from its first unfinished task. The id is a new one if the log has closed the old run.
    pub fn resume(&self, run: &ExecutionId) -> Result<ExecutionId, RunError> {
        self.0.parts.upstreams.is_here().map_err(RunError::Elsewhere)?;
        let run = self.find(run)?;
        let view = self.0.parts.views.current();
        let is_open = view.executions.get(&run.head.id).is_some_and(|open| !open.has_finished());
        if is_open && self.claim_interrupted(&run) {
            *run.ended.lock() = None;
            self.drive(&run);
            return Ok(run.head.id.clone());
        }
        match run.state() {
            RunState::Interrupted | RunState::Failed => {
                let options = RunOptions {
                    intent: Some(run.head.intent.clone()),
                    session: run.head.session.clone(),
                    agent: run.head.agent.clone(),
                    // The approvals of a program are taken over.
                    approved: run.head.program.is_none(),
                    plan: None,
                    reuse: Some(run.head.id.clone()),
                    capability: run.head.capability,
                    within: None,
                };
                let id = self.start(run.work(), options)?;
                run.forget();
                Ok(id)
            }
            RunState::Running => Err(RunError::UnderWay(run.head.id.clone())),
            // An aborted run may never have been approved.
            RunState::Succeeded | RunState::Aborted | RunState::ApprovalRequired { .. } => {
                Err(RunError::NotResumable(run.head.id.clone()))
            }
        }
    }

    /// Marks an interrupted run as running, once for any number of callers.
    fn claim_interrupted(&self, run: &Run) -> bool {
        let _alone = self.0.shelf.lock();
        let interrupted = run.state() == RunState::Interrupted;
        if interrupted {
            run.set_state(RunState::Running);
        }
        interrupted
    }
}
