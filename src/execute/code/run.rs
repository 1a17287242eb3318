//! The part of a run that only runs of programs have: what was approved, the calls that have ended, and what came of the program.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::past::{CalledLine, PastCall};
use super::program::{Program, ProgramLine};
use crate::core::id::{CapabilityId, StepId, ToolId};
use crate::execute::run::Run;
use crate::execute::{RunState, TaskState, TaskStatus};

/// What came of the program of a run.
#[derive(Clone, Debug, Default)]
pub struct ProgramStatus {
    /// Bytes of the result as JSON, once it has one.
    pub result_bytes: Option<usize>,
    /// What it wrote to the console.
    pub console: String,
    /// A stable word and a text, if it failed.
    pub error: Option<(String, String)>,
    /// The capability that it is.
    pub capability: Option<CapabilityId>,
}

/// The program of a run.
pub(in crate::execute) struct ProgramRun {
    pub(in crate::execute) program: Arc<Program>,
    /// How many programs are above this one.
    pub(super) depth: usize,
    approvals: Mutex<Approvals>,
    /// The calls that have ended, in the order of their ends.
    past: Mutex<Vec<Arc<PastCall>>>,
}

#[derive(Default)]
struct Approvals {
    all: bool,
    tools: BTreeSet<ToolId>,
    /// The tools that somebody was asked to approve.
    asked: BTreeSet<ToolId>,
}

impl ProgramRun {
    pub(super) fn new(program: Program, approved: bool, depth: usize) -> Self {
        let approvals = Mutex::new(Approvals { all: approved, ..Approvals::default() });
        Self { program: Arc::new(program), depth, approvals, past: Mutex::default() }
    }

    pub(in crate::execute) fn to_line(&self) -> ProgramLine {
        ProgramLine {
            code: self.program.source.clone(),
            arguments: self.program.arguments.clone(),
            approved: self.approvals.lock().all,
            depth: self.depth,
        }
    }

    pub(in crate::execute) fn from_line(line: ProgramLine) -> Option<Self> {
        let program = Program::read(line.code, line.arguments).ok()?;
        Some(Self::new(program, line.approved, line.depth))
    }

    /// The run begins or goes on: what it waited for was approved.
    pub(in crate::execute) fn begin(&self) {
        let mut approvals = self.approvals.lock();
        let asked = std::mem::take(&mut approvals.asked);
        approvals.tools.extend(asked);
    }

    pub(super) fn is_approved(&self, tool: &ToolId) -> bool {
        let approvals = self.approvals.lock();
        approvals.all || approvals.tools.contains(tool)
    }

    pub(super) fn ask_for(&self, tools: impl IntoIterator<Item = ToolId>) {
        self.approvals.lock().asked.extend(tools);
    }

    pub(super) fn past(&self) -> Vec<Arc<PastCall>> {
        self.past.lock().clone()
    }

    pub(super) fn add_past(&self, call: Arc<PastCall>) {
        self.past.lock().push(call);
    }
}

impl Run {
    /// Adds a task, and returns its position.
    pub(super) fn add_task(&self, task: TaskStatus) -> usize {
        let mut at = 0;
        self.status.send_modify(|status| {
            let tasks = &mut Arc::make_mut(status).tasks;
            at = tasks.len();
            tasks.push(task);
        });
        at
    }

    pub(super) fn set_program(&self, change: impl FnOnce(&mut ProgramStatus)) {
        self.status.send_modify(|status| change(Arc::make_mut(status).program.get_or_insert_default()));
    }

    /// Removes tasks that have not ended: the program will ask for them again.
    pub(super) fn drop_open_tasks(&self) {
        let has_ended = |task: &TaskStatus| matches!(task.state, TaskState::Succeeded | TaskState::Failed { .. });
        self.status.send_modify(|status| Arc::make_mut(status).tasks.retain(has_ended));
    }

    /// Ends tasks that never began.
    pub(super) fn skip_waiting_tasks(&self) {
        self.status.send_modify(|status| {
            for task in &mut Arc::make_mut(status).tasks {
                if task.state == TaskState::Waiting {
                    task.state = TaskState::Skipped;
                }
            }
        });
    }

    /// Takes over the calls of an earlier run that succeeded, and its approvals. What failed is called again.
    pub(super) fn take_over_calls(&self, earlier: &Self) {
        let (Some(own), Some(other)) = (&self.head.program, &earlier.head.program) else { return };
        for call in other.past().iter().filter(|call| call.called.outcome.is_ok()) {
            self.note(&super::past::line(call));
            self.show_past(call);
            own.add_past(Arc::clone(call));
        }
        let theirs = other.approvals.lock();
        let mut approvals = own.approvals.lock();
        approvals.all |= theirs.all;
        approvals.tools.extend(theirs.tools.iter().chain(&theirs.asked).cloned());
    }

    /// Shows a call that has ended among the tasks, and keeps its result.
    pub(super) fn show_past(&self, call: &PastCall) {
        let at = self.add_task(call.status());
        if let Some(finished) = call.called.finished() {
            self.keep(at, finished);
        }
    }

    /// A call that a journal tells of.
    pub(in crate::execute) fn restore_call(&self, line: CalledLine) -> Option<()> {
        let (own, call) = (self.head.program.as_ref()?, PastCall::from_line(line)?);
        self.show_past(&call);
        own.add_past(Arc::new(call));
        Some(())
    }

    /// An approval that a journal tells of.
    pub(in crate::execute) fn restore_wait(&self, token: String, tasks: &[String], tools: &[String]) {
        if let Some(own) = &self.head.program {
            own.ask_for(tools.iter().filter_map(|tool| tool.parse().ok()));
        }
        let tasks: Vec<StepId> = tasks.iter().filter_map(|task| task.parse().ok()).collect();
        self.set_state(RunState::ApprovalRequired { token, tasks });
    }
}
