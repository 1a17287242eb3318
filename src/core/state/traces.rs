//! The latest traces, kept whole for questions about them. Older ones stay in the log.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

use crate::core::digest::{Digestible, Writer};
use crate::core::event::{Event, NewRecord, TraceCompleted};
use crate::core::id::{ExecutionId, Seq};

/// How many traces the state keeps. Part of the fold, hence constant.
pub const TRACES_KEPT: usize = 100_000;

/// A trace and the record that holds it.
#[derive(Clone, Debug)]
pub struct KeptTrace {
    pub seq: Seq,
    fact: Arc<NewRecord>,
}

impl KeptTrace {
    pub fn trace(&self) -> &TraceCompleted {
        match &self.fact.event {
            Event::TraceCompleted(trace) => trace,
            other => unreachable!("only traces are kept, not {}", other.kind()),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Traces {
    by_execution: OrdMap<ExecutionId, KeptTrace>,
    /// Oldest first; an execution id that was used again stands here for each use.
    order: Vector<(Seq, ExecutionId)>,
}

impl Traces {
    /// `fact` is a completed trace.
    pub(super) fn keep(&mut self, seq: Seq, fact: &Arc<NewRecord>) {
        let kept = KeptTrace { seq, fact: Arc::clone(fact) };
        let execution = kept.trace().execution.clone();
        self.order.push_back((seq, execution.clone()));
        self.by_execution.insert(execution, kept);
        if self.order.len() > TRACES_KEPT {
            let (oldest, execution) = self.order.pop_front().expect("more than TRACES_KEPT entries");
            if self.by_execution.get(&execution).is_some_and(|kept| kept.seq == oldest) {
                self.by_execution.remove(&execution);
            }
        }
    }

    pub fn get(&self, execution: &ExecutionId) -> Option<&KeptTrace> {
        self.by_execution.get(execution)
    }

    /// Newest first.
    pub fn latest(&self) -> impl Iterator<Item = &KeptTrace> {
        self.order.iter().rev().filter_map(|(seq, execution)| self.get(execution).filter(|kept| kept.seq == *seq))
    }

    pub fn len(&self) -> usize {
        self.by_execution.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_execution.is_empty()
    }
}

impl Digestible for Traces {
    /// A trace is the content of its record: its position says which one.
    fn digest(&self, writer: &mut Writer) {
        writer.len(self.order.len());
        for (seq, execution) in &self.order {
            writer.u64(seq.0).text(execution.as_str());
        }
    }
}
