//! The fold: a [`State`] is a function of the records of the log, in order, and `apply` is the only way to change it.
//!
//! Every part is a persistent map, so a clone costs a few pointers: the owner (graph-sync) publishes clones as immutable views and
//! goes on folding. The fold uses no clock, no randomness, and not the time at which a record was recorded.

mod decided;
mod definition;
mod impressions;
mod learn;
mod models;
mod room;
mod rows;
#[cfg(test)]
mod tests;

use super::capability::{Capabilities, Capability, Status, Structure, structure};
use super::digest::{DigestWriter, Digestible, StateDigest};
use super::event::{
    CapabilityDeclared, EmbeddingComputed, Event, Kind, ModelPart, ModelVersion, Record, TemplateLoaded, ToolRegistered,
};
use super::graph::edge::EdgeKind;
use super::graph::transition::{Symbol, Transitions};
use super::graph::{EdgeKey, Node, NodeKind, Promoted, ToolGraph};
use super::id::{Callee, CapabilityId, RecordId, Seq};
use super::memory::Memory;
use super::predict::corpus::VectorChange;
use super::predict::{Predictor, lesson::apply_due_lessons};
use super::seen::SeenIds;
use super::template::Templates;
use super::tool::{Tool, Tools, UPSTREAM_SOURCE};
use super::trace::Executions;
use super::trained::Trained;
use super::vectors::{TextHash, Vectors};
pub use rows::Counters;

/// Version of the fold. Raise it by one with every change after which some log folds into another state than before: in `apply`, in
/// what any part learns from a record, in the constants that bound or weigh it, in what the digest covers. A snapshot of another
/// version is not used, because folding on from it would differ from folding the whole log. `tests/it/fold_version.rs` pins the
/// digest of a log to this number.
pub const FOLD: u32 = 7;

/// Something worth telling subscribers, derived from a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    CapabilityLearned {
        capability: CapabilityId,
    },
    EdgePromoted {
        from: Callee,
        to: Callee,
        kind: EdgeKind,
    },
    /// A version of a part of the model serves from now on.
    ModelPromoted {
        version: ModelVersion,
    },
    /// A part of the model went back to an earlier version, or to none.
    ModelRolledBack {
        part: ModelPart,
        to: Option<ModelVersion>,
    },
}

/// `State` is everything folded from the log: counters, the latest record ids, and its public parts. Each part has a bound
/// (docs/scale.md).
#[derive(Clone, Debug, Default)]
pub struct State {
    applied: Seq,
    seen: SeenIds,
    /// Records by kind, in the order of [`Kind::ALL`].
    counts: [u64; Kind::ALL.len()],
    /// The number of records with an id already folded.
    duplicates: u64,
    /// The number of records that came after their execution was closed.
    late: u64,
    pub tools: Tools,
    pub executions: Executions,
    pub graph: ToolGraph,
    pub transitions: Transitions,
    pub capabilities: Capabilities,
    pub templates: Templates,
    pub memory: Memory,
    pub vectors: Vectors,
    pub predictor: Predictor,
    pub trained: Trained,
}

impl State {
    /// Folds one record in. A record at or before `applied` changes nothing; a record with a known id only moves `applied`.
    pub fn apply(&mut self, record: &Record) -> Vec<Notice> {
        if record.seq <= self.applied {
            return Vec::new();
        }
        self.applied = record.seq;
        if !self.seen.insert(record.fact.id) {
            self.duplicates += 1;
            return Vec::new();
        }
        self.counts[usize::from(record.event().kind().tag()) - 1] += 1;
        let in_time = self.executions.apply(&record.fact);
        self.late += u64::from(!in_time);
        let seq = record.seq;
        match &record.fact.event {
            Event::ToolRegistered(registration) => self.register_tool(registration, &record.fact.source),
            Event::ToolRemoved(removed) => self.tools.remove(&removed.tool),
            Event::ToolQuarantined(quarantined) => self.tools.quarantine(quarantined.listed.clone()),
            Event::ToolApproved(approved) => {
                if let Some(listed) = self.tools.approve(&approved.tool, &approved.definition) {
                    self.register_tool(&listed, &record.fact.source);
                }
            }
            Event::ToolOutputInferred(inferred) => {
                self.tools.set_inferred_output(&inferred.tool, inferred.output_schema.clone());
            }
            Event::CapabilityDeclared(declared) => self.declare_capability(declared, seq),
            Event::CapabilityRenamed(renamed) => self.rename_capability(renamed, seq),
            Event::CapabilityMerged(merged) => self.capabilities.merge(merged.capability, merged.into, seq),
            Event::CapabilityApproved(approved) => self.capabilities.approve(approved.capability, approved.approved, seq),
            Event::CapabilityRetired(retired) => self.capabilities.retire(retired.capability, retired.retired, seq),
            Event::TemplateLoaded(template) => self.load_template(template),
            Event::EmbeddingComputed(embedding) => self.apply_embedding(embedding),
            Event::PredictionServed(served) => self.add_impression(served, &record.fact, seq),
            Event::FeedbackGiven(feedback) => self.apply_feedback(feedback, seq),
            Event::StepFinished(step) if in_time => self.score_step(step, &record.fact, seq),
            Event::ExecutionFinished(finished) if in_time => {
                self.score_impression(&finished.execution, Some(Symbol::END), (seq, record.fact.time));
            }
            // A second trace for a closed execution teaches nothing: the first one stands.
            Event::TraceCompleted(trace) if in_time => return self.learn(trace, seq),
            Event::ModelTrained(trained) => self.trained.add_run(trained, seq),
            Event::ModelParameters(piece) => self.trained.add_piece(piece),
            Event::ModelPromoted(promoted) => return self.promote(promoted),
            Event::ModelRolledBack(rolled_back) => return self.roll_back(rolled_back),
            // The events of an execution are in `executions`. `log.forked` names the parent log, `step.speculated` a call that is no step.
            Event::TraceCompleted(_)
            | Event::ExecutionStarted(_)
            | Event::StepStarted(_)
            | Event::StepFinished(_)
            | Event::ExecutionFinished(_)
            | Event::StepSpeculated(_)
            | Event::LogForked(_) => {}
        }
        Vec::new()
    }

    fn register_tool(&mut self, registration: &ToolRegistered, source: &str) {
        let before = self.tools.get(&registration.tool).and_then(Tool::text);
        self.tools.register(registration.clone());
        if source == UPSTREAM_SOURCE {
            self.tools.set_upstream(&registration.tool);
        }
        let now = self.tools.get(&registration.tool).and_then(Tool::text);
        if before != now {
            let position = self.tools.intern(&registration.tool);
            self.predictor.corpus.set_tool_text(position, before.as_deref(), now.as_deref(), &self.vectors);
            self.predictor.parts.tools_changed();
        }
        self.text_changed(before, now);
    }

    /// Applies the computed vector of a text.
    pub fn apply_embedding(&mut self, embedding: &EmbeddingComputed) {
        self.vectors.apply(embedding);
        if let Some(hash) = TextHash::parse(&embedding.text_hash) {
            match self.predictor.corpus.update_vector(hash, &self.tools, &self.memory, &self.vectors) {
                VectorChange::Model => self.parts_changed(),
                VectorChange::Tools => self.predictor.parts.tools_changed(),
                VectorChange::NoTool => {}
            }
        }
        apply_due_lessons(self);
    }

    /// Counts the need of the vector of `now` and drops that of `before`.
    fn text_changed(&mut self, before: Option<String>, now: Option<String>) {
        if before == now {
            return;
        }
        if let Some(now) = now {
            self.vectors.want(&now);
        }
        if let Some(before) = before {
            self.vectors.release(TextHash::compute(&before));
        }
    }

    /// Folds a declared capability: its callees become members, its data flow between tools becomes template edges (option E of S2:
    /// `provides` only, because order is not dependency).
    fn declare_capability(&mut self, event: &CapabilityDeclared, seq: Seq) {
        let flow = structure::declared_flow(&event.structure);
        let (id, structure) = Structure::declared(&event.structure);
        let calls: Vec<Node> = event.structure.nodes.iter().map(|node| self.node(&node.callee, seq)).collect();
        let own_status = |known: &Capability| known.decided.own_status.unwrap_or(known.status);
        if self.capabilities.get(id).is_none_or(|known| own_status(known) != Status::Approved) {
            for &(from, to) in &flow {
                if let (NodeKind::Tool(_), NodeKind::Tool(_)) = (calls[from].kind(), calls[to].kind()) {
                    self.graph.declare((calls[from], calls[to], EdgeKind::Provides));
                }
            }
        }
        let before = self.capabilities.get(id).and_then(Capability::text);
        self.capabilities.declare(id, structure, &calls, event, seq);
        self.text_changed(before, self.capabilities.get(id).and_then(Capability::text));
    }

    fn load_template(&mut self, template: &TemplateLoaded) {
        for key in self.template_keys(template) {
            self.graph.declare(key);
        }
        if let Some(replaced) = self.templates.load(template.clone()) {
            for key in self.template_keys(&replaced) {
                self.graph.undeclare(key);
            }
        }
    }

    fn template_keys(&mut self, template: &TemplateLoaded) -> Vec<EdgeKey> {
        let mut tool = |id| Node::tool(self.tools.intern(id));
        template.edges.iter().map(|(from, to)| (tool(from), tool(to), EdgeKind::Dependency)).collect()
    }

    /// The node of a callee; an unknown callee becomes a stub.
    fn node(&mut self, callee: &Callee, seq: Seq) -> Node {
        match callee {
            Callee::Tool(id) => Node::tool(self.tools.intern(id)),
            Callee::Capability(id) => Node::capability(self.capabilities.intern(*id, seq)),
        }
    }

    /// The node of a callee, if it is known.
    pub fn find(&self, callee: &Callee) -> Option<Node> {
        match callee {
            Callee::Tool(id) => self.tools.position(id).map(Node::tool),
            Callee::Capability(id) => self.capabilities.position(*id).map(Node::capability),
        }
    }

    /// The callee of a node.
    pub fn callee(&self, node: Node) -> Callee {
        match node.kind() {
            NodeKind::Tool(position) => Callee::Tool(self.tools.at(position).id.clone()),
            NodeKind::Capability(position) => Callee::Capability(self.capabilities.at(position).id),
        }
    }

    fn notice(&self, Promoted((from, to, kind)): Promoted) -> Notice {
        Notice::EdgePromoted { from: self.callee(from), to: self.callee(to), kind }
    }

    /// The last record folded in.
    pub fn applied(&self) -> Seq {
        self.applied
    }

    /// Whether a record with this id was folded, within the horizon of `core::seen`.
    pub fn knows(&self, id: RecordId) -> bool {
        self.seen.contains(id)
    }

    /// The number of records of a kind, without duplicates.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[usize::from(kind.tag()) - 1]
    }

    /// The number of records of all kinds, without duplicates.
    pub fn events(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The number of records with an id already folded.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// The number of records that came after their execution was closed.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The digest of the whole state, bit for bit. O(size of the state).
    pub fn digest(&self) -> StateDigest {
        let mut writer = DigestWriter::new();
        writer.u64(self.applied.0).u64(self.duplicates).u64(self.late);
        for count in self.counts {
            writer.u64(count);
        }
        let parts: [&dyn Digestible; 11] = [
            &self.seen,
            &self.tools,
            &self.executions,
            &self.graph,
            &self.transitions,
            &self.capabilities,
            &self.templates,
            &self.memory,
            &self.vectors,
            &self.predictor,
            &self.trained,
        ];
        for part in parts {
            part.digest(&mut writer);
        }
        writer.finish()
    }
}
