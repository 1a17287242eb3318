//! A window of the newest records in memory, for readers that follow the tail.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::clock::{Clock, Uptime};
use crate::core::event::Record;
use crate::core::id::Seq;

/// Bounds of the window, whichever is reached first. They are large enough for a burst, so that its readers need not decode it.
pub(crate) const RECORDS_MAX: usize = 262_144;
const BYTES_MAX: usize = 64 << 20;
/// Records are old after this time; of old records at most `OLD_RECORDS_MAX` are kept.
const OLD_AFTER_MS: u64 = 5_000;
const OLD_RECORDS_MAX: usize = 32_768;
/// Old records dropped per call, beyond as many as were added. Freeing a burst takes long, and the appending thread waits for it.
const OLD_DROPPED_AT_ONCE: usize = 1_024;

/// The newest records of a log, without gaps.
#[derive(Default)]
pub(super) struct RecentRecords {
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// Contiguous: no record of the log is missing between the first and the last.
    records: VecDeque<RecentRecord>,
    bytes: usize,
}

struct RecentRecord {
    record: Record,
    /// Bytes of the stored form.
    size: usize,
    /// When the record becomes old.
    old_from: Uptime,
}

impl Window {
    /// Counts the first records to drop: those beyond the bounds, and up to `old_max` of the old ones.
    fn count_to_drop(&self, now: Uptime, old_max: usize) -> usize {
        let (mut records, mut bytes) = (self.records.len(), self.bytes);
        let is_dropped = |(at, kept): &(usize, &RecentRecord)| {
            let too_many_old = kept.old_from <= now && *at < old_max && records > OLD_RECORDS_MAX;
            let is_dropped = too_many_old || records > RECORDS_MAX || bytes > BYTES_MAX;
            records -= 1;
            bytes -= kept.size;
            is_dropped
        };
        self.records.iter().enumerate().take_while(is_dropped).count()
    }
}

impl RecentRecords {
    /// Adds records that were just committed, with the sizes of their stored forms. The wall clock gives only a record's age at this
    /// moment; from here on the age is measured by the monotonic clock.
    pub(super) fn extend(&self, records: impl IntoIterator<Item = (Record, usize)>, clock: &Clock) {
        let (wall, now) = (clock.now(), clock.uptime());
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let before = window.records.len();
        for (record, size) in records {
            let young_ms = OLD_AFTER_MS.saturating_sub(wall.millis_since(record.recorded_at));
            window.bytes += size;
            window.records.push_back(RecentRecord { record, size, old_from: now.plus_millis(young_ms) });
        }
        let dropped = window.count_to_drop(now, window.records.len() - before + OLD_DROPPED_AT_ONCE);
        let dropped: Vec<RecentRecord> = window.records.drain(..dropped).collect();
        window.bytes -= dropped.iter().map(|kept| kept.size).sum::<usize>();
        // The lock is released before the records are freed, because readers wait for it.
        drop(window);
    }

    /// Empties the window: the records added next need not follow the present ones.
    pub(super) fn clear(&self) {
        let cleared = std::mem::take(&mut *self.window.lock().unwrap_or_else(PoisonError::into_inner));
        drop(cleared);
    }

    /// Returns the records after `after`, or `None` if the window does not reach back that far.
    pub(super) fn read(&self, after: Seq, limit: usize) -> Option<Vec<Record>> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let first = &window.records.front()?.record;
        // Saturating: `after` may be the last possible position.
        if after.0.saturating_add(1) < first.seq.0 {
            return None;
        }
        let from = window.records.partition_point(|kept| kept.record.seq <= after);
        Some(window.records.range(from..).take(limit).map(|kept| kept.record.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::event::{Event, NewRecord, ToolRemoved};
    use crate::core::id::RecordId;
    use crate::core::time::Timestamp;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(0).plus_millis(millis)
    }

    fn record(seq: u64) -> Record {
        let at = at(0);
        let event = Event::ToolRemoved(ToolRemoved { tool: "fs:read".parse().unwrap() });
        let id = RecordId::from_parts(at, seq.into());
        Record {
            seq: Seq(seq),
            recorded_at: at,
            fact: Arc::new(NewRecord { id, time: at, source: "".into(), causation: None, envelope: None, event }),
        }
    }

    fn window(seqs: impl Iterator<Item = u64>, size: usize) -> RecentRecords {
        let recent = RecentRecords::default();
        recent.extend(seqs.map(|seq| (record(seq), size)), &Clock::manual(at(0)));
        recent
    }

    fn read(recent: &RecentRecords, after: u64, limit: usize) -> Option<Vec<u64>> {
        recent.read(Seq(after), limit).map(|records| records.iter().map(|record| record.seq.0).collect())
    }

    #[test]
    fn an_empty_window_answers_no_read() {
        assert_eq!(read(&RecentRecords::default(), 0, 10), None);
        assert_eq!(read(&RecentRecords::default(), u64::MAX, 10), None);
    }

    #[test]
    fn the_window_answers_as_far_back_as_it_reaches() {
        let recent = window(5..=8, 1);
        assert_eq!(read(&recent, 3, 10), None);
        assert_eq!(read(&recent, 4, 10), Some(vec![5, 6, 7, 8]));
        assert_eq!(read(&recent, 4, 2), Some(vec![5, 6]));
        assert_eq!(read(&recent, 6, 10), Some(vec![7, 8]));
        for after in [8, 9, u64::MAX] {
            assert_eq!(read(&recent, after, 10), Some(vec![]), "after {after}");
        }
    }

    #[test]
    fn the_oldest_are_dropped_when_there_are_too_many_bytes() {
        let (recent, clock) = (window(1..=2, BYTES_MAX / 2), Clock::manual(at(0)));
        assert_eq!(read(&recent, 0, 10), Some(vec![1, 2]));
        recent.extend([(record(3), 1)], &clock);
        assert_eq!(read(&recent, 0, 10), None);
        assert_eq!(read(&recent, 1, 10), Some(vec![2, 3]));
        recent.extend([(record(4), BYTES_MAX)], &clock);
        assert_eq!(read(&recent, 3, 10), Some(vec![4]));
        recent.extend([(record(5), BYTES_MAX + 1)], &clock);
        assert_eq!(read(&recent, 5, 10), None, "a record larger than the window is not kept");
        recent.extend([(record(6), 1)], &clock);
        assert_eq!(read(&recent, 5, 10), Some(vec![6]), "and takes no room");
    }

    #[test]
    fn a_burst_stays_while_it_is_new_and_is_then_dropped_in_pieces() {
        let (old, piece) = (OLD_RECORDS_MAX as u64, OLD_DROPPED_AT_ONCE as u64);
        let (recent, clock) = (RecentRecords::default(), Clock::manual(at(0)));
        recent.extend((1..=old + 2 * piece).map(|seq| (record(seq), 1)), &clock);
        let mut last = old + 2 * piece;
        let mut first_after = |millis: u64| {
            last += 1;
            clock.advance_ms(millis);
            recent.extend([(record(last), 1)], &clock);
            (0..last).find(|after| read(&recent, *after, 1).is_some()).map(|after| after + 1)
        };
        assert_eq!(first_after(OLD_AFTER_MS - 1), Some(1), "nothing is old");
        clock.set_wall(at(0));
        assert_eq!(first_after(0), Some(1), "records do not get younger when the clock is set back");
        assert_eq!(first_after(1), Some(piece + 2));
        assert_eq!(first_after(0), Some(2 * piece + 3));
        assert_eq!(first_after(0), Some(2 * piece + 6), "as many are dropped as were added, beyond those that may stay");
        assert_eq!(first_after(0), Some(2 * piece + 7));
    }

    #[test]
    fn the_oldest_are_dropped_when_there_are_too_many_records() {
        let last = RECORDS_MAX as u64 + 1;
        let recent = window(1..=last, 1);
        assert_eq!(read(&recent, 0, 1), None);
        assert_eq!(read(&recent, 1, 1), Some(vec![2]));
        assert_eq!(read(&recent, last - 1, 10), Some(vec![last]));
    }
}
