//! Transition counts: how often one call followed another (order 1) or two others (order 2), with the start and the end of a run as
//! symbols.

use imbl::OrdMap;

use super::{Node, drop_rarest, upsert};
use crate::digest::{DigestWriter, Digestible};

/// The start of a run, its end, or a call in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

impl Symbol {
    pub const START: Self = Self(0);
    pub const END: Self = Self(1);

    pub const fn call(node: Node) -> Self {
        Self(node.to_bits() + 2)
    }

    pub const fn to_bits(self) -> u32 {
        self.0
    }

    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The call; `None` for the start and the end.
    pub const fn node(self) -> Option<Node> {
        if self.0 < 2 { None } else { Some(Node::from_bits(self.0 - 2)) }
    }
}

/// Times seen, and times seen in a run that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub seen: u32,
    pub succeeded: u32,
}

/// Distinct transitions kept of each order. Beyond it those seen least are dropped, an eighth at a time. Constant, because the fold
/// depends on it.
pub const TRANSITIONS_KEPT: usize = 1 << 20;

/// A transition of order 1 as one number, which is compared faster than two: the last symbol, and the next in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct First(u64);

impl First {
    const fn new(last: Symbol, next: Symbol) -> Self {
        Self((last.0 as u64) << 32 | next.0 as u64)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the symbols are taken apart")]
    const fn symbols(self) -> (Symbol, Symbol) {
        (Symbol((self.0 >> 32) as u32), Symbol(self.0 as u32))
    }
}

/// The same of order 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Second(u128);

impl Second {
    const fn new(before: Symbol, last: Symbol, next: Symbol) -> Self {
        Self((before.0 as u128) << 64 | First::new(last, next).0 as u128)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the symbols are taken apart")]
    const fn symbols(self) -> (Symbol, Symbol, Symbol) {
        let (last, next) = First(self.0 as u64).symbols();
        (Symbol((self.0 >> 64) as u32), last, next)
    }
}

/// Transition counts of order 1 and 2.
#[derive(Clone, Debug, Default)]
pub struct Transitions {
    first: OrdMap<First, Count>,
    second: OrdMap<Second, Count>,
    /// Total numbers of calls and of ended runs.
    calls: u64,
    ends: u64,
}

impl Transitions {
    /// Counts a whole run. An abandoned run (`ended` is false) has no end symbol: where it stopped says nothing about what follows.
    pub fn observe(&mut self, calls: &[Node], success: bool, ended: bool) {
        let end = ended.then_some(Symbol::END);
        self.calls += calls.len() as u64;
        self.ends += u64::from(ended);
        let (mut before, mut last) = (None, Symbol::START);
        for next in calls.iter().map(|&node| Symbol::call(node)).chain(end) {
            upsert(&mut self.first, First::new(last, next), |seen| count(seen, success));
            if let Some(before) = before {
                upsert(&mut self.second, Second::new(before, last, next), |seen| count(seen, success));
            }
            (before, last) = (Some(last), next);
        }
        let (first, second) = self.len();
        drop_rarest(&mut self.first, TRANSITIONS_KEPT, first, |count| Some(count.seen));
        drop_rarest(&mut self.second, TRANSITIONS_KEPT, second, |count| Some(count.seen));
    }

    /// The symbols that followed `last`, in symbol order.
    pub fn after(&self, last: Symbol) -> impl Iterator<Item = (Symbol, Count)> {
        let range = First::new(last, Symbol(0))..=First::new(last, Symbol(u32::MAX));
        self.first.range(range).map(|(key, count)| (key.symbols().1, *count))
    }

    /// The symbols that followed `before` and then `last`, in symbol order.
    pub fn after_two(&self, before: Symbol, last: Symbol) -> impl Iterator<Item = (Symbol, Count)> {
        let range = Second::new(before, last, Symbol(0))..=Second::new(before, last, Symbol(u32::MAX));
        self.second.range(range).map(|(key, count)| (key.symbols().2, *count))
    }

    /// All transitions as (symbol before the last, for order 2 only; last symbol; next symbol; count). Order 1 first, in symbol order.
    pub fn rows(&self) -> impl Iterator<Item = (Option<Symbol>, Symbol, Symbol, Count)> {
        let first = self.first.iter().map(|(key, count)| {
            let (last, next) = key.symbols();
            (None, last, next, *count)
        });
        first.chain(self.second.iter().map(|(key, count)| {
            let (before, last, next) = key.symbols();
            (Some(before), last, next, *count)
        }))
    }

    /// Rebuilds the counts from [`Self::rows`], [`Self::calls`] and [`Self::ends`].
    pub fn from_rows(
        rows: impl IntoIterator<Item = (Option<Symbol>, Symbol, Symbol, Count)>,
        (calls, ends): (u64, u64),
    ) -> Self {
        let mut transitions = Self { calls, ends, ..Self::default() };
        for (before, last, next, count) in rows {
            match before {
                None => transitions.first.insert(First::new(last, next), count),
                Some(before) => transitions.second.insert(Second::new(before, last, next), count),
            };
        }
        transitions
    }

    /// The number of calls counted.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The number of ended runs counted.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The numbers of distinct transitions of order 1 and of order 2.
    pub fn len(&self) -> (usize, usize) {
        (self.first.len(), self.second.len())
    }
}

fn count(count: &mut Count, success: bool) {
    count.seen += 1;
    count.succeeded += u32::from(success);
}

impl Digestible for Transitions {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.u64(self.calls).u64(self.ends).len(self.first.len());
        for (key, count) in &self.first {
            let (last, next) = key.symbols();
            writer.u32(last.0).u32(next.0).u32(count.seen).u32(count.succeeded);
        }
        writer.len(self.second.len());
        for (key, count) in &self.second {
            let (before, last, next) = key.symbols();
            writer.u32(before.0).u32(last.0).u32(next.0).u32(count.seen).u32(count.succeeded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_counted_from_start_to_end_in_both_orders() {
        let (a, b) = (Node::tool(0), Node::tool(1));
        let (sa, sb) = (Symbol::call(a), Symbol::call(b));
        let mut transitions = Transitions::default();
        transitions.observe(&[a, b], true, true);
        transitions.observe(&[a], false, false);
        let seen = |seen, succeeded| Count { seen, succeeded };
        assert_eq!(transitions.after(Symbol::START).collect::<Vec<_>>(), [(sa, seen(2, 1))]);
        assert_eq!(transitions.after(sa).collect::<Vec<_>>(), [(sb, seen(1, 1))]);
        assert_eq!(transitions.after(sb).collect::<Vec<_>>(), [(Symbol::END, seen(1, 1))]);
        assert_eq!(transitions.after_two(Symbol::START, sa).collect::<Vec<_>>(), [(sb, seen(1, 1))]);
        assert_eq!(transitions.after_two(sa, sb).collect::<Vec<_>>(), [(Symbol::END, seen(1, 1))]);
        assert_eq!(transitions.len(), (3, 2));
    }
}
