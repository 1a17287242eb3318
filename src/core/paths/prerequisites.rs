//! Prerequisites of a target: the cheapest B-hyperpath to it (Knuth: A generalization of Dijkstra's algorithm, 1977).
//!
//! A rule makes its head once all its tails are made. Its cost is its own plus the largest cost among its tails (time: tails run side
//! by side) or plus their sum (work). Both never lie below a tail's cost, so nodes are settled in order of cost, as in Dijkstra's
//! algorithm. The sum counts a node once for each rule that uses it, as is usual for hyperpaths: the true minimum is NP-hard.
//!
//! A node that no rule makes and that is not available is assumed to be there at a prohibitive cost, and reported as missing. So a
//! plan with a gap is still a plan, and the gap is as small as the rules allow.
//!
//! O(size of the rules x log nodes).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::graph::Node;

/// Cost of assuming a node that no rule makes; above every real cost.
const NOT_MADE: u64 = 1 << 40;
/// Cost of assuming a node that rules make, but only from each other. They are assumed last, one by one.
const CIRCULAR: u64 = 1 << 50;

/// How the costs of tails combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Tails run side by side: the slowest counts.
    Time,
    /// Everything has to be done by someone: all count.
    Work,
}

/// A way to make `head`, given all `tails`. Without tails it can be made at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub head: Node,
    /// Sorted, each once, without the head.
    pub tails: Vec<Node>,
    pub cost: u64,
}

/// A target, what is there already, and the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    pub rules: Vec<Rule>,
    pub available: BTreeSet<Node>,
}

/// One step of a plan. A capability stands for "all of its members are done".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub node: Node,
    /// The tails of the rule used: earlier tasks, available nodes, or missing ones.
    pub depends_on: Vec<Node>,
    /// Tasks of one layer do not depend on each other; layer 0 depends on no task.
    pub layer: usize,
}

/// The prerequisites of a target, the target included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each after all it depends on.
    pub tasks: Vec<Task>,
    /// What the tasks need and nothing makes, in node order. Empty if the plan can be carried out.
    pub missing: Vec<Node>,
    /// The cost of the target; `None` if something is missing.
    pub cost: Option<u64>,
}

/// The cheapest plan for `target`.
pub fn solve(problem: &Problem, target: Node, measure: Measure) -> Plan {
    let settled = Settled::compute(problem, target, measure);
    let mut plan = Plan::default();
    let mut layers: BTreeMap<Node, usize> = BTreeMap::new();
    for node in settled.used_by(problem, target) {
        match settled.reached[&node].1 {
            Made::Available => {}
            Made::Assumed => plan.missing.push(node),
            Made::By(rule) => {
                let depends_on = problem.rules[rule].tails.clone();
                let layer = depends_on.iter().filter_map(|tail| layers.get(tail)).max().map_or(0, |before| before + 1);
                layers.insert(node, layer);
                plan.tasks.push(Task { node, depends_on, layer });
            }
        }
    }
    plan.missing.sort_unstable();
    plan.cost = plan.missing.is_empty().then(|| settled.reached[&target].0);
    plan
}

/// How a node came to be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    Available,
    /// By the rule with this position.
    By(usize),
    Assumed,
}

/// The settled nodes with their costs.
#[derive(Debug, Default)]
struct Settled {
    reached: BTreeMap<Node, (u64, Made)>,
    /// In the order they were settled.
    order: Vec<Node>,
}

/// Nodes to settle, the cheapest first; of equals the smaller node.
type Queue = BinaryHeap<Reverse<(u64, Node, Made)>>;

impl Settled {
    fn compute(problem: &Problem, target: Node, measure: Measure) -> Self {
        let mut by_tail: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        for (at, rule) in problem.rules.iter().enumerate() {
            for tail in &rule.tails {
                by_tail.entry(*tail).or_default().push(at);
            }
        }
        let mut open: Vec<usize> = problem.rules.iter().map(|rule| rule.tails.len()).collect();
        let mut queue = starts(problem, by_tail.keys().copied().chain([target]));
        let mut settled = Self::default();
        while !settled.reached.contains_key(&target) {
            let Some(Reverse((cost, node, made))) = queue.pop() else {
                // What is left needs itself. The first of it has to be there before; the target only if nothing else is left.
                let first = by_tail.keys().find(|node| **node != target && !settled.reached.contains_key(node));
                queue.push(Reverse((CIRCULAR, first.copied().unwrap_or(target), Made::Assumed)));
                continue;
            };
            if settled.reached.contains_key(&node) {
                continue;
            }
            settled.reached.insert(node, (cost, made));
            settled.order.push(node);
            for &at in by_tail.get(&node).into_iter().flatten() {
                open[at] -= 1;
                if open[at] == 0 {
                    let rule = &problem.rules[at];
                    queue.push(Reverse((settled.cost_of(rule, measure), rule.head, Made::By(at))));
                }
            }
        }
        settled
    }

    fn cost_of(&self, rule: &Rule, measure: Measure) -> u64 {
        let tails = rule.tails.iter().map(|tail| self.reached[tail].0);
        let tails = match measure {
            Measure::Time => tails.max().unwrap_or(0),
            Measure::Work => tails.fold(0, u64::saturating_add),
        };
        rule.cost.saturating_add(tails)
    }

    /// The nodes that the target uses, directly or not, and the target, in the order they were settled.
    fn used_by(&self, problem: &Problem, target: Node) -> Vec<Node> {
        let mut used = BTreeSet::from([target]);
        let mut waiting = vec![target];
        while let Some(node) = waiting.pop() {
            if let Made::By(rule) = self.reached[&node].1 {
                waiting.extend(problem.rules[rule].tails.iter().filter(|tail| used.insert(**tail)));
            }
        }
        self.order.iter().copied().filter(|node| used.contains(node)).collect()
    }
}

/// What is there before any rule with tails applies: available nodes, heads that need nothing, and, at a prohibitive cost, those of
/// `needed` that no rule makes.
fn starts(problem: &Problem, needed: impl Iterator<Item = Node>) -> Queue {
    let heads: BTreeSet<Node> = problem.rules.iter().map(|rule| rule.head).collect();
    let assumed = needed.filter(|node| !heads.contains(node)).map(|node| Reverse((NOT_MADE, node, Made::Assumed)));
    let alone = problem.rules.iter().enumerate().filter(|(_, rule)| rule.tails.is_empty());
    let available = problem.available.iter().map(|node| Reverse((0, *node, Made::Available)));
    available.chain(alone.map(|(at, rule)| Reverse((rule.cost, rule.head, Made::By(at))))).chain(assumed).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn node(number: u32) -> Node {
        Node::tool(number)
    }

    fn rule(head: u32, tails: &[u32], cost: u64) -> Rule {
        let mut tails: Vec<Node> = tails.iter().copied().filter(|tail| *tail != head).map(node).collect();
        tails.sort_unstable();
        tails.dedup();
        Rule { head: node(head), tails, cost }
    }

    fn problem(rules: &[(u32, &[u32], u64)], available: &[u32]) -> Problem {
        let rules = rules.iter().map(|(head, tails, cost)| rule(*head, tails, *cost)).collect();
        Problem { rules, available: available.iter().copied().map(node).collect() }
    }

    /// The tasks as `node(layer)`, the missing nodes, and the cost.
    fn shown(plan: &Plan) -> (String, String, Option<u64>) {
        let number = |node: Node| node.to_bits() / 2;
        let tasks: Vec<String> = plan.tasks.iter().map(|task| format!("{}({})", number(task.node), task.layer)).collect();
        let missing: Vec<String> = plan.missing.iter().map(|node| number(*node).to_string()).collect();
        (tasks.join(" "), missing.join(" "), plan.cost)
    }

    fn check(problem: &Problem, target: u32, measure: Measure, tasks: &str, missing: &str, cost: Option<u64>) {
        let expected = (tasks.to_owned(), missing.to_owned(), cost);
        assert_eq!(shown(&solve(problem, node(target), measure)), expected);
    }

    #[test]
    fn a_head_needs_all_its_tails_and_the_measures_differ() {
        let diamond = problem(&[(0, &[], 1), (1, &[0], 5), (2, &[0], 7), (3, &[1, 2], 2)], &[]);
        check(&diamond, 3, Measure::Time, "0(0) 1(1) 2(1) 3(2)", "", Some(10));
        check(&diamond, 3, Measure::Work, "0(0) 1(1) 2(1) 3(2)", "", Some(16));
    }

    #[test]
    fn available_nodes_are_no_tasks_and_need_nothing() {
        let chain = problem(&[(0, &[], 1), (1, &[0], 5), (2, &[1], 7)], &[1]);
        check(&chain, 2, Measure::Time, "2(0)", "", Some(7));
        check(&chain, 1, Measure::Time, "", "", Some(0));
    }

    #[test]
    fn the_cheaper_of_two_ways_is_taken() {
        // Alone for 100, or after 0 and 1 for 2 + 3 + 4.
        let ways = problem(&[(0, &[], 2), (1, &[], 3), (2, &[], 100), (2, &[0, 1], 4)], &[]);
        check(&ways, 2, Measure::Work, "0(0) 1(0) 2(1)", "", Some(9));
    }

    #[test]
    fn what_nothing_makes_is_missing_and_the_rest_is_planned() {
        let gap = problem(&[(1, &[], 1), (2, &[0, 1], 1), (3, &[2], 1)], &[]);
        check(&gap, 3, Measure::Time, "1(0) 2(1) 3(2)", "0", None);
        check(&gap, 9, Measure::Time, "", "9", None);
        // 0 and 1 make each other: one of them has to be there first.
        let circle = problem(&[(0, &[1], 1), (1, &[0], 1), (2, &[0, 1], 1)], &[]);
        check(&circle, 2, Measure::Time, "1(0) 2(1)", "0", None);
    }

    const NODES: u32 = 6;

    fn problems() -> impl Strategy<Value = Problem> {
        let tails = proptest::collection::vec(0..NODES, 0..3);
        let rules = proptest::collection::vec((0..NODES, tails, 1_u64..20), 0..12);
        (rules, proptest::collection::btree_set(0..NODES, 0..2)).prop_map(|(rules, available)| Problem {
            rules: rules.iter().map(|(head, tails, cost)| rule(*head, tails, *cost)).collect(),
            available: available.into_iter().map(node).collect(),
        })
    }

    /// The cost of `target` if each node is made by its rule in `choice`; `None` if something is not made or needs itself.
    fn cost_by(
        problem: &Problem,
        choice: &BTreeMap<Node, usize>,
        target: Node,
        measure: Measure,
        above: &mut Vec<Node>,
    ) -> Option<u64> {
        if problem.available.contains(&target) {
            return Some(0);
        }
        if above.contains(&target) {
            return None;
        }
        let rule = &problem.rules[*choice.get(&target)?];
        above.push(target);
        let costs: Option<Vec<u64>> = rule.tails.iter().map(|tail| cost_by(problem, choice, *tail, measure, above)).collect();
        above.pop();
        let costs = costs?;
        Some(rule.cost + if measure == Measure::Time { costs.into_iter().max().unwrap_or(0) } else { costs.into_iter().sum() })
    }

    /// The cheapest cost over every choice of one rule per node.
    fn by_brute_force(problem: &Problem, target: Node, measure: Measure) -> Option<u64> {
        let mut choices: Vec<BTreeMap<Node, usize>> = vec![BTreeMap::new()];
        for number in 0..NODES {
            let making = (0..problem.rules.len()).filter(|at| problem.rules[*at].head == node(number));
            let making: Vec<usize> = making.collect();
            if !making.is_empty() {
                let with = |choice: &BTreeMap<Node, usize>, at: usize| {
                    choice.clone().into_iter().chain([(node(number), at)]).collect::<BTreeMap<_, _>>()
                };
                choices = choices.iter().flat_map(|choice| making.iter().map(move |at| with(choice, *at))).collect();
            }
        }
        choices.iter().filter_map(|choice| cost_by(problem, choice, target, measure, &mut Vec::new())).min()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn no_plan_is_cheaper_and_one_is_found_if_there_is_one(problem in problems(), target in 0..NODES) {
            for measure in [Measure::Time, Measure::Work] {
                let plan = solve(&problem, node(target), measure);
                prop_assert_eq!(plan.cost, by_brute_force(&problem, node(target), measure));
            }
        }

        #[test]
        fn every_tail_is_available_missing_or_made_earlier_in_a_lower_layer(problem in problems(), target in 0..NODES) {
            for measure in [Measure::Time, Measure::Work] {
                let plan = solve(&problem, node(target), measure);
                let mut made: BTreeMap<Node, usize> = BTreeMap::new();
                for task in &plan.tasks {
                    prop_assert!(problem.rules.iter().any(|rule| rule.head == task.node && rule.tails == task.depends_on));
                    for tail in &task.depends_on {
                        let earlier = made.get(tail).is_some_and(|layer| *layer < task.layer);
                        prop_assert!(earlier || problem.available.contains(tail) || plan.missing.contains(tail));
                    }
                    made.insert(task.node, task.layer);
                }
                let there = plan.tasks.last().map(|task| task.node) == Some(node(target));
                prop_assert!(there || problem.available.contains(&node(target)) || plan.missing.contains(&node(target)));
            }
        }
    }
}
