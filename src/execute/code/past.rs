//! A call of a program that has ended: what was asked, and what came of it. A program that is run again gets the same answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::core::id::{Callee, StepId};
use crate::core::time::Timestamp;
use crate::core::workflow::Task;
use crate::execute::call::{Called, Failure};
use crate::execute::journal::Line;
use crate::execute::{TaskState, TaskStatus};

/// A call that has ended.
#[derive(Clone)]
pub(super) struct PastCall {
    pub(super) step: StepId,
    pub(super) callee: Callee,
    pub(super) depends_on: Vec<StepId>,
    /// What the program asked for, as it wrote it.
    pub(super) asked: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) called: Called,
}

/// A call that has ended, in a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::execute) struct CalledLine {
    step: String,
    callee: String,
    depends_on: Vec<String>,
    asked: String,
    arguments: Map<String, Value>,
    started_us: i64,
    ended_us: i64,
    duration_ms: u64,
    attempts: u32,
    /// The result, or a stable word and the text of the failure.
    outcome: Result<Value, (String, String)>,
}

pub(super) fn line(call: &PastCall) -> Line {
    let Called { started, ended, duration_ms, attempts, ref outcome } = call.called;
    Line::Called(CalledLine {
        step: call.step.to_string(),
        callee: call.callee.to_string(),
        depends_on: call.depends_on.iter().map(ToString::to_string).collect(),
        asked: call.asked.clone(),
        arguments: call.arguments.clone(),
        started_us: started.micros(),
        ended_us: ended.micros(),
        duration_ms,
        attempts,
        outcome: match outcome {
            Ok(result) => Ok(Value::clone(result)),
            Err(failure) => Err((failure.kind.clone(), failure.problem.clone())),
        },
    })
}

impl PastCall {
    pub(super) fn from_line(line: CalledLine) -> Option<Self> {
        Some(Self {
            step: line.step.parse().ok()?,
            callee: line.callee.parse().ok()?,
            depends_on: line.depends_on.iter().map(|on| on.parse()).collect::<Result<_, _>>().ok()?,
            asked: line.asked,
            arguments: line.arguments,
            called: Called {
                started: Timestamp::from_micros(line.started_us),
                ended: Timestamp::from_micros(line.ended_us),
                duration_ms: line.duration_ms,
                attempts: line.attempts,
                outcome: line.outcome.map(Arc::new).map_err(|(kind, problem)| Failure { kind, problem }),
            },
        })
    }

    /// The call of a tool as a task; `None` for a capability.
    pub(super) fn task(&self) -> Option<Task> {
        let Callee::Tool(tool) = &self.callee else { return None };
        let (id, tool, arguments) = (self.step.clone(), tool.clone(), self.arguments.clone());
        Some(Task { id, tool, arguments, depends_on: self.depends_on.clone(), timeout_ms: None, retries: 0 })
    }

    pub(super) fn status(&self) -> TaskStatus {
        let state = match &self.called.outcome {
            Ok(_) => TaskState::Succeeded,
            Err(Failure { kind, problem }) => TaskState::Failed { kind: kind.clone(), problem: problem.clone() },
        };
        TaskStatus {
            task: self.step.clone(),
            tool: self.callee.clone(),
            depends_on: self.depends_on.clone(),
            state,
            speculated: false,
            attempts: self.called.attempts,
            duration_ms: Some(self.called.duration_ms),
            result_bytes: None,
        }
    }
}
