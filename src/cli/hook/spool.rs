//! The spool: events that wait to be delivered, one line each.
//!
//! Whoever delivers renames the file first, so that others go on adding to a new one; what could not be delivered stays and is sent first
//! the next time. Sending an event twice is harmless, since its id follows from its content. An event that the server will never take is set
//! aside (`refused`), so that it does not keep back those after it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::refused::Refused;
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
    refused: Refused,
}

impl Spool {
    pub(super) fn new(directory: &Path) -> Self {
        let file = |name: &str| directory.join(name);
        Self {
            waiting: file("spool.ndjson"),
            leaving: file("leaving.ndjson"),
            adding: file("adding.lock"),
            delivering: file("delivering.lock"),
            refused: Refused::new(directory),
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

    /// The bytes that wait.
    pub(super) fn len(&self) -> u64 {
        [&self.waiting, &self.leaving].iter().filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum()
    }

    /// Delivers everything and returns how many events were set aside. If another process delivers, waits for it, since it may have looked
    /// before the last event came, and its server may not answer.
    pub(super) fn deliver(&self, remote: &Remote) -> anyhow::Result<usize> {
        for _ in 0..ATTEMPTS {
            if let Some(_alone) = private::Lock::take(&self.delivering)? {
                let mut refused = 0;
                while self.next()? {
                    refused += self.send(remote)?;
                }
                return Ok(refused);
            }
            if self.len() == 0 {
                return Ok(0);
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

    /// Sends what is leaving and returns how many events were set aside.
    fn send(&self, remote: &Remote) -> anyhow::Result<usize> {
        let text = fs::read(&self.leaving)?;
        let lines: Vec<&[u8]> =
            text.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
        let mut refused = 0;
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let mut len = 0;
            let fits = |line: &&&[u8]| {
                len += line.len();
                len <= BODY_BYTES_MAX
            };
            let count = rest.iter().take(BODY_EVENTS_MAX).take_while(fits).count().max(1);
            refused += self.send_some(remote, &rest[..count])?;
            rest = &rest[count..];
        }
        fs::remove_file(&self.leaving)?;
        Ok(refused)
    }

    /// Sends these events and returns how many were set aside. A body that is refused as a whole is sent in halves: it may be too large for
    /// this server, or hold one event that is.
    fn send_some(&self, remote: &Remote, lines: &[&[u8]]) -> anyhow::Result<usize> {
        let (status, answer) = remote.post("/v1/events", "application/x-ndjson", &lines.concat())?;
        // Events that the server refuses by themselves are its dead letters, so they are delivered too.
        if answer["results"].is_array() {
            return Ok(0);
        }
        let reason = answer["error"].as_str().unwrap_or("no reason given");
        anyhow::ensure!(is_final(status), "the server answered {status}: {reason}");
        if lines.len() > 1 {
            let (first, second) = lines.split_at(lines.len() / 2);
            return Ok(self.send_some(remote, first)? + self.send_some(remote, second)?);
        }
        for line in lines {
            self.refused.add(line, status, reason)?;
        }
        Ok(lines.len())
    }
}

/// Whether a status says that this body will never be taken. Others may be answered differently later: a missing key (401, 403) or another
/// server at this address (404, 405) is for the user to mend, and no reason to give up events.
fn is_final(status: u16) -> bool {
    matches!(status, 400 | 409 | 413 | 415 | 422)
}
