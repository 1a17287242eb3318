//! Capabilities: procedures that succeeded at least once (learned) or were described (declared). They form a hypergraph over the
//! tools.
//!
//! The id of a capability is the digest of its canonical structure (`structure`), so the same procedure run by different agents is
//! one capability. `Capabilities` is the table of them, with members, levels and parents.

pub mod decided;
mod digest;
mod handle;
mod identity_cache;
mod programs;
pub mod structure;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use imbl::{OrdMap, Vector};

use super::event::{CapabilityDeclared, Json, TraceCompleted};
use super::graph::edge::EdgeCounter;
use super::graph::{Node, NodeKind};
use super::id::{Callee, CapabilityId, Seq};
use super::text::searchable_text;
use decided::Decisions;
use handle::Origin;
use identity_cache::IdentityCache;
use programs::Programs;
pub use structure::Structure;

/// Capabilities of a workspace. Events that name a further one are refused (`State::check_room`), and no further procedure is
/// learned: positions never change, so none is evicted.
pub const CAPABILITIES_MAX: usize = 1 << 18;
/// Distinct intents kept per capability, the latest ones.
pub const INTENTS_KEPT: usize = 16;

/// How a capability became known, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Called before its structure was known.
    Stub,
    /// Learned from a successful run.
    Learned,
    /// Declared by an agent or a person.
    Approved,
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Stub, Self::Learned, Self::Approved];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::Learned => "learned",
            Self::Approved => "approved",
        }
    }
}

/// A procedure: calls and data flow, with what was observed about it.
#[derive(Clone, Debug)]
pub struct Capability {
    pub id: CapabilityId,
    /// A readable name that no other capability has and that never changes; empty for a stub.
    pub handle: Arc<str>,
    pub name: String,
    pub description: String,
    pub status: Status,
    pub structure: Arc<Structure>,
    /// The distinct tools and capabilities it calls, in node order.
    pub members: Vec<Node>,
    /// Capabilities that call this one.
    pub parents: BTreeSet<Node>,
    /// 0 if it calls tools only, else one more than the highest level among its members.
    pub level: u32,
    pub usage: u64,
    pub successes: u64,
    pub duration_total_ms: u64,
    pub code: Option<String>,
    pub parameters_schema: Option<Json>,
    /// Distinct intents it was used for, oldest first, at most [`INTENTS_KEPT`].
    pub intents: VecDeque<Arc<str>>,
    /// What people decided about it.
    pub decided: Decisions,
    /// The record that introduced it, and the last that changed it.
    pub first_seq: Seq,
    pub last_seq: Seq,
}

impl Capability {
    fn stub(id: CapabilityId, seq: Seq) -> Self {
        Self {
            id,
            handle: Arc::default(),
            name: String::new(),
            description: String::new(),
            status: Status::Stub,
            structure: Arc::default(),
            members: Vec::new(),
            parents: BTreeSet::new(),
            level: 0,
            usage: 0,
            successes: 0,
            duration_total_ms: 0,
            code: None,
            parameters_schema: None,
            intents: VecDeque::new(),
            decided: Decisions::default(),
            first_seq: seq,
            last_seq: seq,
        }
    }

    /// Observed success rate; 1 while nothing was observed (S4 AC12).
    #[expect(clippy::cast_precision_loss, reason = "usage counts stay far below 2^52")]
    pub fn success_rate(&self) -> f64 {
        if self.usage == 0 { 1.0 } else { self.successes as f64 / self.usage as f64 }
    }

    /// The text it is searched by; `None` for a stub. Does not contain the intents it was used for: those belong to the memory, and
    /// would let a past intent find itself.
    pub fn text(&self) -> Option<String> {
        (self.status != Status::Stub).then(|| searchable_text(&self.name, &self.description))
    }

    /// Whether it may be recommended: its structure is known, and nobody retired it or merged it into another.
    pub fn is_offered(&self) -> bool {
        self.status != Status::Stub && !self.decided.retired && self.decided.merged_into.is_none()
    }

    /// The counts of the `contains` edge to each member, which is observed whenever the capability runs.
    pub fn membership(&self) -> EdgeCounter {
        let bounded = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        EdgeCounter {
            declared: u32::from(self.usage == 0),
            observations: bounded(self.usage),
            successes: bounded(self.successes),
            last_seq: self.last_seq,
        }
    }

    /// Counts one run.
    fn record_use(&mut self, success: bool, duration_ms: u64, seq: Seq) {
        self.usage += 1;
        self.successes += u64::from(success);
        self.duration_total_ms = self.duration_total_ms.saturating_add(duration_ms);
        self.last_seq = seq;
    }

    fn remember_intent(&mut self, intent: &str) {
        if intent.is_empty() || self.intents.iter().any(|known| **known == *intent) {
            return;
        }
        if self.intents.len() == INTENTS_KEPT {
            self.intents.pop_front();
        }
        self.intents.push_back(intent.into());
    }
}

/// The table of capabilities. Positions are assigned in log order and never change.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    positions: OrdMap<CapabilityId, u32>,
    handles: OrdMap<Arc<str>, u32>,
    table: Vector<Arc<Capability>>,
    identities: IdentityCache,
    programs: Programs,
    /// By position: those that a person merged into it, directly. Derived from the table.
    merged: OrdMap<u32, BTreeSet<u32>>,
}

impl Capabilities {
    /// The position of `id`; adds a stub if it is unknown.
    pub fn intern(&mut self, id: CapabilityId, seq: Seq) -> u32 {
        if let Some(position) = self.positions.get(&id) {
            return *position;
        }
        let position = u32::try_from(self.table.len()).expect("fewer than 2^32 capabilities");
        self.positions.insert(id, position);
        self.table.push_back(Arc::new(Capability::stub(id, seq)));
        position
    }

    /// The id of the procedure of a run: `calls` with data flow between their positions; `callees` are the same calls as ids.
    pub fn identify(&mut self, calls: &[Node], callees: &[&Callee], flow: &[(usize, usize)]) -> CapabilityId {
        self.identities.identity(calls, flow, || Structure::canonical(callees, flow).0)
    }

    /// The capability that an execution with this `code` ran: the one that it names, or the one that has it as its program.
    pub fn that_ran(&self, code: &str) -> Option<CapabilityId> {
        match programs::named(code) {
            Some(id) => self.get(id).filter(|known| known.status != Status::Stub).map(|known| known.id),
            None => self.programs.find(code).map(|position| self.at(position).id),
        }
    }

    /// Counts a run of the procedure `id`. The first run in which every step succeeded makes it a capability (eager learning); from
    /// then on failed runs count too. Returns the id if the capability is new.
    pub fn observe_run(
        &mut self,
        id: CapabilityId,
        structure: impl FnOnce() -> Structure,
        calls: &[Node],
        trace: &TraceCompleted,
        seq: Seq,
    ) -> Option<CapabilityId> {
        let flawless = trace.success && trace.steps.iter().all(|step| step.success);
        let position = self.position(id);
        let known = position.filter(|position| self.at(*position).status != Status::Stub);
        let has_room = position.is_some() || self.len() < CAPABILITIES_MAX;
        if known.is_none() && !(flawless && has_room) {
            return None;
        }
        let position = known.unwrap_or_else(|| self.intern(id, seq));
        if known.is_none() {
            let structure = structure();
            let name = structure.summary();
            let origin = Origin::Learned { calls: structure.in_order_of_flow(), intent: &trace.intent };
            self.set_handle(position, &origin);
            self.set_structure(position, structure, calls);
            let capability = self.at_mut(position);
            capability.name = name;
            capability.status = Status::Learned;
        }
        self.record_call(position, trace.success, trace.ended.millis_since(trace.started), seq);
        let capability = self.at_mut(position);
        if trace.success {
            capability.remember_intent(&trace.intent);
            let program = trace.code.as_ref().filter(|code| programs::named(code).is_none());
            if capability.code.is_none() {
                capability.code = program.cloned();
                self.programs.replace(position, None, program.map(String::as_str));
            }
        }
        known.is_none().then_some(id)
    }

    /// Sets name, description, code and schema as declared; also the structure, if it was not known.
    pub fn declare(&mut self, id: CapabilityId, structure: Structure, calls: &[Node], event: &CapabilityDeclared, seq: Seq) {
        let position = self.intern(id, seq);
        if self.at(position).status == Status::Stub {
            self.set_handle(position, &Origin::Declared { name: &event.name });
            self.set_structure(position, structure, calls);
        }
        if let Some(code) = &event.code {
            let before = self.table[position as usize].code.as_deref();
            self.programs.replace(position, before, Some(code));
        }
        let capability = self.at_mut(position);
        // A name that a person gave stays; the declared one comes back when that is undone.
        capability.decided.own_name.as_mut().unwrap_or(&mut capability.name).clone_from(&event.name);
        capability.description.clone_from(&event.description);
        *capability.decided.own_status.as_mut().unwrap_or(&mut capability.status) = Status::Approved;
        capability.code = event.code.clone().or(capability.code.take());
        capability.parameters_schema.clone_from(&event.parameters_schema);
        capability.last_seq = seq;
    }

    /// Counts a run or a call of this capability, also for those that it was merged into.
    pub fn record_call(&mut self, position: u32, success: bool, duration_ms: u64, seq: Seq) {
        for counted in self.with_merged(position) {
            self.at_mut(counted).record_use(success, duration_ms, seq);
        }
    }

    fn set_handle(&mut self, position: u32, origin: &Origin<'_>) {
        let handle = handle::choose(self.at(position).id, origin, |handle| self.handles.contains_key(handle));
        let handle: Arc<str> = handle.into();
        self.handles.insert(Arc::clone(&handle), position);
        self.at_mut(position).handle = handle;
    }

    /// Sets structure and members, and updates the parents of the members and the levels.
    fn set_structure(&mut self, position: u32, structure: Structure, calls: &[Node]) {
        let members: BTreeSet<Node> = calls.iter().copied().collect();
        for member in &members {
            if let NodeKind::Capability(child) = member.kind() {
                self.at_mut(child).parents.insert(Node::capability(position));
            }
        }
        let capability = self.at_mut(position);
        capability.structure = Arc::new(structure);
        capability.members = members.into_iter().collect();
        self.raise_level(position);
    }

    /// Recomputes the level of a capability and, if it changed, of its parents. Terminates because an id is the digest of what it
    /// contains, so containment has no cycle.
    fn raise_level(&mut self, position: u32) {
        let member_level = |member: &Node| match member.kind() {
            NodeKind::Capability(child) => Some(self.at(child).level + 1),
            NodeKind::Tool(_) => None,
        };
        let level = self.at(position).members.iter().filter_map(member_level).max().unwrap_or(0);
        if level == self.at(position).level {
            return;
        }
        self.at_mut(position).level = level;
        for parent in self.at(position).parents.clone() {
            if let NodeKind::Capability(parent) = parent.kind() {
                self.raise_level(parent);
            }
        }
    }

    fn at_mut(&mut self, position: u32) -> &mut Capability {
        Arc::make_mut(self.table.get_mut(position as usize).expect("positions come from intern"))
    }

    pub fn position(&self, id: CapabilityId) -> Option<u32> {
        self.positions.get(&id).copied()
    }

    /// The capability with this handle.
    pub fn by_handle(&self, handle: &str) -> Option<&Capability> {
        self.handles.get(handle).map(|position| self.at(*position))
    }

    pub fn get(&self, id: CapabilityId) -> Option<&Capability> {
        self.position(id).map(|position| self.at(position))
    }

    pub fn at(&self, position: u32) -> &Capability {
        &self.table[position as usize]
    }

    /// All capabilities by position.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Capability> {
        self.table.iter().map(Arc::as_ref)
    }

    /// The positions whose capability differs from that in `earlier`, an earlier state of this table, ascending. Compares pointers:
    /// O(capabilities), one comparison each.
    pub fn changed(&self, earlier: &Self) -> Vec<u32> {
        let was = earlier.table.iter().map(Some).chain(std::iter::repeat(None));
        let pairs = (0_u32..).zip(self.table.iter().zip(was));
        let differs = |now: &Arc<Capability>, was: Option<&Arc<Capability>>| was.is_none_or(|was| !Arc::ptr_eq(now, was));
        pairs.filter(|(_, (now, was))| differs(now, *was)).map(|(position, _)| position).collect()
    }

    /// Rebuilds the table from [`Self::rows`]; `parents` are derived from the members.
    pub fn from_rows(rows: impl IntoIterator<Item = Capability>) -> Self {
        let mut rows: Vec<Capability> = rows.into_iter().collect();
        let mut contained = Vec::new();
        for (position, capability) in (0..).zip(&rows) {
            contained.extend(capability.members.iter().map(|member| (member.kind(), Node::capability(position))));
        }
        for (member, parent) in contained {
            if let NodeKind::Capability(child) = member {
                rows[child as usize].parents.insert(parent);
            }
        }
        let mut programs = Programs::default();
        for (position, capability) in (0..).zip(&rows) {
            programs.replace(position, None, capability.code.as_deref());
        }
        let merged = decided::merges(&rows);
        Self {
            positions: rows.iter().map(|capability| capability.id).zip(0_u32..).collect(),
            handles: rows
                .iter()
                .map(|capability| Arc::clone(&capability.handle))
                .zip(0_u32..)
                .filter(|(handle, _)| !handle.is_empty())
                .collect(),
            table: rows.into_iter().map(Arc::new).collect(),
            identities: IdentityCache::default(),
            programs,
            merged,
        }
    }

    /// All positions in the order of the ids.
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        self.positions.values().copied()
    }

    /// All capabilities in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &Capability> {
        self.positions.values().map(|position| self.at(*position))
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
