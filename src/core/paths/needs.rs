//! What a tool or capability needs before it can run, as rules for [`prerequisites`](super::prerequisites).
//!
//! - A capability needs all of its members: whoever depends on it depends on the whole of it (S2).
//! - A member of a capability that is asked for needs what it needs there.
//! - Another tool needs what it was fed by in the capabilities that call it, without those that a person retired or merged into another.
//!   Each set of feeding calls is one way to run it; its cost is that of the share of the runs that used this way and succeeded. The empty
//!   set is a way too: it started a run.
//! - A tool in no capability needs one of the tools that were seen to feed it, or nothing if it has no required input.
//! - Whatever a dependency edge names is needed besides, in every way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::cost::reliability_cost;
use super::hyperedge::Origin;
use super::index::{PathIndex, followed, is_removed};
use super::prerequisites::{Measure, Plan, Problem, Rule, solve};
use super::procedure::Procedure;
use crate::event::input_schema::parameters;
use crate::graph::edge::EdgeKind;
use crate::graph::{Node, NodeKind};
use crate::state::State;
use crate::tool::Tool;

/// Nodes looked at for one target, at most; those beyond are treated as unknown.
const NODES_MAX: usize = 2_000;
/// Ways to run one tool, at most, the most frequent ones.
const WAYS_MAX: usize = 32;
/// Ways that are rarer than this share of the most frequent one are left out: they are exceptions, not plans.
const WAY_SHARE_MIN: f64 = 0.2;
/// Duration of a call that was never timed. No source gives a number; a second is long for a local call and short for a remote one.
const UNTIMED_MS: u64 = 1_000;

impl PathIndex {
    /// The prerequisites of a target, given what was done or is at hand. For [`Measure::Time`] a call costs its mean observed
    /// duration in milliseconds, for [`Measure::Work`] the cost of its reliability.
    pub fn prerequisites(&self, target: Node, available: &[Node], measure: Measure) -> Plan {
        solve(&self.problem(target, available, measure), target, measure)
    }

    /// The rules that lead to a target. O(what was ever needed for it).
    pub fn problem(&self, target: Node, available: &[Node], measure: Measure) -> Problem {
        let mut needs = Needs { index: self, measure, inside: BTreeMap::new() };
        let mut problem = Problem { rules: Vec::new(), available: available.iter().copied().collect() };
        let (mut seen, mut waiting) = (BTreeSet::from([target]), VecDeque::from([target]));
        while let Some(node) = waiting.pop_front() {
            if problem.available.contains(&node) || is_removed(self.state(), node) {
                continue;
            }
            let rules = needs.rules(node);
            for tail in rules.iter().flat_map(|rule| &rule.tails) {
                if seen.len() < NODES_MAX && seen.insert(*tail) {
                    waiting.push_back(*tail);
                }
            }
            problem.rules.extend(rules);
        }
        problem
    }
}

/// Successful and all runs of one way to run a tool.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    succeeded: u64,
    all: u64,
}

struct Needs<'a> {
    index: &'a PathIndex,
    measure: Measure,
    /// How the members of the capabilities asked for run there; the capability asked for first decides.
    inside: BTreeMap<Node, (Vec<Node>, Runs)>,
}

impl Needs<'_> {
    fn state(&self) -> &State {
        self.index.state()
    }

    fn rules(&mut self, node: Node) -> Vec<Rule> {
        let ways = match node.kind() {
            NodeKind::Capability(position) => self.whole(position).into_iter().collect(),
            NodeKind::Tool(_) => match self.inside.get(&node) {
                Some(way) => vec![way.clone()],
                None => self.ways(node),
            },
        };
        let all = ways.iter().map(|(_, runs)| runs.all).sum();
        let required = self.required(node);
        let rule = |(mut tails, runs): (Vec<Node>, Runs)| {
            tails.extend(&required);
            tails.sort_unstable();
            tails.dedup();
            Rule { head: node, tails, cost: self.cost(node, Runs { succeeded: runs.succeeded, all }) }
        };
        ways.into_iter().map(rule).collect()
    }

    /// All members of a capability; `None` if its structure is not known.
    fn whole(&mut self, position: u32) -> Option<(Vec<Node>, Runs)> {
        let capability = self.state().capabilities.at(position);
        let (members, runs) = (capability.members.clone(), Runs { succeeded: capability.successes, all: capability.usage });
        let procedure = Procedure::new(self.state(), capability)?;
        for member in &members {
            self.inside.entry(*member).or_insert_with(|| (procedure.needs(*member), runs));
        }
        Some((members, runs))
    }

    /// The ways to run a tool that is looked at on its own.
    fn ways(&self, tool: Node) -> Vec<(Vec<Node>, Runs)> {
        let mut ways: BTreeMap<Vec<Node>, Runs> = BTreeMap::new();
        for caller in self.index.callers(tool) {
            let capability = self.state().capabilities.at(*caller);
            let Some(procedure) = followed(self.state(), *caller) else { continue };
            let runs = ways.entry(procedure.needs(tool)).or_default();
            runs.succeeded += capability.successes;
            runs.all += capability.usage;
        }
        if ways.is_empty() {
            return self.ways_by_edges(tool);
        }
        let mut ways: Vec<(Vec<Node>, Runs)> = ways.into_iter().collect();
        // A stable sort: ways with equal counts stay in the order of their tails.
        ways.sort_by_key(|(_, runs)| std::cmp::Reverse(runs.all));
        ways.truncate(WAYS_MAX);
        let most = count(ways[0].1.all);
        ways.retain(|(_, runs)| count(runs.all) >= most * WAY_SHARE_MIN);
        ways
    }

    /// The ways to run a tool in no capability: after any one that was seen to feed it; at once if it needs no input, or if nothing
    /// is known and it is registered, so that its input can be supplied.
    fn ways_by_edges(&self, tool: Node) -> Vec<(Vec<Node>, Runs)> {
        let mut ways = Vec::new();
        for entry in self.index.hyperedges().leading_to(tool) {
            if let Origin::Edge(from, to, EdgeKind::Provides) = entry.origin {
                let counter = self.state().graph.edge((from, to, EdgeKind::Provides));
                let runs =
                    counter.map(|counter| Runs { succeeded: counter.successes.into(), all: counter.observations.into() });
                ways.push((vec![from], runs.unwrap_or_default()));
            }
        }
        let NodeKind::Tool(position) = tool.kind() else { return ways };
        let tool = self.state().tools.at(position);
        if !tool.is_stub() && (ways.is_empty() || !has_required_input(tool)) {
            ways.push((Vec::new(), Runs { succeeded: tool.successes, all: tool.calls }));
        }
        ways
    }

    /// What dependency edges say must run before a node. Inside a capability its own structure decides.
    fn required(&self, node: Node) -> Vec<Node> {
        let is_needed = |from: &Node| *from != node && !(self.inside.contains_key(&node) && self.inside.contains_key(from));
        let dependencies = self.index.hyperedges().leading_to(node).iter().filter_map(|entry| match entry.origin {
            Origin::Edge(from, _, EdgeKind::Dependency) => Some(from),
            _ => None,
        });
        dependencies.filter(is_needed).collect()
    }

    fn cost(&self, node: Node, runs: Runs) -> u64 {
        match self.measure {
            Measure::Work => reliability_cost(runs.succeeded.min(runs.all), runs.all, 1.0),
            Measure::Time => self.duration_ms(node),
        }
    }

    /// The mean observed duration of a call, at least 1. A capability takes no time besides its members.
    fn duration_ms(&self, node: Node) -> u64 {
        match node.kind() {
            NodeKind::Tool(position) => {
                let tool = self.state().tools.at(position);
                tool.duration_total_ms.checked_div(tool.timed_calls).unwrap_or(UNTIMED_MS).max(1)
            }
            NodeKind::Capability(_) => 1,
        }
    }
}

/// Whether the tool's input schema requires a parameter.
fn has_required_input(tool: &Tool) -> bool {
    let schema = tool.registration.as_ref().and_then(|registration| registration.input_schema.as_ref());
    schema.is_some_and(|schema| parameters(schema).iter().any(|parameter| parameter.required))
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs stay far below 2^52")]
fn count(value: u64) -> f64 {
    value as f64
}
