//! Timestamps in microseconds since 1970, UTC. The core has no clock: callers pass the time.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat};

/// A time with microsecond resolution, which is fine enough to order the steps of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The first microsecond of the year 0, the first that RFC 3339 can write. An offset may lead to an earlier one.
const FIRST_MICROS: i64 = -62_167_219_200_000_000;
/// The last microsecond of the year 9999, the last that RFC 3339 can write. A leap second after it would be in the year 10000.
const LAST_MICROS: i64 = 253_402_300_799_999_999;

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
        let micros = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_micros());
        micros.filter(|micros| (FIRST_MICROS..=LAST_MICROS).contains(micros)).map(Self).ok_or_else(|| NotATime(text.to_owned()))
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
    fn every_time_that_is_read_can_be_read_again_as_it_is_printed() {
        for text in ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"] {
            let time: Timestamp = text.parse().unwrap();
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        // Read, these would be in the years 10000 and -1, which cannot be written.
        for text in ["9999-12-31T23:59:60Z", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"] {
            assert!(Timestamp::from_str(text).is_err(), "{text}");
        }
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
