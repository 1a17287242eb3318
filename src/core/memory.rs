//! The memory: past intents, the callees that succeeded with them, and their call sequences (ALGORITHMS 1).

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap};

use super::digest::{DigestWriter, Digestible};
use super::graph::Node;
use super::graph::transition::Symbol;
use super::hash::PrecomputedHash;
use super::id::{ExecutionId, Seq};
use super::vectors::TextHash;

/// Distinct intents kept; the one seen first is evicted first. Constant, because the fold depends on it. Every question is compared
/// with all of them.
pub const INTENTS_KEPT: usize = 20_000;

/// Call sequences kept per intent, the latest ones, and calls kept per sequence, the first ones.
pub const SEQUENCES_KEPT: usize = 4;
pub const CALLS_KEPT: usize = 64;

/// One intent and its runs.
#[derive(Clone, Debug)]
pub struct PastIntent {
    pub intent: Arc<str>,
    pub hash: TextHash,
    /// The number of runs with this intent.
    pub runs: u32,
    /// The nodes that succeeded, each with the number of runs, in node order.
    pub used: Vec<(Node, u32)>,
    /// Its distinct call sequences, the latest one last.
    pub sequences: Vec<CallSequence>,
}

/// The calls, in order, of one or more runs with the same intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSequence {
    pub calls: Arc<[Node]>,
    /// Whether the run ended after the last call: not if it was abandoned or cut to [`CALLS_KEPT`].
    pub ended: bool,
    pub times: u32,
    pub succeeded: u32,
    /// The last `trace.completed` record with this sequence, and its execution.
    pub seq: Seq,
    pub execution: ExecutionId,
}

impl CallSequence {
    /// The sequence as symbols, from the start of the run to its end if it had one.
    pub fn symbols(&self) -> Vec<Symbol> {
        std::iter::once(Symbol::START).chain(self.after_start()).collect()
    }

    /// The same without the start.
    pub fn after_start(&self) -> impl Iterator<Item = Symbol> {
        self.calls.iter().map(|call| Symbol::call(*call)).chain(self.ended.then_some(Symbol::END))
    }
}

/// One run, as [`Memory::observe`] takes it.
#[derive(Clone, Copy, Debug)]
pub struct IntentRun<'a> {
    pub calls: &'a [Node],
    pub success: bool,
    pub abandoned: bool,
    pub seq: Seq,
    pub execution: &'a ExecutionId,
}

/// `Memory` holds at most [`INTENTS_KEPT`] past intents.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    numbers: GenericHashMap<TextHash, u64, BuildHasherDefault<PrecomputedHash>, DefaultSharedPtr>,
    /// By number; numbers follow the order in which intents were first seen.
    entries: OrdMap<u64, Arc<PastIntent>>,
    next: u64,
}

/// The effect of [`Memory::observe`].
#[derive(Debug, PartialEq, Eq)]
pub enum Observed {
    /// The intent was known already.
    Known,
    /// The intent is new.
    New,
    /// The intent is new and this older one was dropped for it.
    Evicted(Arc<str>),
}

impl Memory {
    /// Records a run with this intent, in which `nodes` (each once) succeeded.
    pub fn observe(&mut self, intent: &str, hash: TextHash, nodes: &[Node], run: IntentRun<'_>) -> Observed {
        if let Some(number) = self.numbers.get(&hash) {
            let entry = Arc::make_mut(self.entries.get_mut(number).expect("numbered entries are kept"));
            entry.count_used(nodes);
            entry.record_run(run);
            return Observed::Known;
        }
        let mut entry = PastIntent { intent: intent.into(), hash, runs: 0, used: Vec::new(), sequences: Vec::new() };
        entry.count_used(nodes);
        entry.record_run(run);
        self.entries.insert(self.next, Arc::new(entry));
        self.numbers.insert(hash, self.next);
        self.next += 1;
        if self.entries.len() <= INTENTS_KEPT {
            return Observed::New;
        }
        let (oldest, evicted) = self.entries.get_min().cloned().expect("more than INTENTS_KEPT entries");
        self.entries.remove(&oldest);
        self.numbers.remove(&evicted.hash);
        Observed::Evicted(Arc::clone(&evicted.intent))
    }

    /// The intents with their numbers, in the order they were first seen.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Arc<PastIntent>)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// The number that the next new intent gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Restores what [`Self::iter`] and [`Self::next_number`] gave.
    pub fn from_rows(rows: impl IntoIterator<Item = (u64, PastIntent)>, next: u64) -> Self {
        let entries: OrdMap<u64, Arc<PastIntent>> = rows.into_iter().map(|(number, row)| (number, Arc::new(row))).collect();
        Self { numbers: entries.iter().map(|(number, entry)| (entry.hash, *number)).collect(), entries, next }
    }

    /// The number of an intent, while it is kept.
    pub fn number(&self, hash: TextHash) -> Option<u64> {
        self.numbers.get(&hash).copied()
    }

    pub fn get(&self, number: u64) -> Option<&Arc<PastIntent>> {
        self.entries.get(&number)
    }

    /// The numbers of the intents kept.
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

impl PastIntent {
    fn count_used(&mut self, nodes: &[Node]) {
        self.runs = self.runs.saturating_add(1);
        for node in nodes {
            match self.used.binary_search_by_key(node, |(node, _)| *node) {
                Ok(at) => self.used[at].1 = self.used[at].1.saturating_add(1),
                Err(at) => self.used.insert(at, (*node, 1)),
            }
        }
    }

    fn record_run(&mut self, run: IntentRun<'_>) {
        let calls = &run.calls[..run.calls.len().min(CALLS_KEPT)];
        let ended = !run.abandoned && calls.len() == run.calls.len();
        let known = self.sequences.iter().position(|sequence| sequence.ended == ended && *sequence.calls == *calls);
        let mut sequence = if let Some(at) = known {
            self.sequences.remove(at)
        } else {
            let (seq, execution) = (run.seq, run.execution.clone());
            CallSequence { calls: calls.into(), ended, times: 0, succeeded: 0, seq, execution }
        };
        sequence.times = sequence.times.saturating_add(1);
        sequence.succeeded = sequence.succeeded.saturating_add(u32::from(run.success));
        if run.seq != sequence.seq {
            (sequence.seq, sequence.execution) = (run.seq, run.execution.clone());
        }
        if self.sequences.len() == SEQUENCES_KEPT {
            self.sequences.remove(0);
        }
        self.sequences.push(sequence);
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
            writer.len(entry.sequences.len());
            for sequence in &entry.sequences {
                writer.len(sequence.calls.len());
                for call in sequence.calls.iter() {
                    writer.u32(call.to_bits());
                }
                writer
                    .bool(sequence.ended)
                    .u32(sequence.times)
                    .u32(sequence.succeeded)
                    .u64(sequence.seq.0)
                    .text(sequence.execution.as_str());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<'a>(calls: &'a [Node], seq: u64, execution: &'a ExecutionId) -> IntentRun<'a> {
        IntentRun { calls, success: true, abandoned: false, seq: Seq(seq), execution }
    }

    #[test]
    fn intents_count_once_and_the_first_seen_goes_first() {
        let mut memory = Memory::default();
        let execution = "e".parse().unwrap();
        let mut observe =
            |intent: &str, nodes: &[Node]| memory.observe(intent, TextHash::compute(intent), nodes, run(nodes, 1, &execution));
        let (a, b) = (Node::tool(1), Node::tool(0));
        assert_eq!(observe("first", &[a]), Observed::New);
        assert_eq!(observe("first", &[a, b]), Observed::Known);
        for number in 1..INTENTS_KEPT {
            assert_eq!(observe(&number.to_string(), &[]), Observed::New);
        }
        assert_eq!(observe("one too many", &[]), Observed::Evicted("first".into()));
        assert_eq!(observe("first", &[]), Observed::Evicted("1".into()));
        assert_eq!(memory.len(), INTENTS_KEPT);
    }

    #[test]
    fn what_succeeded_is_counted_per_run() {
        let mut memory = Memory::default();
        let (a, b) = (Node::tool(1), Node::tool(0));
        let execution = "e".parse().unwrap();
        memory.observe("read", TextHash::compute("read"), &[a], run(&[a], 1, &execution));
        memory.observe("read", TextHash::compute("read"), &[a, b], run(&[a, b], 2, &execution));
        let (_, entry) = memory.iter().next().expect("one entry");
        assert_eq!((entry.runs, entry.used.as_slice()), (2, [(b, 1), (a, 2)].as_slice()));
    }

    #[test]
    fn the_latest_call_sequences_are_kept_with_their_executions() {
        let mut memory = Memory::default();
        let execution = |number: u64| -> ExecutionId { format!("e{number}").parse().unwrap() };
        let mut go = |seq: u64, calls: &[Node]| {
            memory.observe("read", TextHash::compute("read"), &[], run(calls, seq, &execution(seq)));
            let (_, entry) = memory.iter().next().expect("one entry");
            entry.sequences.iter().map(|sequence| (sequence.calls.len(), sequence.times, sequence.seq.0)).collect::<Vec<_>>()
        };
        let calls: Vec<Node> = (0..80).map(Node::tool).collect();
        go(1, &calls[..1]);
        go(2, &calls[..2]);
        assert_eq!(go(3, &calls[..1]), [(2, 1, 2), (1, 2, 3)]);
        go(4, &calls[..3]);
        go(5, &calls[..4]);
        assert_eq!(go(6, &calls), [(1, 2, 3), (3, 1, 4), (4, 1, 5), (CALLS_KEPT, 1, 6)]);
        let (_, entry) = memory.iter().next().expect("one entry");
        let cut = entry.sequences.last().expect("four sequences");
        assert!(!cut.ended && entry.sequences[0].ended && cut.execution == execution(6));
    }
}
