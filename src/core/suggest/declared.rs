//! What is known about the values that tools take and give: names of properties, by their schemas or inferred from what they answered,
//! and kinds where a schema lists them.

use std::collections::BTreeSet;

use crate::event::Json;
use crate::event::input_schema::{kinds, parameters};
use crate::graph::{Node, NodeKind};
use crate::state::State;
use crate::tool::Tool;

/// By pair of nodes: whether the first declares an output of a name or kind that the second declares as an input.
pub(super) fn fits(state: &State, nodes: &[Node]) -> Vec<bool> {
    let declared: Vec<Declared> = nodes.iter().map(|node| tool(state, *node).map(Declared::new).unwrap_or_default()).collect();
    declared.iter().flat_map(|from| declared.iter().map(|to| !from.outputs.is_disjoint(&to.inputs))).collect()
}

/// The tool at a node; `None` for a capability.
pub(super) fn tool(state: &State, node: Node) -> Option<&Tool> {
    match node.kind() {
        NodeKind::Tool(position) => Some(state.tools.at(position)),
        NodeKind::Capability(_) => None,
    }
}

#[derive(Default)]
struct Declared {
    inputs: BTreeSet<String>,
    outputs: BTreeSet<String>,
}

impl Declared {
    fn new(tool: &Tool) -> Self {
        let (input, output) = (tool.input_schema(), tool.output_schema());
        let listed = |field: &str| input.into_iter().chain(output).flat_map(|schema| kinds(schema, field)).collect::<Vec<_>>();
        let names =
            |schema: Option<&Json>| schema.into_iter().flat_map(parameters).map(|parameter| parameter.name).collect::<Vec<_>>();
        Self {
            inputs: listed("input_types").into_iter().chain(names(input)).collect(),
            outputs: listed("output_types").into_iter().chain(names(output)).collect(),
        }
    }
}
