//! Workflows: tasks that call tools, with dependencies between them. A workflow that was built is valid: its ids are unique, its
//! references and dependencies name its tasks, and it has no cycle.
//!
//! Arguments may refer to results of other tasks (`reference`); `progress` says which tasks can run, `ahead` which may be called before
//! their turn; `capability` makes a workflow of a learnt procedure or a suggested plan, whose calls `expand` turns into tasks. Calling the
//! tools is somebody else's work.

pub mod ahead;
pub mod capability;
pub mod expand;
pub mod progress;
pub mod reference;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::graph::cycle;
use super::id::{StepId, ToolId};

/// Most attempts to repeat a failed call that a task may ask for.
pub const RETRIES_MAX: u32 = 10;

/// Why a text is no workflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkflowError {
    #[error("workflow: {0}")]
    Malformed(String),
    #[error("workflow: has no tasks")]
    Empty,
    #[error("workflow: has {count} tasks, the limit is {max} (limits.steps_max)")]
    TooManyTasks { count: usize, max: usize },
    #[error("task {position}: {field} {problem}")]
    Invalid { position: usize, field: &'static str, problem: String },
    #[error("task '{0}': another task has the same id")]
    Duplicate(StepId),
    #[error("task '{task}': depends on '{on}', which is no task of the workflow")]
    UnknownDependency { task: StepId, on: String },
    #[error("task '{task}': {problem}")]
    Reference { task: StepId, problem: String },
    #[error("the dependencies form a cycle: {0}")]
    Cycle(String),
}

/// One call of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: StepId,
    pub tool: ToolId,
    pub arguments: Map<String, Value>,
    /// Tasks that must have succeeded before: the given ones and those that the arguments refer to, in this order.
    pub depends_on: Vec<StepId>,
    pub timeout_ms: Option<u64>,
    /// How often a failed call is repeated.
    pub retries: u32,
}

/// A valid workflow. The default has no tasks: those of a program are known only when it makes its calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workflow {
    tasks: Vec<Task>,
    /// The positions of each task's dependencies.
    needs: Vec<Vec<usize>>,
}

/// A task as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTask {
    id: String,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default, alias = "dependsOn")]
    depends_on: Vec<String>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    retries: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWorkflow {
    tasks: Vec<WrittenTask>,
}

impl Workflow {
    /// Reads `{"tasks": [...]}`.
    pub fn from_json(json: &Value, tasks_max: usize) -> Result<Self, WorkflowError> {
        let written = WrittenWorkflow::deserialize(json).map_err(|error| WorkflowError::Malformed(error.to_string()))?;
        if written.tasks.len() > tasks_max {
            return Err(WorkflowError::TooManyTasks { count: written.tasks.len(), max: tasks_max });
        }
        Self::new(written.tasks.into_iter().enumerate().map(parse_task).collect::<Result<_, _>>()?)
    }

    /// Checks the tasks and adds the dependencies that their arguments imply.
    pub fn new(mut tasks: Vec<Task>) -> Result<Self, WorkflowError> {
        if tasks.is_empty() {
            return Err(WorkflowError::Empty);
        }
        let mut positions: BTreeMap<StepId, usize> = BTreeMap::new();
        for (position, task) in tasks.iter().enumerate() {
            if positions.insert(task.id.clone(), position).is_some() {
                return Err(WorkflowError::Duplicate(task.id.clone()));
            }
        }
        let mut needs = Vec::with_capacity(tasks.len());
        for task in &mut tasks {
            add_implied_dependencies(task, &positions)?;
            let position = |on: &StepId| {
                let unknown = || WorkflowError::UnknownDependency { task: task.id.clone(), on: on.to_string() };
                positions.get(on).copied().ok_or_else(unknown)
            };
            needs.push(task.depends_on.iter().map(position).collect::<Result<Vec<usize>, _>>()?);
        }
        let edges = needs.iter().enumerate().flat_map(|(task, needs)| needs.iter().map(move |on| (*on, task)));
        if let Some(path) = cycle::find(edges) {
            let path: Vec<&str> = path.into_iter().map(|position| tasks[position].id.as_str()).collect();
            return Err(WorkflowError::Cycle(path.join(" -> ")));
        }
        Ok(Self { tasks, needs })
    }

    /// The tasks, in the order in which they were written.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The positions of the tasks on which the task at `position` depends.
    pub fn needs(&self, position: usize) -> &[usize] {
        &self.needs[position]
    }

    /// The positions of the tasks by layer: each task stands in the first layer after those of its dependencies.
    pub fn layers(&self) -> Vec<Vec<usize>> {
        let mut layers: Vec<Vec<usize>> = Vec::new();
        let mut placed: BTreeSet<usize> = BTreeSet::new();
        while placed.len() < self.tasks.len() {
            let ready = |task: &usize| !placed.contains(task) && self.needs[*task].iter().all(|on| placed.contains(on));
            let layer: Vec<usize> = (0..self.tasks.len()).filter(ready).collect();
            placed.extend(&layer);
            layers.push(layer);
        }
        layers
    }

    /// The workflow as it is written, with all dependencies.
    pub fn to_json(&self) -> Value {
        serde_json::json!({"tasks": Self::tasks_json(&self.tasks)})
    }

    /// Tasks as they are written.
    pub fn tasks_json(tasks: &[Task]) -> Value {
        let task = |task: &Task| {
            serde_json::json!({
                "id": task.id.as_str(),
                "tool": task.tool.as_str(),
                "arguments": task.arguments,
                "depends_on": task.depends_on.iter().map(StepId::as_str).collect::<Vec<_>>(),
                "timeout_ms": task.timeout_ms,
                "retries": task.retries,
            })
        };
        tasks.iter().map(task).collect()
    }
}

fn parse_task((position, written): (usize, WrittenTask)) -> Result<Task, WorkflowError> {
    let position = position + 1;
    let invalid = |field, problem: String| WorkflowError::Invalid { position, field, problem };
    if written.retries > RETRIES_MAX {
        return Err(invalid("retries", format!("is {}, the limit is {RETRIES_MAX}", written.retries)));
    }
    let id = |field, text: &str| text.parse().map_err(|problem| invalid(field, format!("'{text}' {problem}")));
    Ok(Task {
        id: id("id", &written.id)?,
        tool: written.tool.parse().map_err(|problem| invalid("tool", format!("{problem}")))?,
        arguments: written.arguments,
        depends_on: written.depends_on.iter().map(|on| id("depends_on", on)).collect::<Result<_, _>>()?,
        timeout_ms: written.timeout_ms,
        retries: written.retries,
    })
}

/// Removes repeated dependencies of `task` and adds the tasks that its arguments refer to.
fn add_implied_dependencies(task: &mut Task, positions: &BTreeMap<StepId, usize>) -> Result<(), WorkflowError> {
    let malformed = |problem| WorkflowError::Reference { task: task.id.clone(), problem };
    let mut seen = BTreeSet::new();
    task.depends_on.retain(|on| seen.insert(on.clone()));
    for referred in reference::tasks_in(&task.arguments).map_err(malformed)? {
        let on = positions.keys().find(|id| id.as_str() == referred);
        let on = on.ok_or_else(|| WorkflowError::UnknownDependency { task: task.id.clone(), on: referred.clone() })?;
        if seen.insert(on.clone()) {
            task.depends_on.push(on.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(tasks: Value, expected: Result<Vec<Vec<&str>>, &str>) {
        let workflow = Workflow::from_json(&json!({ "tasks": tasks }), 4);
        let layers = workflow.map(|workflow| {
            let names = |layer: Vec<usize>| layer.into_iter().map(|at| workflow.tasks[at].id.to_string()).collect::<Vec<_>>();
            workflow.layers().into_iter().map(names).collect::<Vec<_>>()
        });
        let expected = expected.map(|layers| {
            layers.into_iter().map(|layer| layer.into_iter().map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
        });
        assert_eq!(layers.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    fn task(id: &str, depends_on: &[&str]) -> Value {
        json!({"id": id, "tool": "s:t", "depends_on": depends_on})
    }

    #[test]
    fn tasks_stand_in_the_first_layer_after_their_dependencies() {
        check(
            json!([task("a", &[]), task("c", &["a", "b"]), task("b", &["a"]), task("d", &["a", "a"])]),
            Ok(vec![vec!["a"], vec!["b", "d"], vec!["c"]]),
        );
    }

    #[test]
    fn a_reference_in_the_arguments_is_a_dependency() {
        let user = json!({"id": "b", "tool": "s:t", "arguments": {"x": [{"y": "see $OUTPUT[a].z"}]}});
        check(json!([user, task("a", &[])]), Ok(vec![vec!["a"], vec!["b"]]));
    }

    #[test]
    fn errors_name_the_task_and_a_cycle_its_path() {
        check(json!([]), Err("workflow: has no tasks"));
        check(json!([task("a", &["b"]), task("b", &["a"])]), Err("the dependencies form a cycle: a -> b -> a"));
        check(json!([task("a", &["a"])]), Err("the dependencies form a cycle: a -> a"));
        check(json!([task("a", &[]), task("a", &[])]), Err("task 'a': another task has the same id"));
        check(json!([task("a", &["x"])]), Err("task 'a': depends on 'x', which is no task of the workflow"));
        check(json!([{"id": "a", "tool": "t"}]), Err("task 1: tool 't' names no server; write server:name"));
        check(
            json!([{"id": "a b", "tool": "s:t"}]),
            Err("task 1: id 'a b' contains ' '; ids are printable ASCII without spaces"),
        );
        check(json!([{"id": "a", "tool": "s:t", "retries": 99}]), Err("task 1: retries is 99, the limit is 10"));
        check(
            json!([{"id": "a", "tool": "s:t", "arguments": {"x": "$OUTPUT[b]"}}]),
            Err("task 'a': depends on 'b', which is no task of the workflow"),
        );
        check(
            json!(["a", "b", "c", "d", "e"].map(|id| task(id, &[]))),
            Err("workflow: has 5 tasks, the limit is 4 (limits.steps_max)"),
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let tasks =
            json!({"tasks": [task("a", &[]), {"id": "b", "tool": "s:t", "arguments": {"x": "$OUTPUT[a]"}, "retries": 2}]});
        let workflow = Workflow::from_json(&tasks, 9).unwrap();
        assert_eq!(Workflow::from_json(&workflow.to_json(), 9), Ok(workflow));
    }
}
