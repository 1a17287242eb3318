//! Learning from one trace: counts of calls, edges, transitions, a capability, the memory of intents (ALGORITHMS 4 and 11).

use std::collections::BTreeSet;

use super::{Notice, State};
use crate::capability::{Capability, Structure};
use crate::event::TraceCompleted;
use crate::graph::edge::EdgeKind;
use crate::graph::{Node, NodeKind};
use crate::id::{Callee, CapabilityId, Seq};
use crate::memory::{IntentRun, Observed};
use crate::predict::lesson::apply_due_lessons;
use crate::text::clauses;
use crate::vectors::TextHash;

impl State {
    /// Folds one trace into all parts of the state. Returns notices of promoted edges and learnt capabilities.
    pub(super) fn learn(&mut self, trace: &TraceCompleted, seq: Seq) -> Vec<Notice> {
        let mut notices = Vec::new();
        let calls: Vec<Node> = trace.steps.iter().map(|step| self.node(&step.tool, seq)).collect();
        let flow = trace.data_flow();
        self.count_calls(trace, &calls, seq);
        for key in edges(&calls, &flow) {
            if let Some(promoted) = self.graph.observe(key, trace.success, seq) {
                notices.push(self.notice(promoted));
            }
        }
        self.transitions.observe(&calls, trace.success, !trace.abandoned);
        self.predictor.scores.discard_open(&trace.execution);
        let named = trace.code.as_deref().and_then(|code| self.capabilities.that_ran(code));
        if !calls.is_empty() {
            let callees: Vec<&Callee> = trace.steps.iter().map(|step| &step.tool).collect();
            // A program may leave calls out and repeat them, a failure leaves calls out, and calls of capabilities are replaced by theirs:
            // the run of a capability counts for it, whatever was called.
            let id = named.unwrap_or_else(|| self.capabilities.identify(&calls, &callees, &flow));
            let structure = || Structure::canonical(&callees, &flow).1;
            if let Some(capability) = self.capabilities.observe_run(id, structure, &calls, trace, seq) {
                self.text_changed(None, self.capabilities.get(id).and_then(Capability::text));
                notices.push(Notice::CapabilityLearned { capability });
            }
            self.remember(trace, &calls, id, seq);
            self.predictor.lessons.count_trace();
            apply_due_lessons(self);
        } else if let Some(id) = named {
            // It called nothing but capabilities, which are executions of their own.
            self.capabilities.observe_run(id, Structure::default, &calls, trace, seq);
        }
        notices
    }

    /// Adds the run to the memory: its intent, the calls that succeeded and, if the trace did, the capability.
    fn remember(&mut self, trace: &TraceCompleted, calls: &[Node], capability: CapabilityId, seq: Seq) {
        let intent = trace.intent.trim();
        if intent.is_empty() {
            return;
        }
        let succeeded = trace.steps.iter().zip(calls).filter(|(step, _)| step.success).map(|(_, call)| *call);
        let capability = self.capabilities.position(capability).filter(|_| trace.success).map(Node::capability);
        let mut nodes: Vec<Node> = succeeded.chain(capability).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let TraceCompleted { success, abandoned, execution, .. } = trace;
        let run = IntentRun { calls, success: *success, abandoned: *abandoned, seq, execution };
        let observed = self.memory.observe(intent, TextHash::compute(intent), &nodes, run);
        if observed == Observed::Known {
            return;
        }
        let hash = self.vectors.want(intent);
        if let Some(number) = self.memory.number(hash) {
            self.predictor.corpus.set_intent(number, hash, &self.vectors);
        }
        for clause in clauses(intent) {
            self.vectors.want(clause);
        }
        if let Observed::Evicted(evicted) = observed {
            self.vectors.release(TextHash::compute(&evicted));
            for clause in clauses(&evicted) {
                self.vectors.release(TextHash::compute(clause));
            }
        }
    }

    fn count_calls(&mut self, trace: &TraceCompleted, calls: &[Node], seq: Seq) {
        for (step, node) in trace.steps.iter().zip(calls) {
            match node.kind() {
                NodeKind::Tool(position) => self.tools.record_call(position, step, trace.ended),
                NodeKind::Capability(position) => {
                    self.capabilities.record_call(position, step.success, step.duration_ms.unwrap_or(0), seq);
                }
            }
        }
    }
}

/// Returns the edges of a trace, each once: `provides` along the data flow, `sequence` between consecutive calls without data flow.
fn edges(calls: &[Node], flow: &[(usize, usize)]) -> Vec<(Node, Node, EdgeKind)> {
    let provides = flow.iter().map(|&(from, to)| (calls[from], calls[to], EdgeKind::Provides));
    let joined: BTreeSet<usize> = flow.iter().filter(|(from, to)| from + 1 == *to).map(|(_, to)| *to).collect();
    let neighbours = (1..calls.len()).filter(|to| !joined.contains(to)).map(|to| (to - 1, to));
    let mut edges: Vec<_> = provides.chain(neighbours.map(|(from, to)| (calls[from], calls[to], EdgeKind::Sequence))).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}
