//! Dataset directories (`tools.jsonl`, `traces_train.jsonl`, `traces_test.jsonl`): `pml import` reads them, `pml export` writes them
//! and the demo ships one. Imported traces become events that are published like those of an agent.

mod export;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::event::{Event, ExecutionFinished, ExecutionStarted, Json, NewRecord, StepFinished, ToolRegistered};
use crate::core::id::{RecordId, TEXT_ID_LEN_MAX, ToolId};
use crate::core::time::Timestamp;

pub use export::{ExportCounts, Exporter};

/// File of the tools.
pub const TOOLS: &str = "tools.jsonl";
/// File of the traces to learn from.
pub const TRAIN: &str = "traces_train.jsonl";
/// File of the traces to evaluate on.
pub const TEST: &str = "traces_test.jsonl";

const DEMO_TOOLS: &str = include_str!("../demo/ultratool/tools.jsonl");
const DEMO_TRAIN: &str = include_str!("../demo/ultratool/traces_train.jsonl");

/// Why a dataset cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Line(#[from] BrokenLine),
}

/// A line that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{file} line {line}: {problem}")]
pub struct BrokenLine {
    file: String,
    line: usize,
    problem: String,
}

/// One line of `tools.jsonl`. Other members are ignored.
#[derive(Deserialize, Serialize)]
pub struct ToolLine {
    tool_id: String,
    server_id: String,
    name: String,
    description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_schema: Option<Box<RawValue>>,
}

/// One line of a traces file.
#[derive(Clone, Deserialize, Serialize)]
pub struct TraceLine {
    pub trace_id: String,
    pub intent: String,
    steps: Vec<StepLine>,
    success: bool,
    /// The part of a cross-validation that the trace belongs to, if the dataset has such parts.
    #[serde(default, skip_serializing)]
    pub fold: Option<u32>,
}

#[derive(Clone, Deserialize, Serialize)]
struct StepLine {
    id: String,
    tool_id: String,
    depends_on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
}

/// The tools and traces of a dataset, checked.
pub struct Dataset {
    pub tools: Vec<NewRecord>,
    pub traces: Vec<TraceLine>,
    /// The lines that are not a tool or a trace.
    pub skipped: Vec<BrokenLine>,
}

impl Dataset {
    /// Reads `tools.jsonl` and the traces file called `traces` in `directory`.
    pub fn load(directory: &Path, traces: &str, now: Timestamp) -> Result<Self, DatasetError> {
        let read = |file: &str| {
            let path = directory.join(file);
            std::fs::read_to_string(&path).map_err(|source| DatasetError::Read { path, source })
        };
        Ok(Self::parse(&read(TOOLS)?, &read(traces)?, traces, now))
    }

    /// The dataset shipped with the program.
    pub fn demo(now: Timestamp) -> Self {
        Self::parse(DEMO_TOOLS, DEMO_TRAIN, TRAIN, now)
    }

    fn parse(tools: &str, traces: &str, traces_file: &str, now: Timestamp) -> Self {
        let mut skipped = Vec::new();
        let tools = checked_lines(TOOLS, tools, &mut skipped, |tool: ToolLine| tool.into_event(now));
        // Ids are checked here, where the line number is known, so that later conversions to events cannot fail.
        let check = |trace: TraceLine| {
            let trace = trace.with_short_id();
            trace.events(now).map(|_| trace)
        };
        let traces = checked_lines(traces_file, traces, &mut skipped, check);
        Self { tools, traces, skipped }
    }

    /// The same, or the first line that is not a tool or a trace: a measure on a part of a dataset would be that of another dataset.
    pub fn complete(mut self) -> Result<Self, DatasetError> {
        if self.skipped.is_empty() { Ok(self) } else { Err(self.skipped.swap_remove(0).into()) }
    }
}

/// What `check` makes of every line; what it refuses goes to `skipped`.
fn checked_lines<L: for<'a> Deserialize<'a>, T>(
    file: &str,
    text: &str,
    skipped: &mut Vec<BrokenLine>,
    check: impl Fn(L) -> Result<T, String>,
) -> Vec<T> {
    let mut kept = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line).map_err(|error| error.to_string()).and_then(&check) {
            Ok(checked) => kept.push(checked),
            Err(problem) => skipped.push(BrokenLine { file: file.to_owned(), line: at + 1, problem }),
        }
    }
    kept
}

/// Ids are derived from the content, not from the time of the import, so that importing twice adds nothing.
fn record(parts: &[&str], time: Timestamp, event: Event) -> NewRecord {
    let id = RecordId::derived(Timestamp::from_micros(0), parts);
    NewRecord { id, time, source: "pml/import".into(), causation: None, envelope: None, event }
}

impl ToolLine {
    fn into_event(self, now: Timestamp) -> Result<NewRecord, String> {
        let tool: ToolId = self.tool_id.parse().map_err(|error| format!("tool_id: {error}"))?;
        let registered = ToolRegistered {
            name: self.name,
            description: self.description,
            input_schema: self.input_schema.map(|schema| Json::from_valid(schema.get())),
            output_schema: None,
            annotations: None,
            tool,
        };
        // A tool may be described again, so the description is part of the identity.
        let description = registered.description.clone();
        Ok(record(&["tool", &self.tool_id, &description], now, Event::ToolRegistered(registered)))
    }
}

impl TraceLine {
    /// The events an agent would have published, one microsecond apart from `start`.
    pub fn events(&self, start: Timestamp) -> Result<Vec<NewRecord>, String> {
        let execution: crate::core::id::ExecutionId = self.trace_id.parse().map_err(|error| format!("trace_id: {error}"))?;
        let id = self.trace_id.as_str();
        let mut events = Vec::with_capacity(self.steps.len() + 2);
        let started = ExecutionStarted {
            execution: execution.clone(),
            intent: self.intent.clone(),
            session: None,
            agent: None,
            parent: None,
        };
        events.push(record(&["started", id], start, Event::ExecutionStarted(started)));
        let mut time = start;
        for step in &self.steps {
            time = time.plus_micros(1);
            let depends_on = step.depends_on.iter().map(|on| on.parse());
            let finished = StepFinished {
                execution: execution.clone(),
                step: step.id.parse().map_err(|error| format!("steps.id: {error}"))?,
                tool: step.tool_id.parse().map_err(|error| format!("steps.tool_id: {error}"))?,
                depends_on: depends_on.collect::<Result<_, _>>().map_err(|error| format!("steps.depends_on: {error}"))?,
                success: step.success.unwrap_or(true),
                duration_ms: None,
                error_kind: None,
                arguments: None,
                result_summary: None,
            };
            events.push(record(&["step", id, &step.id], time, Event::StepFinished(finished)));
        }
        let finished = ExecutionFinished { execution, success: self.success, error: None, code: None };
        events.push(record(&["finished", id], time.plus_micros(1), Event::ExecutionFinished(finished)));
        Ok(events)
    }

    /// The tools that the trace calls, in order. `events` has checked that they are ids.
    pub fn tools(&self) -> impl Iterator<Item = ToolId> {
        self.steps.iter().filter_map(|step| step.tool_id.parse().ok())
    }

    /// The data flow: the tools of two steps, the second of which depends on the first.
    pub fn edges(&self) -> impl Iterator<Item = (ToolId, ToolId)> {
        let tool = move |id: &String| -> Option<ToolId> { self.steps.iter().find(|step| step.id == *id)?.tool_id.parse().ok() };
        self.steps
            .iter()
            .flat_map(move |to| to.depends_on.iter().filter_map(move |from| Some((tool(from)?, to.tool_id.parse().ok()?))))
    }

    /// The tools of the steps from `at` on that could be called next: the steps they depend on are before `at`.
    pub fn ready(&self, at: usize) -> impl Iterator<Item = ToolId> {
        let (done, open) = self.steps.split_at(at);
        let is_done = |on: &String| done.iter().any(|step| step.id == *on);
        open.iter().filter(move |step| step.depends_on.iter().all(is_done)).filter_map(|step| step.tool_id.parse().ok())
    }

    /// The same trace; an id that is only too long is replaced by one derived from it.
    fn with_short_id(self) -> Self {
        if self.trace_id.len() <= TEXT_ID_LEN_MAX {
            return self;
        }
        let short = RecordId::derived(Timestamp::from_micros(0), &["trace_id", &self.trace_id]);
        self.renamed(short.to_string())
    }

    /// The same trace with another id: one more run of the same procedure.
    #[must_use]
    pub fn renamed(&self, trace_id: String) -> Self {
        Self { trace_id, ..self.clone() }
    }
}
