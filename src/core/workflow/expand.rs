//! Expansion: the calls of a procedure as tasks `t1`, `t2`, ..., its data flow as dependencies. A call of another capability is replaced
//! by the calls of that one, as `t2.t1`, `t2.t2`, ...: those that begin it depend on what the call depended on, and what depended on the
//! call depends on those that end it.
//!
//! Which values a call was given is not learnt, so they are asked for: a member of the given arguments goes to every call whose input
//! schema has a property of that name; a member that is named like a task or a tool holds the arguments of just that call, one named like
//! a task that is a capability, or like the capability, those of its calls. A required property that nobody gave is taken from the result
//! of a task that it depends on: of one whose output schema has a property of that name, or, if it is the only one left, of the only one
//! whose whole output is a value of its type.

use serde_json::{Map, Value};

use super::{Task, WorkflowError};
use crate::capability::Structure;
use crate::event::Json;
use crate::id::{Callee, CapabilityId, StepId, ToolId};
use crate::state::State;
use crate::tool::Tool;

/// How deep capabilities may call each other.
pub const DEPTH_MAX: usize = 8;

/// Why a procedure cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    #[error("the capability {0} is called, and what it does is not known")]
    UnknownCapability(CapabilityId),
    #[error("the capability {0} calls itself")]
    Cycle(CapabilityId),
    #[error("capabilities call each other more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
}

/// Required arguments of one call that nothing gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingArguments {
    pub task: StepId,
    pub tool: ToolId,
    pub names: Vec<String>,
}

/// The tasks of a procedure, and what they lack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub tasks: Vec<Task>,
    pub missing: Vec<MissingArguments>,
}

/// Expands a procedure into at most `tasks_max` tasks.
pub fn expand(
    state: &State,
    procedure: &Structure,
    given: &Map<String, Value>,
    tasks_max: usize,
) -> Result<Draft, ExpandError> {
    let mut count = 0;
    check(state, procedure, &mut Vec::new(), &mut count, tasks_max)?;
    let mut expansion = Expansion { state, draft: Draft::default() };
    expansion.add(procedure, "", given, &[])?;
    Ok(expansion.draft)
}

/// Fails if the procedure has too many calls, or one that cannot be expanded. `entered` are the capabilities on the way here.
fn check(
    state: &State,
    procedure: &Structure,
    entered: &mut Vec<CapabilityId>,
    count: &mut usize,
    tasks_max: usize,
) -> Result<(), ExpandError> {
    for call in &procedure.calls {
        let Callee::Capability(id) = call else {
            *count += 1;
            if *count > tasks_max {
                return Err(WorkflowError::TooManyTasks { count: *count, max: tasks_max }.into());
            }
            continue;
        };
        if entered.contains(id) {
            return Err(ExpandError::Cycle(*id));
        }
        if entered.len() == DEPTH_MAX {
            return Err(ExpandError::TooDeep);
        }
        entered.push(*id);
        check(state, structure(state, *id)?, entered, count, tasks_max)?;
        entered.pop();
    }
    Ok(())
}

fn structure(state: &State, id: CapabilityId) -> Result<&Structure, ExpandError> {
    let known = state.capabilities.get(id).map(|capability| &*capability.structure);
    known.filter(|structure| !structure.calls.is_empty()).ok_or(ExpandError::UnknownCapability(id))
}

/// The call at a position as a task: `t1` for the first.
fn task_name(prefix: &str, at: usize) -> String {
    format!("{prefix}t{}", at + 1)
}

fn step_id(name: &str) -> Result<StepId, ExpandError> {
    let invalid = |problem| WorkflowError::Malformed(format!("task '{name}': {problem}"));
    Ok(name.parse().map_err(invalid)?)
}

struct Expansion<'a> {
    state: &'a State,
    draft: Draft,
}

impl Expansion<'_> {
    /// Adds the calls of a procedure. Those that depend on no other call of it depend on `before`.
    fn add(
        &mut self,
        procedure: &Structure,
        prefix: &str,
        given: &Map<String, Value>,
        before: &[(StepId, ToolId)],
    ) -> Result<(), ExpandError> {
        for (at, call) in procedure.calls.iter().enumerate() {
            let name = task_name(prefix, at);
            let mut feeding: Vec<(StepId, ToolId)> = Vec::new();
            for (from, _) in procedure.flow.iter().filter(|(_, to)| usize::from(*to) == at) {
                self.ends(procedure, prefix, usize::from(*from), &mut feeding)?;
            }
            let feeding = if feeding.is_empty() { before } else { feeding.as_slice() };
            match call {
                Callee::Tool(tool) => self.add_call(step_id(&name)?, tool, given, feeding),
                Callee::Capability(id) => {
                    let mut inner = given.clone();
                    inner.extend(own_members(given, &[&call.text(), &name]));
                    self.add(structure(self.state, *id)?, &format!("{name}."), &inner, feeding)?;
                }
            }
        }
        Ok(())
    }

    fn add_call(&mut self, id: StepId, tool: &ToolId, given: &Map<String, Value>, feeding: &[(StepId, ToolId)]) {
        let output = |tool: &ToolId| parsed(self.state.tools.get(tool).and_then(Tool::output_schema));
        let sources: Vec<(&StepId, Value)> = feeding.iter().map(|(task, tool)| (task, output(tool))).collect();
        let schema = parsed(self.state.tools.get(tool).and_then(Tool::input_schema));
        let own = own_members(given, &[tool.as_str(), id.as_str()]);
        let (arguments, names) = fill(&schema, given, own, &sources);
        if !names.is_empty() {
            self.draft.missing.push(MissingArguments { task: id.clone(), tool: tool.clone(), names });
        }
        let depends_on = feeding.iter().map(|(task, _)| task.clone()).collect();
        let task = Task { id, tool: tool.clone(), arguments, depends_on, timeout_ms: None, retries: 0 };
        self.draft.tasks.push(task);
    }

    /// The tasks whose results are those of a call: its own, or those of the calls of a capability on which no other of its calls depends.
    fn ends(
        &self,
        procedure: &Structure,
        prefix: &str,
        at: usize,
        found: &mut Vec<(StepId, ToolId)>,
    ) -> Result<(), ExpandError> {
        let name = task_name(prefix, at);
        match &procedure.calls[at] {
            Callee::Tool(tool) => found.push((step_id(&name)?, tool.clone())),
            Callee::Capability(id) => {
                let inner = structure(self.state, *id)?;
                for last in (0..inner.calls.len()).filter(|call| inner.flow.iter().all(|(from, _)| usize::from(*from) != *call))
                {
                    self.ends(inner, &format!("{name}."), last, found)?;
                }
            }
        }
        Ok(())
    }
}

/// The members of the given arguments that are meant for one call: those of the objects with these names.
fn own_members(given: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let objects = names.iter().filter_map(|name| given.get(*name).and_then(Value::as_object));
    objects.flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The arguments of a call with this input schema, and the required ones that nothing gives. `own` are meant for this call; `sources` are
/// the tasks that it depends on, with their output schemas.
fn fill(
    schema: &Value,
    given: &Map<String, Value>,
    own: Map<String, Value>,
    sources: &[(&StepId, Value)],
) -> (Map<String, Value>, Vec<String>) {
    let properties = schema["properties"].as_object();
    let named = properties.into_iter().flatten().filter_map(|(name, _)| Some((name.clone(), given.get(name)?.clone())));
    let mut filled: Map<String, Value> = named.collect();
    filled.extend(own);
    let (mut missing, mut used) = (Vec::new(), Vec::new());
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if filled.contains_key(name) {
            continue;
        }
        match sources.iter().position(|(_, output)| output["properties"].get(name).is_some()) {
            Some(source) => {
                let reference = format!("$OUTPUT[{}][{}]", sources[source].0, Value::from(name));
                filled.insert(name.to_owned(), Value::String(reference));
                used.push(source);
            }
            None => missing.push(name.to_owned()),
        }
    }
    if let [name] = missing.as_slice() {
        let wanted = scalar_type(&schema["properties"][name]);
        let fits = |(at, (_, output)): &(usize, &(&StepId, Value))| {
            !used.contains(at) && wanted.is_some() && scalar_type(output) == wanted
        };
        let mut fitting = sources.iter().enumerate().filter(fits);
        if let (Some((_, (task, _))), None) = (fitting.next(), fitting.next()) {
            filled.insert(name.clone(), Value::String(format!("$OUTPUT[{task}]")));
            missing.clear();
        }
    }
    (filled, missing)
}

/// The type of a schema that describes a single value.
fn scalar_type(schema: &Value) -> Option<&str> {
    schema["type"].as_str().filter(|name| matches!(*name, "string" | "integer" | "number" | "boolean"))
}

fn parsed(schema: Option<&Json>) -> Value {
    schema.and_then(|schema| serde_json::from_str(schema.as_str()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{Event, ToolOutputInferred, ToolRegistered};
    use crate::given::History;

    fn history() -> History {
        let mut history = History::new("tool fs:find folder\ntool fs:read path\ntool x:y z");
        let text = json!({"type": "string"});
        let input = json!({"type": "object", "properties": {"text": text, "to": text}, "required": ["text", "to"]});
        history.apply(Event::ToolRegistered(ToolRegistered {
            tool: "net:send".parse().unwrap(),
            name: "send".to_owned(),
            description: String::new(),
            input_schema: Some(Json::from_valid(input.to_string())),
            output_schema: None,
            annotations: None,
        }));
        for (tool, schema) in [
            ("fs:find", json!({"type": "object", "properties": {"path": {"type": "string"}}})),
            ("fs:read", json!({"type": "string"})),
        ] {
            let output_schema = Json::from_valid(schema.to_string());
            let tool = tool.parse().unwrap();
            history.apply(Event::ToolOutputInferred(ToolOutputInferred { tool, output_schema }));
        }
        history
    }

    fn procedure(calls: &[&str], flow: &[(u16, u16)]) -> Structure {
        Structure { calls: calls.iter().map(|call| call.parse().unwrap()).collect(), flow: flow.to_vec() }
    }

    /// The tasks as id, tool, arguments and dependencies.
    fn shown(draft: &Draft) -> Vec<(String, String, Value, Vec<String>)> {
        let ids = |ids: &[StepId]| ids.iter().map(ToString::to_string).collect();
        let task = |task: &Task| (task.id.to_string(), task.tool.to_string(), json!(task.arguments), ids(&task.depends_on));
        draft.tasks.iter().map(task).collect()
    }

    fn given(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn values_come_from_the_caller_by_name_and_from_results_by_name_or_type() {
        let history = history();
        let procedure = procedure(&["fs:find", "fs:read", "net:send"], &[(0, 1), (1, 2)]);
        let draft = expand(&history.state, &procedure, &given(json!({"folder": "/srv", "net:send": {"to": "anna"}})), 9);
        let draft = draft.unwrap();
        assert_eq!(draft.missing, []);
        let task = |id: &str, tool: &str, arguments: Value, on: &[&str]| {
            (id.to_owned(), tool.to_owned(), arguments, on.iter().map(|on| (*on).to_owned()).collect())
        };
        let expected: [(String, String, Value, Vec<String>); 3] = [
            task("t1", "fs:find", json!({"folder": "/srv"}), &[]),
            task("t2", "fs:read", json!({"path": "$OUTPUT[t1][\"path\"]"}), &["t1"]),
            task("t3", "net:send", json!({"to": "anna", "text": "$OUTPUT[t2]"}), &["t2"]),
        ];
        assert_eq!(shown(&draft), expected);
    }

    #[test]
    fn what_nothing_gives_is_missing() {
        let history = history();
        let draft = expand(&history.state, &procedure(&["fs:read", "net:send"], &[]), &Map::new(), 9).unwrap();
        let missing: Vec<(String, Vec<String>)> =
            draft.missing.into_iter().map(|missing| (missing.task.to_string(), missing.names)).collect();
        assert_eq!(missing, [("t1".to_owned(), vec!["path".to_owned()]), ("t2".to_owned(), vec!["text".into(), "to".into()])]);
    }

    #[test]
    fn a_capability_that_is_called_is_replaced_by_its_calls() {
        let mut history = history();
        history.line("run ok find and read: fs:find, fs:read < fs:find");
        let inner = history.state.capabilities.at(0).id;
        let outer = procedure(&["x:y", &format!("capability:{inner}"), "net:send"], &[(0, 1), (1, 2)]);
        let arguments = json!({"z": 1, "t2": {"folder": "/srv"}, "to": "anna"});
        let draft = expand(&history.state, &outer, &given(arguments), 9).unwrap();
        assert_eq!(draft.missing, []);
        let shown: Vec<(String, String, Vec<String>)> =
            shown(&draft).into_iter().map(|(id, tool, _, on)| (id, tool, on)).collect();
        let task = |id: &str, tool: &str, on: &[&str]| {
            (id.to_owned(), tool.to_owned(), on.iter().map(|on| (*on).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            shown,
            [
                task("t1", "x:y", &[]),
                task("t2.t1", "fs:find", &["t1"]),
                task("t2.t2", "fs:read", &["t2.t1"]),
                task("t3", "net:send", &["t2.t2"]),
            ]
        );
        assert_eq!(draft.tasks[3].arguments["text"], "$OUTPUT[t2.t2]");
    }

    #[test]
    fn depth_and_number_of_calls_are_bounded_and_unknown_capabilities_refused() {
        let mut history = history();
        history.line("declare level0: fs:read");
        for level in 1..=DEPTH_MAX {
            history.line(&format!("declare level{level}: [level{}]", level - 1));
        }
        let named = |name: &str| {
            let capability = history.state.capabilities.iter().find(|capability| capability.name == name);
            format!("capability:{}", capability.unwrap().id)
        };
        let (nested, first) = (named(&format!("level{DEPTH_MAX}")), named("level0"));
        let expanded = |calls: &[&str], max| expand(&history.state, &procedure(calls, &[]), &Map::new(), max);
        assert_eq!(expanded(&[&nested], 9), Err(ExpandError::TooDeep));
        assert_eq!(expanded(&[&first, &first, "fs:read"], 2), Err(WorkflowError::TooManyTasks { count: 3, max: 2 }.into()));
        let unknown: CapabilityId = "00112233445566778899aabbccddeeff".parse().unwrap();
        assert_eq!(expanded(&[&format!("capability:{unknown}")], 9), Err(ExpandError::UnknownCapability(unknown)));
    }
}
