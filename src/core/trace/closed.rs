//! The latest closed executions with their traces, oldest first. Traces that this state folded are kept as facts; those of a snapshot
//! stay packed and are unpacked one by one on request, so that a start need not build a hundred thousand traces.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use imbl::Vector;

use super::{ByExecution, TRACES_KEPT};
use crate::digest::DigestWriter;
use crate::event::{Event, NewRecord, TraceCompleted};
use crate::hash::fnv1a;
use crate::id::ExecutionId;

/// Packed traces of a snapshot, by row.
pub trait PackedTraces: Any + fmt::Debug + Send + Sync {
    /// Unpacks the trace of a row. The implementor has checked that every row can be unpacked.
    fn unpack(&self, row: usize) -> TraceCompleted;
}

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

/// `ClosedExecutions` holds the latest [`TRACES_KEPT`] closed executions.
#[derive(Clone, Debug, Default)]
pub struct ClosedExecutions {
    /// By execution: the fact that closed it, a completed trace.
    folded: ByExecution<Arc<NewRecord>>,
    /// The keys of `folded`, oldest first.
    order: Vector<ExecutionId>,
    /// The pack of a snapshot, older than all of `folded`, and the number of its first rows that are dropped.
    packed: Option<(Arc<TracePack>, usize)>,
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
    pub fn folded(&self) -> impl Iterator<Item = &TraceCompleted> {
        self.order.iter().map(|execution| completed_trace(&self.folded[execution]))
    }

    /// Returns all traces, oldest first.
    pub fn all(&self) -> impl Iterator<Item = Cow<'_, TraceCompleted>> {
        let packed = self
            .packed
            .iter()
            .flat_map(|(pack, dropped)| (*dropped..pack.ends.len()).map(|row| Cow::Owned(pack.traces.unpack(row))));
        packed.chain(self.folded().map(Cow::Borrowed))
    }

    pub(super) fn contains(&self, execution: &ExecutionId) -> bool {
        self.folded.contains_key(execution) || self.packed_row(execution).is_some()
    }

    fn packed_row(&self, execution: &ExecutionId) -> Option<(&TracePack, usize)> {
        let (pack, dropped) = self.packed.as_ref()?;
        pack.row(execution).filter(|row| row >= dropped).map(|row| (&**pack, row))
    }

    pub(super) fn get(&self, execution: &ExecutionId) -> Option<Cow<'_, TraceCompleted>> {
        if let Some(fact) = self.folded.get(execution) {
            return Some(Cow::Borrowed(completed_trace(fact)));
        }
        self.packed_row(execution).map(|(pack, row)| Cow::Owned(pack.traces.unpack(row)))
    }

    pub(super) fn push(&mut self, execution: &ExecutionId, trace: &Arc<NewRecord>) {
        self.folded.insert(execution.clone(), Arc::clone(trace));
        self.order.push_back(execution.clone());
        if self.len() > TRACES_KEPT {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        match &mut self.packed {
            Some((pack, dropped)) if *dropped < pack.ends.len() => *dropped += 1,
            _ => {
                self.packed = None;
                let oldest = self.order.pop_front().expect("more than TRACES_KEPT entries");
                self.folded.remove(&oldest);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len() + self.packed.as_ref().map_or(0, |(pack, dropped)| pack.ends.len() - dropped)
    }

    pub(super) fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.len());
        if let Some((pack, dropped)) = &self.packed {
            for row in *dropped..pack.ends.len() {
                writer.text(pack.id(row));
            }
        }
        for execution in &self.order {
            writer.text(execution.as_str());
        }
    }
}

fn completed_trace(fact: &NewRecord) -> &TraceCompleted {
    match &fact.event {
        Event::TraceCompleted(trace) => trace,
        other => unreachable!("an execution is closed by trace.completed, not by {}", other.kind()),
    }
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
        closed.push(
            &execution,
            &Arc::new(NewRecord { id, time: at, source: "test".into(), causation: None, envelope: None, event }),
        );
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
}
