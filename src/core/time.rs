//! Timestamps in microseconds since 1970, UTC. The core has no clock: callers pass the time.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat};

/// A time with microsecond resolution, which is fine enough to order the steps of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an RFC 3339 time such as 2026-01-31T12:00:00Z")]
pub struct NotATime(String);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970, at least 0: the time part of a ULID or UUIDv7.
    pub fn millis_unsigned(self) -> u64 {
        u64::try_from(self.0.max(0) / 1_000).expect("clamped to zero and above")
    }

    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        // Saturates: callers use very large waits to mean "never".
        self.plus_micros(if millis > i64::MAX as u64 / 1_000 { i64::MAX } else { (millis * 1_000).cast_signed() })
    }

    /// Milliseconds since `earlier`; 0 if `earlier` is later, as clocks may disagree.
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from((self.0.saturating_sub(earlier.0)).max(0) / 1_000).expect("clamped to zero and above")
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        DateTime::parse_from_rfc3339(text).map(|time| Self(time.timestamp_micros())).map_err(|_| NotATime(text.to_owned()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp_micros(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true)),
            None => write!(f, "{}us", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_any_offset_and_printed_in_utc() {
        let time: Timestamp = "2026-01-31T13:00:00.25+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-01-31T12:00:00.250000Z");
        assert_eq!(time.to_string().parse(), Ok(time));
    }

    #[test]
    fn an_invalid_time_is_quoted_in_the_error() {
        let error = Timestamp::from_str("yesterday").unwrap_err();
        assert_eq!(error.to_string(), "'yesterday' is not an RFC 3339 time such as 2026-01-31T12:00:00Z");
    }

    #[test]
    fn waiting_for_ever_saturates() {
        assert_eq!(Timestamp::from_micros(5).plus_millis(u64::MAX).micros(), i64::MAX);
    }
}
