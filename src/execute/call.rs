//! The call of one task: its arguments, its attempts, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::run::Finished;
use crate::clock::Clock;
use crate::core::event::ToolRegistered;
use crate::core::id::StepId;
use crate::core::redact::{self, Redactor};
use crate::core::time::Timestamp;
use crate::core::workflow::{Task, reference};
use crate::upstream::{CallError, Upstreams, outcome_value};

/// The pause before the first repetition of a failed call; each is twice the one before.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of an error text that are kept.
const PROBLEM_BYTES_MAX: usize = 500;

/// Why a task failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// A stable word.
    pub(super) kind: String,
    /// What the tool or the connection said, redacted and cut.
    pub(super) problem: String,
}

/// What came of a call.
#[derive(Clone)]
pub(super) struct Called {
    pub(super) started: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) duration_ms: u64,
    pub(super) attempts: u32,
    pub(super) outcome: Result<Arc<Value>, Failure>,
}

impl Called {
    /// A call that failed without being made, or that was cancelled.
    pub(super) fn failed(now: Timestamp, attempts: u32, failure: Failure) -> Self {
        Self { started: now, ended: now, duration_ms: 0, attempts, outcome: Err(failure) }
    }

    /// The call with its result, if it succeeded.
    pub(super) fn finished(&self) -> Option<Finished> {
        self.outcome.as_ref().ok().map(|result| self.finished_with(result))
    }

    /// The call with a result that it had.
    pub(super) fn finished_with(&self, result: &Arc<Value>) -> Finished {
        let Self { started, ended, duration_ms, attempts, .. } = *self;
        Finished { result: Arc::clone(result), started, ended, duration_ms, attempts }
    }
}

/// The arguments of a task, with references replaced by results.
pub(super) fn arguments(
    task: &Task,
    results: &BTreeMap<StepId, Finished>,
    redactor: &Redactor,
) -> Result<Map<String, Value>, Failure> {
    reference::resolve(&task.arguments, results).map_err(|problem| failure("unresolved", problem, redactor))
}

/// Calls a tool until it succeeds or its attempts are used up.
pub(super) async fn call(task: Task, arguments: Map<String, Value>, upstreams: Upstreams, clock: Clock) -> Called {
    let (started, began) = (clock.now(), clock.uptime());
    let limit = task.timeout_ms.map(Duration::from_millis);
    let mut attempts = 0;
    let outcome = loop {
        attempts += 1;
        let repeatable = upstreams.tool(&task.tool).is_ok_and(|tool| may_be_repeated(&tool));
        let (failure, harmless) = match upstreams.call(&task.tool, arguments.clone(), limit).await {
            Ok(outcome) if outcome.result.is_error != Some(true) => break Ok(Arc::new(outcome_value(&outcome.result))),
            Ok(outcome) => (failure("tool_error", text_of(&outcome_value(&outcome.result)), upstreams.redactor()), repeatable),
            Err(error) => (failure(error.kind(), error.to_string(), upstreams.redactor()), repeatable || is_passing(&error)),
        };
        if attempts > task.retries || !harmless {
            break Err(failure);
        }
        tokio::time::sleep(RETRY_PAUSE * 2_u32.pow(attempts - 1)).await;
    };
    let duration_ms = clock.uptime().millis_since(began);
    Called { started, ended: clock.now(), duration_ms, attempts, outcome }
}

/// Whether a call may be repeated although it may have had its effect.
fn may_be_repeated(tool: &ToolRegistered) -> bool {
    let hints = tool.annotations.as_ref();
    hints.is_some_and(|hints| hints.read_only == Some(true) || hints.idempotent == Some(true))
}

/// Whether the error means that nothing happened, and may be gone in a moment.
fn is_passing(error: &CallError) -> bool {
    matches!(error, CallError::NotConnected { .. } | CallError::Busy { .. })
}

pub(super) fn failure(kind: &str, mut problem: String, redactor: &Redactor) -> Failure {
    redactor.clean(&mut problem);
    redact::cut(&mut problem, PROBLEM_BYTES_MAX);
    Failure { kind: kind.to_owned(), problem }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
