//! What was read, for people and for programs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::readers::{Counts, Format, Run};
use serde_json::json;

use crate::cli::output::Output;
use crate::cli::target::Published;
use crate::core::id::ToolId;
use crate::core::time::Timestamp;

/// Tools that are counted one by one; calls of further ones are counted together.
const TOOLS_MAX: usize = 10_000;
/// Rows of a table, names of files, and intents that are shown.
const SHOWN_MAX: usize = 15;
const EXAMPLES_MAX: usize = 5;
const EXAMPLE_CHARS_MAX: usize = 100;

#[derive(Default)]
pub(super) struct Tally {
    formats: BTreeMap<Format, Files>,
    runs: u64,
    succeeded: u64,
    /// Runs whose success is a conclusion and not a record.
    inferred: u64,
    open: u64,
    /// Runs of sessions that hooks have reported.
    reported: u64,
    steps: u64,
    tools: BTreeMap<ToolId, Calls>,
    further_calls: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    examples: Vec<String>,
    counts: Counts,
    unrecognised: Vec<String>,
    unreadable: Vec<String>,
}

#[derive(Default)]
struct Files {
    files: u64,
    bytes: u64,
}

#[derive(Default)]
struct Calls {
    calls: u64,
    failed: u64,
}

impl Tally {
    pub(super) fn add_file(&mut self, format: Format, bytes: u64) {
        let files = self.formats.entry(format).or_default();
        files.files += 1;
        files.bytes += bytes;
    }

    pub(super) fn add_run(&mut self, run: &Run) {
        self.runs += 1;
        self.succeeded += u64::from(run.ending.success);
        self.inferred += u64::from(run.ending.basis.is_inferred());
        self.steps += run.steps.len() as u64;
        for step in &run.steps {
            if self.tools.len() >= TOOLS_MAX && !self.tools.contains_key(&step.tool) {
                self.further_calls += 1;
                continue;
            }
            let calls = self.tools.entry(step.tool.clone()).or_default();
            calls.calls += 1;
            calls.failed += u64::from(!step.success);
        }
        if self.examples.len() < EXAMPLES_MAX && !run.intent_inferred {
            self.examples.push(run.intent.chars().take(EXAMPLE_CHARS_MAX).collect());
        }
        run.started.into_iter().chain(run.last_time()).for_each(|time| self.add_time(time));
    }

    pub(super) fn add_time(&mut self, time: Timestamp) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(Some(time));
    }

    /// A run may still go on.
    pub(super) fn add_open(&mut self) {
        self.open += 1;
    }

    /// A run was reported by hooks already.
    pub(super) fn add_reported(&mut self) {
        self.reported += 1;
    }

    pub(super) fn add_counts(&mut self, counts: &Counts) {
        let total = &mut self.counts;
        total.bytes += counts.bytes;
        total.pieces += counts.pieces;
        total.ignored += counts.ignored;
        total.unknown += counts.unknown;
        total.damaged += counts.damaged;
        total.too_long += counts.too_long;
        total.without_calls += counts.without_calls;
        total.without_request += counts.without_request;
        total.not_wanted += counts.not_wanted;
        for (kind, count) in &counts.unknown_kinds {
            if total.unknown_kinds.len() < SHOWN_MAX || total.unknown_kinds.contains_key(kind) {
                *total.unknown_kinds.entry(kind.clone()).or_default() += count;
            }
        }
    }

    pub(super) fn add_unrecognised(&mut self, path: &Path) {
        self.unrecognised.push(path.display().to_string());
    }

    pub(super) fn add_unreadable(&mut self, path: &Path, error: &std::io::Error) {
        self.unreadable.push(format!("{}: {error}", path.display()));
    }

    /// What is there, before anything but the beginnings of the files was read.
    pub(super) fn print_survey(&self, output: &Output) {
        let rows = self.formats.iter().map(|(format, files)| {
            vec![format.name().to_owned(), files.files.to_string(), megabytes(files.bytes), self.span()]
        });
        output.table(&["format", "files", "MB", "from, to"], rows.collect::<Vec<_>>());
        output.say(format!("{} tools in the beginnings of the files", self.tools.len()));
    }

    /// What was read; with what became of the events, unless nothing was published.
    pub(super) fn print(&self, published: Option<&Published>, output: &Output) {
        output.json(&self.json(published));
        if published.is_none() {
            self.print_dry(output);
        }
        let counts = &self.counts;
        let files: u64 = self.formats.values().map(|files| files.files).sum();
        output.say(format!(
            "{files} files, {} MB: {} runs with {} calls of {} tools, {}",
            megabytes(counts.bytes),
            self.runs,
            self.steps,
            self.tools.len(),
            self.span()
        ));
        output.say(format!(
            "{} requests without calls, {} runs left out, {} reported by hooks, {} still open; {} lines unknown, {} damaged, {} too long",
            counts.without_calls, counts.not_wanted, self.reported, self.open, counts.unknown, counts.damaged, counts.too_long
        ));
        if !counts.unknown_kinds.is_empty() {
            let kinds: Vec<String> = counts.unknown_kinds.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            output.say(format!("unknown kinds of lines: {}", kinds.join(", ")));
        }
        for path in self.unrecognised.iter().take(SHOWN_MAX) {
            output.say(format!("not recognised: {path}"));
        }
        for problem in self.unreadable.iter().take(SHOWN_MAX) {
            output.say(format!("not read: {problem}"));
        }
        if let Some(published) = published {
            published.explain(output);
            output.say(published.text());
        }
    }

    fn print_dry(&self, output: &Output) {
        let mut tools: Vec<(&ToolId, &Calls)> = self.tools.iter().collect();
        tools.sort_by_key(|(tool, calls)| (std::cmp::Reverse(calls.calls), *tool));
        let row = |(tool, calls): (&ToolId, &Calls)| vec![tool.to_string(), calls.calls.to_string(), calls.failed.to_string()];
        output.table(&["tool", "calls", "failed"], tools.into_iter().take(SHOWN_MAX).map(row).collect::<Vec<_>>());
        output.say("requests, for example:");
        for example in &self.examples {
            output.say(format!("  {example}"));
        }
        output.say("nothing was published (--dry-run)");
    }

    fn json(&self, published: Option<&Published>) -> serde_json::Value {
        let files: BTreeMap<&str, u64> = self.formats.iter().map(|(format, files)| (format.name(), files.files)).collect();
        let tools: BTreeMap<&str, serde_json::Value> = self
            .tools
            .iter()
            .map(|(tool, calls)| (tool.as_str(), json!({"calls": calls.calls, "failed": calls.failed})))
            .collect();
        let counts = &self.counts;
        let mut answer = json!({
            "files": files, "bytes": counts.bytes, "runs": self.runs, "succeeded": self.succeeded,
            "success_inferred": self.inferred, "open": self.open, "reported_by_hooks": self.reported, "steps": self.steps, "tools": tools,
            "further_calls": self.further_calls,
            "first": self.first.map(|time| time.to_string()), "last": self.last.map(|time| time.to_string()),
            "requests": self.examples, "lines": counts.pieces, "ignored": counts.ignored, "unknown": counts.unknown,
            "unknown_kinds": counts.unknown_kinds, "damaged": counts.damaged, "too_long": counts.too_long,
            "without_calls": counts.without_calls, "without_request": counts.without_request,
            "not_wanted": counts.not_wanted, "not_recognised": self.unrecognised, "not_read": self.unreadable,
        });
        if let Some(published) = published {
            answer["published"] = published.json();
        }
        answer
    }

    fn span(&self) -> String {
        let day = |time: Timestamp| time.to_string().chars().take(10).collect::<String>();
        match (self.first, self.last) {
            (Some(first), Some(last)) => format!("{} to {}", day(first), day(last)),
            _ => "at no known time".to_owned(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}
