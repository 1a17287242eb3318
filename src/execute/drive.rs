//! The driver of a run: starts tasks when their dependencies have succeeded, records every step, and ends the run.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::call::{self, Called, Failure};
use super::events::{self, StepOutcome};
use super::journal::{FinishedTask, Line};
use super::look_ahead::Ahead;
use super::run::{Finished, Run};
use super::{RunState, Shared, TaskState};
use crate::core::event::{Event, Json, NewRecord, ToolOutputInferred};
use crate::core::id::ToolId;
use crate::core::shape::Shape;
use crate::core::tool::Tool;
use crate::core::workflow::progress::{Phase, Progress};
use crate::log::append_patiently;
use crate::recorder;

/// Bytes of a shape in the summary of a result.
const SUMMARY_BYTES_MAX: usize = 500;

/// How a run left its loop.
enum End {
    Completed,
    Aborted,
    /// The process stops; the run can be resumed.
    Interrupted,
}

/// Drives a run to its end.
pub(super) async fn drive(shared: Arc<Shared>, run: Arc<Run>) {
    let driver = Driver { shared, run };
    driver.begin().await;
    let mut progress = Progress::new(&driver.run.head.workflow);
    driver.take_over_finished(&mut progress).await;
    let mut ahead = std::mem::take(&mut *driver.run.ahead.lock());
    let end = driver.run_tasks(&mut progress, &mut ahead).await;
    driver.shared.drop_ahead(&driver.run, ahead);
    match end {
        End::Interrupted => driver.run.set_state(RunState::Interrupted),
        End::Completed => driver.end(&progress, false).await,
        End::Aborted => driver.end(&progress, true).await,
    }
    *driver.run.ended.lock() = Some(driver.shared.parts.clock.uptime());
}

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) run: Arc<Run>,
}

type Calls = FuturesUnordered<BoxFuture<'static, Called>>;

impl Driver {
    pub(super) async fn begin(&self) {
        let now = self.shared.parts.clock.now();
        self.run.note(&Line::Began { at_us: now.micros() });
        self.shared.parts.recorder.record_soon(vec![events::started(&self.run)]).await;
    }

    /// Marks the tasks whose results are known already, and records them: the trace of this run shall be whole.
    async fn take_over_finished(&self, progress: &mut Progress) {
        for (at, task) in self.run.head.workflow.tasks().iter().enumerate() {
            let Some(finished) = self.run.finished_task(&task.id) else { continue };
            progress.succeed(at);
            let arguments = Value::Object(task.arguments.clone()).to_string();
            let started = events::step_started(&self.run, task, arguments, finished.started);
            let facts = vec![started, events::step_finished(&self.run, task, success(&finished))];
            self.shared.parts.recorder.record_soon(facts).await;
        }
    }

    async fn run_tasks(&self, progress: &mut Progress, ahead: &mut Ahead) -> End {
        let (mut calls, parallel_max) = (Calls::new(), self.shared.parts.settings.parallel_max);
        let (mut cancel, mut stop) = (self.run.cancel.subscribe(), self.shared.stop.subscribe());
        loop {
            for at in progress.ready(&self.run.head.workflow) {
                if calls.len() < parallel_max {
                    calls.extend(self.start(at, progress, ahead).await);
                }
            }
            self.shared.call_ahead(&self.run, progress, ahead, parallel_max.saturating_sub(calls.len()));
            if calls.is_empty() && progress.has_ended() {
                return End::Completed;
            }
            let called = tokio::select! {
                _ = cancel.wait_for(|cancel| *cancel) => break,
                _ = stop.wait_for(|stop| *stop) => return End::Interrupted,
                Some(called) = calls.next() => called,
            };
            self.finish(called, progress).await;
        }
        // What is dropped here is cancelled.
        drop(calls);
        self.abort(progress).await;
        End::Aborted
    }

    /// Ends the tasks that run as failed, and skips those that wait.
    async fn abort(&self, progress: &mut Progress) {
        let now = self.shared.parts.clock.now();
        for at in 0..self.run.head.workflow.tasks().len() {
            if progress.phase(at) == Phase::Running {
                let failure = call::failure("aborted", "the run was aborted during the call".to_owned());
                self.finish(Called::failed(at, now, 1, failure), progress).await;
            }
        }
        progress.end();
    }

    /// The call of a task, to be made; `None` if it failed because its arguments have no value.
    async fn start(&self, at: usize, progress: &mut Progress, ahead: &mut Ahead) -> Option<BoxFuture<'static, Called>> {
        let (task, parts) = (&self.run.head.workflow.tasks()[at], &self.shared.parts);
        progress.start(at);
        let now = parts.clock.now();
        match call::arguments(task, &self.run.finished()) {
            Ok(arguments) => {
                self.run.set_task(at, |status| status.state = TaskState::Running);
                let text = Value::Object(arguments.clone()).to_string();
                parts.recorder.record_soon(vec![events::step_started(&self.run, task, text, now)]).await;
                let call = call::call(at, task.clone(), arguments, parts.upstreams.clone(), parts.clock.clone());
                let Some(early) = ahead.remove(&at) else { return Some(Box::pin(call)) };
                let (shared, run) = (Arc::clone(&self.shared), Arc::clone(&self.run));
                Some(Box::pin(async move {
                    match shared.taken(&run, at, early).await {
                        Some(called) => called,
                        None => call.await,
                    }
                }))
            }
            Err(failure) => {
                let text = Value::Object(task.arguments.clone()).to_string();
                parts.recorder.record_soon(vec![events::step_started(&self.run, task, text, now)]).await;
                self.finish(Called::failed(at, now, 0, failure), progress).await;
                None
            }
        }
    }

    /// Keeps what came of a task, and records it.
    async fn finish(&self, called: Called, progress: &mut Progress) {
        let task = &self.run.head.workflow.tasks()[called.at];
        let outcome = match (&called.outcome, called.finished()) {
            (Ok(result), Some(finished)) => {
                progress.succeed(called.at);
                self.run.note(&Line::Finished(FinishedTask {
                    task: task.id.to_string(),
                    started_us: finished.started.micros(),
                    ended_us: finished.ended.micros(),
                    duration_ms: finished.duration_ms,
                    attempts: finished.attempts,
                    result: Value::clone(result),
                }));
                self.run.keep(called.at, finished.clone());
                self.run.set_task(called.at, |status| status.speculated = called.speculated);
                self.infer_output(&task.tool, result);
                success(&finished)
            }
            (outcome, _) => {
                progress.fail(called.at, &self.run.head.workflow);
                let failure = outcome.as_ref().err().cloned().unwrap_or_else(|| call::failure("lost", String::new()));
                self.show_failure(&called, &failure, progress);
                let (ended, duration_ms) = (called.ended, called.duration_ms);
                StepOutcome { ended, duration_ms, error_kind: Some(failure.kind), summary: failure.problem }
            }
        };
        self.shared.parts.recorder.record_soon(vec![events::step_finished(&self.run, task, outcome)]).await;
    }

    fn show_failure(&self, called: &Called, failure: &Failure, progress: &Progress) {
        let Failure { kind, problem } = failure.clone();
        self.run.set_task(called.at, |status| {
            status.state = TaskState::Failed { kind, problem };
            status.attempts = called.attempts;
            status.duration_ms = Some(called.duration_ms);
        });
        self.show_skipped(progress);
    }

    fn show_skipped(&self, progress: &Progress) {
        for at in 0..self.run.head.workflow.tasks().len() {
            if progress.phase(at) == Phase::Skipped {
                self.run.set_task(at, |status| status.state = TaskState::Skipped);
            }
        }
    }

    /// Learns from a result what the tool answers, if its server does not say.
    pub(super) fn infer_output(&self, tool: &ToolId, result: &Value) {
        let parts = &self.shared.parts;
        let view = parts.views.current();
        let Some(known) = view.tools.get(tool) else { return };
        let declared = known.registration.as_ref().is_some_and(|registration| registration.output_schema.is_some());
        let (inferred, schema) = (self.shared.inferred_output(known), Shape::from_value(result));
        let merged = inferred.clone().map_or_else(|| schema.clone(), |inferred| inferred.merge(schema.clone()));
        if declared || inferred.as_ref() == Some(&merged) {
            return;
        }
        self.shared.set_inferred_output(tool, merged.clone());
        let output_schema = Json::from_valid(merged.to_schema().to_string());
        let event = Event::ToolOutputInferred(ToolOutputInferred { tool: tool.clone(), output_schema });
        self.shared.append_soon(recorder::fact(parts.clock.fresh_id(), parts.clock.now(), event));
    }

    /// Records the end of the run.
    async fn end(&self, progress: &Progress, aborted: bool) {
        let success = progress.is_success() && !aborted;
        self.show_skipped(progress);
        let error = if aborted { Some("aborted".to_owned()) } else { self.first_failure() };
        let now = self.shared.parts.clock.now();
        self.shared.parts.recorder.record_soon(vec![events::finished(&self.run, success, error, now)]).await;
        if success || aborted {
            self.run.forget();
        } else {
            self.run.note(&Line::Failed);
        }
        self.run.set_state(match (success, aborted) {
            (_, true) => RunState::Aborted,
            (true, false) => RunState::Succeeded,
            (false, false) => RunState::Failed,
        });
    }

    fn first_failure(&self) -> Option<String> {
        let status = self.run.status.borrow();
        status.tasks.iter().find_map(|task| match &task.state {
            TaskState::Failed { problem, .. } => Some(format!("{}: {problem}", task.task)),
            _ => None,
        })
    }
}

/// The outcome of a task that succeeded. The summary has the shape and the size of the result, and no value.
pub(super) fn success(finished: &Finished) -> StepOutcome {
    let mut shape = Shape::from_value(&finished.result).to_schema().to_string();
    crate::core::redact::cut(&mut shape, SUMMARY_BYTES_MAX);
    let summary = format!("{shape} {} bytes", super::run::json_len(&finished.result));
    StepOutcome { ended: finished.ended, duration_ms: finished.duration_ms, error_kind: None, summary }
}

impl Shared {
    /// Appends a fact that agents cannot publish. Not waited for: the next step does not depend on it.
    pub(super) fn append_soon(&self, fact: NewRecord) {
        let log = Arc::clone(&self.parts.log);
        self.parts.upstreams.hub().handle().spawn(async move {
            let kind = fact.event.kind();
            if let Err(error) = append_patiently(&log, vec![Arc::new(fact)]).await {
                tracing::warn!(%error, %kind, "an event of a run was not recorded");
            }
        });
    }

    /// What is known about a tool's results: what this process has inferred since it started, else what the state says.
    fn inferred_output(&self, tool: &Tool) -> Option<Shape> {
        if let Some(shape) = self.inferred.lock().get(&tool.id) {
            return Some(shape.clone());
        }
        let schema = tool.inferred_output.as_ref()?;
        serde_json::from_str(schema.as_str()).ok().map(|schema: Value| Shape::from_schema(&schema))
    }

    fn set_inferred_output(&self, tool: &ToolId, shape: Shape) {
        self.inferred.lock().insert(tool.clone(), shape);
    }
}
