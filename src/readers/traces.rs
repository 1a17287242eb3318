//! Traces: spans are gathered until the root of their trace has ended, or nothing has come for long, and become one run.
//!
//! Time is a number that the caller counts: milliseconds in a server, pieces in a file. What is held is bounded by traces, spans and
//! bytes; the trace that waits for longest is closed first. Spans that come after their trace was closed become a run that continues it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pml_core::id::ExecutionId;
use pml_core::redact::Redactor;
use pml_core::time::Timestamp;

use crate::conversation::{Answer, Call, Conversation, Output, clean_line, execution_id, session_id};
use crate::outcome::Outcome;
use crate::run::{Basis, Ending, Options, Run};
use crate::span::{Role, Span, Status};

/// Longest id of a trace or a span, in bytes: those of OpenTelemetry have 32, UUIDs 36.
const ID_LEN_MAX: usize = 256;

/// The limits of [`Traces`]; times in the unit of the caller's clock.
#[derive(Clone, Copy, Debug)]
pub struct TraceLimits {
    /// How long a trace waits for further spans after its root.
    pub linger: u64,
    /// How long a trace waits for its root, from its first span.
    pub timeout: u64,
    pub traces_max: usize,
    /// Spans of one trace; further ones are not looked at.
    pub spans_max: usize,
    /// The texts of all spans.
    pub bytes_max: usize,
    /// Closed traces that are remembered, for spans that come late.
    pub remembered_max: usize,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self { linger: 2_000, timeout: 60_000, traces_max: 2_000, spans_max: 5_000, bytes_max: 32 << 20, remembered_max: 2_000 }
    }
}

/// Gathers spans.
#[derive(Debug)]
pub struct Traces {
    options: Arc<Options>,
    limits: TraceLimits,
    open: BTreeMap<String, OpenTrace>,
    bytes: usize,
    /// No trace is due before this.
    next_due: u64,
    closed: BTreeMap<String, ClosedTrace>,
    closed_order: VecDeque<String>,
    /// Spans that were not looked at, because their trace has too many or their ids are too long.
    dropped: u64,
}

#[derive(Debug)]
struct OpenTrace {
    spans: BTreeMap<String, Span>,
    bytes: usize,
    has_root: bool,
    since: u64,
    due: u64,
}

/// What is remembered of a trace for spans that come late.
#[derive(Debug)]
struct ClosedTrace {
    execution: ExecutionId,
    intent: String,
    intent_inferred: bool,
    late_runs: u32,
}

impl Traces {
    pub fn new(options: Arc<Options>, limits: TraceLimits) -> Self {
        Self {
            options,
            limits,
            open: BTreeMap::new(),
            bytes: 0,
            next_due: u64::MAX,
            closed: BTreeMap::new(),
            closed_order: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Adds a span. The same span twice is one.
    pub fn add(&mut self, span: Span, now: u64) {
        let limits = self.limits;
        if span.trace.len() > ID_LEN_MAX || span.id.len() > ID_LEN_MAX {
            self.dropped += 1;
            return;
        }
        let is_late = self.closed.contains_key(&span.trace);
        let trace = self.open.entry(span.trace.clone()).or_insert_with(|| OpenTrace {
            spans: BTreeMap::new(),
            bytes: 0,
            has_root: false,
            since: now,
            due: now.saturating_add(if is_late { limits.linger } else { limits.timeout }),
        });
        if trace.spans.len() >= limits.spans_max {
            self.dropped += 1;
            return;
        }
        trace.has_root |= span.parent.is_none();
        if trace.has_root {
            trace.due = now.saturating_add(limits.linger).min(trace.since.saturating_add(limits.timeout));
        }
        self.next_due = self.next_due.min(trace.due);
        let bytes = span.held_bytes();
        let replaced = trace.spans.insert(span.id.clone(), span).map_or(0, |before| before.held_bytes());
        trace.bytes = trace.bytes + bytes - replaced;
        self.bytes = self.bytes + bytes - replaced;
    }

    /// Returns the runs of the traces that have waited long enough, or that must make room.
    pub fn take_due(&mut self, now: u64) -> Vec<Run> {
        let mut out = Output::default();
        self.close_due(now, &mut out);
        out.runs
    }

    /// Returns the runs of all traces.
    pub fn take_all(&mut self) -> Vec<Run> {
        let mut out = Output::default();
        self.close_all(&mut out);
        out.runs
    }

    /// Whether there is no room for further traces until some are taken.
    pub fn is_full(&self) -> bool {
        self.open.len() > self.limits.traces_max || self.bytes > self.limits.bytes_max
    }

    /// Whether there is room for spans with so many bytes of texts besides those that are held.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= self.limits.bytes_max
    }

    /// How many spans were not looked at, because their trace has too many or their ids are too long.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn close_due(&mut self, now: u64, out: &mut Output) {
        if self.next_due <= now {
            let due: Vec<String> =
                self.open.iter().filter(|(_, trace)| trace.due <= now).map(|(name, _)| name.clone()).collect();
            for name in due {
                self.close(&name, out);
            }
            self.next_due = self.open.values().map(|trace| trace.due).min().unwrap_or(u64::MAX);
        }
        if !self.is_full() {
            return;
        }
        // Sorted once: one request may bring many times as many traces as there is room for.
        let mut oldest: Vec<(u64, u64, String)> =
            self.open.iter().map(|(name, trace)| (trace.due, trace.since, name.clone())).collect();
        oldest.sort();
        for (_, _, name) in oldest {
            if !self.is_full() {
                break;
            }
            self.close(&name, out);
        }
    }

    pub(crate) fn close_all(&mut self, out: &mut Output) {
        let names: Vec<String> = self.open.keys().cloned().collect();
        for name in names {
            self.close(&name, out);
        }
        self.next_due = u64::MAX;
    }

    fn close(&mut self, name: &str, out: &mut Output) {
        let Some(trace) = self.open.remove(name) else { return };
        self.bytes -= trace.bytes;
        let mut spans: Vec<Span> = trace.spans.into_values().collect();
        spans.sort_by(|one, other| (one.start, one.end, &one.id).cmp(&(other.start, other.end, &other.id)));
        let before = self.closed.get_mut(name);
        let conversation = assembled(name, &spans, before, Arc::clone(&self.options), out);
        if let Some(closed) = conversation {
            self.remember(name, closed);
        }
    }

    fn remember(&mut self, name: &str, closed: ClosedTrace) {
        if self.closed.insert(name.to_owned(), closed).is_none() {
            self.closed_order.push_back(name.to_owned());
        }
        if self.closed_order.len() > self.limits.remembered_max
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }
}

/// Makes a run of the spans of a trace, in the order of their start. Returns what is to be remembered of a trace that was not closed
/// before.
fn assembled(
    name: &str,
    spans: &[Span],
    before: Option<&mut ClosedTrace>,
    options: Arc<Options>,
    out: &mut Output,
) -> Option<ClosedTrace> {
    let by_id: BTreeMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    let is_top = |span: &&Span| span.parent.as_ref().is_none_or(|parent| !by_id.contains_key(parent.as_str()));
    let top = spans.iter().find(is_top)?;
    let agent = spans.iter().find_map(|span| span.agent.as_deref()).unwrap_or("otel");
    let agent = clean_line(agent, &options.redactor);
    let agent = agent.as_str();
    let mut conversation = Conversation::new(agent, options);
    conversation.session =
        spans.iter().find_map(|span| span.session.as_deref()).and_then(|session| session_id(session, conversation.redactor()));
    conversation.set_project(agent);
    let mut remembered = None;
    if let Some(before) = before {
        before.late_runs += 1;
        let id = format!("{name}/late-{}", before.late_runs);
        conversation.begin(Some(&id), before.intent.clone(), before.intent_inferred, top.start);
        conversation.continue_from(before.execution.clone());
    } else {
        let said = intent(spans, top, &conversation);
        let described = || (described(top, conversation.redactor()), true);
        let (intent, intent_inferred) = said.map_or_else(described, |said| (said, false));
        conversation.begin(Some(name), intent.clone(), intent_inferred, top.start);
        let execution = execution_id(&[agent, name]);
        remembered = Some(ClosedTrace { execution, intent, intent_inferred, late_runs: 0 });
    }
    add_calls(&mut conversation, spans, &by_id, out);
    let ending = match top.status {
        Status::Error => Some(Ending { success: false, basis: Basis::Recorded }),
        Status::Ok => Some(Ending { success: true, basis: Basis::Recorded }),
        Status::Unset => None,
    };
    conversation.end(ending, out);
    remembered
}

/// What the user said: in the top span, else in that of an agent, else in what a model was asked first.
fn intent(spans: &[Span], top: &Span, conversation: &Conversation) -> Option<String> {
    let of_role = |role: Role| spans.iter().filter(move |span| span.role == role);
    let candidates = std::iter::once(top).chain(of_role(Role::Agent)).chain(of_role(Role::Model)).chain(of_role(Role::Other));
    candidates.filter_map(|span| span.words.as_deref()).find_map(|words| crate::intent::request(words, conversation.redactor()))
}

fn described(top: &Span, redactor: &Redactor) -> String {
    let name = clean_line(&top.name, redactor);
    if name.is_empty() { "unnamed trace".to_owned() } else { name }
}

/// Adds the calls and their results in the order of time, so that a value flows only from a call that had ended.
fn add_calls(conversation: &mut Conversation, spans: &[Span], by_id: &BTreeMap<&str, &Span>, out: &mut Output) {
    let mut moments: Vec<(Option<Timestamp>, bool, &Span)> = Vec::new();
    for span in spans.iter().filter(|span| matches!(span.role, Role::Tool(_)) && !is_same_call(span, by_id)) {
        moments.push((span.start, false, span));
        moments.push((span.end.max(span.start), true, span));
    }
    moments.sort_by_key(|(time, is_end, _)| (*time, *is_end));
    for (_, is_end, span) in moments {
        let Role::Tool(tool) = &span.role else { continue };
        if is_end {
            let text = span.result.as_deref().or(span.error.as_deref()).unwrap_or_default();
            let mut outcome = match span.status {
                Status::Error => Outcome::flagged(true, span.error.as_deref().unwrap_or(text)),
                Status::Ok => Outcome::succeeded(),
                Status::Unset => Outcome::of_text(text),
            };
            if let Some(kind) = span.error_type.as_deref().filter(|_| !outcome.success) {
                outcome.error_kind = Some(clean_line(kind, conversation.redactor()));
            }
            outcome.duration_ms = span.end.zip(span.start).map(|(end, start)| end.millis_since(start));
            conversation.answer(Answer { call: &span.id, text, outcome, time: span.end });
        } else {
            let arguments = span.arguments.as_deref();
            conversation.call(Call { id: &span.id, tool: tool.clone(), arguments, time: span.start }, out);
        }
    }
}

/// Whether a span is another view of the call above it: the MCP request in the tool's span, the server's span in the client's.
fn is_same_call(span: &Span, by_id: &BTreeMap<&str, &Span>) -> bool {
    const HOPS_MAX: usize = 32;
    let Role::Tool(tool) = &span.role else { return false };
    let mut above = span;
    for _ in 0..HOPS_MAX {
        let Some(parent) = above.parent.as_ref().and_then(|parent| by_id.get(parent.as_str())) else { return false };
        if matches!(&parent.role, Role::Tool(other) if other.name() == tool.name()) {
            return true;
        }
        above = parent;
    }
    false
}

#[cfg(test)]
mod tests;
