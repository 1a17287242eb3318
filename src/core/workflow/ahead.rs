//! Speculation in a run: the tasks that may be called before their turn. Such a task only reads, needs no result that is not there yet,
//! and waits for nothing that could change what it reads.

use super::progress::{Phase, Progress};
use super::{Workflow, reference};
use crate::id::ToolId;

/// The waiting tasks that may be called now, whether their turn has come or not. O(tasks x dependencies).
pub fn callable_ahead(workflow: &Workflow, progress: &Progress, only_reads: impl Fn(&ToolId) -> bool) -> Vec<usize> {
    let harmless: Vec<bool> = workflow.tasks().iter().map(|task| only_reads(&task.tool)).collect();
    let may_be_called = |at: &usize| {
        progress.phase(*at) == Phase::Waiting
            && harmless[*at]
            && has_its_values(workflow, progress, *at)
            && waits_for_nothing_else(workflow, progress, *at, &harmless)
    };
    (0..workflow.tasks().len()).filter(may_be_called).collect()
}

/// Whether every task that the arguments refer to has succeeded.
fn has_its_values(workflow: &Workflow, progress: &Progress, at: usize) -> bool {
    let tasks = workflow.tasks();
    let Ok(referred) = reference::tasks_in(&tasks[at].arguments) else { return false };
    let succeeded = |on: &&usize| progress.phase(**on) == Phase::Succeeded;
    let ready: Vec<&str> = workflow.needs(at).iter().filter(succeeded).map(|on| tasks[*on].id.as_str()).collect();
    referred.iter().all(|name| ready.contains(&name.as_str()))
}

/// Whether all that has to end before the task only reads too.
fn waits_for_nothing_else(workflow: &Workflow, progress: &Progress, at: usize, harmless: &[bool]) -> bool {
    let (mut seen, mut waiting) = (vec![false; workflow.tasks().len()], workflow.needs(at).to_vec());
    while let Some(on) = waiting.pop() {
        if progress.phase(on) == Phase::Succeeded || std::mem::replace(&mut seen[on], true) {
            continue;
        }
        if !harmless[on] {
            return false;
        }
        waiting.extend(workflow.needs(on));
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_reading_tasks_that_wait_for_reading_tasks_are_called_ahead() {
        let task = |id: &str, tool: &str, on: &[&str], text: &str| json!({"id": id, "tool": tool, "depends_on": on, "arguments": {"x": text}});
        let tasks = json!({"tasks": [
            task("slow", "r:slow", &[], ""),
            task("after", "r:get", &["slow"], ""),
            task("needs", "r:get", &["slow"], "$OUTPUT[slow]"),
            task("write", "w:put", &["slow"], ""),
            task("reread", "r:get", &["write"], ""),
            task("far", "r:get", &["after"], ""),
        ]});
        let workflow = Workflow::from_json(&tasks, 9).unwrap();
        let mut progress = Progress::new(&workflow);
        let only_reads = |tool: &ToolId| tool.server() == "r";
        let names = |progress: &Progress| -> Vec<&str> {
            let found = callable_ahead(&workflow, progress, only_reads);
            found.into_iter().map(|at| workflow.tasks()[at].id.as_str()).collect()
        };
        assert_eq!(names(&progress), ["slow", "after", "far"]);
        progress.start(0);
        assert_eq!(names(&progress), ["after", "far"]);
        progress.succeed(0);
        assert_eq!(names(&progress), ["after", "needs", "far"]);
        progress.succeed(3);
        assert_eq!(names(&progress), ["after", "needs", "reread", "far"]);
    }
}
