//! `Moment` names a point in the history of a log: a position, a time, or now.

use std::fmt;
use std::str::FromStr;

use crate::core::event::Record;
use crate::core::id::Seq;
use crate::core::time::Timestamp;
use crate::log::{EventLog, ReadError};

/// A point in the history of a log. The records it includes are always a prefix of the log, because a state is a fold of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All records up to and including this position, whether or not there is a record at it.
    At(Seq),
    /// All records before the first one that was appended after this time, by the log's own clock.
    Time(Timestamp),
    /// The whole log.
    Now,
}

/// A text that is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no moment; give a position such as 118, a time such as 2026-01-31T12:00:00Z, or 'now'")]
pub struct InvalidMoment(String);

impl Moment {
    /// Whether the log held this record at the moment, given that it held all records before it.
    pub fn includes(self, record: &Record) -> bool {
        match self {
            Self::At(seq) => record.seq <= seq,
            Self::Time(time) => record.recorded_at <= time,
            Self::Now => true,
        }
    }

    /// A position that the moment certainly includes. It is 0 for a time, which is only resolved by reading the records.
    pub fn seq_lower_bound(self) -> Seq {
        match self {
            Self::At(seq) => seq,
            Self::Time(_) => Seq::ZERO,
            Self::Now => Seq(u64::MAX),
        }
    }

    /// Whether a replay that starts at the moment skips this record.
    pub fn starts_after(self, record: &Record) -> bool {
        match self {
            Self::At(seq) => record.seq < seq,
            Self::Time(time) => record.recorded_at < time,
            Self::Now => true,
        }
    }
}

/// The last position that the log held at `time`, by the log's own clock; 0 if it was empty. Halves the log, so it relies on a clock
/// that does not go back.
pub async fn position_at(log: &dyn EventLog, time: Timestamp) -> Result<Seq, ReadError> {
    let (mut held, mut beyond) = (Seq::ZERO, Seq(log.tail().borrow().0 + 1));
    while beyond.0 - held.0 > 1 {
        let middle = held.0 + (beyond.0 - held.0) / 2;
        // Positions may have holes: what stands at the middle may stand further on.
        match log.read(Seq(middle - 1), 1).await?.first() {
            Some(record) if record.seq < beyond && record.recorded_at <= time => held = record.seq,
            _ => beyond = Seq(middle),
        }
    }
    Ok(held)
}

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        if text == "now" {
            return Ok(Self::Now);
        }
        let seq = text.parse().map(|seq| Self::At(Seq(seq))).ok();
        seq.or_else(|| text.parse().map(Self::Time).ok()).ok_or_else(|| InvalidMoment(text.to_owned()))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(seq) => seq.fmt(f),
            Self::Time(time) => time.fmt(f),
            Self::Now => f.write_str("now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_position_a_time_or_now() {
        assert_eq!("118".parse(), Ok(Moment::At(Seq(118))));
        assert_eq!("now".parse(), Ok(Moment::Now));
        let time: Moment = "2026-01-31T13:00:00+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-01-31T12:00:00.000000Z");
        for text in ["", "-1", "yesterday", "2026-01-31"] {
            let error = text.parse::<Moment>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{text}' is no moment; give a position")), "{error}");
        }
    }
}
