//! The path index: the hyperedges of a state, kept beside the fold and brought up to date by differences between states.
//!
//! | part of the state | hyperedge |
//! |---|---|
//! | dependency, provides or sequence edge | from -> to |
//! | call of a capability with data flow into it | the calls that feed it -> the call |
//! | capability | the calls whose output it does not use itself -> the capability |
//!
//! A hyperedge with a removed tool is left out until the tool is registered again, and those of a capability that a person retired or
//! merged into another until that is taken back; one that an offered capability calls keeps its hyperedges, since that one needs them.
//! Nothing here belongs to the log or the digest; the index of a state is the same whether it was built at once or followed the fold.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::Vector;

use super::cost::reliability_cost;
use super::dr_dsp::{DrDsp, Hyperpath, PINNED_MAX};
use super::hyperedge::{Hyperedge, Origin};
use super::procedure::Procedure;
use crate::capability::{Capability, Status};
use crate::graph::edge::EdgeKind;
use crate::graph::path::order_weight;
use crate::graph::{Node, NodeKind};
use crate::id::Seq;
use crate::state::State;

/// Changed hyperedges times pinned calls up to which kept distances follow an update. With more, computing distances again when they are
/// asked for takes less than following every change from every pinned call.
const FOLLOWED_MAX: usize = 1_024;
/// Kept distances of all pinned calls together, of 8 bytes each, unless fewer than [`PINNED_MIN`] calls would be pinned.
const DISTANCES_MAX: usize = 1 << 21;
const PINNED_MIN: usize = 4;

/// The hyperedges of one state, and which capabilities call which node.
#[derive(Clone, Debug, Default)]
pub struct PathIndex {
    /// The state this was derived from.
    state: State,
    shortest: DrDsp,
    /// By node: the positions of the capabilities that call it, in the order they became known.
    callers: Vector<Arc<Vec<u32>>>,
    /// The pinned calls, the one asked about last at the end.
    pinned: Vec<Node>,
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
            if is_offered(state, position) != is_offered(&before, position) {
                touch_members(state, position, &mut touched);
            }
        }
        for tool in toggled(state, &before) {
            self.touch_tool(tool, &mut touched);
        }
        if touched.len() * self.pinned.len() > FOLLOWED_MAX {
            self.unpin_all();
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

    /// The shortest hyperpath from the current call of a live execution. The distances from that call are kept from now on and follow
    /// the fold, so that the next question about an execution at the same call only reads them. The call asked about longest ago makes
    /// room for a new one.
    pub fn path_from_live(&mut self, source: Node, target: Node) -> Option<Hyperpath> {
        self.pinned.retain(|known| *known != source);
        while self.pinned.len() >= pinned_max(self.state.tools.len().max(self.state.capabilities.len())) {
            self.shortest.unpin(self.pinned.remove(0));
        }
        self.pinned.push(source);
        self.shortest.pin(source);
        self.shortest.path(source, target)
    }

    fn unpin_all(&mut self) {
        for source in std::mem::take(&mut self.pinned) {
            self.shortest.unpin(source);
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

/// Whether the capability at a position is known and offered.
fn is_offered(state: &State, position: u32) -> bool {
    (position as usize) < state.capabilities.len() && state.capabilities.at(position).is_offered()
}

/// Adds the hyperedges of the capabilities below one that are not offered themselves: theirs depend on whether that one is.
fn touch_members(state: &State, position: u32, touched: &mut BTreeSet<Origin>) {
    let mut waiting = vec![position];
    while let Some(position) = waiting.pop() {
        for member in &state.capabilities.at(position).members {
            if let NodeKind::Capability(member) = member.kind()
                && !is_offered(state, member)
            {
                touched.extend(origins_of(state, member));
                waiting.push(member);
            }
        }
    }
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
        Origin::Flow { capability: position, call } => {
            let capability = state.capabilities.at(position);
            let procedure = followed(state, position)?;
            let call = usize::from(call);
            let (tails, cost) = (procedure.feeding(call), capability_cost(capability, EdgeKind::Provides));
            Hyperedge { tails, heads: vec![procedure.calls[call]], cost }
        }
        Origin::Whole { capability: position } => {
            let capability = state.capabilities.at(position);
            let tails = followed(state, position)?.exits();
            Hyperedge { tails, heads: vec![Node::capability(position)], cost: capability_cost(capability, EdgeKind::Contains) }
        }
    };
    let is_usable = edge.tails.iter().chain(&edge.heads).all(|node| !is_removed(state, *node));
    (is_usable && !edge.tails.is_empty()).then_some(edge)
}

/// The procedure of a capability that may be followed.
pub(super) fn followed(state: &State, position: u32) -> Option<Procedure> {
    Procedure::new(state, state.capabilities.at(position)).filter(|_| state.capabilities.is_followed(position))
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

/// How many calls may be pinned where there are this many tools, or capabilities if those are more. Nodes of both are numbered in turn.
fn pinned_max(items: usize) -> usize {
    (DISTANCES_MAX / (2 * items).max(1)).clamp(PINNED_MIN, PINNED_MAX)
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
            1 => (0..4).prop_map(|number| format!("retire {number}")),
            1 => (0..4).prop_map(|number| format!("restore {number}")),
            1 => (0..4, 0..4).prop_map(|(number, into)| format!("merge {number} {into}")),
            1 => (0..4).prop_map(|number| format!("split {number}")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn following_the_fold_gives_the_index_of_the_state(lines in proptest::collection::vec(line(), 1..25), every in 1_usize..4) {
            let mut history = History::default();
            let mut following = PathIndex::default();
            for (number, line) in lines.iter().enumerate() {
                history.line(line);
                // Some views hold several records.
                if number % every == 0 || number + 1 == lines.len() {
                    following.update(&history.state);
                    for source in [0, 1, 2].map(Node::tool) {
                        following.path_from_live(source, source);
                    }
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
                    prop_assert_eq!(following.clone().path_from_live(source, *node), fresh.path(source, *node));
                }
            }
        }
    }

    #[test]
    fn distances_are_kept_for_the_calls_asked_about_last() {
        let chain: Vec<String> = (0..=u32::try_from(PINNED_MAX).unwrap()).map(|at| format!("s:t{at}")).collect();
        let history = History::new(&format!("run ok all: {}", chain.join(", ")));
        let mut index = PathIndex::from_state(&history.state);
        let nodes: Vec<Node> = chain.iter().map(|name| history.node(name)).collect();
        for source in &nodes {
            assert!(index.path_from_live(*source, nodes[PINNED_MAX]).is_some());
        }
        let kept: Vec<Node> = index.hyperedges().pinned().collect();
        assert!(kept.len() == PINNED_MAX && !kept.contains(&nodes[0]), "the call asked about longest ago made room");
    }

    #[test]
    fn fewer_calls_are_pinned_where_each_takes_more_memory() {
        for (items, expected) in [(0, PINNED_MAX), (260, PINNED_MAX), (10_000, 104), (100_000, 10), (262_144, PINNED_MIN)] {
            assert_eq!(pinned_max(items), expected, "{items}");
        }
    }

    #[test]
    fn kept_distances_follow_a_small_change_and_are_dropped_by_a_large_one() {
        let mut history = History::new("run ok all: s:t0, s:t1, s:t2, s:t3");
        let mut index = PathIndex::from_state(&history.state);
        let (first, last) = (history.node("s:t0"), history.node("s:t3"));
        assert!(index.path_from_live(first, last).is_some());
        history.line("run ok some: s:t1, s:t3");
        index.update(&history.state);
        assert_eq!(index.hyperedges().pinned().count(), 1, "a small change is followed");
        let many: Vec<String> = (0..=FOLLOWED_MAX).map(|at| format!("s:new{at}")).collect();
        history.line(&format!("run ok many: {}", many.join(", ")));
        index.update(&history.state);
        assert_eq!(index.hyperedges().pinned().count(), 0, "a large change is not");
        assert_eq!(index.path_from_live(first, last), PathIndex::from_state(&history.state).path(first, last));
    }

    #[test]
    fn what_a_person_retired_or_merged_leads_nowhere_unless_an_offered_capability_calls_it() {
        let mut history = History::new("declare pack: fs:read, zip:pack < fs:read");
        let mut index = PathIndex::from_state(&history.state);
        let (read, pack) = (history.node("fs:read"), history.node("[pack]"));
        let mut leads = |history: &History| {
            index.update(&history.state);
            let leads = index.path(read, pack).is_some();
            assert_eq!(leads, PathIndex::from_state(&history.state).path(read, pack).is_some());
            leads
        };
        assert!(leads(&history));
        history.line("retire 0");
        assert!(!leads(&history));
        history.line("declare send: [pack], net:send < pack");
        assert!(leads(&history), "an offered one calls it");
        history.line("retire 1");
        assert!(!leads(&history), "and so long as that is offered");
        history.line("restore 0");
        history.line("merge 0 1");
        assert!(!leads(&history));
        history.line("split 0");
        assert!(leads(&history));
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
