//! The table of tools. A tool that is called before it is registered is a stub: its calls are counted, but it has no text.

pub mod latency;

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, OrdMap, Vector};

use super::digest::{DigestWriter, Digestible};
use super::event::{Json, ToolRegistered, TraceStep};
use super::hash::PrecomputedHash;
use super::id::ToolId;
use super::text::searchable_text;
use super::time::Timestamp;
use latency::Latency;

/// Tools of a workspace. Events that name a further one are refused (`State::check_room`): positions never change, so none is
/// evicted. A group of events that is decided together may exceed it.
pub const TOOLS_MAX: usize = 1 << 18;

/// The `source` of the records that pml makes about the servers whose tools it calls.
pub const UPSTREAM_SOURCE: &str = "urn:pml:upstream";

/// A tool of an agent's server, with what was observed about it.
#[derive(Clone, Debug)]
pub struct Tool {
    pub id: ToolId,
    /// Name, description and schemas as registered; `None` for a stub.
    pub registration: Option<Arc<ToolRegistered>>,
    /// Removed by its server, or switched off. What was learnt with it is kept.
    pub removed: bool,
    /// Whether pml itself has found it on a server that it calls.
    pub upstream: bool,
    /// The definition that its server lists instead of the known one; while there is one, the tool is in quarantine.
    pub listed: Option<Arc<ToolRegistered>>,
    /// JSON Schema of what it answered so far, if its registration has none.
    pub inferred_output: Option<Json>,
    pub calls: u64,
    pub successes: u64,
    /// Sum over the calls that reported a duration.
    pub duration_total_ms: u64,
    pub timed_calls: u64,
    /// How long those calls took.
    pub latency: Latency,
    /// End of the last run that called it, by event time.
    pub last_used: Option<Timestamp>,
}

impl Tool {
    /// Observed success rate; 1 while nothing was observed (S4 AC12).
    #[expect(clippy::cast_precision_loss, reason = "call counts stay far below 2^52")]
    pub fn success_rate(&self) -> f64 {
        if self.calls == 0 { 1.0 } else { self.successes as f64 / self.calls as f64 }
    }

    /// The text it is searched by; `None` for a stub.
    pub fn text(&self) -> Option<String> {
        self.registration.as_ref().map(|registration| searchable_text(&registration.name, &registration.description))
    }

    /// Whether the text it is found by is surely that of `earlier`: by the same registration, and offered as before, or not as before.
    pub fn has_text_of(&self, earlier: &Self) -> bool {
        let same = match (&self.registration, &earlier.registration) {
            (Some(registration), Some(earlier)) => Arc::ptr_eq(registration, earlier),
            (registration, earlier) => registration.is_none() && earlier.is_none(),
        };
        same && self.is_offered() == earlier.is_offered()
    }

    /// Whether it may be found, predicted and called: neither removed nor in quarantine.
    pub fn is_offered(&self) -> bool {
        !self.removed && self.listed.is_none()
    }

    /// JSON Schema of its arguments.
    pub fn input_schema(&self) -> Option<&Json> {
        self.registration.as_ref()?.input_schema.as_ref()
    }

    /// JSON Schema of its result: the registered one, else the inferred one.
    pub fn output_schema(&self) -> Option<&Json> {
        let registered = self.registration.as_ref().and_then(|registration| registration.output_schema.as_ref());
        registered.or(self.inferred_output.as_ref())
    }

    pub fn is_stub(&self) -> bool {
        self.registration.is_none()
    }
}

/// The table of tools. Positions are assigned in log order and never change.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// For iteration in the order of the ids.
    positions: OrdMap<ToolId, u32>,
    /// The same for lookups, which every step of every run needs.
    lookup: GenericHashMap<ToolId, u32, BuildHasherDefault<PrecomputedHash>, DefaultSharedPtr>,
    table: Vector<Tool>,
}

impl Tools {
    /// The position of `id`; adds a stub if it is unknown.
    pub fn intern(&mut self, id: &ToolId) -> u32 {
        if let Some(position) = self.position(id) {
            return position;
        }
        let position = u32::try_from(self.table.len()).expect("fewer than 2^32 tools");
        self.positions.insert(id.clone(), position);
        self.lookup.insert(id.clone(), position);
        self.table.push_back(Tool {
            id: id.clone(),
            registration: None,
            removed: false,
            upstream: false,
            listed: None,
            inferred_output: None,
            calls: 0,
            successes: 0,
            duration_total_ms: 0,
            timed_calls: 0,
            latency: Latency::default(),
            last_used: None,
        });
        position
    }

    pub fn register(&mut self, registration: ToolRegistered) {
        let position = self.intern(&registration.tool);
        let tool = self.at_mut(position);
        tool.registration = Some(Arc::new(registration));
        tool.removed = false;
    }

    pub fn remove(&mut self, id: &ToolId) {
        if let Some(position) = self.position(id) {
            self.at_mut(position).removed = true;
        }
    }

    /// Notes that pml itself has found the tool on a server.
    pub fn set_upstream(&mut self, id: &ToolId) {
        let position = self.intern(id);
        self.at_mut(position).upstream = true;
    }

    /// Puts a tool into quarantine: its server lists another definition.
    pub fn quarantine(&mut self, listed: ToolRegistered) {
        let position = self.intern(&listed.tool);
        let tool = self.at_mut(position);
        tool.upstream = true;
        tool.listed = Some(Arc::new(listed));
    }

    /// Ends the quarantine of a tool if the approved definition is the listed or the known one. Returns the listed one if it is that,
    /// to be registered.
    pub fn approve(&mut self, id: &ToolId, definition: &str) -> Option<ToolRegistered> {
        let position = self.position(id)?;
        let tool = self.at(position);
        let is_approved =
            |known: &Option<Arc<ToolRegistered>>| known.as_ref().is_some_and(|known| known.definition() == definition);
        let (listed, known) = (is_approved(&tool.listed), is_approved(&tool.registration));
        if !listed && !known {
            return None;
        }
        let ended = self.at_mut(position).listed.take();
        ended.filter(|_| listed).map(Arc::unwrap_or_clone)
    }

    pub fn set_inferred_output(&mut self, id: &ToolId, schema: Json) {
        let position = self.intern(id);
        self.at_mut(position).inferred_output = Some(schema);
    }

    /// Counts a step that called the tool, in a run that ended at `at`.
    pub fn record_call(&mut self, position: u32, step: &TraceStep, at: Timestamp) {
        let tool = self.at_mut(position);
        tool.calls += 1;
        tool.successes += u64::from(step.success);
        if let Some(duration_ms) = step.duration_ms {
            tool.duration_total_ms = tool.duration_total_ms.saturating_add(duration_ms);
            tool.timed_calls += 1;
            tool.latency.observe(duration_ms);
        }
        tool.last_used = tool.last_used.max(Some(at));
    }

    fn at_mut(&mut self, position: u32) -> &mut Tool {
        self.table.get_mut(position as usize).expect("positions come from intern")
    }

    pub fn position(&self, id: &ToolId) -> Option<u32> {
        self.lookup.get(id).copied()
    }

    pub fn get(&self, id: &ToolId) -> Option<&Tool> {
        self.position(id).map(|position| self.at(position))
    }

    pub fn at(&self, position: u32) -> &Tool {
        &self.table[position as usize]
    }

    /// All tools by position.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.table.iter()
    }

    /// Rebuilds the table from [`Self::rows`].
    pub fn from_rows(rows: impl IntoIterator<Item = Tool>) -> Self {
        let table: Vector<Tool> = rows.into_iter().collect();
        let positions = || table.iter().map(|tool| tool.id.clone()).zip(0_u32..);
        Self { positions: positions().collect(), lookup: positions().collect(), table }
    }

    /// All positions in the order of the ids.
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        self.positions.values().copied()
    }

    /// All tools in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.positions.values().map(|position| self.at(*position))
    }

    /// All tools, those included that were only called.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Tools that somebody registered. O(tools).
    pub fn registered(&self) -> usize {
        self.table.iter().filter(|tool| !tool.is_stub()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl Digestible for Tools {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.table.len());
        for tool in &self.table {
            writer.text(tool.id.as_str()).bool(tool.removed).bool(tool.upstream);
            writer.u64(tool.calls).u64(tool.successes).u64(tool.duration_total_ms).u64(tool.timed_calls);
            tool.latency.digest(writer);
            writer.optional(tool.last_used, |writer, at| {
                writer.i64(at.micros());
            });
            writer.optional(tool.inferred_output.as_ref(), |writer, json| {
                writer.text(json.as_str());
            });
            writer.optional(tool.listed.as_ref(), |writer, listed| {
                writer.text(&listed.definition());
            });
            writer.optional(tool.registration.as_ref(), |writer, registration| {
                writer.text(&registration.name).text(&registration.description);
                for json in [&registration.input_schema, &registration.output_schema] {
                    writer.optional(json.as_ref(), |writer, json| {
                        writer.text(json.as_str());
                    });
                }
                writer.optional(registration.annotations.as_ref(), |writer, hints| {
                    writer.optional(hints.title.as_deref(), |writer, title| {
                        writer.text(title);
                    });
                    for hint in [hints.read_only, hints.destructive, hints.idempotent, hints.open_world] {
                        writer.optional(hint, |writer, hint| {
                            writer.bool(hint);
                        });
                    }
                });
            });
        }
    }
}
