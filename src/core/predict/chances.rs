//! Transition probabilities: counts of what followed the last calls, each order smoothed by the one below it (Witten and Bell: the
//! unseen weighs as much as there were distinct followers), then refined by what near past intents called after the same call.

use std::collections::BTreeMap;

use super::candidates::Candidate;
use super::evidence::{Evidence, Excluded, VOTES_PRIOR};
use crate::graph::transition::Symbol;
use crate::graph::{Node, NodeKind};
use crate::memory::CallSequence;
use crate::state::State;

/// The count of every outcome before anything was seen.
const UNSEEN: f64 = 0.5;
/// The weight of near past intents at which they count as much as the order below.
const NEAR_PRIOR: f64 = 0.3;
/// Runs of one call sequence that count, at most.
const RUNS_COUNTED: u32 = 8;

/// The followers of a context: the count of each, and their total.
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

    /// Undoes `add` of whole counts.
    fn subtract(&mut self, symbol: Symbol, times: f64) {
        let Some(seen) = self.counts.get_mut(&symbol) else { return };
        let removed = times.min(*seen);
        *seen -= removed;
        self.total -= removed;
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

/// `Chance` holds the probabilities of one candidate, each refining the one before.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// Regardless of the calls so far.
    pub any: f64,
    /// After the last call.
    pub last: f64,
    /// After the last two calls.
    pub two: f64,
    /// After the last call in near past intents; a run counts more the more its calls until there equal those so far.
    pub near: f64,
    /// The same, dominated by the very nearest intents.
    pub nearest: f64,
    /// The share of near past runs in which it comes first among what this run has not called yet.
    pub remaining: f64,
}

/// `Chances` computes the probability of every candidate for one step of one run.
#[derive(Clone, Debug)]
pub struct Chances<'a> {
    state: &'a State,
    excluded: &'a Excluded,
    context: &'a [Option<Node>],
    total: f64,
    after: Followers,
    after_two: Followers,
    near: Followers,
    nearest: Followers,
    remaining: Followers,
}

impl<'a> Chances<'a> {
    /// Counts what followed `context`, without the runs in `excluded`. At the start of a run the last symbol is the start itself; an
    /// unknown last call has no followers.
    pub fn new(state: &'a State, evidence: &Evidence, context: &'a [Option<Node>], excluded: &'a Excluded) -> Self {
        let symbols: Vec<Option<Symbol>> =
            std::iter::once(Some(Symbol::START)).chain(context.iter().map(|node| node.map(Symbol::call))).collect();
        let mut chances = Self {
            state,
            excluded,
            context,
            total: total(state, excluded),
            after: Followers::default(),
            after_two: Followers::default(),
            near: Followers::default(),
            nearest: Followers::default(),
            remaining: Followers::default(),
        };
        let mut here: Vec<Node> = context.iter().copied().flatten().collect();
        here.sort_unstable();
        here.dedup();
        chances.add_remaining(evidence, &here);
        if let Some(last) = symbols.last().copied().flatten() {
            let before = symbols.len().checked_sub(2).and_then(|at| symbols[at]);
            chances.count_followers(before, last);
            chances.add_near_followers(evidence, last, &here);
        }
        chances
    }

    fn count_followers(&mut self, before: Option<Symbol>, last: Symbol) {
        for (symbol, count) in self.state.transitions.after(last) {
            self.after.add(symbol, f64::from(count.seen));
        }
        if let Some(before) = before {
            for (symbol, count) in self.state.transitions.after_two(before, last) {
                self.after_two.add(symbol, f64::from(count.seen));
            }
        }
        for sequence in &self.excluded.sequences {
            let (symbols, times) = (sequence.symbols(), f64::from(sequence.times));
            for pair in symbols.windows(2).filter(|pair| pair[0] == last) {
                self.after.subtract(pair[1], times);
            }
            for three in symbols.windows(3).filter(|three| Some(three[0]) == before && three[1] == last) {
                self.after_two.subtract(three[2], times);
            }
        }
    }

    fn add_near_followers(&mut self, evidence: &Evidence, last: Symbol, here: &[Node]) {
        let (mut followed, mut until) = (Vec::new(), Vec::new());
        for past in &evidence.near {
            for sequence in &past.entry.sequences {
                followed.clear();
                add_followers_in(&mut followed, &mut until, sequence, last, here);
                let best = followed.iter().map(|(_, similarity)| *similarity).fold(0.0, f64::max);
                let sum: f64 = followed.iter().map(|(_, similarity)| similarity).sum();
                if best <= 0.0 {
                    continue;
                }
                let times = f64::from(sequence.times.min(RUNS_COUNTED)) * best / sum;
                for (symbol, similarity) in &followed {
                    self.near.add(*symbol, past.weight_smooth * times * similarity);
                    self.nearest.add(*symbol, past.weight_sharp * times * similarity);
                }
            }
        }
    }

    /// Adds, for every near past run, its first call that this run has not made, or its end. A run counts more the more of the calls
    /// so far it made too.
    fn add_remaining(&mut self, evidence: &Evidence, here: &[Node]) {
        for past in &evidence.near {
            for sequence in &past.entry.sequences {
                let open = sequence.calls.iter().find(|call| !here.contains(call));
                let Some(symbol) = open.map(|call| Symbol::call(*call)).or(sequence.ended.then_some(Symbol::END)) else {
                    continue;
                };
                let common = here.iter().filter(|call| sequence.calls.contains(call)).count();
                let similarity = (count(common as u64) + 1.0) / (count(here.len() as u64) + 1.0);
                let times = f64::from(sequence.times.min(RUNS_COUNTED));
                self.remaining.add(symbol, past.weight_usual * times * similarity * similarity);
            }
        }
    }

    /// The calls that followed the last call, with their counts.
    pub fn followers(&self) -> impl Iterator<Item = (Node, f64)> {
        self.after.calls()
    }

    /// The calls that followed it in near past intents, weighted by similarity.
    pub fn near_followers(&self) -> impl Iterator<Item = (Node, f64)> {
        self.near.calls()
    }

    /// The calls so far; `None` for unknown ones.
    pub fn context(&self) -> &[Option<Node>] {
        self.context
    }

    /// The probabilities of one candidate.
    pub fn chance(&self, candidate: Candidate) -> Chance {
        let kinds = count(self.state.tools.len() as u64) + 1.0;
        let any = (self.occurrences(candidate) + UNSEEN) / (self.total + UNSEEN * kinds);
        let symbol = candidate.symbol();
        let last = self.after.smoothed(symbol, any);
        let two = self.after_two.smoothed(symbol, last);
        let near = self.near.refined(symbol, two);
        let remaining = self.remaining.seen(symbol) / (self.remaining.total + VOTES_PRIOR);
        Chance { any, last, two, near, nearest: self.nearest.refined(symbol, near), remaining }
    }

    /// How often the candidate happened in all runs.
    fn occurrences(&self, candidate: Candidate) -> f64 {
        match candidate {
            Candidate::Done => count(self.state.transitions.ends()) - self.excluded.ends(),
            Candidate::Call(node) => match node.kind() {
                NodeKind::Tool(position) => (count(self.state.tools.at(position).calls) - self.excluded.calls(node)).max(0.0),
                // Its usage also counts runs with the same calls; how often it was called itself is in the transitions.
                NodeKind::Capability(_) => 0.0,
            },
        }
    }
}

fn total(state: &State, excluded: &Excluded) -> f64 {
    count(state.transitions.calls() + state.transitions.ends()) - excluded.total()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn count(value: u64) -> f64 {
    value as f64
}

/// Adds to `followed` the followers of `last` in `sequence`, each with the similarity of the calls until there to those in `here`: squared
/// Jaccard index. `until` is a buffer.
fn add_followers_in(
    followed: &mut Vec<(Symbol, f64)>,
    until: &mut Vec<Node>,
    sequence: &CallSequence,
    last: Symbol,
    here: &[Node],
) {
    if last != Symbol::START && !sequence.calls.iter().any(|call| Symbol::call(*call) == last) {
        return;
    }
    until.clear();
    let (mut before, mut common) = (Symbol::START, 0);
    for symbol in sequence.after_start() {
        if let Some(call) = before.node().filter(|call| !until.contains(call)) {
            until.push(call);
            common += u64::from(here.contains(&call));
        }
        if before == last {
            let all = (until.len() + here.len()) as u64 - common;
            let similarity = if all > 0 { count(common) / count(all) } else { 1.0 };
            followed.push((symbol, similarity * similarity));
        }
        before = symbol;
    }
}
