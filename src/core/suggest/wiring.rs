//! Order and data flow between the tools of a plan, learnt from past runs: what came before what, and which output fed which call.

use std::collections::BTreeMap;

use super::asked::Asked;
use super::past_runs::PairCount;
use super::probability::log_odds;
use super::regression::Linear;
use crate::graph::Node;
use crate::graph::transition::Symbol;

/// Weight of all past runs, relative to that of the near ones.
const GLOBAL: f64 = 0.3;
/// What one clause of distance in the intent says about order, in log-odds, and the largest distance that counts.
const CLAUSE_STEP: f64 = 0.5;
const CLAUSE_DISTANCE_MAX: f64 = 3.0;
/// Weight of the transition from the tool placed last (ALGORITHMS 14).
const TRANSITION: f64 = 0.3;
/// Smallest transition probability that is told from none.
const TRANSITION_MIN: f64 = 1e-3;

pub(super) const FLOW_FEATURES: usize = 12;

/// The position of the feature that says whether the two are neighbours.
const ADJACENT: usize = 4;

/// The weights before anything was fitted: data flows where it flowed before.
pub(super) const FLOW_PRIOR: Linear<FLOW_FEATURES> = Linear([-0.3, 0.8, 0.0, 0.4, 0.5, 0.5, 0.0, 0.2, 0.1, 0.0, 0.0, 0.0]);

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
    /// Whether a copied run keeps its own order; else it is ordered as all past runs suggest.
    pub(super) keeps_copied_order: bool,
}

impl FlowModel {
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
        }
    }

    fn at(&self, from: usize, to: usize) -> usize {
        from * self.nodes.len() + to
    }

    /// Log-odds that the first comes before the second.
    fn precedence(&self, first: usize, second: usize) -> f64 {
        let (there, back) = (self.at(first, second), self.at(second, first));
        let everywhere = share(self.all[there].before + 0.5, self.all[back].before + 0.5);
        let (near, near_back) = (self.near[there].before, self.near[back].before);
        let odds = log_odds((near + GLOBAL * everywhere) / (near + near_back + GLOBAL));
        odds + CLAUSE_STEP * self.clause_distance(first, second)
    }

    /// Clauses of the intent between the ones that two tools answer; negative if the second comes first.
    fn clause_distance(&self, first: usize, second: usize) -> f64 {
        let Some((first, second)) = self.clauses[first].zip(self.clauses[second]) else { return 0.0 };
        (real(second) - real(first)).clamp(-CLAUSE_DISTANCE_MAX, CLAUSE_DISTANCE_MAX)
    }

    /// The positions in the order in which the tools are best run: each time the one that most clearly comes before the rest.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..self.nodes.len()).collect();
        let mut order: Vec<usize> = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let score = |position: usize| {
                let before: f64 =
                    rest.iter().filter(|other| **other != position).map(|other| self.precedence(position, *other)).sum();
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

    /// The features of the flow from one to another; `distance` is how many places later the other stands.
    fn features(&self, from: usize, to: usize, distance: usize) -> [f64; FLOW_FEATURES] {
        let (near, all) = (self.near[self.at(from, to)], self.all[self.at(from, to)]);
        let everywhere = (all.fed + 0.3) / (all.known + 1.0);
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
        ]
    }

    /// The features of every pair of an order, as places in it: the earlier, the later, their features.
    pub(super) fn pairs(&self, order: &[usize]) -> Vec<(usize, usize, [f64; FLOW_FEATURES])> {
        let mut pairs = Vec::new();
        for (second, to) in order.iter().enumerate() {
            for (first, from) in order[..second].iter().enumerate() {
                pairs.push((first, second, self.features(*from, *to, second - first)));
            }
        }
        pairs
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
                for (to, _) in places.iter().enumerate().filter(|(_, second)| second.is_some_and(|second| first < second)) {
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
