//! Foreign messages: messages in the log's stream that pml did not write.

use crate::core::id::Seq;

/// Foreign messages that are described; later ones are only counted.
const SHOWN_MAX: usize = 10;

/// The number of foreign messages found, and descriptions of the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignMessages {
    pub count: u64,
    pub shown: Vec<String>,
}

impl ForeignMessages {
    pub(super) fn add(&mut self, seq: Seq, subject: &str, why: &str) {
        self.count += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(format!("message {seq} on {subject}: {why}"));
        }
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.count += more.count;
        self.shown.extend(more.shown.into_iter().take(SHOWN_MAX - self.shown.len()));
    }
}
