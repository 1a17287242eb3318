//! `Exporter` writes a dataset directory from the records of a log.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{StepLine, TEST, TOOLS, TRAIN, ToolLine, TraceLine};
use crate::core::event::{Event, Json, Record, ToolRegistered, TraceCompleted};

/// Collects tools (their last description) and traces (in log order) from records.
#[derive(Default)]
pub struct Exporter {
    tools: BTreeMap<String, ToolLine>,
    traces: Vec<TraceLine>,
}

/// How many tools and traces were written.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ExportCounts {
    pub tools: usize,
    pub train: usize,
    pub test: usize,
}

impl Exporter {
    /// Adds the tool or trace of a record; other records are ignored.
    pub fn add_record(&mut self, record: &Record) {
        match record.event() {
            Event::ToolRegistered(tool) => {
                self.tools.insert(tool.tool.to_string(), tool.into());
            }
            Event::ToolRemoved(removed) => {
                self.tools.remove(removed.tool.as_str());
            }
            // Nothing can be learnt from abandoned executions and those without calls.
            Event::TraceCompleted(trace) if !trace.abandoned && !trace.steps.is_empty() => self.traces.push(trace.into()),
            _ => {}
        }
    }

    /// Writes the directory; the last `test_share` (0 to 1) of the traces go to the test file.
    pub fn write(self, directory: &Path, test_share: f64) -> std::io::Result<ExportCounts> {
        std::fs::create_dir_all(directory)?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count, rounded"
        )]
        let test = (self.traces.len() as f64 * test_share.clamp(0.0, 1.0)).round() as usize;
        let (train, test) = self.traces.split_at(self.traces.len() - test);
        write_lines(&directory.join(TOOLS), self.tools.values())?;
        write_lines(&directory.join(TRAIN), train)?;
        write_lines(&directory.join(TEST), test)?;
        Ok(ExportCounts { tools: self.tools.len(), train: train.len(), test: test.len() })
    }
}

fn write_lines<'a, T: Serialize + 'a>(path: &Path, lines: impl IntoIterator<Item = &'a T>) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for line in lines {
        serde_json::to_writer(&mut file, line)?;
        file.write_all(b"\n")?;
    }
    file.into_inner()?.sync_all()
}

impl From<&ToolRegistered> for ToolLine {
    fn from(tool: &ToolRegistered) -> Self {
        let raw = |json: &Json| RawValue::from_string(json.as_str().to_owned()).expect("Json holds valid JSON");
        Self {
            tool_id: tool.tool.to_string(),
            server_id: tool.tool.server().to_owned(),
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.as_ref().map(raw),
        }
    }
}

impl From<&TraceCompleted> for TraceLine {
    fn from(trace: &TraceCompleted) -> Self {
        Self {
            trace_id: trace.execution.to_string(),
            intent: trace.intent.clone(),
            steps: trace
                .steps
                .iter()
                .map(|step| StepLine {
                    id: step.step.to_string(),
                    tool_id: step.tool.to_string(),
                    depends_on: step.depends_on.iter().map(ToString::to_string).collect(),
                    success: Some(step.success),
                })
                .collect(),
            success: trace.success,
            fold: None,
        }
    }
}
