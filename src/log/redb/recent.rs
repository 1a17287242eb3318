//! The last records, in memory, for those who follow the tail.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::core::event::Record;
use crate::core::id::Seq;

/// Bounds of the window: whichever is reached first.
const RECORDS_MAX: usize = 32_768;
const BYTES_MAX: usize = 32 << 20;

#[derive(Default)]
pub(super) struct Recent {
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// Contiguous: no record of the log is missing between the first and the last. With the size of its stored form.
    records: VecDeque<(Record, usize)>,
    bytes: usize,
}

impl Recent {
    /// Adds what was just committed.
    pub(super) fn extend(&self, records: Vec<(Record, usize)>) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        for (record, size) in records {
            window.bytes += size;
            window.records.push_back((record, size));
        }
        while window.records.len() > RECORDS_MAX || window.bytes > BYTES_MAX {
            let Some((_, size)) = window.records.pop_front() else { break };
            window.bytes -= size;
        }
    }

    /// The records after `after`, or `None` if the window does not reach back that far.
    pub(super) fn read(&self, after: Seq, limit: usize) -> Option<Vec<Record>> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, _) = window.records.front()?;
        if after.next() < first.seq {
            return None;
        }
        let from = window.records.partition_point(|(record, _)| record.seq <= after);
        Some(window.records.range(from..).take(limit).map(|(record, _)| record.clone()).collect())
    }
}
