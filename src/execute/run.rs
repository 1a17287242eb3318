//! One run: its workflow, its status and the results of its finished tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::call::Called;
use super::code::{ProgramRun, ProgramStatus};
use super::journal::{FinishedTask, Journal, Line};
use super::look_ahead::Ahead;
use super::request::FollowedPlan;
use super::{RunState, RunStatus, TaskState, TaskStatus};
use crate::clock::Uptime;
use crate::core::id::{Callee, CapabilityId, ExecutionId, SessionId, StepId};
use crate::core::time::Timestamp;
use crate::core::workflow::{Task, Workflow};

/// What a run is made of.
pub(super) struct RunHead {
    pub(super) id: ExecutionId,
    /// The tasks; none if it runs a program.
    pub(super) workflow: Workflow,
    pub(super) program: Option<ProgramRun>,
    /// The capability that is run, if it is one as a whole.
    pub(super) capability: Option<CapabilityId>,
    pub(super) intent: String,
    pub(super) session: Option<SessionId>,
    pub(super) agent: Option<String>,
    pub(super) parent: Option<ExecutionId>,
    pub(super) created: Timestamp,
}

/// A run that is known to this process.
pub(super) struct Run {
    pub(super) head: RunHead,
    pub(super) status: watch::Sender<Arc<RunStatus>>,
    /// Set to end the run.
    pub(super) cancel: watch::Sender<bool>,
    /// The tasks that succeeded, with their results.
    finished: Mutex<BTreeMap<StepId, Finished>>,
    result_bytes: AtomicUsize,
    /// Calls that were made while the run waited for approval.
    pub(super) ahead: Mutex<Ahead>,
    pub(super) journal: Mutex<Option<Journal>>,
    /// When it ended, for the time that it is kept.
    pub(super) ended: Mutex<Option<Uptime>>,
}

/// A task that succeeded.
#[derive(Clone)]
pub(super) struct Finished {
    pub(super) result: Arc<Value>,
    pub(super) started: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) duration_ms: u64,
    pub(super) attempts: u32,
}

impl From<Finished> for Called {
    fn from(finished: Finished) -> Self {
        let Finished { result, started, ended, duration_ms, attempts } = finished;
        Self { started, ended, duration_ms, attempts, outcome: Ok(result) }
    }
}

impl AsRef<Value> for Finished {
    fn as_ref(&self) -> &Value {
        &self.result
    }
}

impl Run {
    pub(super) fn new(head: RunHead, state: RunState, plan: Option<FollowedPlan>) -> Self {
        let status = RunStatus {
            run: head.id.clone(),
            intent: head.intent.clone(),
            plan,
            state,
            tasks: head.workflow.tasks().iter().map(waiting).collect(),
            program: head.program.as_ref().map(|_| ProgramStatus::default()),
        };
        Self {
            head,
            status: watch::Sender::new(Arc::new(status)),
            cancel: watch::Sender::new(false),
            finished: Mutex::default(),
            result_bytes: AtomicUsize::new(0),
            ahead: Mutex::default(),
            journal: Mutex::new(None),
            ended: Mutex::new(None),
        }
    }

    /// The first line of its journal.
    pub(super) fn first_line(&self) -> Line {
        let (token, approve) = match &self.status.borrow().state {
            RunState::ApprovalRequired { token, tasks } => {
                (Some(token.clone()), tasks.iter().map(ToString::to_string).collect())
            }
            _ => (None, Vec::new()),
        };
        let head = &self.head;
        Line::Run {
            run: head.id.to_string(),
            intent: head.intent.clone(),
            session: head.session.as_ref().map(ToString::to_string),
            agent: head.agent.clone(),
            parent: head.parent.as_ref().map(ToString::to_string),
            workflow: head.workflow.to_json(),
            program: head.program.as_ref().map(ProgramRun::to_line),
            capability: head.capability.map(|id| id.to_string()),
            created_us: head.created.micros(),
            token,
            approve,
        }
    }

    /// The run that a journal describes; `None` if it cannot be understood.
    pub(super) fn from_journal(lines: Vec<Line>) -> Option<Self> {
        let mut lines = lines.into_iter();
        let Line::Run { run, intent, session, agent, parent, workflow, program, capability, created_us, token, approve } =
            lines.next()?
        else {
            return None;
        };
        let (workflow, program) = match program {
            Some(program) => (Workflow::default(), Some(ProgramRun::from_line(program)?)),
            None => (Workflow::from_json(&workflow, usize::MAX).ok()?, None),
        };
        let state = match token {
            Some(token) => {
                let tasks = approve.iter().map(|task| task.parse::<StepId>()).collect::<Result<_, _>>().ok()?;
                RunState::ApprovalRequired { token, tasks }
            }
            None => RunState::Interrupted,
        };
        let head = RunHead {
            id: run.parse().ok()?,
            workflow,
            program,
            capability: capability.and_then(|id| id.parse().ok()),
            intent,
            session: session.and_then(|session| session.parse().ok()),
            agent,
            parent: parent.and_then(|parent| parent.parse().ok()),
            created: Timestamp::from_micros(created_us),
        };
        let parsed = Self::new(head, state, None);
        for line in lines {
            match line {
                Line::Run { .. } => return None,
                Line::Began { .. } => {
                    parsed.head.program.as_ref().inspect(|program| program.begin());
                    parsed.set_state(RunState::Interrupted);
                }
                Line::Waits { token, tasks, tools } => parsed.restore_wait(token, &tasks, &tools),
                Line::Called(call) => parsed.restore_call(call)?,
                Line::Ahead { .. } => {}
                Line::Failed => parsed.set_state(RunState::Failed),
                Line::Finished(task) => parsed.restore(task),
            }
        }
        Some(parsed)
    }

    fn restore(&self, task: FinishedTask) {
        let Some(at) = self.head.workflow.tasks().iter().position(|known| known.id.as_str() == task.task) else { return };
        let finished = Finished {
            result: Arc::new(task.result),
            started: Timestamp::from_micros(task.started_us),
            ended: Timestamp::from_micros(task.ended_us),
            duration_ms: task.duration_ms,
            attempts: task.attempts,
        };
        self.keep(at, finished);
    }

    /// Keeps the result of a task that succeeded, and says so in the status. Returns the bytes of the result as JSON.
    pub(super) fn keep(&self, at: usize, finished: Finished) -> usize {
        let bytes = json_len(&finished.result);
        self.result_bytes.fetch_add(bytes, Ordering::Relaxed);
        let (attempts, duration_ms) = (finished.attempts, finished.duration_ms);
        let task = self.status.borrow().tasks[at].task.clone();
        self.finished.lock().insert(task, finished);
        self.set_task(at, |task| {
            task.state = TaskState::Succeeded;
            task.attempts = attempts;
            task.duration_ms = Some(duration_ms);
            task.result_bytes = Some(bytes);
        });
        bytes
    }

    /// Keeps a value beside those of the tasks.
    pub(super) fn keep_value(&self, name: StepId, value: Finished) -> usize {
        let bytes = json_len(&value.result);
        self.result_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.finished.lock().insert(name, value);
        bytes
    }

    /// The tasks that succeeded.
    pub(super) fn finished(&self) -> BTreeMap<StepId, Finished> {
        self.finished.lock().clone()
    }

    pub(super) fn finished_task(&self, task: &StepId) -> Option<Finished> {
        self.finished.lock().get(task).cloned()
    }

    pub(super) fn result_bytes(&self) -> usize {
        self.result_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_state(&self, state: RunState) {
        self.status.send_modify(|status| Arc::make_mut(status).state = state);
    }

    pub(super) fn state(&self) -> RunState {
        self.status.borrow().state.clone()
    }

    pub(super) fn set_task(&self, at: usize, change: impl FnOnce(&mut TaskStatus)) {
        self.status.send_modify(|status| change(&mut Arc::make_mut(status).tasks[at]));
    }

    /// Writes a line to the journal. A run goes on without one that cannot be written; it could not be resumed.
    pub(super) fn note(&self, line: &Line) {
        if let Some(journal) = &mut *self.journal.lock()
            && let Err(error) = journal.append(line)
        {
            tracing::error!(%error, run = %self.head.id, "the journal of a run cannot be written; it could not be resumed");
        }
    }

    /// Removes the journal: nothing is left to be done.
    pub(super) fn forget(&self) {
        if let Some(journal) = self.journal.lock().take() {
            journal.remove();
        }
    }
}

fn waiting(task: &Task) -> TaskStatus {
    TaskStatus {
        task: task.id.clone(),
        tool: Callee::Tool(task.tool.clone()),
        depends_on: task.depends_on.clone(),
        state: TaskState::Waiting,
        speculated: false,
        attempts: 0,
        duration_ms: None,
        result_bytes: None,
    }
}

/// The length of a value as JSON text.
pub(super) fn json_len(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting cannot fail");
    count.0
}
