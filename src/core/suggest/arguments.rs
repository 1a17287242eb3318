//! The arguments of a task: the parameters of its tool, and which of them an earlier task of the plan can fill.

use super::declared::tool;
use crate::event::Json;
use crate::event::input_schema::{Parameter, parameters};
use crate::graph::Node;
use crate::state::State;

/// A parameter of a task's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub required: bool,
    /// The value type by the schema, if it names one.
    pub value_type: Option<String>,
    /// The position of the task that supplies the value: its output has a property of this name, or it fed this tool in past runs and
    /// no other required parameter can have taken its output. `None` if the caller has to supply the value.
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
    let mut arguments: Vec<Argument> = inputs.into_iter().map(argument).collect();
    let unused = feeding.iter().map(|(task, _)| *task).find(|task| arguments.iter().all(|it| it.fed_by != Some(*task)));
    let mut open = arguments.iter_mut().filter(|argument| argument.required && argument.fed_by.is_none());
    if let (Some(argument), None) = (open.next(), open.next()) {
        argument.fed_by = unused;
    }
    arguments
}

fn schema(state: &State, node: Node, input: bool) -> Option<&Json> {
    let tool = tool(state, node)?;
    if input { tool.input_schema() } else { tool.output_schema() }
}
