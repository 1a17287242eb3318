//! The spool: events that wait to be delivered, one line each.
//!
//! Whoever delivers renames the file first, so that others go on adding to a new one; what could not be delivered stays and is sent first
//! the next time. Sending an event twice is harmless, since its id follows from its content.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::cli::remote::Remote;
use crate::core::event::{NewRecord, cloud};
use crate::private;

/// Most bytes that wait; further events are dropped, and the agent is told.
const LEN_MAX: u64 = 64 << 20;
/// Longest body of a request, in bytes, and most events in it.
const BODY_BYTES_MAX: usize = 1 << 20;
const BODY_EVENTS_MAX: usize = 500;
/// How long a second deliverer waits for the first.
const PATIENCE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 100;

pub(super) struct Spool {
    /// What is added.
    waiting: PathBuf,
    /// What is being delivered.
    leaving: PathBuf,
    /// Held while a line is added or the file is renamed.
    adding: PathBuf,
    /// Held by the one process that delivers.
    delivering: PathBuf,
}

impl Spool {
    pub(super) fn new(directory: &Path) -> Self {
        let file = |name: &str| directory.join(name);
        Self {
            waiting: file("spool.ndjson"),
            leaving: file("leaving.ndjson"),
            adding: file("adding.lock"),
            delivering: file("delivering.lock"),
        }
    }

    /// Adds events. They pass the redaction before.
    pub(super) fn add(&self, events: &[NewRecord]) -> anyhow::Result<()> {
        let lines: String = events.iter().map(|event| cloud::to_structured(event).to_string() + "\n").collect();
        let _alone = private::Lock::wait(&self.adding)?;
        let len = fs::metadata(&self.waiting).map_or(0, |metadata| metadata.len());
        anyhow::ensure!(
            len + lines.len() as u64 <= LEN_MAX,
            "{} is full; start a server, then run `pml hook --deliver`",
            self.waiting.display()
        );
        private::create_file_if_missing(&self.waiting)?;
        let mut file = OpenOptions::new().append(true).open(&self.waiting)?;
        file.write_all(lines.as_bytes()).with_context(|| format!("cannot write {}", self.waiting.display()))
    }

    /// Delivers everything. If another process does, waits for it, since it may have looked before the last event came.
    pub(super) fn deliver(&self, remote: &Remote) -> anyhow::Result<()> {
        for _ in 0..ATTEMPTS {
            if let Some(_alone) = private::Lock::take(&self.delivering)? {
                while self.next()? {
                    self.send(remote)?;
                }
                return Ok(());
            }
            if !self.waiting.exists() {
                return Ok(());
            }
            std::thread::sleep(PATIENCE);
        }
        anyhow::bail!("another process has been delivering for long; try again later")
    }

    /// Takes what waits. Returns whether there is something to send.
    fn next(&self) -> anyhow::Result<bool> {
        if self.leaving.exists() {
            return Ok(true);
        }
        let _alone = private::Lock::wait(&self.adding)?;
        match fs::rename(&self.waiting, &self.leaving) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&self, remote: &Remote) -> anyhow::Result<()> {
        let text = fs::read(&self.leaving)?;
        let mut body: Vec<u8> = Vec::new();
        let mut count = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if count > 0 && (count >= BODY_EVENTS_MAX || body.len() + line.len() > BODY_BYTES_MAX) {
                post(remote, &body)?;
                body.clear();
                count = 0;
            }
            body.extend_from_slice(line);
            count += 1;
        }
        if count > 0 {
            post(remote, &body)?;
        }
        Ok(fs::remove_file(&self.leaving)?)
    }
}

/// Events that the server refuses are its dead letters, so they are delivered too.
fn post(remote: &Remote, body: &[u8]) -> anyhow::Result<()> {
    let (status, answer) = remote.post("/v1/events", "application/x-ndjson", body)?;
    let is_answered = answer["results"].is_array();
    anyhow::ensure!(is_answered, "the server answered {status}: {}", answer["error"].as_str().unwrap_or("no reason given"));
    Ok(())
}
