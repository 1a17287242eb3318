//! Order and data flow between the tools of a plan, learnt from past runs: what came before what, and which output fed which call.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::asked::Asked;
use super::declared;
use super::past_runs::PairCount;
use super::probability::log_odds;
use super::regression::Linear;
use crate::graph::transition::Symbol;
use crate::graph::{Node, NodeKind};
use crate::paths::dag::Dependency;
use crate::state::State;
use crate::vectors::TextHash;

/// Weight of all past runs, relative to that of the near ones.
const GLOBAL: f64 = 0.3;
/// The largest distance in clauses that counts.
const CLAUSE_DISTANCE_MAX: f64 = 3.0;
/// Weight of the transition from the tool placed last (ALGORITHMS 14).
const TRANSITION: f64 = 0.3;
/// Smallest transition probability that is told from none.
const TRANSITION_MIN: f64 = 1e-3;
/// The share of past runs with a tool from which on it is expected to be called again with its own output.
const AGAIN_MIN: f64 = 0.5;

pub(super) const ORDER_FEATURES: usize = 4;

/// The names of the features of order, under which their weights are stored.
pub(super) const ORDER_NAMES: [&str; ORDER_FEATURES] = ["before", "clause_distance", "kinds", "transition"];

/// The weights before anything was fitted: what came first before comes first.
pub(super) const ORDER_PRIOR: Linear<ORDER_FEATURES> = Linear([1.0, 0.5, 0.0, 0.0]);

pub(super) const FLOW_FEATURES: usize = 18;

/// The position of the feature that says whether the two are neighbours.
const ADJACENT: usize = 4;

/// The names of the features of data flow, under which their weights are stored.
pub(super) const FLOW_NAMES: [&str; FLOW_FEATURES] = [
    "bias",
    "near",
    "seen",
    "everywhere",
    "adjacent",
    "nearness",
    "same_clause",
    "next_clause",
    "transition",
    "size",
    "adjacent_of_two",
    "adjacent_unseen",
    "similarity",
    "kinds",
    "adjacent_kinds",
    "clause_distance",
    "from_first",
    "to_last",
];

/// The weights before anything was fitted: data flows where it flowed before.
pub(super) const FLOW_PRIOR: Linear<FLOW_FEATURES> =
    Linear([-0.3, 0.8, 0.0, 0.4, 0.5, 0.5, 0.0, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);

/// Which pairs of an ordered plan are joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FlowRule {
    /// Those with at least this probability.
    Above(f64),
    /// Each with the next.
    Chain,
}

/// How data flows in an ordered plan, fitted to past runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FlowModel {
    pub(super) probability: Linear<FLOW_FEATURES>,
    pub(super) rule: FlowRule,
    /// Whether a plan that was found in an order keeps it; else it is ordered as all past runs suggest. For copied runs and for others.
    pub(super) keeps_copied_order: bool,
    pub(super) keeps_beam_order: bool,
}

impl FlowModel {
    /// The model before anything was fitted.
    pub(super) const PRIOR: Self =
        Self { probability: FLOW_PRIOR, rule: FlowRule::Above(0.5), keeps_copied_order: true, keeps_beam_order: true };

    /// The probability of flow between two tasks, if they are joined.
    pub(super) fn joins(&self, features: &[f64; FLOW_FEATURES]) -> Option<f64> {
        let p = self.probability.probability(features);
        let joined = match self.rule {
            FlowRule::Above(least) => p >= least,
            FlowRule::Chain => features[ADJACENT] > 0.5,
        };
        joined.then_some(p)
    }
}

/// What past runs say about the pairs of a set of nodes.
pub(super) struct Wiring<'a> {
    nodes: &'a [Node],
    /// By pair of positions: counts in near past runs, weighted by similarity.
    near: Vec<PairCount>,
    all: Vec<PairCount>,
    /// By pair of positions: the probability that a run calls the second right after the first.
    transitions: Vec<f64>,
    clauses: Vec<Option<usize>>,
    /// By pair of positions: the similarity of the texts, and whether the first declares an output of a kind that the second takes.
    similarities: Vec<f64>,
    kinds: Vec<bool>,
}

impl<'a> Wiring<'a> {
    /// O(near past intents x calls + nodes^2 log pairs).
    pub(super) fn new(asked: &Asked<'_>, nodes: &'a [Node]) -> Self {
        let except = asked.excluded.number;
        let pairs = || nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
        Self {
            nodes,
            near: near_counts(asked, nodes),
            all: pairs().map(|(from, to)| asked.runs.pair(from, to, except)).collect(),
            transitions: nodes.iter().flat_map(|from| transitions(asked, *from, nodes)).collect(),
            clauses: nodes.iter().map(|node| asked.clause(*node)).collect(),
            similarities: similarities(asked.state, nodes),
            kinds: declared::fits(asked.state, nodes),
        }
    }

    fn at(&self, from: usize, to: usize) -> usize {
        from * self.nodes.len() + to
    }

    /// What speaks for the first coming before the second; the negative speaks for the opposite.
    pub(super) fn precedence(&self, first: usize, second: usize) -> [f64; ORDER_FEATURES] {
        let (there, back) = (self.at(first, second), self.at(second, first));
        let everywhere = share(self.all[there].before + 0.5, self.all[back].before + 0.5);
        let (near, near_back) = (self.near[there].before, self.near[back].before);
        [
            log_odds((near + GLOBAL * everywhere) / (near + near_back + GLOBAL)),
            self.clause_distance(first, second),
            flag(self.kinds[there]) - flag(self.kinds[back]),
            libm::log(self.transition(first, second) / self.transition(second, first)),
        ]
    }

    /// Clauses of the intent between the ones that two tools answer; negative if the second comes first.
    fn clause_distance(&self, first: usize, second: usize) -> f64 {
        let Some((first, second)) = self.clauses[first].zip(self.clauses[second]) else { return 0.0 };
        (real(second) - real(first)).clamp(-CLAUSE_DISTANCE_MAX, CLAUSE_DISTANCE_MAX)
    }

    /// The positions in the order in which the tools are best run: each time the one that most clearly comes before the rest.
    pub(super) fn order(&self, model: &Linear<ORDER_FEATURES>) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..self.nodes.len()).collect();
        let mut order: Vec<usize> = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let score = |position: usize| {
                let others = rest.iter().filter(|other| **other != position);
                let before: f64 = others.map(|other| model.value(&self.precedence(position, *other))).sum();
                let follows = order.last().map_or(0.0, |last| libm::log(self.transition(*last, position)));
                before + TRANSITION * follows
            };
            let best = rest.iter().copied().map(|position| (score(position), position));
            let (_, next) = best.reduce(|best, next| if next.0 > best.0 { next } else { best }).expect("rest is not empty");
            rest.retain(|position| *position != next);
            order.push(next);
        }
        order
    }

    fn transition(&self, from: usize, to: usize) -> f64 {
        self.transitions[self.at(from, to)].max(TRANSITION_MIN)
    }

    /// The features of the flow from one to another, which stand at these places of an order.
    fn features(&self, from: usize, to: usize, (first, second): (usize, usize)) -> [f64; FLOW_FEATURES] {
        let (near, all) = (self.near[self.at(from, to)], self.all[self.at(from, to)]);
        let (distance, kinds) = (second - first, flag(self.kinds[self.at(from, to)]));
        let everywhere = everywhere(all);
        let seen = near.known / (near.known + GLOBAL);
        let clauses = self.clause_distance(from, to);
        let adjacent = flag(distance == 1);
        [
            1.0,
            log_odds((near.fed + GLOBAL * everywhere) / (near.known + GLOBAL)),
            seen,
            log_odds(everywhere),
            adjacent,
            1.0 / real(distance),
            flag(clauses == 0.0),
            flag((clauses - 1.0).abs() < 0.5),
            libm::log(self.transition(from, to)),
            real(self.nodes.len()) / 10.0,
            adjacent * flag(self.nodes.len() == 2),
            adjacent * (1.0 - seen),
            self.similarities[self.at(from, to)],
            kinds,
            adjacent * kinds,
            clauses / CLAUSE_DISTANCE_MAX,
            flag(first == 0),
            flag(second + 1 == self.nodes.len()),
        ]
    }

    /// The features of every pair of an order, as places in it: the earlier, the later, their features.
    pub(super) fn pairs(&self, order: &[usize]) -> Vec<(usize, usize, [f64; FLOW_FEATURES])> {
        let mut pairs = Vec::new();
        for (second, to) in order.iter().enumerate() {
            for (first, from) in order[..second].iter().enumerate() {
                pairs.push((first, second, self.features(*from, *to, (first, second))));
            }
        }
        pairs
    }

    /// Whether the data flow of past runs with two of the nodes is known.
    pub(super) fn knows_flow(&self) -> bool {
        let pairs = (0..self.nodes.len()).flat_map(|from| (0..self.nodes.len()).map(move |to| (from, to)));
        pairs.into_iter().any(|(from, to)| from != to && self.all[self.at(from, to)].known > 0.0)
    }

    /// The joined pairs of an order.
    pub(super) fn joined(&self, order: &[usize], flow: &FlowModel) -> Vec<Dependency> {
        let joins = |(from, to, features): (usize, usize, [f64; FLOW_FEATURES])| {
            flow.joins(&features).map(|strength| Dependency { from, to, strength })
        };
        self.pairs(order).into_iter().filter_map(joins).collect()
    }

    /// The joined pairs of an order, and the repeated nodes with themselves, as nodes.
    pub(super) fn edges(&self, order: &[usize], flow: &FlowModel) -> Vec<(Node, Node)> {
        let node = |place: usize| self.nodes[order[place]];
        let joined = self.joined(order, flow).into_iter().map(|joined| (node(joined.from), node(joined.to)));
        let again = (0..self.nodes.len()).filter(|position| self.is_repeated(*position));
        joined.chain(again.map(|position| (self.nodes[position], self.nodes[position]))).collect()
    }

    /// Whether a tool is usually called again with its own output.
    pub(super) fn is_repeated(&self, position: usize) -> bool {
        let (near, all) = (self.near[self.at(position, position)], self.all[self.at(position, position)]);
        (near.fed + GLOBAL * everywhere(all)) / (near.known + GLOBAL) >= AGAIN_MIN
    }

    /// How often the first fed the second in past runs, near and far.
    pub(super) fn times_fed(&self, from: usize, to: usize) -> f64 {
        self.all[self.at(from, to)].fed
    }
}

/// Counts of all pairs of `nodes` in the runs of near past intents.
fn near_counts(asked: &Asked<'_>, nodes: &[Node]) -> Vec<PairCount> {
    let mut counts = vec![PairCount::default(); nodes.len() * nodes.len()];
    for past in &asked.evidence.near {
        let Some(number) = asked.state.memory.number(past.entry.hash) else { continue };
        for run in asked.runs.runs(number) {
            let places: Vec<Option<usize>> =
                nodes.iter().map(|node| run.nodes.iter().position(|other| other == node)).collect();
            for (from, first) in places.iter().enumerate().filter_map(|(at, place)| Some((at, (*place)?))) {
                for (to, _) in places.iter().enumerate().filter(|(_, second)| second.is_some_and(|second| first <= second)) {
                    let count = run.pair(nodes[from], nodes[to]).unwrap_or_default();
                    let sum = &mut counts[from * nodes.len() + to];
                    sum.before += past.weight_usual * count.before;
                    sum.known += past.weight_usual * count.known;
                    sum.fed += past.weight_usual * count.fed;
                }
            }
        }
    }
    counts
}

/// The share of the calls of `from` that were followed by each of `nodes`.
fn transitions(asked: &Asked<'_>, from: Node, nodes: &[Node]) -> Vec<f64> {
    let mut counts: BTreeMap<Symbol, f64> = BTreeMap::new();
    let mut total = 0.0;
    for (symbol, count) in asked.state.transitions.after(Symbol::call(from)) {
        counts.insert(symbol, f64::from(count.seen));
        total += f64::from(count.seen);
    }
    for sequence in &asked.excluded.sequences {
        for pair in sequence.symbols().windows(2).filter(|pair| pair[0] == Symbol::call(from)) {
            if let Some(count) = counts.get_mut(&pair[1]) {
                *count -= f64::from(sequence.times);
                total -= f64::from(sequence.times);
            }
        }
    }
    let share = |node: &Node| counts.get(&Symbol::call(*node)).map_or(0.0, |count| count.max(0.0) / (total.max(0.0) + 1.0));
    nodes.iter().map(share).collect()
}

/// By pair of positions: the cosine of the texts, 0 if one has no vector.
fn similarities(state: &State, nodes: &[Node]) -> Vec<f64> {
    let vectors: Vec<Option<&Arc<[f32]>>> = nodes
        .iter()
        .map(|node| match node.kind() {
            NodeKind::Tool(position) => state.vectors.get(TextHash::compute(&state.tools.at(position).text()?)),
            NodeKind::Capability(_) => None,
        })
        .collect();
    let dot = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let similarity = |one: Option<&Arc<[f32]>>, other: Option<&Arc<[f32]>>| {
        one.zip(other).map_or(0.0, |(one, other)| dot(one, other) / (dot(one, one) * dot(other, other)).sqrt().max(1e-9))
    };
    vectors.iter().flat_map(|one| vectors.iter().map(move |other| similarity(*one, *other))).collect()
}

/// The share of all past runs with both in which the first fed the second.
fn everywhere(all: PairCount) -> f64 {
    (all.fed + 0.3) / (all.known + 1.0)
}

fn share(part: f64, rest: f64) -> f64 {
    part / (part + rest)
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[expect(clippy::cast_precision_loss, reason = "plans and intents are short")]
fn real(count: usize) -> f64 {
    count as f64
}
