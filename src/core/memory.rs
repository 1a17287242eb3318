//! Intent memory: which intents were seen, and what succeeded when they were. The cheapest large win there is (ALGORITHMS 1).

use std::sync::Arc;

use imbl::OrdMap;

use super::digest::{Digestible, Writer};
use super::graph::Node;
use super::vectors::TextHash;

/// Distinct intents kept; the first seen go first. Part of the fold, hence constant. Every question is compared with all of them.
pub const INTENTS_KEPT: usize = 20_000;

/// One intent and what became of it.
#[derive(Clone, Debug)]
pub struct Remembered {
    pub intent: Arc<str>,
    pub hash: TextHash,
    /// Runs with this intent.
    pub runs: u32,
    /// What succeeded in how many of them, in node order.
    pub used: Vec<(Node, u32)>,
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    numbers: OrdMap<TextHash, u64>,
    /// By number, in the order they were first seen.
    entries: OrdMap<u64, Arc<Remembered>>,
    next: u64,
}

/// What an observation did to the memory.
#[derive(Debug, PartialEq, Eq)]
pub enum Noted {
    /// The intent was known.
    Again,
    /// It is new.
    New,
    /// It is new and another one had to go.
    Instead(Arc<str>),
}

impl Memory {
    /// A run with this intent, in which `nodes` (each once) succeeded.
    pub fn observe(&mut self, intent: &str, hash: TextHash, nodes: &[Node]) -> Noted {
        if let Some(number) = self.numbers.get(&hash) {
            let entry = self.entries.get_mut(number).expect("numbered entries are kept");
            count(Arc::make_mut(entry), nodes);
            return Noted::Again;
        }
        let mut entry = Remembered { intent: intent.into(), hash, runs: 0, used: Vec::new() };
        count(&mut entry, nodes);
        self.entries.insert(self.next, Arc::new(entry));
        self.numbers.insert(hash, self.next);
        self.next += 1;
        if self.entries.len() <= INTENTS_KEPT {
            return Noted::New;
        }
        let (oldest, gone) = self.entries.get_min().cloned().expect("more than INTENTS_KEPT entries");
        self.entries.remove(&oldest);
        self.numbers.remove(&gone.hash);
        Noted::Instead(Arc::clone(&gone.intent))
    }

    /// By number: in the order they were first seen.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Arc<Remembered>)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// The number that the next new intent gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// By number, as [`Self::iter`] gives them.
    pub fn from_rows(rows: impl IntoIterator<Item = (u64, Remembered)>, next: u64) -> Self {
        let entries: OrdMap<u64, Arc<Remembered>> = rows.into_iter().map(|(number, row)| (number, Arc::new(row))).collect();
        Self { numbers: entries.iter().map(|(number, entry)| (entry.hash, *number)).collect(), entries, next }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn count(entry: &mut Remembered, nodes: &[Node]) {
    entry.runs = entry.runs.saturating_add(1);
    for node in nodes {
        match entry.used.binary_search_by_key(node, |(node, _)| *node) {
            Ok(at) => entry.used[at].1 = entry.used[at].1.saturating_add(1),
            Err(at) => entry.used.insert(at, (*node, 1)),
        }
    }
}

impl Digestible for Memory {
    fn digest(&self, writer: &mut Writer) {
        writer.u64(self.next).len(self.entries.len());
        for (number, entry) in &self.entries {
            writer.u64(*number).text(&entry.intent).u32(entry.runs).len(entry.used.len());
            for (node, times) in &entry.used {
                writer.u32(node.to_bits()).u32(*times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intents_count_once_and_the_first_seen_goes_first() {
        let mut memory = Memory::default();
        let mut observe = |intent: &str, nodes: &[Node]| memory.observe(intent, TextHash::of(intent), nodes);
        let (a, b) = (Node::tool(1), Node::tool(0));
        assert_eq!(observe("first", &[a]), Noted::New);
        assert_eq!(observe("first", &[a, b]), Noted::Again);
        for number in 1..INTENTS_KEPT {
            assert_eq!(observe(&number.to_string(), &[]), Noted::New);
        }
        assert_eq!(observe("one too many", &[]), Noted::Instead("first".into()));
        assert_eq!(observe("first", &[]), Noted::Instead("1".into()));
        assert_eq!(memory.len(), INTENTS_KEPT);
    }

    #[test]
    fn what_succeeded_is_counted_per_run() {
        let mut memory = Memory::default();
        let (a, b) = (Node::tool(1), Node::tool(0));
        memory.observe("read", TextHash::of("read"), &[a]);
        memory.observe("read", TextHash::of("read"), &[a, b]);
        let (_, entry) = memory.iter().next().expect("one entry");
        assert_eq!((entry.runs, entry.used.as_slice()), (2, [(b, 1), (a, 2)].as_slice()));
    }
}
