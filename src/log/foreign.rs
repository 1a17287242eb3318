//! Messages in the log's place that somebody else put there.

use crate::core::id::Seq;

/// How many are described.
const SHOWN_MAX: usize = 10;

/// How many there are, and what the first of them look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    pub count: u64,
    pub shown: Vec<String>,
}

impl Foreign {
    pub(super) fn note(&mut self, seq: Seq, subject: &str, why: &str) {
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
