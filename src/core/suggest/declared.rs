//! What tools declare about the values they take and give: names of properties, and kinds where a schema lists them.

use std::collections::BTreeSet;

use crate::event::input_schema::{kinds, parameters};
use crate::event::{Json, ToolRegistered};
use crate::graph::{Node, NodeKind};
use crate::state::State;

/// By pair of nodes: whether the first declares an output of a name or kind that the second declares as an input.
pub(super) fn fits(state: &State, nodes: &[Node]) -> Vec<bool> {
    let declared: Vec<Declared> =
        nodes.iter().map(|node| registration(state, *node).map(Declared::new).unwrap_or_default()).collect();
    declared.iter().flat_map(|from| declared.iter().map(|to| !from.outputs.is_disjoint(&to.inputs))).collect()
}

/// The registration of a tool; `None` for a capability and for a tool that was called before it was registered.
pub(super) fn registration(state: &State, node: Node) -> Option<&ToolRegistered> {
    match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).registration.as_deref(),
        NodeKind::Capability(_) => None,
    }
}

#[derive(Default)]
struct Declared {
    inputs: BTreeSet<String>,
    outputs: BTreeSet<String>,
}

impl Declared {
    fn new(registration: &ToolRegistered) -> Self {
        let schemas = || registration.input_schema.iter().chain(&registration.output_schema);
        let listed = |field: &str| schemas().flat_map(|schema| kinds(schema, field)).collect::<Vec<_>>();
        let names =
            |schema: &Option<Json>| schema.iter().flat_map(parameters).map(|parameter| parameter.name).collect::<Vec<_>>();
        Self {
            inputs: listed("input_types").into_iter().chain(names(&registration.input_schema)).collect(),
            outputs: listed("output_types").into_iter().chain(names(&registration.output_schema)).collect(),
        }
    }
}
