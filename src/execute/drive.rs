//! The driver of a run: starts tasks when their dependencies have succeeded, records every step, and ends the run.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::call::{self, Called, Failure};
use super::events;
use super::journal::{FinishedTask, Line};
use super::look_ahead::{Ahead, EarlyCall};
use super::run::Run;
use super::{RunState, Shared, TaskState};
use crate::core::event::{Event, Json, NewRecord, ToolOutputInferred};
use crate::core::id::ToolId;
use crate::core::redact::Redactor;
use crate::core::shape::Shape;
use crate::core::tool::Tool;
use crate::core::workflow::progress::{Phase, Progress};
use crate::log::append_patiently;
use crate::recorder;

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
    // Calls whose turn did not come are recorded before the run ends.
    drop(ahead);
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

/// A task whose call has ended.
struct EndedTask {
    /// The position of the task.
    at: usize,
    /// Whether it was called before its turn.
    speculated: bool,
    called: Called,
}

type Calls = FuturesUnordered<BoxFuture<'static, EndedTask>>;

impl Driver {
    /// The configured redaction, for what tools and programs say.
    pub(super) fn redactor(&self) -> &Redactor {
        self.shared.parts.upstreams.redactor()
    }

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
            let facts = vec![started, events::step_finished(&self.run, task, &finished.into())];
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
            let ended = tokio::select! {
                biased;
                _ = cancel.wait_for(|cancel| *cancel) => break,
                _ = stop.wait_for(|stop| *stop) => return End::Interrupted,
                Some(ended) = calls.next() => ended,
            };
            self.finish(ended, progress).await;
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
                let failure = call::failure("aborted", "the run was aborted during the call".to_owned(), self.redactor());
                let called = Called::failed(now, 1, failure);
                self.finish(EndedTask { at, speculated: false, called }, progress).await;
            }
        }
        progress.end();
    }

    /// The call of a task, to be made; `None` if it failed because its arguments have no value.
    async fn start(&self, at: usize, progress: &mut Progress, ahead: &mut Ahead) -> Option<BoxFuture<'static, EndedTask>> {
        let (task, parts) = (&self.run.head.workflow.tasks()[at], &self.shared.parts);
        progress.start(at);
        let now = parts.clock.now();
        match call::arguments(task, &self.run.finished(), parts.upstreams.redactor()) {
            Ok(arguments) => {
                self.run.set_task(at, |status| status.state = TaskState::Running);
                let text = Value::Object(arguments.clone()).to_string();
                parts.recorder.record_soon(vec![events::step_started(&self.run, task, text, now)]).await;
                let call = call::call(task.clone(), arguments, parts.upstreams.clone(), parts.clock.clone());
                let early = ahead.remove(&at);
                Some(Box::pin(async move {
                    let early = OptionFuture::from(early.map(EarlyCall::taken)).await.flatten();
                    let speculated = early.is_some();
                    let called = if let Some(called) = early { called } else { call.await };
                    EndedTask { at, speculated, called }
                }))
            }
            Err(failure) => {
                let text = Value::Object(task.arguments.clone()).to_string();
                parts.recorder.record_soon(vec![events::step_started(&self.run, task, text, now)]).await;
                let called = Called::failed(now, 0, failure);
                self.finish(EndedTask { at, speculated: false, called }, progress).await;
                None
            }
        }
    }

    /// Keeps what came of a task, and records it.
    async fn finish(&self, EndedTask { at, speculated, called }: EndedTask, progress: &mut Progress) {
        let task = &self.run.head.workflow.tasks()[at];
        match &called.outcome {
            Ok(result) => {
                progress.succeed(at);
                let finished = called.finished_with(result);
                self.run.note(&Line::Finished(FinishedTask::new(&task.id, &finished)));
                self.run.keep(at, finished);
                self.run.set_task(at, |status| status.speculated = speculated);
                self.infer_output(&task.tool, result);
            }
            Err(failure) => {
                progress.fail(at, &self.run.head.workflow);
                self.show_failure(at, &called, failure, progress);
            }
        }
        self.shared.parts.recorder.record_soon(vec![events::step_finished(&self.run, task, &called)]).await;
    }

    fn show_failure(&self, at: usize, called: &Called, failure: &Failure, progress: &Progress) {
        let Failure { kind, problem } = failure.clone();
        self.run.set_task(at, |status| {
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
        // An aborted run says nothing about its capability.
        let ran = self.run.head.capability.filter(|_| !aborted);
        let now = self.shared.parts.clock.now();
        self.shared.parts.recorder.record_soon(vec![events::finished(&self.run, ran, success, error, now)]).await;
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

impl Shared {
    /// Appends a fact that agents cannot publish. Only a stop waits for it: the next step does not depend on it.
    pub(super) fn append_soon(&self, fact: NewRecord) {
        let log = Arc::clone(&self.parts.log);
        let append = async move {
            let kind = fact.event.kind();
            if let Err(error) = append_patiently(&log, vec![Arc::new(fact)]).await {
                tracing::warn!(%error, %kind, "an event of a run was not recorded");
            }
        };
        let mut appends = self.appends.lock();
        while appends.try_join_next().is_some() {}
        appends.spawn_on(append, self.parts.upstreams.hub().handle());
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
