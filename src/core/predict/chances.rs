//! What usually comes next: counts of what followed, each order smoothed by the one below it (Witten and Bell: as much weight for
//! the unseen as there were different things seen), the last refined by what past intents near this one did after the same call.

use std::collections::BTreeMap;

use super::candidates::Candidate;
use super::evidence::{Evidence, Less};
use crate::core::graph::transition::Symbol;
use crate::core::graph::{Node, NodeKind};
use crate::core::state::State;

/// Counted before anything was seen.
const UNSEEN: f64 = 0.5;
/// How much the near past must weigh to count as much as all of the past.
const NEAR_PRIOR: f64 = 0.3;

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

    #[expect(clippy::cast_precision_loss, reason = "distinct followers are few")]
    fn smoothed(&self, symbol: Symbol, below: f64) -> f64 {
        let seen = self.counts.get(&symbol).copied().unwrap_or(0.0);
        let different = self.counts.len() as f64;
        if different == 0.0 { below } else { (seen + different * below) / (self.total + different) }
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
    /// After the last call, by past intents near this one.
    pub near: f64,
}

#[derive(Clone, Debug)]
pub struct Chances<'a> {
    state: &'a State,
    context: &'a [Option<Node>],
    total: f64,
    after: Followers,
    after_two: Followers,
    near: Followers,
}

impl<'a> Chances<'a> {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    /// At the start of a run the last call is the start itself; after a call nobody knows there is nothing to go by.
    pub fn of(state: &'a State, evidence: &Evidence, context: &'a [Option<Node>], less: &Less) -> Self {
        let symbols: Vec<Option<Symbol>> =
            std::iter::once(Some(Symbol::START)).chain(context.iter().map(|node| node.map(Symbol::call))).collect();
        let last = symbols.last().copied().flatten();
        let before = symbols.len().checked_sub(2).and_then(|at| symbols[at]);
        let mut chances = Self {
            state,
            context,
            total: (state.transitions.calls() + state.transitions.ends()) as f64,
            after: Followers::default(),
            after_two: Followers::default(),
            near: Followers::default(),
        };
        if let Some(last) = last {
            for (symbol, count) in state.transitions.after(last) {
                chances.after.add(symbol, f64::from(count.seen));
            }
            if let Some(before) = before {
                for (symbol, count) in state.transitions.after_two(before, last) {
                    chances.after_two.add(symbol, f64::from(count.seen));
                }
            }
            chances.recall(evidence, last);
        }
        let _ = less;
        chances
    }

    fn recall(&mut self, evidence: &Evidence, last: Symbol) {
        for near in &evidence.near {
            let mut followed = Vec::new();
            for way in &near.entry.ways {
                let calls = std::iter::once(Symbol::START).chain(way.calls.iter().map(|call| Symbol::call(*call)));
                let symbols: Vec<Symbol> = calls.chain(way.ended.then_some(Symbol::END)).collect();
                let pairs = symbols.windows(2).filter(|pair| pair[0] == last);
                followed.extend(pairs.map(|pair| (pair[1], f64::from(way.times))));
            }
            let times: f64 = followed.iter().map(|(_, times)| times).sum();
            for (symbol, own) in followed {
                self.near.add(symbol, near.weight * own / times);
            }
        }
    }

    pub fn successors(&self) -> impl Iterator<Item = (Node, f64)> {
        self.after.counts.iter().filter_map(|(symbol, count)| Some((symbol.node()?, *count)))
    }

    pub fn context(&self) -> &[Option<Node>] {
        self.context
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn chance(&self, candidate: Candidate) -> Chance {
        let seen = match candidate {
            Candidate::Call(node) => match node.kind() {
                NodeKind::Tool(position) => self.state.tools.at(position).calls as f64,
                NodeKind::Capability(_) => 0.0,
            },
            Candidate::Done => self.state.transitions.ends() as f64,
        };
        let kinds = self.state.tools.len() as f64 + 1.0;
        let any = (seen + UNSEEN) / (self.total + UNSEEN * kinds);
        let symbol = candidate.symbol();
        let last = self.after.smoothed(symbol, any);
        let two = self.after_two.smoothed(symbol, last);
        let seen_near = self.near.counts.get(&symbol).copied().unwrap_or(0.0);
        let near = (seen_near + NEAR_PRIOR * two) / (self.near.total + NEAR_PRIOR);
        Chance { any, last, two, near }
    }
}
