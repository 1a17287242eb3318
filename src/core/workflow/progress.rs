//! The progress of a run: which tasks have ended, which may begin, and which cannot run any more.

use super::Workflow;

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Running,
    Succeeded,
    Failed,
    /// It will not run: a task that it depends on did not succeed.
    Skipped,
}

/// The phase of every task of a workflow, by position.
#[derive(Clone, Debug)]
pub struct Progress(Vec<Phase>);

impl Progress {
    pub fn new(workflow: &Workflow) -> Self {
        Self(vec![Phase::Waiting; workflow.tasks().len()])
    }

    pub fn phase(&self, task: usize) -> Phase {
        self.0[task]
    }

    /// The waiting tasks whose dependencies have all succeeded. O(tasks + dependencies).
    pub fn ready(&self, workflow: &Workflow) -> Vec<usize> {
        let succeeded = |on: &usize| self.0[*on] == Phase::Succeeded;
        let is_ready = |task: &usize| self.0[*task] == Phase::Waiting && workflow.needs(*task).iter().all(succeeded);
        (0..self.0.len()).filter(is_ready).collect()
    }

    /// A task was started.
    pub fn start(&mut self, task: usize) {
        self.0[task] = Phase::Running;
    }

    pub fn succeed(&mut self, task: usize) {
        self.0[task] = Phase::Succeeded;
    }

    /// A task failed; everything that depends on it, directly or not, is skipped.
    pub fn fail(&mut self, task: usize, workflow: &Workflow) {
        self.0[task] = Phase::Failed;
        let mut changed = true;
        while changed {
            changed = false;
            for at in 0..self.0.len() {
                let lost = |on: &usize| matches!(self.0[*on], Phase::Failed | Phase::Skipped);
                if self.0[at] == Phase::Waiting && workflow.needs(at).iter().any(lost) {
                    self.0[at] = Phase::Skipped;
                    changed = true;
                }
            }
        }
    }

    /// Nothing more is started: what waits is skipped, what runs has failed.
    pub fn end(&mut self) {
        for phase in &mut self.0 {
            match phase {
                Phase::Waiting => *phase = Phase::Skipped,
                Phase::Running => *phase = Phase::Failed,
                Phase::Succeeded | Phase::Failed | Phase::Skipped => {}
            }
        }
    }

    /// Whether no task waits or runs.
    pub fn has_ended(&self) -> bool {
        !self.0.iter().any(|phase| matches!(phase, Phase::Waiting | Phase::Running))
    }

    /// Whether every task succeeded.
    pub fn is_success(&self) -> bool {
        self.0.iter().all(|phase| *phase == Phase::Succeeded)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// a -> b -> c, and d alone.
    fn chain_and_one() -> Workflow {
        let task = |id: &str, on: &[&str]| json!({"id": id, "tool": "s:t", "depends_on": on});
        Workflow::from_json(&json!({"tasks": [task("a", &[]), task("b", &["a"]), task("c", &["b"]), task("d", &[])]}), 9)
            .unwrap()
    }

    #[test]
    fn a_task_is_ready_when_its_dependencies_have_succeeded() {
        let workflow = chain_and_one();
        let mut progress = Progress::new(&workflow);
        assert_eq!(progress.ready(&workflow), [0, 3]);
        progress.start(0);
        assert_eq!(progress.ready(&workflow), [3]);
        progress.succeed(0);
        assert_eq!(progress.ready(&workflow), [1, 3]);
    }

    #[test]
    fn a_failure_skips_what_depends_on_it_and_nothing_else() {
        let workflow = chain_and_one();
        let mut progress = Progress::new(&workflow);
        progress.fail(0, &workflow);
        assert_eq!((1..4).map(|at| progress.phase(at)).collect::<Vec<_>>(), [Phase::Skipped, Phase::Skipped, Phase::Waiting]);
        assert!(!progress.has_ended());
        progress.succeed(3);
        assert!(progress.has_ended() && !progress.is_success());
    }

    #[test]
    fn an_ended_run_starts_nothing_more() {
        let workflow = chain_and_one();
        let mut progress = Progress::new(&workflow);
        progress.succeed(0);
        progress.start(1);
        progress.end();
        assert!(progress.has_ended() && progress.ready(&workflow).is_empty());
        assert_eq!((progress.phase(0), progress.phase(1)), (Phase::Succeeded, Phase::Failed));
    }
}
