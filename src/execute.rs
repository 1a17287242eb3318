//! The execution of workflows: [`Runner`] is the handle with which gateways start, follow and end runs.
//!
//! A run calls the tools of a workflow (`core::workflow`) as soon as their dependencies have succeeded (`drive`, `call`), records every step
//! as an event (`events`), and keeps results for a while (`shelf`). A run may execute a program instead (`code`). A run that waits for approval, failed, or was interrupted by the end of
//! its process is kept in a file of the data directory (`journal`) and can go on from its first unfinished task.

mod approval;
mod call;
mod code;
mod drive;
pub mod dto;
mod events;
#[cfg(feature = "testing")]
pub mod fuzzing;
mod journal;
mod look_ahead;
mod request;
mod resume;
mod run;
mod shelf;
mod status;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ask::Asker;
use crate::clock::{Clock, entropy};
use crate::code::sandbox::ChildCommand;
use crate::config;
use crate::core::id::{CapabilityId, ExecutionId, SessionId, StepId, ToolId};
use crate::core::redact::{self, Redactor};
use crate::core::shape::Shape;
use crate::core::state::State;
use crate::core::workflow::Workflow;
use crate::core::workflow::progress::Progress;
use crate::log::SharedLog;
use crate::recorder::Recorder;
use crate::upstream::Upstreams;
use crate::views::Views;
pub use approval::needs_approval;
use code::NewPrograms;
pub use code::{Program, ProgramStatus, Within};
use journal::{FinishedTask, Journal, Line};
pub use request::{AbortRequest, Begun, ContinueRequest, ExecuteRequest, FollowedPlan, IncompletePlan, parse};
use run::{Run, RunHead};
use shelf::Shelf;
pub use status::{ResultPage, RunError, RunState, RunStatus, TaskState, TaskStatus};
pub use work::Work;

/// How long a stop waits for the last events of runs.
const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// Bytes of an intent that are kept.
const INTENT_BYTES_MAX: usize = 4_096;

/// How a run is started.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// What the run is for, in words. Without it, the names of the tools stand in.
    pub intent: Option<String>,
    pub session: Option<SessionId>,
    pub agent: Option<String>,
    /// Approves the calls of this run beforehand.
    pub approved: bool,
    /// The suggestion that the workflow was made from, if there is one.
    pub plan: Option<FollowedPlan>,
    /// An earlier run: its finished tasks with the same id, tool and arguments are taken over instead of called (resume, replan).
    pub reuse: Option<ExecutionId>,
    /// The capability that is run, if it is one as a whole.
    pub capability: Option<CapabilityId>,
    /// The run whose program starts this one.
    pub within: Option<Within>,
}

/// What the runner is built on.
pub(crate) struct RunnerParts {
    pub(crate) settings: config::Execute,
    pub(crate) code: config::Code,
    /// The child process of programs.
    pub(crate) sandbox: ChildCommand,
    pub(crate) upstreams: Upstreams,
    pub(crate) asker: Asker,
    pub(crate) recorder: Recorder,
    pub(crate) views: Views,
    pub(crate) log: SharedLog,
    pub(crate) clock: Clock,
    /// Where journals are kept.
    pub(crate) directory: PathBuf,
    /// Most tasks of a workflow (`limits.steps_max`).
    pub(crate) tasks_max: usize,
}

/// What all runs share.
struct Shared {
    parts: RunnerParts,
    shelf: Mutex<Shelf>,
    /// Set when the process stops.
    stop: watch::Sender<bool>,
    /// Shapes of results inferred since the start, which the newest view may not have yet.
    inferred: Mutex<BTreeMap<ToolId, Shape>>,
    programs: NewPrograms,
    /// Events that are being appended.
    appends: Mutex<JoinSet<()>>,
}

/// The handle to the runs. Cheap to clone.
#[derive(Clone)]
pub struct Runner(Arc<Shared>);

impl Runner {
    /// The configured redaction, for what is said about runs.
    pub(crate) fn redactor(&self) -> &Redactor {
        self.0.parts.upstreams.redactor()
    }

    /// Builds the runner and reads the journals of earlier processes.
    pub(crate) fn new(parts: RunnerParts) -> Self {
        let keep_us = i64::try_from(parts.settings.results_keep_s.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let oldest = crate::core::time::Timestamp::from_micros(parts.clock.now().micros().saturating_sub(keep_us));
        let journals = journal::read_all(&parts.directory, oldest);
        let runner = Self(Arc::new(Shared {
            shelf: Mutex::default(),
            stop: watch::Sender::new(false),
            inferred: Mutex::default(),
            programs: NewPrograms::default(),
            appends: Mutex::default(),
            parts,
        }));
        for lines in journals {
            let lost = look_ahead::unfinished(&lines);
            let Some(run) = Run::from_journal(lines) else { continue };
            runner.0.record_lost(&run, lost);
            match Journal::reopen(&runner.0.parts.directory, &run.head.id) {
                Ok(journal) => *run.journal.lock() = Some(journal),
                Err(error) => tracing::warn!(%error, run = %run.head.id, "the journal of a run cannot be opened"),
            }
            *run.ended.lock() = Some(runner.0.parts.clock.uptime());
            runner.0.shelf.lock().add(Arc::new(run));
        }
        runner
    }

    /// Checks a workflow or program and starts it. Returns the id of the run, which is also the id of its execution in the log.
    pub fn start(&self, work: impl Into<Work>, options: RunOptions) -> Result<ExecutionId, RunError> {
        self.0.parts.upstreams.is_here().map_err(RunError::Elsewhere)?;
        match work.into() {
            Work::Workflow(workflow) => self.start_workflow(workflow, options),
            Work::Program(program) => code::start(self, *program, options),
        }
    }

    fn start_workflow(&self, workflow: Workflow, options: RunOptions) -> Result<ExecutionId, RunError> {
        let parts = &self.0.parts;
        for task in workflow.tasks() {
            let checked = parts.upstreams.tool(&task.tool);
            checked.map_err(|source| RunError::Tool { task: task.id.clone(), source })?;
        }
        let reused = options.reuse.as_ref().map(|run| self.find(run)).transpose()?;
        if let Some(reused) = &reused
            && reused.state() == RunState::Running
        {
            return Err(RunError::UnderWay(reused.head.id.clone()));
        }
        let needing = self.need_approval(&workflow, options.plan.as_ref());
        let state = if options.approved || needing.is_empty() {
            RunState::Running
        } else {
            RunState::ApprovalRequired { token: format!("apr_{:032x}", entropy()), tasks: needing }
        };
        let mut intent = options.intent.filter(|intent| !intent.trim().is_empty()).unwrap_or_else(|| summary(&workflow));
        redact::cut(&mut intent, INTENT_BYTES_MAX);
        let id = format!("run-{}", parts.clock.fresh_id());
        let head = RunHead {
            id: id.parse().expect("a word and a ULID are an execution id"),
            workflow,
            program: None,
            capability: options.capability,
            intent,
            session: options.session,
            agent: options.agent,
            parent: options.within.map(Within::into_caller).or(options.reuse),
            created: parts.clock.now(),
        };
        let run = Arc::new(Run::new(head, state, options.plan));
        self.shelve(&run)?;
        if let Some(reused) = reused {
            take_over(&run, &reused);
        }
        if run.state() == RunState::Running {
            self.drive(&run);
        } else {
            // It takes no place among the runs under way, and is not kept for ever.
            *run.ended.lock() = Some(parts.clock.uptime());
            self.look_ahead(&run);
        }
        Ok(run.head.id.clone())
    }

    /// Opens the run's journal and puts it on the shelf, if there is room.
    fn shelve(&self, run: &Arc<Run>) -> Result<(), RunError> {
        let parts = &self.0.parts;
        let mut known = self.0.shelf.lock();
        known.make_room(&parts.settings, parts.clock.uptime());
        if known.under_way() >= parts.settings.runs_max {
            return Err(RunError::TooManyRuns { max: parts.settings.runs_max });
        }
        if run.head.program.is_some() && known.programs() >= parts.code.processes_max {
            return Err(RunError::TooManyPrograms { max: parts.code.processes_max });
        }
        let journal = Journal::create(&parts.directory, &run.head.id, &run.first_line());
        *run.journal.lock() = Some(journal.map_err(|error| RunError::File(error.to_string()))?);
        known.add(Arc::clone(run));
        Ok(())
    }

    fn drive(&self, run: &Arc<Run>) {
        let (shared, own) = (Arc::clone(&self.0), Arc::clone(run));
        let handle = self.0.parts.upstreams.hub().handle();
        if run.head.program.is_some() {
            handle.spawn(code::drive(shared, own));
        } else {
            handle.spawn(drive::drive(shared, own));
        }
    }

    /// Calls what only reads while the run waits for approval, if that is configured.
    fn look_ahead(&self, run: &Run) {
        let mut progress = Progress::new(&run.head.workflow);
        for (at, task) in run.head.workflow.tasks().iter().enumerate() {
            if run.finished_task(&task.id).is_some() {
                progress.succeed(at);
            }
        }
        self.0.call_ahead(run, &progress, &mut run.ahead.lock(), self.0.parts.settings.parallel_max);
    }

    fn find(&self, run: &ExecutionId) -> Result<Arc<Run>, RunError> {
        self.0.shelf.lock().get(run).ok_or_else(|| RunError::UnknownRun(run.clone()))
    }

    /// Waits until the run has ended or needs approval.
    pub async fn wait(&self, run: &ExecutionId) -> Result<Arc<RunStatus>, RunError> {
        let mut progress = self.progress(run)?;
        let status = progress.wait_for(|status| status.state != RunState::Running).await;
        status.map(|status| Arc::clone(&status)).map_err(|_| RunError::UnknownRun(run.clone()))
    }

    pub fn status(&self, run: &ExecutionId) -> Result<Arc<RunStatus>, RunError> {
        self.find(run).map(|run| Arc::clone(&run.status.borrow()))
    }

    /// Every change of the run's status; a slow reader sees the newest only.
    pub fn progress(&self, run: &ExecutionId) -> Result<watch::Receiver<Arc<RunStatus>>, RunError> {
        self.find(run).map(|run| run.status.subscribe())
    }

    /// The runs that this process knows, the newest first.
    pub fn runs(&self) -> Vec<Arc<RunStatus>> {
        self.0.shelf.lock().newest_first().map(|run| Arc::clone(&run.status.borrow())).collect()
    }

    /// Ends a run: calls under way are cancelled, finished results are kept. Also refuses an approval.
    pub async fn abort(&self, run: &ExecutionId) -> Result<Arc<RunStatus>, RunError> {
        let run = self.find(run)?;
        match run.state() {
            RunState::Running => {
                run.cancel.send_replace(true);
                return self.wait(&run.head.id).await;
            }
            // What has begun is ended in the log, too.
            RunState::Interrupted | RunState::ApprovalRequired { .. }
                if run.state() == RunState::Interrupted || run.head.program.is_some() =>
            {
                let now = self.0.parts.clock.now();
                let finished = events::finished(&run, None, false, Some("aborted".to_owned()), now);
                self.0.parts.recorder.record_soon(vec![finished]).await;
            }
            RunState::ApprovalRequired { .. } => run.ahead.lock().clear(),
            RunState::Interrupted | RunState::Failed => {}
            RunState::Succeeded | RunState::Aborted => return self.status(&run.head.id),
        }
        run.forget();
        run.set_state(RunState::Aborted);
        *run.ended.lock() = Some(self.0.parts.clock.uptime());
        self.status(&run.head.id)
    }

    /// The result of a finished task, as JSON: its structured content, or the text of its content blocks.
    pub fn result(&self, run: &ExecutionId, task: &StepId) -> Result<Arc<Value>, RunError> {
        let finished = self.find(run)?.finished_task(task);
        finished.map(|finished| finished.result).ok_or_else(|| RunError::NoResult(run.clone(), task.clone()))
    }

    /// The newest view, by which an answer names capabilities.
    fn view(&self) -> Arc<State> {
        self.0.parts.views.current()
    }

    /// A piece of the result's text, at most `bytes_max` long, cut between characters.
    pub fn result_page(
        &self,
        run: &ExecutionId,
        task: &StepId,
        offset: usize,
        bytes_max: usize,
    ) -> Result<ResultPage, RunError> {
        let result = self.result(run, task)?;
        Ok(ResultPage::cut(&result, offset, bytes_max))
    }

    /// Interrupts all runs and waits until what they have done is recorded.
    pub(crate) async fn stop(&self) {
        self.0.stop.send_replace(true);
        let running: Vec<ExecutionId> = self.0.shelf.lock().running().collect();
        for run in running {
            // A run that is gone has ended.
            drop(self.wait(&run).await);
        }
        for run in self.0.shelf.lock().newest_first() {
            // Made while the run waits for approval.
            run.ahead.lock().clear();
        }
        let mut appends = std::mem::take(&mut *self.0.appends.lock());
        let recorded = async {
            self.0.parts.recorder.flush().await;
            while appends.join_next().await.is_some() {}
        };
        // A log that takes longer is stuck; runs that have not ended record their steps again when they are resumed.
        if tokio::time::timeout(FLUSH_WAIT, recorded).await.is_err() {
            tracing::warn!("the last steps of runs were not recorded");
        }
    }
}

/// The results of tasks that both runs have in common.
fn take_over(run: &Run, earlier: &Run) {
    let finished = earlier.finished();
    for (at, task) in run.head.workflow.tasks().iter().enumerate() {
        let known = earlier.head.workflow.tasks().iter().find(|known| known.id == task.id);
        let is_same = known.is_some_and(|known| known.tool == task.tool && known.arguments == task.arguments);
        if let Some(finished) = finished.get(&task.id).filter(|_| is_same) {
            // The journal of the earlier run will be removed.
            run.note(&Line::Finished(FinishedTask::new(&task.id, finished)));
            run.keep(at, finished.clone());
        }
    }
}

/// The names of the tools, for a run without an intent.
fn summary(workflow: &Workflow) -> String {
    let names: Vec<&str> = workflow.tasks().iter().take(8).map(|task| task.tool.as_str()).collect();
    format!("call {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::run::Finished;
    use super::*;
    use crate::core::time::Timestamp;

    fn run(id: &str) -> Run {
        let workflow = Workflow::from_json(&json!({"tasks": [{"id": "a", "tool": "fs:write", "arguments": {}}]}), 10).unwrap();
        let created = Timestamp::from_micros(1);
        let head = RunHead {
            id: id.parse().unwrap(),
            workflow,
            program: None,
            capability: None,
            intent: "x".to_owned(),
            session: None,
            agent: None,
            parent: None,
            created,
        };
        Run::new(head, RunState::Running, None)
    }

    #[test]
    fn a_run_that_goes_on_as_a_new_one_still_knows_after_a_kill_what_it_took_over() {
        let (home, task) = (TempDir::new().unwrap(), "a".parse().unwrap());
        let (earlier, later) = (run("run-1"), run("run-2"));
        let (started, ended) = (Timestamp::from_micros(2), Timestamp::from_micros(3));
        earlier.keep(0, Finished { result: Arc::new(json!("done")), started, ended, duration_ms: 1, attempts: 1 });
        let journal = Journal::create(home.path(), &later.head.id, &later.first_line()).unwrap();
        *later.journal.lock() = Some(journal);
        take_over(&later, &earlier);
        let lines = journal::read_all(home.path(), Timestamp::from_micros(0)).pop().unwrap();
        let reread = Run::from_journal(lines).unwrap();
        assert_eq!(reread.finished_task(&task).map(|finished| finished.result), Some(Arc::new(json!("done"))));
    }
}
