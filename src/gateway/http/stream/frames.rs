//! The newest records as server-sent events, read and written once for all streams that are at the end of the log.

use std::collections::VecDeque;

use actix_web::web::Bytes;
use tokio::sync::Mutex;

use super::{PAGE_RECORDS_MAX, PIECE_BYTES, sse_event};
use crate::core::event::{Kind, cloud};
use crate::core::id::Seq;
use crate::log::{ReadError, SharedLog};

/// Most bytes held, one record excepted; a stream that is further behind reads the log by itself.
const HELD_BYTES_MAX: usize = 4 << 20;

/// The frames of consecutive records, without vectors and parameters.
#[derive(Default)]
pub(in crate::gateway::http) struct Frames(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// The position before the first record held.
    after: Seq,
    frames: VecDeque<Frame>,
    bytes: usize,
}

struct Frame {
    seq: Seq,
    kind: Kind,
    text: Bytes,
}

/// What a stream is sent next, and the last position that it has then passed.
pub(super) struct NextFrames {
    pub(super) piece: Vec<u8>,
    pub(super) passed: Seq,
}

impl Frames {
    /// Returns the frames of `kinds` after a position, about a piece of them, or `None` if the position is older than what is held.
    pub(super) async fn after(
        &self,
        position: Seq,
        kinds: Option<&[Kind]>,
        log: &SharedLog,
    ) -> Result<Option<NextFrames>, ReadError> {
        // Held while the log is read: the others wait for the same records.
        let mut held = self.0.lock().await;
        if position < held.after {
            return Ok(None);
        }
        if position >= held.last() {
            held.read(position, log).await?;
        }
        let mut next = NextFrames { piece: Vec::new(), passed: position };
        let first = held.frames.partition_point(|frame| frame.seq <= position);
        for frame in held.frames.range(first..) {
            if kinds.is_none_or(|kinds| kinds.contains(&frame.kind)) {
                next.piece.extend_from_slice(&frame.text);
            }
            next.passed = frame.seq;
            if next.piece.len() >= PIECE_BYTES {
                break;
            }
        }
        Ok(Some(next))
    }
}

impl Held {
    fn last(&self) -> Seq {
        self.frames.back().map_or(self.after, |frame| frame.seq)
    }

    /// Adds the records after `position`, which is the last one held or beyond it.
    async fn read(&mut self, position: Seq, log: &SharedLog) -> Result<(), ReadError> {
        let records = log.read(position, PAGE_RECORDS_MAX).await?;
        if position > self.last() {
            // Records between are unknown here.
            *self = Self { after: position, ..Self::default() };
        }
        for record in &records {
            let text = Bytes::from(sse_event(record, &cloud::record_to_text(record, false)));
            self.bytes += text.len();
            self.frames.push_back(Frame { seq: record.seq, kind: record.event().kind(), text });
        }
        while self.bytes > HELD_BYTES_MAX && self.frames.len() > 1 {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.bytes -= oldest.text.len();
            self.after = oldest.seq;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::Clock;
    use crate::core::event::NewRecord;
    use crate::dataset::Dataset;
    use crate::log::MemoryLog;

    /// A log with the events of some shipped traces.
    async fn filled(clock: &Clock) -> (SharedLog, Vec<Seq>) {
        let log: SharedLog = Arc::new(MemoryLog::new(clock.clone()));
        let traces = Dataset::demo(clock.now()).traces;
        let events = traces.iter().take(200).flat_map(|trace| trace.events(clock.now()).expect("shipped ids are valid"));
        let events: Vec<Arc<NewRecord>> = events.map(Arc::new).collect();
        log.append(events).await.expect("memory takes all");
        let tail = *log.tail().borrow();
        (log, (0..=tail.0).map(Seq).collect())
    }

    #[tokio::test]
    async fn every_stream_gets_every_record_once_wherever_it_begins() {
        let (log, positions) = filled(&Clock::system()).await;
        let frames = Frames::default();
        let expected: Vec<String> =
            log.read(Seq::ZERO, usize::MAX).await.unwrap().iter().map(|record| format!("id: {}\n", record.seq)).collect();
        // The first one begins in the middle: what is older is not held, and is not said to be empty.
        for begin in [positions[300], positions[0], positions[299], *positions.last().unwrap(), positions[310]] {
            let mut position = begin;
            let mut text = String::new();
            while let Some(next) = frames.after(position, None, &log).await.unwrap() {
                if next.passed == position {
                    break;
                }
                position = next.passed;
                text.push_str(std::str::from_utf8(&next.piece).unwrap());
            }
            let is_held = begin >= positions[300];
            let wanted = if is_held { &expected[usize::try_from(begin.0).unwrap()..] } else { &[] };
            let got: Vec<String> =
                text.split_inclusive('\n').filter(|line| line.starts_with("id: ")).map(str::to_owned).collect();
            assert_eq!(got, wanted, "from {begin}");
        }
    }

    #[tokio::test]
    async fn records_of_other_kinds_are_passed_over() {
        let (log, positions) = filled(&Clock::system()).await;
        let next = Frames::default().after(positions[0], Some(&[Kind::ToolRemoved]), &log).await.unwrap().unwrap();
        assert!(next.piece.is_empty());
        assert_eq!(next.passed, Seq(PAGE_RECORDS_MAX as u64));
    }
}
