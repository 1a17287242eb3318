//! The corpus: packed vectors of all tools and remembered intents, side by side, so that a question is compared with all at once, and
//! the words of the tools' texts.
//!
//! It is derived from the tools, the memory and the vectors of the same state and updated with them record by record. So the digest
//! leaves it out, and a restored snapshot builds it again ([`Corpus::rebuild`]).

use std::sync::Arc;

use imbl::OrdMap;

use crate::memory::{INTENTS_KEPT, Memory};
use crate::rank::bm25::Bm25;
use crate::rank::packed::PackedRows;
use crate::tool::Tools;
use crate::vectors::{TextHash, Vectors};

/// Values compared at once by [`largest`].
const BLOCK: usize = 64;
/// Values of one group, and groups compared at once, by [`bar_of_groups`]. Smaller groups give a higher bar and are more to choose from.
const GROUP: usize = 16;
const LANES: usize = 16;

/// `Corpus` holds the packed vectors of all tools and remembered intents, and the words of the tools.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    model: Option<Arc<str>>,
    /// By position of the tool.
    tools: PackedRows,
    /// The intent with number n stands in row n modulo [`INTENTS_KEPT`].
    intents: PackedRows,
    /// Positions of tools, by the hash of their text.
    tools_by_text: OrdMap<TextHash, Vec<u32>>,
    /// Documents are numbered by position of the tool. Copied when a text changes while a view shares it.
    words: Arc<Bm25>,
}

/// What a new vector changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorChange {
    /// The vectors of another model are served.
    Model,
    /// The rows of at least one tool.
    Tools,
    /// At most the row of an intent.
    NoTool,
}

impl Corpus {
    /// Builds the corpus of these parts of a state.
    pub fn rebuild(tools: &Tools, memory: &Memory, vectors: &Vectors) -> Self {
        let (tool_rows, intents) = (PackedRows::new(vectors.dim()), PackedRows::new(vectors.dim()));
        let model = vectors.model().cloned();
        let mut corpus = Self { model, tools: tool_rows, intents, tools_by_text: OrdMap::new(), words: Arc::default() };
        for position in tools.positions() {
            corpus.set_tool_text(position, None, tools.at(position).text().as_deref(), vectors);
        }
        for (number, entry) in memory.iter() {
            corpus.set_intent(number, entry.hash, vectors);
        }
        corpus
    }

    /// Sets the vector and the words of a tool whose text changed from `before` to `now`.
    pub fn set_tool_text(&mut self, position: u32, before: Option<&str>, now: Option<&str>, vectors: &Vectors) {
        if let Some(tools) = before.and_then(|before| self.tools_by_text.get_mut(&TextHash::compute(before))) {
            tools.retain(|other| *other != position);
        }
        Arc::make_mut(&mut self.words).replace(position, before, now);
        let row = position as usize;
        self.tools.set(row, None);
        if let Some(hash) = now.map(TextHash::compute) {
            self.tools_by_text.entry(hash).or_default().push(position);
            self.tools.set(row, vectors.get(hash).map(|vector| &**vector));
        }
    }

    /// Sets the vector of the intent with this number in the memory.
    pub fn set_intent(&mut self, number: u64, hash: TextHash, vectors: &Vectors) {
        self.intents.set(row(number), vectors.get(hash).map(|vector| &**vector));
    }

    /// Sets the rows of a text whose vector was computed. When another model took over, everything is rebuilt.
    pub fn update_vector(&mut self, hash: TextHash, tools: &Tools, memory: &Memory, vectors: &Vectors) -> VectorChange {
        if self.model.as_ref() != vectors.model() {
            *self = Self::rebuild(tools, memory, vectors);
            return VectorChange::Model;
        }
        let Some(vector) = vectors.get(hash) else { return VectorChange::NoTool };
        if let Some(number) = memory.number(hash) {
            self.intents.set(row(number), Some(vector));
        }
        let with_text = self.tools_by_text.get(&hash).map(Vec::as_slice).unwrap_or_default();
        for position in with_text {
            self.tools.set(*position as usize, Some(vector));
        }
        if with_text.is_empty() { VectorChange::NoTool } else { VectorChange::Tools }
    }

    /// For each of `vectors`, its similarity with every tool, by position.
    pub fn tool_similarities(&self, vectors: &[&[f32]]) -> Vec<Vec<f32>> {
        self.tools.products(vectors)
    }

    /// The BM25 score of every tool's text for `text`, by position. Tools never registered after the last registered one are missing.
    pub fn tool_words(&self, text: &str) -> Vec<f32> {
        self.words.scores(text)
    }

    /// The intents most similar to `vector`, at most `keep`, the nearest first, by number; `except` is left out.
    pub fn nearest_intents(&self, vector: &[f32], memory: &Memory, keep: usize, except: Option<u64>) -> Vec<(u64, f32)> {
        let products = self.intents.products(&[vector]).remove(0);
        let numbers = memory.numbers().filter(|number| Some(*number) != except);
        let similar = |number: u64| (number, products.get(row(number)).copied().unwrap_or(0.0));
        top(numbers.map(similar).filter(|(_, similarity)| *similarity > 0.0), keep)
    }
}

/// Returns the items with the largest values, at most `keep`, the largest first; of equals the earlier ones. O(n), since most are
/// smaller than the smallest kept.
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

/// Returns the positions of the largest values above 0, at most `keep`, the largest first; of equals the earlier ones. O(n).
pub(crate) fn largest(values: &[f32], keep: usize) -> Vec<u32> {
    largest_above(values, keep, bar_of_groups(values, keep), |_| true)
}

/// The same of the positions that `wanted` accepts; only those of values that are large enough are asked about.
pub(crate) fn largest_of(values: &[f32], keep: usize, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    largest_above(values, keep, 0.0, wanted)
}

/// The same of values above `bar`, which is at least 0. Looks at [`BLOCK`] values at once, since few blocks have one to keep.
fn largest_above(values: &[f32], keep: usize, mut bar: f32, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    if keep == 0 {
        return Vec::new();
    }
    let mut kept: Vec<LargerFirst> = Vec::with_capacity(values.len().min(2 * keep + 2 * BLOCK));
    for (block, from) in values.chunks(BLOCK).zip((0_u32..).step_by(BLOCK)) {
        if block.iter().filter(|value| **value > bar).count() > 0 {
            let large = (from..).zip(block.iter().copied()).filter(|(at, value)| *value > bar && wanted(*at));
            kept.extend(large.map(|(at, value)| LargerFirst::new(at, value)));
            if kept.len() >= 2 * keep + BLOCK {
                kept.select_nth_unstable(keep - 1);
                kept.truncate(keep);
                bar = kept[keep - 1].value();
            }
        }
    }
    if kept.len() > keep {
        kept.select_nth_unstable(keep - 1);
        kept.truncate(keep);
    }
    kept.sort_unstable();
    kept.into_iter().map(LargerFirst::position).collect()
}

/// A number below the `keep` largest values, and above most others: the largest values of `keep` groups are `keep` values, so no
/// smaller one is among the largest. Without it most blocks of a few thousand values are looked at one by one before the bar is high.
/// Groups of [`GROUP`] values are compared [`LANES`] at once; what is left over at the end belongs to none.
fn bar_of_groups(values: &[f32], keep: usize) -> f32 {
    let mut tops = Vec::with_capacity(values.len() / GROUP + LANES);
    for some in values.as_chunks::<LANES>().0.chunks(GROUP) {
        let mut top = [0.0_f32; LANES];
        for row in some {
            for lane in 0..LANES {
                top[lane] = if row[lane] > top[lane] { row[lane] } else { top[lane] };
            }
        }
        tops.extend(top);
    }
    if keep == 0 || tops.len() < keep {
        return 0.0;
    }
    let (_, least, _) = tops.select_nth_unstable_by(keep - 1, |one, other| other.total_cmp(one));
    // The value itself is to be kept.
    if *least > 0.0 { least.next_down() } else { 0.0 }
}

/// A position with its value, which is above 0, as one number that is ordered by value, the largest first, then by position. One number
/// is compared in half the time of two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LargerFirst(u64);

impl LargerFirst {
    fn new(position: u32, value: f32) -> Self {
        debug_assert!(value > 0.0, "only such values are ordered as their bits are");
        Self(u64::from(!value.to_bits()) << 32 | u64::from(position))
    }

    fn value(self) -> f32 {
        f32::from_bits(!u32::try_from(self.0 >> 32).expect("the upper half"))
    }

    fn position(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).expect("the lower half")
    }
}

fn row(number: u64) -> usize {
    usize::try_from(number % INTENTS_KEPT as u64).expect("fewer than INTENTS_KEPT")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ToolRegistered;
    use crate::id::ToolId;
    use crate::tool::Tool;

    #[test]
    fn the_words_of_a_rebuilt_corpus_score_as_those_kept_up_to_date() {
        let (mut tools, vectors) = (Tools::default(), Vectors::default());
        let mut kept = Corpus::default();
        for (tool, description) in [("s:a", "read a file"), ("s:b", "send mail"), ("s:a", "read mail"), ("s:c", "mail a file")]
        {
            let tool: ToolId = tool.parse().unwrap();
            let before = tools.get(&tool).and_then(Tool::text);
            tools.register(ToolRegistered {
                tool: tool.clone(),
                name: tool.to_string(),
                description: description.to_owned(),
                input_schema: None,
                output_schema: None,
                annotations: None,
            });
            let (position, now) = (tools.position(&tool).unwrap(), tools.get(&tool).and_then(Tool::text));
            kept.set_tool_text(position, before.as_deref(), now.as_deref(), &vectors);
        }
        let rebuilt = Corpus::rebuild(&tools, &Memory::default(), &vectors);
        for text in ["read the mail", "a file", "nothing of that"] {
            assert_eq!(kept.tool_words(text), rebuilt.tool_words(text), "{text}");
        }
        let scores = kept.tool_words("file");
        assert!(scores[0].abs() < 1e-9 && scores[2] > 0.0, "the text before does not count: {scores:?}");
    }

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
        for keep in [0, 1, 16, 63, 64, 65, 2_000] {
            let positive = (0..).zip(values.iter().copied()).filter(|(_, value)| *value > 0.0);
            let expected: Vec<u32> = top(positive, keep).into_iter().map(|(position, _)| position).collect();
            assert_eq!(largest(&values, keep), expected, "{keep}");
            let even = (0..).step_by(2).zip(values.iter().copied().step_by(2)).filter(|(_, value)| *value > 0.0);
            let expected: Vec<u32> = top(even, keep).into_iter().map(|(position, _)| position).collect();
            assert_eq!(largest_of(&values, keep, |at| at % 2 == 0), expected, "{keep} of the even ones");
        }
    }

    #[test]
    fn of_many_equal_values_the_first_are_the_largest() {
        assert_eq!(largest(&[0.5; 1_000], 3), [0, 1, 2]);
        assert_eq!(largest(&[f32::from_bits(1); 300], 2), [0, 1], "the smallest number above 0");
        assert!(largest(&[0.0; 300], 2).is_empty() && largest(&[-1.0; 300], 2).is_empty());
    }
}
