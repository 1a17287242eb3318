//! The vectors of tools and of remembered intents, side by side, so that a question is compared with all of them at once.
//!
//! Derived from the tools, the memory and the vectors of the same state, and kept in step with them record by record: it says
//! nothing they do not say, so the digest leaves it out and a snapshot builds it anew ([`Corpus::rebuilt`]).

use std::sync::Arc;

use imbl::OrdMap;

use super::packed::PackedRows;
use crate::core::memory::{INTENTS_KEPT, Memory};
use crate::core::tool::Tools;
use crate::core::vectors::{TextHash, Vectors};

/// Values that are compared at once.
const BLOCK: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Corpus {
    model: Option<Arc<str>>,
    /// By position.
    tools: PackedRows,
    /// The intent with number n stands in row n modulo [`INTENTS_KEPT`].
    intents: PackedRows,
    /// Tools by the text they are found by.
    tools_by_text: OrdMap<TextHash, Vec<u32>>,
}

impl Corpus {
    /// The corpus of these parts.
    pub fn rebuilt(tools: &Tools, memory: &Memory, vectors: &Vectors) -> Self {
        let (tool_rows, intents) = (PackedRows::new(vectors.dim()), PackedRows::new(vectors.dim()));
        let mut corpus = Self { model: vectors.model().cloned(), tools: tool_rows, intents, tools_by_text: OrdMap::new() };
        for position in tools.positions() {
            corpus.tool_described(position, None, tools.at(position).text().as_deref(), vectors);
        }
        for (number, entry) in memory.iter() {
            corpus.intent_remembered(number, entry.hash, vectors);
        }
        corpus
    }

    /// A tool's text is another one.
    pub fn tool_described(&mut self, position: u32, before: Option<&str>, now: Option<&str>, vectors: &Vectors) {
        if let Some(tools) = before.and_then(|before| self.tools_by_text.get_mut(&TextHash::of(before))) {
            tools.retain(|other| *other != position);
        }
        let row = position as usize;
        self.tools.set(row, None);
        if let Some(hash) = now.map(TextHash::of) {
            self.tools_by_text.entry(hash).or_default().push(position);
            self.tools.set(row, vectors.get(hash).map(|vector| &**vector));
        }
    }

    /// An intent got a number in the memory.
    pub fn intent_remembered(&mut self, number: u64, hash: TextHash, vectors: &Vectors) {
        self.intents.set(row(number), vectors.get(hash).map(|vector| &**vector));
    }

    /// The vector of a text came. Another model taking over replaces everything.
    pub fn embedded(&mut self, hash: TextHash, tools: &Tools, memory: &Memory, vectors: &Vectors) {
        if self.model.as_ref() != vectors.model() {
            *self = Self::rebuilt(tools, memory, vectors);
            return;
        }
        let Some(vector) = vectors.get(hash) else { return };
        if let Some(number) = memory.number(hash) {
            self.intents.set(row(number), Some(vector));
        }
        for position in self.tools_by_text.get(&hash).into_iter().flatten() {
            self.tools.set(*position as usize, Some(vector));
        }
    }

    /// By position of the tool, the similarity with each of `vectors`.
    pub fn tool_similarities(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        self.tools.products(vectors)
    }

    /// The intents most similar to `vector`, at most `keep`, the nearest first, by number; `except` is left out.
    pub fn near(&self, vector: &[f32], memory: &Memory, keep: usize, except: Option<u64>) -> Vec<(u64, f32)> {
        let products = self.intents.products(&[vector]).remove(0);
        let numbers = memory.numbers().filter(|number| Some(*number) != except);
        let similar = |number: u64| (number, products.get(row(number)).copied().unwrap_or(0.0));
        top(numbers.map(similar).filter(|(_, similarity)| *similarity > 0.0), keep)
    }
}

/// What has the largest values, at most `keep`, the largest first; of equals those that came first. O(n), since most are smaller than
/// the smallest kept.
pub(super) fn top<T, V: PartialOrd + Copy>(valued: impl Iterator<Item = (T, V)>, keep: usize) -> Vec<(T, V)> {
    let mut kept: Vec<(T, V)> = Vec::with_capacity(keep + 1);
    for (item, value) in valued {
        if kept.len() == keep && kept.last().is_none_or(|(_, smallest)| value <= *smallest) {
            continue;
        }
        let at = kept.partition_point(|(_, other)| *other >= value);
        kept.insert(at, (item, value));
        kept.truncate(keep);
    }
    kept
}

/// The positions of the largest values above 0, at most `keep`, the largest first; of equals those that came first. Looks at
/// [`BLOCK`] values at once, since few blocks have one to keep. O(n).
pub(super) fn largest(values: &[f32], keep: usize) -> Vec<u32> {
    let mut kept: Vec<(u32, f32)> = Vec::new();
    for (block, from) in values.chunks(BLOCK).zip((0_u32..).step_by(BLOCK)) {
        let smallest = if kept.len() < keep { 0.0 } else { kept.last().map_or(f32::INFINITY, |(_, value)| *value) };
        if block.iter().filter(|value| **value > smallest).count() > 0 {
            let larger = (from..).zip(block.iter().copied()).filter(|(_, value)| *value > smallest);
            kept = top(kept.into_iter().chain(larger), keep);
        }
    }
    kept.into_iter().map(|(position, _)| position).collect()
}

fn row(number: u64) -> usize {
    usize::try_from(number % INTENTS_KEPT as u64).expect("fewer than INTENTS_KEPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_order_and_of_equals_the_first() {
        let check = |values: &[i32], keep: usize, expected: &[(usize, i32)]| {
            assert_eq!(top(values.iter().copied().enumerate(), keep), expected, "{values:?}");
        };
        check(&[3, 1, 3, 9, 3], 3, &[(3, 9), (0, 3), (2, 3)]);
        check(&[1, 2], 5, &[(1, 2), (0, 1)]);
        check(&[1, 2], 0, &[]);
        check(&[], 2, &[]);
    }

    #[test]
    fn the_largest_of_many_are_those_of_all() {
        let values: Vec<f32> = (0_u16..1_000).map(|number| f32::from(number.wrapping_mul(40_503) >> 8) - 60.0).collect();
        for keep in [0, 1, 16, 2_000] {
            let positive = (0..).zip(values.iter().copied()).filter(|(_, value)| *value > 0.0);
            let expected: Vec<u32> = top(positive, keep).into_iter().map(|(position, _)| position).collect();
            assert_eq!(largest(&values, keep), expected, "{keep}");
        }
    }
}
