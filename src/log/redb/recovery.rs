//! Recovery of the writer after a storage error such as a full, failing or detached disk.
//!
//! The writer closes the file, reopens it, reads where the log ends, and writes a probe. Until all of that has worked, every append fails
//! at once with `Determinate`. Damage is not recovered from: every later append and read fails with it.

use std::time::Duration;

use redb::TableDefinition;
use tokio::sync::mpsc;

use super::StoreError;
use super::writer::{Job, Writer};
use crate::clock::monotonic;
use crate::core::id::Seq;
use crate::log::{AppendError, Damage, OpenError};

/// The wait before the first attempt, doubled for each later one up to `RETRY_MAX`.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often the queue is polled meanwhile: the longest wait of an append for its error.
const POLL: Duration = Duration::from_millis(10);

/// A table that exists only while a probe checks whether a commit of some size works.
const PROBE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("probe");
const PROBE_BYTES: usize = 256 << 10;

impl Writer {
    /// Returns true once the log can be written again, false if every sender was dropped before that.
    pub(super) fn recover(&mut self, error: &StoreError, queue: &mut mpsc::Receiver<Job>) -> bool {
        let mut reason = error.to_string();
        let mut damage = None;
        if let StoreError::Damaged(found) = error {
            self.file.close_damaged(found.clone());
            damage = Some(self.clear_recent_for(found));
        }
        let mut wait = RETRY_FIRST;
        loop {
            self.failing.send_replace(Some(reason.clone()));
            if !fail_jobs(queue, wait, damage.as_ref(), &reason) {
                return false;
            }
            if damage.is_some() {
                continue;
            }
            match self.reopen(&reason) {
                Ok(()) => {
                    tracing::info!(last = self.last.0, "the log can be written again");
                    self.failing.send_replace(None);
                    return true;
                }
                Err(again) => {
                    tracing::warn!(error = %again, "the log cannot be written yet");
                    if let StoreError::Damaged(found) = &again {
                        damage = Some(self.clear_recent_for(found));
                    }
                    reason = again.to_string();
                }
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Empties the window of newest records, so that readers that follow the tail get the damage too. Returns a copy of it.
    fn clear_recent_for(&self, damage: &Damage) -> Damage {
        self.recent.clear();
        damage.clone()
    }

    fn reopen(&mut self, reason: &str) -> Result<(), StoreError> {
        let last = self.file.reopen(reason, self.last).map_err(|error| match error {
            OpenError::Damaged { source, .. } => StoreError::Damaged(source),
            other => StoreError::Closed(with_source(&other)),
        })?;
        self.set_last(last);
        self.probe()
    }

    /// Sets the last position, which differs from the known one if a commit of unknown outcome has happened.
    fn set_last(&mut self, last: Seq) {
        if last != self.last {
            self.last = last;
            self.recent.clear();
            self.tail.send_if_modified(|tail| std::mem::replace(tail, last) != last);
        }
    }

    /// Checks that a commit works.
    fn probe(&self) -> Result<(), StoreError> {
        let guard = self.file.lock();
        let database = guard.database()?;
        let filled = database.begin_write()?;
        filled.open_table(PROBE)?.insert(0, vec![0; PROBE_BYTES].as_slice())?;
        filled.commit()?;
        let emptied = database.begin_write()?;
        emptied.delete_table(PROBE)?;
        emptied.commit()?;
        Ok(())
    }
}

/// Fails all jobs that arrive within `time`. Returns false if every sender was dropped.
fn fail_jobs(queue: &mut mpsc::Receiver<Job>, time: Duration, damage: Option<&Damage>, reason: &str) -> bool {
    let begun = monotonic();
    while begun.elapsed() < time {
        match queue.try_recv() {
            Ok(job) => job.fail(match damage {
                Some(damage) => AppendError::Damaged(damage.clone()),
                None => AppendError::Determinate(reason.to_owned().into()),
            }),
            Err(mpsc::error::TryRecvError::Empty) => std::thread::sleep(POLL),
            Err(mpsc::error::TryRecvError::Disconnected) => return false,
        }
    }
    true
}

fn with_source(error: &OpenError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
