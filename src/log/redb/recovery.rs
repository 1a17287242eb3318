//! What the writer does after an error of the storage: a full disk, a broken one, one that was taken away.
//!
//! It closes the file, opens it again, looks where the log ends, and writes a probe. Until all of that has worked, everybody who wants to
//! append is told at once that nothing was written. Damage is no such error: it stays, and everybody who appends or reads is told of it.

use std::time::Duration;

use redb::TableDefinition;
use tokio::sync::mpsc;

use super::StoreError;
use super::writer::{Job, Writer};
use crate::clock::monotonic;
use crate::core::id::Seq;
use crate::log::{AppendError, Damage, OpenError};

/// Waits before the first attempt and between later ones.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long somebody who wants to append may wait for the answer meanwhile.
const POLL: Duration = Duration::from_millis(10);

/// Holds something for a moment, to see whether a commit of some size works; empty otherwise.
const PROBE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("probe");
const PROBE_BYTES: usize = 256 << 10;

impl Writer {
    /// Returns true when the log can be written again, and false when every sender is gone.
    pub(super) fn recover(&mut self, error: &StoreError, queue: &mut mpsc::Receiver<Job>) -> bool {
        let mut reason = error.to_string();
        let mut damage = None;
        if let StoreError::Damaged(found) = error {
            self.file.condemn(found.clone());
            damage = Some(self.forget_for(found));
        }
        let mut wait = RETRY_FIRST;
        loop {
            self.failing.send_replace(Some(reason.clone()));
            if !refuse(queue, wait, damage.as_ref(), &reason) {
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
                        damage = Some(self.forget_for(found));
                    }
                    reason = again.to_string();
                }
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Makes those who follow the log meet the damage too, instead of waiting at its end.
    fn forget_for(&self, damage: &Damage) -> Damage {
        self.recent.clear();
        damage.clone()
    }

    fn reopen(&mut self, reason: &str) -> Result<(), StoreError> {
        let last = self.file.reopen(reason, self.last).map_err(|error| match error {
            OpenError::Damaged { source, .. } => StoreError::Damaged(source),
            other => StoreError::Closed(with_source(&other)),
        })?;
        self.go_on_from(last);
        self.probe()
    }

    /// A commit whose outcome was unknown may have happened: then the log is longer than this writer knew.
    fn go_on_from(&mut self, last: Seq) {
        if last != self.last {
            self.last = last;
            self.recent.clear();
            self.tail.send_if_modified(|tail| std::mem::replace(tail, last) != last);
        }
    }

    fn probe(&self) -> Result<(), StoreError> {
        let opened = self.file.opened();
        let database = opened.database()?;
        let filled = database.begin_write()?;
        filled.open_table(PROBE)?.insert(0, vec![0; PROBE_BYTES].as_slice())?;
        filled.commit()?;
        let emptied = database.begin_write()?;
        emptied.delete_table(PROBE)?;
        emptied.commit()?;
        Ok(())
    }
}

/// Answers everybody who comes within `time`. False when every sender is gone.
fn refuse(queue: &mut mpsc::Receiver<Job>, time: Duration, damage: Option<&Damage>, reason: &str) -> bool {
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
