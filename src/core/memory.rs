//! Intent memory: which intents were seen, and what succeeded when they were. The cheapest large win there is (ALGORITHMS 1).

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap};

use super::digest::{DigestWriter, Digestible};
use super::graph::Node;
use super::graph::transition::Symbol;
use super::id::{ExecutionId, PrecomputedHash, Seq};
use super::vectors::TextHash;

/// Distinct intents kept; the first seen go first. Part of the fold, hence constant. Every question is compared with all of them.
pub const INTENTS_KEPT: usize = 20_000;

/// Different ways kept per intent, those gone last, and calls kept per way, the first ones.
pub const WAYS_KEPT: usize = 4;
pub const CALLS_KEPT: usize = 64;

/// One intent and what became of it.
#[derive(Clone, Debug)]
pub struct Remembered {
    pub intent: Arc<str>,
    pub hash: TextHash,
    /// Runs with this intent.
    pub runs: u32,
    /// What succeeded in how many of them, in node order.
    pub used: Vec<(Node, u32)>,
    /// What was called one after the other, the way gone last at the end.
    pub ways: Vec<Way>,
}

/// A sequence of calls that runs with the same intent went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub calls: Arc<[Node]>,
    /// Whether the run ended there; an abandoned one, or one cut to [`CALLS_KEPT`], might have gone on.
    pub ended: bool,
    pub times: u32,
    pub succeeded: u32,
    /// The last record that taught it, and the execution it is about.
    pub seq: Seq,
    pub execution: ExecutionId,
}

impl Way {
    /// From the start of the run to its end, if it had one.
    pub fn symbols(&self) -> Vec<Symbol> {
        let calls = self.calls.iter().map(|call| Symbol::call(*call));
        std::iter::once(Symbol::START).chain(calls).chain(self.ended.then_some(Symbol::END)).collect()
    }
}

/// A run as the memory sees it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub calls: &'a [Node],
    pub success: bool,
    pub abandoned: bool,
    pub seq: Seq,
    pub execution: &'a ExecutionId,
}

#[derive(Clone, Debug, Default)]
pub struct Memory {
    numbers: GenericHashMap<TextHash, u64, BuildHasherDefault<PrecomputedHash>, DefaultSharedPtr>,
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
    pub fn observe(&mut self, intent: &str, hash: TextHash, nodes: &[Node], run: Run<'_>) -> Noted {
        if let Some(number) = self.numbers.get(&hash) {
            let entry = Arc::make_mut(self.entries.get_mut(number).expect("numbered entries are kept"));
            count(entry, nodes);
            entry.went(run);
            return Noted::Again;
        }
        let mut entry = Remembered { intent: intent.into(), hash, runs: 0, used: Vec::new(), ways: Vec::new() };
        count(&mut entry, nodes);
        entry.went(run);
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

    /// The number of an intent, while it is kept.
    pub fn number(&self, hash: TextHash) -> Option<u64> {
        self.numbers.get(&hash).copied()
    }

    pub fn get(&self, number: u64) -> Option<&Arc<Remembered>> {
        self.entries.get(&number)
    }

    /// The numbers of those kept.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.next - self.entries.len() as u64..self.next
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Remembered {
    fn went(&mut self, run: Run<'_>) {
        let calls = &run.calls[..run.calls.len().min(CALLS_KEPT)];
        let ended = !run.abandoned && calls.len() == run.calls.len();
        let known = self.ways.iter().position(|way| way.ended == ended && *way.calls == *calls);
        let mut way = if let Some(at) = known {
            self.ways.remove(at)
        } else {
            let (seq, execution) = (run.seq, run.execution.clone());
            Way { calls: calls.into(), ended, times: 0, succeeded: 0, seq, execution }
        };
        way.times = way.times.saturating_add(1);
        way.succeeded = way.succeeded.saturating_add(u32::from(run.success));
        if run.seq != way.seq {
            (way.seq, way.execution) = (run.seq, run.execution.clone());
        }
        if self.ways.len() == WAYS_KEPT {
            self.ways.remove(0);
        }
        self.ways.push(way);
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
    fn digest(&self, writer: &mut DigestWriter) {
        writer.u64(self.next).len(self.entries.len());
        for (number, entry) in &self.entries {
            writer.u64(*number).text(&entry.intent).u32(entry.runs).len(entry.used.len());
            for (node, times) in &entry.used {
                writer.u32(node.to_bits()).u32(*times);
            }
            writer.len(entry.ways.len());
            for way in &entry.ways {
                writer.len(way.calls.len());
                for call in way.calls.iter() {
                    writer.u32(call.to_bits());
                }
                writer.bool(way.ended).u32(way.times).u32(way.succeeded).u64(way.seq.0).text(way.execution.as_str());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<'a>(calls: &'a [Node], seq: u64, execution: &'a ExecutionId) -> Run<'a> {
        Run { calls, success: true, abandoned: false, seq: Seq(seq), execution }
    }

    #[test]
    fn intents_count_once_and_the_first_seen_goes_first() {
        let mut memory = Memory::default();
        let execution = "e".parse().unwrap();
        let mut observe =
            |intent: &str, nodes: &[Node]| memory.observe(intent, TextHash::of(intent), nodes, run(nodes, 1, &execution));
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
        let execution = "e".parse().unwrap();
        memory.observe("read", TextHash::of("read"), &[a], run(&[a], 1, &execution));
        memory.observe("read", TextHash::of("read"), &[a, b], run(&[a, b], 2, &execution));
        let (_, entry) = memory.iter().next().expect("one entry");
        assert_eq!((entry.runs, entry.used.as_slice()), (2, [(b, 1), (a, 2)].as_slice()));
    }

    #[test]
    fn the_ways_gone_last_are_kept_with_who_went_them() {
        let mut memory = Memory::default();
        let execution = |number: u64| -> ExecutionId { format!("e{number}").parse().unwrap() };
        let mut go = |seq: u64, calls: &[Node]| {
            memory.observe("read", TextHash::of("read"), &[], run(calls, seq, &execution(seq)));
            let (_, entry) = memory.iter().next().expect("one entry");
            entry.ways.iter().map(|way| (way.calls.len(), way.times, way.seq.0)).collect::<Vec<_>>()
        };
        let calls: Vec<Node> = (0..80).map(Node::tool).collect();
        go(1, &calls[..1]);
        go(2, &calls[..2]);
        assert_eq!(go(3, &calls[..1]), [(2, 1, 2), (1, 2, 3)]);
        go(4, &calls[..3]);
        go(5, &calls[..4]);
        assert_eq!(go(6, &calls), [(1, 2, 3), (3, 1, 4), (4, 1, 5), (CALLS_KEPT, 1, 6)]);
        let (_, entry) = memory.iter().next().expect("one entry");
        let cut = entry.ways.last().expect("four ways");
        assert!(!cut.ended && entry.ways[0].ended && cut.execution == execution(6));
    }
}
