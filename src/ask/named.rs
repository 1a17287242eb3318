//! `discover` by name: tools and capabilities whose id or name is given, or matches a pattern.

use std::collections::BTreeMap;

use super::DiscoverAnswer;
use crate::core::glob;
use crate::core::graph::measures::Measures;
use crate::core::graph::{Node, NodeKind};
use crate::core::id::Callee;
use crate::core::name::resolve;
use crate::core::rank::blend::SIGNALS;
use crate::core::rank::discover::{DiscoverOptions, Discovery, Hit, ItemFilter};
use crate::core::rank::reliability;
use crate::core::state::State;

/// Returns the items named `name`, the most used first, as a page that begins at `offset`. Everything that has the name fits equally
/// well, so each has the score 1.
pub(super) fn find(
    state: &State,
    name: &str,
    wanted: DiscoverOptions,
    offset: usize,
    measures: Option<&Measures>,
) -> DiscoverAnswer {
    let name = name.trim();
    let mut found = matching(state, name);
    found.retain(|node| match node.kind() {
        NodeKind::Tool(_) => wanted.only != ItemFilter::Capabilities,
        NodeKind::Capability(_) => wanted.only != ItemFilter::Tools,
    });
    let is_tool = |node: &&Node| matches!(node.kind(), NodeKind::Tool(_));
    let tools = found.iter().filter(is_tool).count();
    let capabilities = found.len() - tools;
    found.sort_by_cached_key(|node| (std::cmp::Reverse(usage(state, *node)), state.callee(*node)));
    let hits = found.into_iter().skip(offset).take(wanted.limit).map(|node| hit(state, node)).collect();
    let answer = DiscoverAnswer::new(state, name, wanted.only, &Discovery { hits, tools, capabilities }, measures);
    answer.with_signals(&BTreeMap::from([("name", 1.0)])).beginning_at(offset)
}

fn matching(state: &State, name: &str) -> Vec<Node> {
    if !glob::is_pattern(name)
        && let Ok(callee) = resolve(state, name)
        && let Some(node) = state.find(&callee).filter(|node| is_usable(state, *node))
    {
        return vec![node];
    }
    let is_named = |candidate: &str| glob::matches(name, candidate);
    let tools = state.tools.positions().map(Node::tool).filter(|node| is_usable(state, *node));
    let tools = tools.filter(|node| match state.callee(*node) {
        Callee::Tool(id) => is_named(id.as_str()) || is_named(id.name()),
        Callee::Capability(_) => false,
    });
    let capabilities = state.capabilities.positions().filter(|position| {
        let capability = state.capabilities.at(*position);
        is_usable(state, Node::capability(*position))
            && (is_named(&capability.handle) || is_named(&capability.name) || is_named(&capability.id.to_string()))
    });
    tools.chain(capabilities.map(Node::capability)).collect()
}

fn is_usable(state: &State, node: Node) -> bool {
    match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).is_offered(),
        NodeKind::Capability(position) => state.capabilities.at(position).is_offered(),
    }
}

fn usage(state: &State, node: Node) -> u64 {
    match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).calls,
        NodeKind::Capability(position) => state.capabilities.at(position).usage,
    }
}

fn hit(state: &State, node: Node) -> Hit {
    Hit {
        node,
        score: 1.0,
        semantic: 1.0,
        contributions: [0.0; SIGNALS],
        reliability: 0.0,
        cap: 0.0,
        success_rate: reliability::success_rate(state, node),
        similar_intent: None,
    }
}
