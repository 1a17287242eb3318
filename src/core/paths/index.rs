//! The path index: the hyperedges of a state, kept beside the fold and brought up to date by differences between states.
//!
//! | part of the state | hyperedge |
//! |---|---|
//! | dependency, provides or sequence edge | from -> to |
//! | call of a capability with data flow into it | the calls that feed it -> the call |
//! | capability | the calls whose output it does not use itself -> the capability |
//!
//! A hyperedge with a removed tool is left out until the tool is registered again. Nothing here belongs to the log or the digest;
//! the index of a state is the same whether it was built at once or followed the fold.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::Vector;

use super::cost::reliability_cost;
use super::dr_dsp::{DrDsp, Hyperpath};
use super::hyperedge::{Hyperedge, Origin};
use super::procedure::Procedure;
use crate::capability::{Capability, Status};
use crate::graph::edge::EdgeKind;
use crate::graph::path::order_weight;
use crate::graph::{Node, NodeKind};
use crate::id::Seq;
use crate::state::State;

/// The hyperedges of one state, and which capabilities call which node.
#[derive(Clone, Debug, Default)]
pub struct PathIndex {
    /// The state this was derived from.
    state: State,
    shortest: DrDsp,
    /// By node: the positions of the capabilities that call it, in the order they became known.
    callers: Vector<Arc<Vec<u32>>>,
}

impl PathIndex {
    /// The index of a state.
    pub fn from_state(state: &State) -> Self {
        let mut index = Self::default();
        index.update(state);
        index
    }

    /// Brings the index up to `state`. Edges are compared by shared structure, so unchanged parts are skipped; capabilities and
    /// tools by pointers and flags. Only hyperedges that differ are touched, and distances follow them.
    pub fn update(&mut self, state: &State) {
        let before = std::mem::replace(&mut self.state, state.clone());
        let mut touched: BTreeSet<Origin> = BTreeSet::new();
        touched.extend(state.graph.changed_edges(&before.graph).map(|(from, to, kind)| Origin::Edge(from, to, kind)));
        for position in state.capabilities.changed(&before.capabilities) {
            self.add_callers(position, &before);
            touched.extend(origins_of(state, position));
        }
        for tool in toggled(state, &before) {
            self.touch_tool(tool, &mut touched);
        }
        for origin in touched {
            match hyperedge(state, origin) {
                Some(edge) => self.shortest.insert(origin, edge),
                None => {
                    self.shortest.remove(origin);
                }
            }
        }
    }

    /// Notes the members of a capability whose structure has just become known; a structure never changes afterwards.
    fn add_callers(&mut self, position: u32, before: &State) {
        let known = |capability: &Capability| capability.status != Status::Stub;
        let is_old = (position as usize) < before.capabilities.len() && known(before.capabilities.at(position));
        if is_old || !known(self.state.capabilities.at(position)) {
            return;
        }
        for member in &self.state.capabilities.at(position).members {
            let index = member.to_bits() as usize;
            if index >= self.callers.len() {
                let empty: Arc<Vec<u32>> = Arc::default();
                self.callers.extend(std::iter::repeat_n(empty, index + 1 - self.callers.len()));
            }
            let callers = Arc::make_mut(&mut self.callers[index]);
            // In the order of positions, whichever structure became known first.
            let at = callers.partition_point(|other| *other < position);
            callers.insert(at, position);
        }
    }

    /// Adds every hyperedge with a tool that was removed or registered again. O(edges), and rare.
    fn touch_tool(&self, tool: Node, touched: &mut BTreeSet<Origin>) {
        let edges = self.state.graph.edges().map(|(key, _)| *key).filter(|(from, to, _)| *from == tool || *to == tool);
        touched.extend(edges.map(|(from, to, kind)| Origin::Edge(from, to, kind)));
        for caller in self.callers(tool) {
            touched.extend(origins_of(&self.state, *caller));
        }
    }

    /// The state this index was derived from.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The last record in that state.
    pub fn applied(&self) -> Seq {
        self.state.applied()
    }

    /// The hyperedges with their shortest paths.
    pub fn hyperedges(&self) -> &DrDsp {
        &self.shortest
    }

    /// The positions of the capabilities that call a node, ascending.
    pub fn callers(&self, node: Node) -> &[u32] {
        self.callers.get(node.to_bits() as usize).map_or(&[], |callers| callers.as_slice())
    }

    /// Makes `sources` the only pinned ones, as far as there is room: the current calls of live executions.
    pub fn pin(&mut self, sources: &BTreeSet<Node>) {
        let stale: Vec<Node> = self.shortest.pinned().filter(|source| !sources.contains(source)).collect();
        for source in stale {
            self.shortest.unpin(source);
        }
        for source in sources {
            self.shortest.pin(*source);
        }
    }

    /// The shortest hyperpath from one node to another.
    pub fn path(&self, source: Node, target: Node) -> Option<Hyperpath> {
        self.shortest.path(source, target)
    }
}

/// The tools whose removal was recorded or undone between two states.
fn toggled(state: &State, before: &State) -> Vec<Node> {
    let was = before.tools.rows().map(|tool| tool.removed).chain(std::iter::repeat(false));
    let pairs = (0_u32..).zip(state.tools.rows().zip(was));
    pairs.filter(|(_, (tool, was))| tool.removed != *was).map(|(position, _)| Node::tool(position)).collect()
}

/// The origins of the hyperedges of a capability.
fn origins_of(state: &State, capability: u32) -> impl Iterator<Item = Origin> + use<> {
    let calls = state.capabilities.at(capability).structure.calls.len();
    let calls = u16::try_from(calls).expect("a structure numbers its calls by u16");
    (0..calls).map(move |call| Origin::Flow { capability, call }).chain([Origin::Whole { capability }])
}

/// The hyperedge that an origin has in `state`, if any.
fn hyperedge(state: &State, origin: Origin) -> Option<Hyperedge> {
    let edge = match origin {
        Origin::Edge(from, to, kind) => {
            let counter = state.graph.edge((from, to, kind))?;
            let weight = order_weight(kind, counter.weight(kind));
            if weight <= 0.0 || from == to {
                return None;
            }
            let cost = reliability_cost(counter.successes.into(), counter.observations.into(), weight);
            Hyperedge { tails: vec![from], heads: vec![to], cost }
        }
        Origin::Flow { capability, call } => {
            let capability = state.capabilities.at(capability);
            let procedure = Procedure::new(state, capability)?;
            let call = usize::from(call);
            let (tails, cost) = (procedure.feeding(call), capability_cost(capability, EdgeKind::Provides));
            Hyperedge { tails, heads: vec![procedure.calls[call]], cost }
        }
        Origin::Whole { capability: position } => {
            let capability = state.capabilities.at(position);
            let tails = Procedure::new(state, capability)?.exits();
            Hyperedge { tails, heads: vec![Node::capability(position)], cost: capability_cost(capability, EdgeKind::Contains) }
        }
    };
    let is_usable = edge.tails.iter().chain(&edge.heads).all(|node| !is_removed(state, *node));
    (is_usable && !edge.tails.is_empty()).then_some(edge)
}

fn capability_cost(capability: &Capability, kind: EdgeKind) -> u64 {
    reliability_cost(capability.successes, capability.usage, capability.membership().weight(kind))
}

/// Whether a node is a tool that its server removed.
pub(super) fn is_removed(state: &State, node: Node) -> bool {
    match node.kind() {
        NodeKind::Tool(position) => state.tools.at(position).removed,
        NodeKind::Capability(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::given::History;

    const TOOLS: [&str; 6] = ["a:a", "b:b", "c:c", "d:d", "e:e", "f:f"];

    /// One line of a random history. Steps depend on earlier ones only.
    fn line() -> impl Strategy<Value = String> {
        let step = (0..TOOLS.len(), proptest::option::of(0_usize..4), proptest::bool::weighted(0.9));
        let steps = proptest::collection::vec(step, 1..5).prop_map(|steps| {
            let name = |at: usize| format!("{}#{at}", TOOLS[steps[at].0]);
            let told = |(at, (_, on, success)): (usize, &(usize, Option<usize>, bool))| {
                let uses = on.filter(|on| *on < at).map_or(String::new(), |on| format!(" < {}", name(on)));
                format!("{}{}{uses} {at}7ms", name(at), if *success { "" } else { "!" })
            };
            steps.iter().enumerate().map(told).collect::<Vec<_>>().join(", ")
        });
        let tool = || (0..TOOLS.len()).prop_map(|at| TOOLS[at]);
        prop_oneof![
            6 => (any::<bool>(), steps.clone()).prop_map(|(ok, steps)| format!("run {} do it: {steps}", if ok { "ok" } else { "failed" })),
            2 => (0..3, steps).prop_map(|(number, steps)| format!("declare X{number}: {}", steps.replace('!', ""))),
            1 => (tool(), tool(), 0..2).prop_map(|(from, to, name)| format!("template t{name}: {from} > {to}")),
            1 => tool().prop_map(|tool| format!("remove {tool}")),
            1 => tool().prop_map(|tool| format!("tool {tool} path")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn following_the_fold_gives_the_index_of_the_state(lines in proptest::collection::vec(line(), 1..25), every in 1_usize..4) {
            let mut history = History::default();
            let mut following = PathIndex::default();
            following.pin(&[0, 1, 2].map(Node::tool).into());
            for (number, line) in lines.iter().enumerate() {
                history.line(line);
                // Some views hold several records.
                if number % every == 0 || number + 1 == lines.len() {
                    following.update(&history.state);
                }
            }
            let fresh = PathIndex::from_state(&history.state);
            prop_assert!(following.hyperedges().edges().eq(fresh.hyperedges().edges()));
            let tools = u32::try_from(history.state.tools.len()).unwrap();
            let capabilities = u32::try_from(history.state.capabilities.len()).unwrap();
            let nodes: Vec<Node> = (0..tools).map(Node::tool).chain((0..capabilities).map(Node::capability)).collect();
            for node in &nodes {
                prop_assert_eq!(following.callers(*node), fresh.callers(*node));
                for source in [0, 1, 2, 3].map(Node::tool) {
                    prop_assert_eq!(following.path(source, *node), fresh.path(source, *node));
                }
            }
        }
    }

    #[test]
    fn a_run_that_teaches_nothing_new_touches_only_its_own_hyperedges() {
        let mut history = History::new("run ok one: a:a, b:b < a:a\nrun ok two: c:c, d:d < c:c");
        let mut index = PathIndex::from_state(&history.state);
        let before = index.clone();
        history.line("run ok one: a:a, b:b < a:a");
        index.update(&history.state);
        let costs =
            |index: &PathIndex| index.hyperedges().edges().map(|(origin, edge)| (origin, edge.cost)).collect::<Vec<_>>();
        let changed = costs(&before).into_iter().zip(costs(&index)).filter(|(was, now)| was.1 != now.1).count();
        assert_eq!(changed, 3, "the edge a -> b, the flow a -> b and the whole of the first capability");
        assert!(costs(&before).into_iter().zip(costs(&index)).all(|(was, now)| now.1 <= was.1), "success never costs more");
    }
}
