//! The driver of a program's run: starts its child process, waits for its end, an approval or an abort, and records what came of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::calls::Calls;
use super::run::ProgramRun;
use super::{RESULT, learn, nested, step_id};
use crate::clock::entropy;
use crate::code::sandbox::{Outcome, RunError, Sandbox};
use crate::code::structure;
use crate::core::id::{Callee, StepId, ToolId};
use crate::core::workflow::capability;
use crate::execute::call::{self, Failure};
use crate::execute::drive::Driver;
use crate::execute::journal::Line;
use crate::execute::run::{Finished, Run};
use crate::execute::{RunState, Shared, events};

/// How the program left its process.
enum End {
    Ended(Outcome),
    /// These calls need approval.
    Waits(Vec<StepId>),
    Aborted,
    /// The process stops; the run can be resumed.
    Interrupted,
}

/// Drives the run of a program to its end, or to an approval.
pub(in crate::execute) async fn drive(shared: Arc<Shared>, run: Arc<Run>) {
    let driver = Driver { shared, run };
    let Some(own) = &driver.run.head.program else { return };
    own.begin();
    driver.run.drop_open_tasks();
    driver.begin().await;
    let calls = Calls::new(&driver, own);
    let end = run_program(&driver, own, &calls).await;
    let ended = Some(driver.shared.parts.clock.uptime());
    let state = match end {
        End::Waits(steps) => driver.ask_for_approval(own, steps),
        End::Interrupted => RunState::Interrupted,
        End::Aborted => {
            calls.abort().await;
            driver.end_program(own, Err(("aborted".to_owned(), None)), String::new()).await
        }
        End::Ended(Outcome { result, console }) => {
            calls.abort().await;
            let value = result.and_then(|raw| {
                serde_json::from_str::<Value>(raw.get()).map_err(|error| RunError::Protocol(error.to_string()))
            });
            let value = value.map_err(|error| {
                let failure = call::failure(error.kind(), error.to_string(), driver.redactor());
                (failure.problem.clone(), Some(failure))
            });
            driver.end_program(own, value, console).await
        }
    };
    // Before the state: whoever sees the state may start the run again.
    *driver.run.ended.lock() = ended;
    driver.run.set_state(state);
}

async fn run_program(driver: &Driver, own: &ProgramRun, calls: &Calls<'_>) -> End {
    let parts = &driver.shared.parts;
    let sandbox = match Sandbox::start(&parts.sandbox, parts.code.limits(parts.tasks_max)) {
        Ok(sandbox) => sandbox,
        Err(error) => return End::Ended(Outcome { result: Err(error), console: String::new() }),
    };
    let (mut cancel, mut stop) = (driver.run.cancel.subscribe(), driver.shared.stop.subscribe());
    let launch = own.program.launch(&driver.run.head.id, driver.run.head.created);
    tokio::select! {
        _ = cancel.wait_for(|cancel| *cancel) => End::Aborted,
        _ = stop.wait_for(|stop| *stop) => End::Interrupted,
        steps = calls.waits() => End::Waits(steps),
        outcome = sandbox.run(launch, |request| calls.make(request)) => End::Ended(outcome),
    }
}

impl Driver {
    /// Asks for the approval of the calls that wait, and of those of the reading that would have to ask later.
    fn ask_for_approval(&self, own: &ProgramRun, waiting: Vec<StepId>) -> RunState {
        let view = self.shared.parts.views.current();
        let mut tools: BTreeSet<ToolId> = BTreeSet::new();
        let mut steps: Vec<StepId> = Vec::new();
        for task in &self.run.status.borrow().tasks {
            if waiting.contains(&task.task) {
                tools.extend(nested::unapproved(self, own, &task.tool));
                steps.push(task.task.clone());
            }
        }
        for (at, call) in own.program.reading.calls.iter().enumerate() {
            let callee = match &call.callee {
                structure::Callee::Tool(tool) => Some(Callee::Tool(tool.clone())),
                structure::Callee::Capability(name) => {
                    capability::find(&view, name).ok().map(|found| Callee::Capability(found.id))
                }
                structure::Callee::Computed => None,
            };
            let needed = callee.map(|callee| nested::unapproved(self, own, &callee)).unwrap_or_default();
            if !needed.is_empty() {
                tools.extend(needed);
                steps.push(step_id(at));
            }
        }
        steps.sort();
        steps.dedup();
        let token = format!("apr_{:032x}", entropy());
        self.run.note(&Line::Waits {
            token: token.clone(),
            tasks: steps.iter().map(ToString::to_string).collect(),
            tools: tools.iter().map(ToString::to_string).collect(),
        });
        own.ask_for(tools);
        RunState::ApprovalRequired { token, tasks: steps }
    }

    /// Records the end of the program, and what it teaches. An error without a failure is an abort.
    async fn end_program(
        &self,
        own: &ProgramRun,
        result: Result<Value, (String, Option<Failure>)>,
        console: String,
    ) -> RunState {
        let now = self.shared.parts.clock.now();
        self.run.set_program(|status| status.console = console);
        let parts = &self.shared.parts;
        let state = match result {
            Ok(value) => {
                self.keep_result(value);
                let mut new = self.shared.programs.lock().await;
                let lesson = learn::learn(&parts.views.current(), &self.run, &own.program, &mut new, self.redactor());
                let ran = lesson.as_ref().map(|lesson| lesson.capability);
                self.run.set_program(|status| status.capability = ran);
                let declared = lesson.and_then(|lesson| lesson.declared);
                let declared = declared.map(|event| events::declared(&self.run, event, now));
                let finished = events::finished(&self.run, ran, true, None, now);
                parts.recorder.record_soon(declared.into_iter().chain([finished]).collect()).await;
                RunState::Succeeded
            }
            Err((problem, failure)) => {
                // A failed run counts for the capability, too; an aborted one says nothing about it.
                let ran = failure.as_ref().and_then(|_| learn::capability(&parts.views.current(), &own.program));
                let state = if failure.is_some() { RunState::Failed } else { RunState::Aborted };
                self.run.set_program(|status| status.error = failure.map(|failure| (failure.kind, failure.problem)));
                parts.recorder.record_soon(vec![events::finished(&self.run, ran, false, Some(problem), now)]).await;
                state
            }
        };
        if state == RunState::Failed {
            self.run.note(&Line::Failed);
        } else {
            self.run.forget();
        }
        state
    }

    fn keep_result(&self, value: Value) {
        let (started, ended) = (self.run.head.created, self.shared.parts.clock.now());
        let duration_ms = ended.millis_since(started);
        let result = Finished { result: Arc::new(value), started, ended, duration_ms, attempts: 1 };
        let bytes = self.run.keep_value(RESULT.parse().expect("a word is a step id"), result);
        self.run.set_program(|status| status.result_bytes = Some(bytes));
    }
}
