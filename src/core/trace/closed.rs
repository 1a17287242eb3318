//! The latest closed executions with their traces, oldest first. Traces that this state folded are kept in their stored form, a fifth of
//! the memory; those of a snapshot stay packed, so that a start need not build a hundred thousand traces. Both are decoded one by one
//! on request.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use imbl::Vector;

use super::TRACES_KEPT;
use super::numbers::{Number, Numbers};
use crate::digest::DigestWriter;
use crate::event::{Event, Kind, NewRecord, TraceCompleted, codec};
use crate::hash::fnv1a;
use crate::id::ExecutionId;

/// Packed traces of a snapshot, by row.
pub trait PackedTraces: Any + fmt::Debug + Send + Sync {
    /// Unpacks the trace of a row. The implementor has checked that every row can be unpacked.
    fn unpack(&self, row: usize) -> TraceCompleted;

    /// Unpacks the traces of neighbouring rows, which costs less than one by one.
    fn unpack_rows(&self, rows: Range<usize>) -> Vec<TraceCompleted> {
        rows.map(|row| self.unpack(row)).collect()
    }
}

/// Packed traces that are unpacked at once.
const UNPACKED_ROWS: usize = 256;

/// `TracePack` holds packed traces with an index of their execution ids.
#[derive(Debug)]
pub struct TracePack {
    /// The ids of all rows, concatenated.
    ids: String,
    /// By row: the end of its id in `ids`.
    ends: Vec<usize>,
    /// Hash of the id and row, sorted.
    rows: Vec<(u64, u32)>,
    traces: Arc<dyn PackedTraces>,
}

impl TracePack {
    /// Indexes the ids: the id of a row ends at `ends[row]` in `ids` and begins at the end of the one before.
    pub fn new(ids: String, ends: Vec<usize>, traces: Arc<dyn PackedTraces>) -> Self {
        let mut rows = Vec::with_capacity(ends.len());
        let mut from = 0;
        for (row, &end) in (0..).zip(&ends) {
            rows.push((fnv1a(&ids.as_bytes()[from..end]), row));
            from = end;
        }
        rows.sort_unstable();
        Self { ids, ends, rows, traces }
    }

    fn id(&self, row: usize) -> &str {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.ids[from..self.ends[row]]
    }

    fn row(&self, execution: &ExecutionId) -> Option<usize> {
        let hash = execution.text_hash();
        let first = self.rows.partition_point(|(other, _)| *other < hash);
        let same_hash = self.rows[first..].iter().take_while(|(other, _)| *other == hash);
        same_hash.map(|(_, row)| *row as usize).find(|row| self.id(*row) == execution.as_str())
    }
}

/// A closed execution, with its completed trace in the stored form of the event if traces are kept.
#[derive(Clone, Debug)]
struct ClosedExecution {
    id: ExecutionId,
    stored: Option<Arc<[u8]>>,
}

impl ClosedExecution {
    fn decode(&self) -> Option<TraceCompleted> {
        match codec::from_postcard(Kind::TraceCompleted, Kind::TraceCompleted.version(), self.stored.as_deref()?) {
            Ok(Event::TraceCompleted(trace)) => Some(trace),
            other => unreachable!("a trace was encoded here, not {other:?}"),
        }
    }
}

/// `ClosedExecutions` holds the latest [`TRACES_KEPT`] closed executions.
#[derive(Clone, Debug, Default)]
pub struct ClosedExecutions {
    /// Oldest first.
    folded: Vector<ClosedExecution>,
    /// The number of the first of `folded`; `None` while there was none.
    first: Option<Number>,
    /// Their numbers, by the hashes of their ids.
    numbers: Numbers,
    /// The pack of a snapshot, older than all of `folded`, and the number of its first rows that are dropped.
    packed: Option<(Arc<TracePack>, usize)>,
    /// Whether only the ids of further executions are kept.
    ids_only: bool,
    /// Memory for the stored form of a trace; empty between two.
    buffer: Vec<u8>,
}

impl ClosedExecutions {
    /// Creates the closed executions of a snapshot.
    pub fn packed(pack: TracePack) -> Self {
        Self { packed: Some((Arc::new(pack), 0)), ..Self::default() }
    }

    /// Returns the pack of the snapshot, and the number of its rows that are dropped.
    pub fn pack(&self) -> Option<(&dyn PackedTraces, usize)> {
        self.packed.as_ref().map(|(pack, dropped)| (pack.traces.as_ref(), *dropped))
    }

    /// Returns the traces that are not packed, oldest first.
    pub fn folded(&self) -> impl Iterator<Item = TraceCompleted> {
        self.folded.iter().filter_map(ClosedExecution::decode)
    }

    /// Returns all traces, oldest first.
    pub fn all(&self) -> impl Iterator<Item = TraceCompleted> {
        let packed =
            self.packed.iter().flat_map(|(pack, dropped)| (*dropped..pack.ends.len()).map(|row| pack.traces.unpack(row)));
        packed.chain(self.folded())
    }

    /// Returns the traces before that of the execution `before`, or all, the newest first; `None` if that one is not kept.
    pub fn newest_first(&self, before: Option<&ExecutionId>) -> Option<impl Iterator<Item = TraceCompleted>> {
        let rows = self.packed.as_ref().map_or(0..0, |(pack, dropped)| *dropped..pack.ends.len());
        let (folded, rows) = match before.map(|before| (before, self.place(before))) {
            None => (self.folded.len(), rows),
            Some((_, Some(place))) => (place, rows),
            Some((before, None)) => (0, rows.start..self.packed_row(before)?.1),
        };
        let folded = (0..folded).rev().filter_map(|at| self.folded[at].decode());
        let mut blocks: Vec<Range<usize>> =
            rows.clone().step_by(UNPACKED_ROWS).map(|from| from..rows.end.min(from + UNPACKED_ROWS)).collect();
        blocks.reverse();
        let packed = blocks.into_iter().flat_map(|block| {
            let traces = self.packed.iter().map(move |(pack, _)| pack.traces.unpack_rows(block.clone()));
            traces.flat_map(|traces| traces.into_iter().rev())
        });
        Some(folded.chain(packed))
    }

    pub(super) fn contains(&self, execution: &ExecutionId) -> bool {
        self.place(execution).is_some() || self.packed_row(execution).is_some()
    }

    /// The place in `folded`.
    fn place(&self, execution: &ExecutionId) -> Option<usize> {
        let place_of = |number: Number| distance(self.first?, number);
        let is_it = |number| place_of(number).is_some_and(|place| self.folded[place].id == *execution);
        self.numbers.find(execution.text_hash(), is_it).and_then(place_of)
    }

    fn packed_row(&self, execution: &ExecutionId) -> Option<(&TracePack, usize)> {
        let (pack, dropped) = self.packed.as_ref()?;
        pack.row(execution).filter(|row| row >= dropped).map(|row| (&**pack, row))
    }

    pub(super) fn get(&self, execution: &ExecutionId) -> Option<TraceCompleted> {
        if let Some(place) = self.place(execution) {
            return self.folded[place].decode();
        }
        self.packed_row(execution).map(|(pack, row)| pack.traces.unpack(row))
    }

    /// Keeps only the ids of executions that are closed from now on.
    pub(super) fn keep_ids_only(&mut self) {
        self.ids_only = true;
    }

    /// Adds an execution that is not among them.
    pub(super) fn push(&mut self, execution: &ExecutionId, trace: &NewRecord) {
        let stored = (!self.ids_only).then(|| self.encode(trace));
        let first = *self.first.get_or_insert(Number::MIN);
        self.numbers.insert(execution.text_hash(), after(first, self.folded.len()));
        self.folded.push_back(ClosedExecution { id: execution.clone(), stored });
        if self.len() > TRACES_KEPT {
            self.drop_oldest();
        }
    }

    fn encode(&mut self, trace: &NewRecord) -> Arc<[u8]> {
        self.buffer = codec::to_postcard(&trace.event, std::mem::take(&mut self.buffer));
        let stored = self.buffer.as_slice().into();
        self.buffer.clear();
        stored
    }

    fn drop_oldest(&mut self) {
        match &mut self.packed {
            Some((pack, dropped)) if *dropped < pack.ends.len() => *dropped += 1,
            _ => {
                self.packed = None;
                let (oldest, first) = self.folded.pop_front().zip(self.first).expect("more than TRACES_KEPT entries");
                self.numbers.remove(oldest.id.text_hash(), first);
                self.first = Some(after(first, 1));
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.folded.len() + self.packed.as_ref().map_or(0, |(pack, dropped)| pack.ends.len() - dropped)
    }

    pub(super) fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.len());
        if let Some((pack, dropped)) = &self.packed {
            for row in *dropped..pack.ends.len() {
                writer.text(pack.id(row));
            }
        }
        for execution in &self.folded {
            writer.text(execution.id.as_str());
        }
    }
}

/// The number that comes `places` after `number`: after the last one comes the first.
fn after(number: Number, places: usize) -> Number {
    let sum = (u64::from(number.get()) - 1 + places as u64) % u64::from(u32::MAX) + 1;
    u32::try_from(sum).ok().and_then(Number::new).expect("from 1 to the largest of 32 bits")
}

/// How many places `number` comes after `first`.
fn distance(first: Number, number: Number) -> Option<usize> {
    let (first, number) = (u64::from(first.get()), u64::from(number.get()));
    usize::try_from((number + u64::from(u32::MAX) - first) % u64::from(u32::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::StateDigest;
    use crate::event::TraceStep;
    use crate::id::RecordId;
    use crate::time::Timestamp;

    fn trace(name: &str) -> TraceCompleted {
        let at = Timestamp::from_micros(0);
        TraceCompleted {
            execution: name.parse().unwrap(),
            session: None,
            agent: None,
            intent: format!("do {name}"),
            steps: Vec::<TraceStep>::new(),
            success: true,
            started: at,
            ended: at,
            abandoned: false,
            code: None,
        }
    }

    fn push(closed: &mut ClosedExecutions, name: &str) {
        let trace = trace(name);
        let at = Timestamp::from_micros(0);
        let (id, execution) = (RecordId::derived(at, &[name]), trace.execution.clone());
        let event = Event::TraceCompleted(trace);
        closed.push(&execution, &NewRecord { id, time: at, source: "test".into(), causation: None, envelope: None, event });
    }

    #[derive(Debug)]
    struct Names(Vec<String>);

    impl PackedTraces for Names {
        fn unpack(&self, row: usize) -> TraceCompleted {
            trace(&self.0[row])
        }
    }

    fn packed(names: &[String]) -> ClosedExecutions {
        let ends = names.iter().scan(0, |end, name| {
            *end += name.len();
            Some(*end)
        });
        ClosedExecutions::packed(TracePack::new(names.concat(), ends.collect(), Arc::new(Names(names.to_vec()))))
    }

    fn digest(closed: &ClosedExecutions) -> StateDigest {
        let mut writer = DigestWriter::new();
        closed.digest(&mut writer);
        writer.finish()
    }

    #[test]
    fn packed_and_folded_traces_are_found_and_dropped_alike() {
        let names: Vec<String> = (0..TRACES_KEPT).map(|number| format!("e{number}")).collect();
        let (mut all_folded, mut half_packed) = (ClosedExecutions::default(), packed(&names[..TRACES_KEPT / 2]));
        for (at, name) in names.iter().enumerate() {
            push(&mut all_folded, name);
            if at >= TRACES_KEPT / 2 {
                push(&mut half_packed, name);
            }
        }
        assert_eq!(digest(&half_packed), digest(&all_folded));
        for more in 0..TRACES_KEPT / 2 + 2 {
            let name = format!("more{more}");
            push(&mut all_folded, &name);
            push(&mut half_packed, &name);
            for name in [&name, &names[more], &names[more + 1]] {
                let execution: ExecutionId = name.parse().unwrap();
                assert_eq!(half_packed.get(&execution), all_folded.get(&execution), "{name}");
                assert_eq!(half_packed.contains(&execution), all_folded.contains(&execution), "{name}");
            }
        }
        assert_eq!(digest(&half_packed), digest(&all_folded));
        assert!(half_packed.pack().is_none(), "an empty pack is dropped");
    }

    #[test]
    fn with_ids_only_an_execution_is_known_and_dropped_as_with_its_trace() {
        let (mut traces, mut ids) = (ClosedExecutions::default(), ClosedExecutions::default());
        push(&mut traces, "before");
        push(&mut ids, "before");
        ids.keep_ids_only();
        for number in 0..TRACES_KEPT {
            let name = format!("e{number}");
            push(&mut traces, &name);
            push(&mut ids, &name);
        }
        assert_eq!((digest(&ids), ids.len()), (digest(&traces), TRACES_KEPT));
        let known = |closed: &ClosedExecutions, name: &str| closed.contains(&name.parse().unwrap());
        assert!(known(&ids, "e0") && !known(&ids, "before") && ids.get(&"e0".parse().unwrap()).is_none());
    }

    #[test]
    fn traces_are_walked_from_the_newest_on_across_packed_and_folded_ones() {
        let names: Vec<String> = (0..UNPACKED_ROWS + 3).map(|number| format!("p{number}")).collect();
        let mut closed = packed(&names);
        push(&mut closed, "f1");
        push(&mut closed, "f2");
        let walk = |before: Option<&str>| -> Option<Vec<String>> {
            let before: Option<ExecutionId> = before.map(|name| name.parse().unwrap());
            Some(closed.newest_first(before.as_ref())?.map(|trace| trace.execution.to_string()).collect())
        };
        let expected: Vec<String> = ["f2", "f1"].map(str::to_owned).into_iter().chain(names.iter().rev().cloned()).collect();
        assert_eq!(walk(None), Some(expected.clone()));
        for at in [0, 1, 2, 5, expected.len() - 1] {
            assert_eq!(walk(Some(&expected[at])).as_deref(), Some(&expected[at + 1..]), "{at}");
        }
        assert_eq!(walk(Some("unknown")), None);
    }
}
