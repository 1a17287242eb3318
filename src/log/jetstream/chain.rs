//! Chains of facts, which ask the server for one acknowledgement for many: each fact names the id of the one sent before it, and the server
//! stores it only right after that one. So the acknowledgement of the last says that all of them are stored, one after the other, and after
//! one that was not stored none is. An acknowledgement costs the server about a third of what storing a message does.
//!
//! A record of another writer in between breaks a chain: what follows is refused, read back and sent again. Therefore facts are chained
//! only while this process seems to be the only writer, and after every break they must seem so for longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::id::Seq;

/// Facts of one append that share an acknowledgement, at most.
pub(super) const LINKS_MAX: usize = 128;
/// How many positions in a row must be of this process before facts are chained; after every break four times as many, up to the maximum.
const ROW_FIRST: u64 = 256;
const ROW_MAX: u64 = 65_536;
/// After so many in a row earlier breaks are forgotten.
const ROW_FORGIVES: u64 = 1_000_000;

/// Whether this process seems to be the only writer, by the positions of what it wrote.
pub(super) struct SoleWriter {
    last: Seq,
    in_a_row: u64,
    needed: u64,
    may_chain: Arc<AtomicBool>,
}

impl SoleWriter {
    /// `may_chain` is kept up to date.
    pub(super) fn new(may_chain: Arc<AtomicBool>) -> Self {
        Self { last: Seq::ZERO, in_a_row: 0, needed: ROW_FIRST, may_chain }
    }

    /// Facts of this process stand from `first` to `last`.
    pub(super) fn stored(&mut self, first: Seq, last: Seq) {
        let before = if first == self.last.next() { self.in_a_row } else { 0 };
        self.in_a_row = before + (last.0 + 1 - first.0);
        self.last = last;
        if self.in_a_row >= ROW_FORGIVES {
            self.needed = ROW_FIRST;
        }
        self.may_chain.store(self.in_a_row >= self.needed, Ordering::Release);
    }

    /// Facts were not acknowledged. Those that were sent after them may not be either, which is the same break.
    pub(super) fn broken(&mut self) {
        if std::mem::take(&mut self.in_a_row) >= self.needed {
            self.needed = (self.needed * 4).min(ROW_MAX);
        }
        self.may_chain.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_chained_while_all_positions_are_of_this_process() {
        let may_chain = Arc::new(AtomicBool::new(false));
        let mut writer = SoleWriter::new(Arc::clone(&may_chain));
        let mut position = 0;
        let mut write = |writer: &mut SoleWriter, skipped: u64, count: u64| {
            position += skipped;
            writer.stored(Seq(position + 1), Seq(position + count));
            position += count;
            may_chain.load(Ordering::Acquire)
        };
        assert!(!write(&mut writer, 0, ROW_FIRST - 1) && write(&mut writer, 0, 1), "enough in a row");
        assert!(!write(&mut writer, 1, 1), "another writer's record is between");
        assert!(write(&mut writer, 0, ROW_FIRST - 1), "nothing was chained, so nothing broke");
        writer.broken();
        writer.broken();
        assert!(!write(&mut writer, 0, 4 * ROW_FIRST - 1) && write(&mut writer, 0, 1), "one break: four times as many");
        for _ in 0..20 {
            write(&mut writer, 0, ROW_MAX);
            writer.broken();
        }
        assert!(!write(&mut writer, 0, ROW_MAX - 1) && write(&mut writer, 0, 1), "at most the maximum");
        write(&mut writer, 0, ROW_FORGIVES);
        writer.broken();
        assert!(!write(&mut writer, 0, 4 * ROW_FIRST - 1) && write(&mut writer, 0, 1), "forgotten");
    }
}
