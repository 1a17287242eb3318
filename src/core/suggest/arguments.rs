//! The arguments of a task: the parameters of its tool, and which of them an earlier task of the plan can fill.

use crate::event::Json;
use crate::event::input_schema::{Parameter, parameters};
use crate::graph::{Node, NodeKind};
use crate::state::State;

/// A parameter of a task's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub required: bool,
    /// The value type by the schema, if it names one.
    pub value_type: Option<String>,
    /// The position of the task whose output has a property of this name; `None` if the caller has to supply the value.
    pub fed_by: Option<usize>,
}

/// The arguments of a tool. `feeding` are the tasks that the task depends on, by position, the one that fed it most often first.
pub(super) fn arguments(state: &State, tool: Node, feeding: &[(usize, Node)]) -> Vec<Argument> {
    let outputs: Vec<(usize, Vec<Parameter>)> =
        feeding.iter().map(|(task, node)| (*task, schema(state, *node, false).map(parameters).unwrap_or_default())).collect();
    let fed_by = |name: &str| {
        let has = |properties: &[Parameter]| properties.iter().any(|property| property.name == name);
        outputs.iter().find(|(_, properties)| has(properties)).map(|(task, _)| *task)
    };
    let inputs = schema(state, tool, true).map(parameters).unwrap_or_default();
    let argument = |parameter: Parameter| Argument {
        fed_by: fed_by(&parameter.name),
        name: parameter.name,
        required: parameter.required,
        value_type: parameter.value_type,
    };
    inputs.into_iter().map(argument).collect()
}

fn schema(state: &State, node: Node, input: bool) -> Option<&Json> {
    let NodeKind::Tool(position) = node.kind() else { return None };
    let registration = state.tools.at(position).registration.as_ref()?;
    if input { registration.input_schema.as_ref() } else { registration.output_schema.as_ref() }
}
