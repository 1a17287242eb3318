//! The distances from one source, kept up to date while reduced costs change (Ramalingam and Reps, 1996).
//!
//! Only distances are stored. A path is read back from its end along pairs that are tight (distance of the one + cost = distance of
//! the other), the smallest node first. So a path depends on the hyperedges alone and not on the order of the updates.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::pairs::{PairEntry, PairRows};
use crate::graph::Node;

/// The distance of a node that cannot be reached.
const UNREACHED: u64 = u64::MAX;

/// A pair whose reduced cost changed; `None` where no hyperedge joins it.
#[derive(Clone, Copy, Debug)]
pub struct PairChange {
    pub from: Node,
    pub to: Node,
    pub before: Option<u64>,
    pub after: Option<u64>,
}

impl PairChange {
    /// Whether the pair became more expensive or was cut.
    pub fn is_increase(&self) -> bool {
        self.before.is_some_and(|before| self.after.is_none_or(|after| after > before))
    }
}

/// Both directions of the pair index.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    pub outgoing: &'a PairRows,
    pub incoming: &'a PairRows,
}

/// Nodes to settle, the nearest first; of equals the smaller node.
type Queue = BinaryHeap<Reverse<(u64, Node)>>;

/// The distance of every node from one source.
#[derive(Clone, Debug, Default)]
pub struct DistanceTree {
    /// By node; nodes beyond the end are not reached.
    distances: Vec<u64>,
}

impl DistanceTree {
    /// Dijkstra from `source`, to the end or until `target` is settled. O((pairs + nodes) log nodes).
    pub fn compute(pairs: Pairs<'_>, source: Node, target: Option<Node>) -> Self {
        let mut tree = Self::default();
        tree.set(source, 0);
        tree.settle(pairs, Queue::from([Reverse((0, source))]), target);
        tree
    }

    /// The distance of a node, if it can be reached.
    pub fn distance(&self, node: Node) -> Option<u64> {
        self.distances.get(node.to_bits() as usize).copied().filter(|distance| *distance != UNREACHED)
    }

    fn get(&self, node: Node) -> u64 {
        self.distances.get(node.to_bits() as usize).copied().unwrap_or(UNREACHED)
    }

    fn set(&mut self, node: Node, distance: u64) {
        let index = node.to_bits() as usize;
        if index >= self.distances.len() {
            self.distances.resize(index + 1, UNREACHED);
        }
        self.distances[index] = distance;
    }

    /// The entry before `node` on the shortest path to it: the smallest tight predecessor.
    pub fn predecessor<'a>(&self, pairs: Pairs<'a>, node: Node) -> Option<&'a PairEntry> {
        let distance = self.distance(node)?;
        pairs.incoming.cheapest(node).find(|entry| self.distance(entry.other).is_some_and(|d| d + entry.cost == distance))
    }

    /// Whether a change can alter a distance: its pair starts at a node that is reached. Saves copying a tree that a view shares.
    pub fn is_touched(&self, change: &PairChange) -> bool {
        self.distance(change.from).is_some()
    }

    /// Follows changes that all go in one direction; `pairs` already contains them. Touches the nodes whose distance changes and
    /// their neighbours.
    pub fn update(&mut self, pairs: Pairs<'_>, changes: &[PairChange]) {
        let queue = if changes.iter().any(PairChange::is_increase) { self.raise(pairs, changes) } else { self.lower(changes) };
        self.settle(pairs, queue, None);
    }

    /// Takes over the distances that cheaper pairs give directly.
    fn lower(&mut self, changes: &[PairChange]) -> Queue {
        let mut queue = Queue::new();
        for change in changes {
            let Some((from, cost)) = self.distance(change.from).zip(change.after) else { continue };
            if from + cost < self.get(change.to) {
                self.set(change.to, from + cost);
                queue.push(Reverse((from + cost, change.to)));
            }
        }
        queue
    }

    /// Finds the nodes that no tight pair reaches any more (red), in order of distance, and gives each the best distance over nodes
    /// that are not red. Costs are above 0, so all nodes before a node in that order are decided when it is looked at.
    fn raise(&mut self, pairs: Pairs<'_>, changes: &[PairChange]) -> Queue {
        let mut suspects = Queue::new();
        for change in changes {
            let Some((from, before)) = self.distance(change.from).zip(change.before) else { continue };
            if from + before == self.get(change.to) {
                suspects.push(Reverse((from + before, change.to)));
            }
        }
        let mut red: BTreeSet<Node> = BTreeSet::new();
        while let Some(Reverse((distance, node))) = suspects.pop() {
            let is_tight = |entry: &PairEntry| {
                !red.contains(&entry.other) && self.distance(entry.other).is_some_and(|from| from + entry.cost == distance)
            };
            if red.contains(&node) || pairs.incoming.cheapest(node).any(is_tight) {
                continue;
            }
            red.insert(node);
            for entry in pairs.outgoing.cheapest(node) {
                if distance + entry.cost == self.get(entry.other) {
                    suspects.push(Reverse((self.get(entry.other), entry.other)));
                }
            }
        }
        self.restart(pairs, &red)
    }

    fn restart(&mut self, pairs: Pairs<'_>, red: &BTreeSet<Node>) -> Queue {
        let mut queue = Queue::new();
        for node in red {
            let over = |entry: &PairEntry| {
                let from = self.distance(entry.other).filter(|_| !red.contains(&entry.other));
                from.map(|from| from + entry.cost)
            };
            let best = pairs.incoming.cheapest(*node).filter_map(over).min();
            queue.extend(best.map(|best| Reverse((best, *node))));
        }
        for node in red {
            self.set(*node, UNREACHED);
        }
        for Reverse((distance, node)) in &queue {
            self.set(*node, *distance);
        }
        queue
    }

    /// Dijkstra's loop.
    fn settle(&mut self, pairs: Pairs<'_>, mut queue: Queue, target: Option<Node>) {
        while let Some(Reverse((distance, node))) = queue.pop() {
            if distance > self.get(node) {
                continue;
            }
            if Some(node) == target {
                return;
            }
            for entry in pairs.outgoing.cheapest(node) {
                let next = distance + entry.cost;
                if next < self.get(entry.other) {
                    self.set(entry.other, next);
                    queue.push(Reverse((next, entry.other)));
                }
            }
        }
    }
}
