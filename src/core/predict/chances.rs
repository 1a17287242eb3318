//! What usually comes next: counts of what followed, each order smoothed by the one below it (Witten and Bell: as much weight for
//! the unseen as there were different things seen), then refined by what past intents near this one did after the same call.

use std::collections::{BTreeMap, BTreeSet};

use super::candidates::Candidate;
use super::evidence::{Evidence, Less};
use crate::core::graph::transition::Symbol;
use crate::core::graph::{Node, NodeKind};
use crate::core::memory::Way;
use crate::core::state::State;

/// Counted before anything was seen.
const UNSEEN: f64 = 0.5;
/// How much the near past must weigh to count as much as the step below it.
const NEAR_PRIOR: f64 = 0.3;
/// Runs of one past intent that count, at most.
const RUNS_COUNTED: u32 = 8;

/// What followed something: how often each, and in all.
#[derive(Clone, Debug, Default)]
struct Followers {
    counts: BTreeMap<Symbol, f64>,
    total: f64,
}

impl Followers {
    fn add(&mut self, symbol: Symbol, times: f64) {
        *self.counts.entry(symbol).or_default() += times;
        self.total += times;
    }

    /// Takes back what was added, in whole numbers.
    fn take(&mut self, symbol: Symbol, times: f64) {
        let Some(seen) = self.counts.get_mut(&symbol) else { return };
        let taken = times.min(*seen);
        *seen -= taken;
        self.total -= taken;
        if *seen <= 0.0 {
            self.counts.remove(&symbol);
        }
    }

    fn calls(&self) -> impl Iterator<Item = (Node, f64)> {
        self.counts.iter().filter_map(|(symbol, times)| Some((symbol.node()?, *times)))
    }

    fn seen(&self, symbol: Symbol) -> f64 {
        self.counts.get(&symbol).copied().unwrap_or(0.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "distinct followers are few")]
    fn smoothed(&self, symbol: Symbol, below: f64) -> f64 {
        let different = self.counts.len() as f64;
        if self.counts.is_empty() { below } else { (self.seen(symbol) + different * below) / (self.total + different) }
    }

    fn refined(&self, symbol: Symbol, below: f64) -> f64 {
        (self.seen(symbol) + NEAR_PRIOR * below) / (self.total + NEAR_PRIOR)
    }
}

/// Probabilities of one candidate, each finer than the one before.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// Whatever went before.
    pub any: f64,
    /// After the last call.
    pub last: f64,
    /// After the last two.
    pub two: f64,
    /// After the last call, by past intents near this one, those counting most whose run looked alike until there.
    pub near: f64,
    /// The same by the very nearest.
    pub nearest: f64,
}

/// One place in one run, seen from which every candidate has its chance.
#[derive(Clone, Debug)]
pub struct Chances<'a> {
    state: &'a State,
    less: &'a Less,
    context: &'a [Option<Node>],
    total: f64,
    after: Followers,
    after_two: Followers,
    near: Followers,
    nearest: Followers,
}

impl<'a> Chances<'a> {
    /// At the start of a run the last call is the start itself; after a call nobody knows there is nothing to go by.
    pub fn of(state: &'a State, evidence: &Evidence, context: &'a [Option<Node>], less: &'a Less) -> Self {
        let symbols: Vec<Option<Symbol>> =
            std::iter::once(Some(Symbol::START)).chain(context.iter().map(|node| node.map(Symbol::call))).collect();
        let mut chances = Self {
            state,
            less,
            context,
            total: total(state, less),
            after: Followers::default(),
            after_two: Followers::default(),
            near: Followers::default(),
            nearest: Followers::default(),
        };
        if let Some(last) = symbols.last().copied().flatten() {
            let before = symbols.len().checked_sub(2).and_then(|at| symbols[at]);
            chances.count(before, last);
            chances.recall(evidence, last);
        }
        chances
    }

    fn count(&mut self, before: Option<Symbol>, last: Symbol) {
        for (symbol, count) in self.state.transitions.after(last) {
            self.after.add(symbol, f64::from(count.seen));
        }
        if let Some(before) = before {
            for (symbol, count) in self.state.transitions.after_two(before, last) {
                self.after_two.add(symbol, f64::from(count.seen));
            }
        }
        for way in &self.less.ways {
            let (symbols, times) = (way.symbols(), f64::from(way.times));
            for pair in symbols.windows(2).filter(|pair| pair[0] == last) {
                self.after.take(pair[1], times);
            }
            for three in symbols.windows(3).filter(|three| Some(three[0]) == before && three[1] == last) {
                self.after_two.take(three[2], times);
            }
        }
    }

    fn recall(&mut self, evidence: &Evidence, last: Symbol) {
        let here: BTreeSet<Node> = self.context.iter().copied().flatten().collect();
        for past in &evidence.near {
            for way in &past.entry.ways {
                let followed = followed(way, last, &here);
                let best = followed.iter().map(|(_, alike)| *alike).fold(0.0, f64::max);
                let sum: f64 = followed.iter().map(|(_, alike)| alike).sum();
                if best <= 0.0 {
                    continue;
                }
                let times = f64::from(way.times.min(RUNS_COUNTED)) * best / sum;
                for (symbol, alike) in followed {
                    self.near.add(symbol, past.weight * times * alike);
                    self.nearest.add(symbol, past.weight_sharp * times * alike);
                }
            }
        }
    }

    /// What followed the last call, with how often.
    pub fn followed(&self) -> impl Iterator<Item = (Node, f64)> {
        self.after.calls()
    }

    /// The same in the runs of past intents near this one, each counting as much as it is alike.
    pub fn recalled(&self) -> impl Iterator<Item = (Node, f64)> {
        self.near.calls()
    }

    pub fn context(&self) -> &[Option<Node>] {
        self.context
    }

    pub fn chance(&self, candidate: Candidate) -> Chance {
        let kinds = count(self.state.tools.len() as u64) + 1.0;
        let any = (self.calls(candidate) + UNSEEN) / (self.total + UNSEEN * kinds);
        let symbol = candidate.symbol();
        let last = self.after.smoothed(symbol, any);
        let two = self.after_two.smoothed(symbol, last);
        let near = self.near.refined(symbol, two);
        Chance { any, last, two, near, nearest: self.nearest.refined(symbol, near) }
    }

    /// How often it happened at all.
    pub fn calls(&self, candidate: Candidate) -> f64 {
        match candidate {
            Candidate::Done => count(self.state.transitions.ends()) - self.less.ends(),
            Candidate::Call(node) => match node.kind() {
                NodeKind::Tool(position) => (count(self.state.tools.at(position).calls) - self.less.calls(node)).max(0.0),
                // Its usage counts runs that went the same way, too; how often it was called is in what it followed.
                NodeKind::Capability(_) => 0.0,
            },
        }
    }
}

fn total(state: &State, less: &Less) -> f64 {
    count(state.transitions.calls() + state.transitions.ends()) - less.total()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn count(value: u64) -> f64 {
    value as f64
}

/// What followed `last` on a way, each with how much the calls until there were those made here: common ones among all, squared.
fn followed(way: &Way, last: Symbol, here: &BTreeSet<Node>) -> Vec<(Symbol, f64)> {
    let symbols = way.symbols();
    let mut until: BTreeSet<Node> = BTreeSet::new();
    let mut followed = Vec::new();
    for pair in symbols.windows(2) {
        until.extend(pair[0].node());
        if pair[0] == last {
            let common = count(until.intersection(here).count() as u64);
            let all = count(until.union(here).count() as u64);
            let alike = if all > 0.0 { common / all } else { 1.0 };
            followed.push((pair[1], alike * alike));
        }
    }
    followed
}
