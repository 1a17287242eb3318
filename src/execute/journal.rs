//! The journal of a run: a file in the data directory with the workflow and the results of its finished tasks, so that a run that waits
//! for approval, failed, or lost its process can go on.
//!
//! It is a file and not a part of the log, because the log holds arguments and results redacted and cut: a run that went on from them would
//! call tools with other arguments. It is removed when the run has succeeded or was aborted, or is too old. A journal is written without
//! waiting for the disk: after a power failure the last tasks may have to run again, as they would without it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::code::{CalledLine, ProgramLine};
use super::run::Finished;
use crate::core::id::{ExecutionId, StepId};
use crate::core::time::Timestamp;
use crate::private;

const EXTENSION: &str = "jsonl";
/// Largest journal that is read at a start, in bytes.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;

/// One line of a journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first line.
    Run {
        run: String,
        intent: String,
        session: Option<String>,
        agent: Option<String>,
        parent: Option<String>,
        workflow: Value,
        #[serde(default)]
        program: Option<ProgramLine>,
        #[serde(default)]
        capability: Option<String>,
        created_us: i64,
        /// The token of the approval that the run waits for.
        token: Option<String>,
        /// The tasks that need it.
        approve: Vec<String>,
    },
    /// The first call is about to be made.
    Began { at_us: i64 },
    /// A program waits until somebody approves the calls of `tools` with the token.
    Waits { token: String, tasks: Vec<String>, tools: Vec<String> },
    /// A call of a program ended.
    Called(CalledLine),
    /// A task is called before its turn.
    Ahead { task: String, began_us: i64 },
    /// A task succeeded.
    Finished(FinishedTask),
    /// The run ended with a failure.
    Failed,
}

/// A task that succeeded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FinishedTask {
    pub(super) task: String,
    pub(super) started_us: i64,
    pub(super) ended_us: i64,
    pub(super) duration_ms: u64,
    pub(super) attempts: u32,
    pub(super) result: Value,
}

impl FinishedTask {
    pub(super) fn new(task: &StepId, finished: &Finished) -> Self {
        Self {
            task: task.to_string(),
            started_us: finished.started.micros(),
            ended_us: finished.ended.micros(),
            duration_ms: finished.duration_ms,
            attempts: finished.attempts,
            result: Value::clone(&finished.result),
        }
    }
}

/// An open journal.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Creates the journal of a run with its first line.
    pub(super) fn create(directory: &Path, run: &ExecutionId, first: &Line) -> std::io::Result<Self> {
        private::create_directory(directory)?;
        let path = path_of(directory, run);
        let mut journal = Self { file: private::create_file(&path)?, path };
        journal.append(first)?;
        Ok(journal)
    }

    /// Opens an existing journal to add lines.
    pub(super) fn reopen(directory: &Path, run: &ExecutionId) -> std::io::Result<Self> {
        let path = path_of(directory, run);
        Ok(Self { file: File::options().append(true).open(&path)?, path })
    }

    pub(super) fn append(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }

    /// Removes the file.
    pub(super) fn remove(self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(%error, path = %path.display(), "the journal of a run cannot be removed");
    }
}

/// Ids of runs are made by pml: letters, digits and `-`.
fn path_of(directory: &Path, run: &ExecutionId) -> PathBuf {
    directory.join(run.as_str()).with_extension(EXTENSION)
}

/// Reads the journals of `directory`. Removes those that were created before `oldest` and those that cannot be read. A last line that was
/// cut by a crash is left out.
pub(super) fn read_all(directory: &Path, oldest: Timestamp) -> Vec<Vec<Line>> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut journals = Vec::new();
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        match read(&path) {
            Some(lines) if created(&lines) >= oldest.micros() => journals.push(lines),
            _ => remove(&path),
        }
    }
    journals
}

fn created(lines: &[Line]) -> i64 {
    match lines.first() {
        Some(Line::Run { created_us, .. }) => *created_us,
        _ => i64::MIN,
    }
}

fn read(path: &Path) -> Option<Vec<Line>> {
    if std::fs::metadata(path).ok()?.len() > JOURNAL_BYTES_MAX {
        return None;
    }
    parse(&std::fs::read_to_string(path).ok()?)
}

/// The lines of a journal up to the first that cannot be read; `None` if it does not begin as one.
pub(super) fn parse(text: &str) -> Option<Vec<Line>> {
    let lines: Vec<Line> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    matches!(lines.first(), Some(Line::Run { .. })).then_some(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(created_us: i64) -> Line {
        let (run, intent, workflow) = ("run-1".to_owned(), "x".to_owned(), json!({}));
        let (session, agent, parent, program, capability, token) = (None, None, None, None, None, None);
        let approve = Vec::new();
        Line::Run { run, intent, session, agent, parent, workflow, program, capability, created_us, token, approve }
    }

    fn finished(task: &str) -> Line {
        let (task, result) = (task.to_owned(), json!({"a": 1}));
        Line::Finished(FinishedTask { task, started_us: 1, ended_us: 2, duration_ms: 1, attempts: 1, result })
    }

    #[test]
    fn a_journal_is_read_up_to_a_line_that_a_crash_has_cut() {
        let directory = tempfile::tempdir().unwrap();
        let run: ExecutionId = "run-1".parse().unwrap();
        let mut journal = Journal::create(directory.path(), &run, &first(10)).unwrap();
        journal.append(&finished("a")).unwrap();
        journal.file.write_all(b"{\"finished\": {\"task\"").unwrap();
        let lines = read_all(directory.path(), Timestamp::from_micros(10)).remove(0);
        assert_eq!(lines.len(), 2);
        assert!(matches!(&lines[1], Line::Finished(task) if task.task == "a" && task.result == json!({"a": 1})));
        journal.remove();
        assert!(read_all(directory.path(), Timestamp::from_micros(10)).is_empty());
    }

    #[test]
    fn old_and_unreadable_journals_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        Journal::create(directory.path(), &"run-old".parse().unwrap(), &first(9)).unwrap();
        Journal::create(directory.path(), &"run-odd".parse().unwrap(), &finished("a")).unwrap();
        std::fs::write(directory.path().join("notes.txt"), "mine").unwrap();
        assert!(read_all(directory.path(), Timestamp::from_micros(10)).is_empty());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "other files are left alone");
    }
}
