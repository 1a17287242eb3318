//! Capabilities and DAGs: which capability covers a part of a DAG (S2, option C), and whether a tool depends on a tool of a
//! capability or on the whole of it.

use std::collections::BTreeSet;

use super::dag::Dag;
use super::index::PathIndex;
use super::procedure::Procedure;
use crate::capability::Capability;
use crate::graph::Node;
use crate::graph::edge::EdgeKind;
use crate::state::State;

/// A capability with fewer members covers nothing: it is a single call.
const MEMBERS_MIN: usize = 2;
/// Covers returned, at most.
pub const COVERS_MAX: usize = 8;

/// The capabilities that cover a part of `dag`: all members are in it, no path leaves the members and comes back (the part is convex),
/// and the order of the DAG does not contradict the data flow. The longest first, then by success rate, usage and id.
pub fn covering(index: &PathIndex, dag: &Dag) -> Vec<Node> {
    let state = index.state();
    let positions: BTreeSet<u32> = dag.nodes().iter().flat_map(|node| index.callers(*node)).copied().collect();
    let mut found: Vec<(u32, &Capability)> = positions
        .into_iter()
        .map(|position| (position, state.capabilities.at(position)))
        .filter(|(_, capability)| covers(state, dag, capability))
        .collect();
    found.sort_by(|(_, a), (_, b)| {
        let by_length = b.members.len().cmp(&a.members.len());
        by_length.then(b.success_rate().total_cmp(&a.success_rate())).then(b.usage.cmp(&a.usage)).then(a.id.cmp(&b.id))
    });
    found.truncate(COVERS_MAX);
    found.into_iter().map(|(position, _)| Node::capability(position)).collect()
}

fn covers(state: &State, dag: &Dag, capability: &Capability) -> bool {
    if capability.members.len() < MEMBERS_MIN || !capability.is_offered() {
        return false;
    }
    let position = |node: &Node| dag.nodes().iter().position(|other| other == node);
    let inside: Option<Vec<usize>> = capability.members.iter().map(position).collect();
    let Some((inside, procedure)) = inside.zip(Procedure::new(state, capability)) else { return false };
    let comes_back = |between: usize| {
        inside.iter().any(|from| dag.comes_after(*from, between)) && inside.iter().any(|to| dag.comes_after(between, *to))
    };
    let is_convex = !(0..dag.nodes().len()).any(|between| !inside.contains(&between) && comes_back(between));
    let contradicts =
        |(from, to): (Node, Node)| position(&from).zip(position(&to)).is_some_and(|(from, to)| dag.comes_after(to, from));
    let needs = |member: &Node| procedure.needs(*member).into_iter().map(|from| (from, *member)).collect::<Vec<_>>();
    is_convex && !capability.members.iter().flat_map(needs).any(contradicts)
}

/// What a tool depends on where a capability comes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// The whole capability has to be done.
    Capability(Node),
    /// One of its calls is enough.
    Tool(Node),
}

/// Whether `dependent` depends on the capability at `position` as a whole or on one of its calls (the open question of S2): on the
/// whole if an edge names it, or if the outputs of at least two of its exits are used; else on the call whose output is used, the
/// most often observed one. `None` if it depends on neither.
pub fn tool_or_capability(state: &State, dependent: Node, position: u32) -> Option<DependsOn> {
    let observed = |from: Node| {
        let kinds = [EdgeKind::Dependency, EdgeKind::Provides].into_iter();
        kinds.filter_map(|kind| state.graph.edge((from, dependent, kind))).map(|counter| counter.observations).max()
    };
    let capability = Node::capability(position);
    if observed(capability).is_some() {
        return Some(DependsOn::Capability(capability));
    }
    let procedure = Procedure::new(state, state.capabilities.at(position))?;
    let exits_used = procedure.exits().into_iter().filter(|exit| observed(*exit).is_some()).count();
    if exits_used >= 2 {
        return Some(DependsOn::Capability(capability));
    }
    let members = state.capabilities.at(position).members.iter().filter(|member| **member != dependent);
    let used = members.filter_map(|member| Some((observed(*member)?, *member)));
    let most = used.reduce(|best, next| if next.0 > best.0 { next } else { best });
    most.map(|(_, member)| DependsOn::Tool(member))
}
