//! A learnt procedure as a workflow: its calls in their canonical order as tasks `t1`, `t2`, ..., its data flow as dependencies.
//!
//! Which values a call was given is not learnt, so they are asked for: a member of the given arguments goes to every call whose input
//! schema has a property of that name; a member that is named like a task or a tool holds the arguments of just that call. A required
//! property that nobody gave is taken from the result of a task that it depends on, if that tool's output schema has one of that name.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Task, Workflow, WorkflowError};
use crate::capability::Capability;
use crate::event::Json;
use crate::id::{Callee, CapabilityId, StepId, ToolId};
use crate::name;
use crate::state::State;
use crate::tool::Tool;

/// Why a capability cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    #[error("no capability is called '{0}'; `pml discover` finds them")]
    Unknown(String),
    #[error("'{name}' is the name of {count} capabilities; give the id")]
    Ambiguous { name: String, count: usize },
    #[error("capability {capability} calls the capability {called}; run that one by itself")]
    Nested { capability: CapabilityId, called: CapabilityId },
    #[error("arguments are missing: {}", describe(.0))]
    Missing(Vec<MissingArguments>),
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

fn describe(missing: &[MissingArguments]) -> String {
    let one = |missing: &MissingArguments| format!("{} of {} ({})", missing.names.join(", "), missing.task, missing.tool);
    missing.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The capability with this id, handle or name.
pub fn find<'a>(state: &'a State, text: &str) -> Result<&'a Capability, CapabilityError> {
    let unknown = || CapabilityError::Unknown(text.to_owned());
    let bare = text.strip_prefix("capability:").unwrap_or(text);
    if let Some(capability) = name::capability(state, bare) {
        return Ok(capability);
    }
    let named: Vec<&Capability> = state.capabilities.iter().filter(|capability| capability.name == text).collect();
    match named.as_slice() {
        [] | [_] => Err(unknown()),
        several => Err(CapabilityError::Ambiguous { name: text.to_owned(), count: several.len() }),
    }
}

/// The workflow that runs `capability` with `arguments`.
pub fn workflow(state: &State, capability: &Capability, arguments: &Map<String, Value>) -> Result<Workflow, CapabilityError> {
    let structure = &capability.structure;
    let mut tools: Vec<&ToolId> = Vec::with_capacity(structure.calls.len());
    for call in &structure.calls {
        match call {
            Callee::Tool(tool) => tools.push(tool),
            Callee::Capability(called) => {
                return Err(CapabilityError::Nested { capability: capability.id, called: *called });
            }
        }
    }
    let (mut tasks, mut missing) = (Vec::new(), Vec::new());
    for (at, tool) in tools.iter().enumerate() {
        let needs = || structure.flow.iter().filter(|(_, to)| usize::from(*to) == at).map(|(from, _)| usize::from(*from));
        let sources =
            needs().map(|from| (task_id(from), property_names(state.tools.get(tools[from]).and_then(Tool::output_schema))));
        let call = Call { id: task_id(at), tool, schema: parsed(state.tools.get(tool).and_then(Tool::input_schema)) };
        let (filled, names) = call.fill(arguments, &sources.collect::<Vec<_>>());
        if !names.is_empty() {
            missing.push(MissingArguments { task: call.id.clone(), tool: (*tool).clone(), names });
        }
        tasks.push(Task {
            id: call.id,
            tool: (*tool).clone(),
            arguments: filled,
            depends_on: needs().map(task_id).collect(),
            timeout_ms: None,
            retries: 0,
        });
    }
    if missing.is_empty() { Ok(Workflow::new(tasks)?) } else { Err(CapabilityError::Missing(missing)) }
}

fn task_id(at: usize) -> StepId {
    format!("t{}", at + 1).parse().expect("a letter and a number are a step id")
}

fn parsed(schema: Option<&Json>) -> Value {
    schema.and_then(|schema| serde_json::from_str(schema.as_str()).ok()).unwrap_or_default()
}

fn property_names(schema: Option<&Json>) -> BTreeSet<String> {
    parsed(schema)["properties"].as_object().map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// One call whose arguments are sought.
struct Call<'a> {
    id: StepId,
    tool: &'a ToolId,
    /// Its input schema; null if it has none.
    schema: Value,
}

impl Call<'_> {
    /// The arguments of the call, and the required ones that nothing gives.
    fn fill(&self, given: &Map<String, Value>, sources: &[(StepId, BTreeSet<String>)]) -> (Map<String, Value>, Vec<String>) {
        let mut filled = Map::new();
        for property in self.schema["properties"].as_object().into_iter().flat_map(Map::keys) {
            if let Some(value) = given.get(property) {
                filled.insert(property.clone(), value.clone());
            }
        }
        for own in [self.tool.as_str(), self.id.as_str()] {
            if let Some(Value::Object(members)) = given.get(own) {
                filled.extend(members.clone());
            }
        }
        let mut missing = Vec::new();
        for name in self.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if filled.contains_key(name) {
                continue;
            }
            match sources.iter().find(|(_, properties)| properties.contains(name)) {
                Some((task, _)) => {
                    filled.insert(name.to_owned(), Value::String(format!("$OUTPUT[{task}][{}]", Value::from(name))));
                }
                None => missing.push(name.to_owned()),
            }
        }
        (filled, missing)
    }
}
