//! `Pace` computes when each record of a history is due in a replay, at the recorded pace or another.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::core::time::Timestamp;

/// The speed of a replay, as a multiple of the recorded pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    Times(f64),
    /// Without waiting.
    Max,
}

/// A text that is not a speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no speed; give a number above 0, such as 1 or 10, or 'max'")]
pub struct InvalidSpeed(String);

impl FromStr for Speed {
    type Err = InvalidSpeed;

    fn from_str(text: &str) -> Result<Self, InvalidSpeed> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
        times.map(Self::Times).ok_or_else(|| InvalidSpeed(text.to_owned()))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => times.fmt(f),
            Self::Max => f.write_str("max"),
        }
    }
}

/// The schedule of a replay. Time counts from the first record given to [`due`](Self::due).
pub struct Pace {
    speed: Speed,
    first: Option<Timestamp>,
    due: Duration,
}

impl Pace {
    pub fn new(speed: Speed) -> Self {
        Self { speed, first: None, due: Duration::ZERO }
    }

    /// How long after the first record this one is due. It is never due before the previous one: the order of the log is the order
    /// of its positions, whatever the clocks said.
    pub fn due(&mut self, recorded_at: Timestamp) -> Duration {
        let first = *self.first.get_or_insert(recorded_at);
        if let Speed::Times(times) = self.speed {
            let since = Duration::from_micros(u64::try_from(recorded_at.micros().saturating_sub(first.micros())).unwrap_or(0));
            // A pause too long for a `Duration` never ends anyway.
            self.due = self.due.max(Duration::try_from_secs_f64(since.as_secs_f64() / times).unwrap_or(Duration::MAX));
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(speed: &str, recorded_ms: &[i64], due_ms: &[u64]) {
        let mut pace = Pace::new(speed.parse().unwrap());
        let due: Vec<Duration> =
            recorded_ms.iter().map(|ms| pace.due(Timestamp::from_micros(1_700_000_000_000_000 + ms * 1_000))).collect();
        let expected: Vec<Duration> = due_ms.iter().map(|ms| Duration::from_millis(*ms)).collect();
        assert_eq!(due, expected, "{speed}");
    }

    #[test]
    fn records_are_due_as_they_came_divided_by_the_speed() {
        check("1", &[0, 100, 100, 5_000], &[0, 100, 100, 5_000]);
        check("10", &[0, 100, 100, 5_000], &[0, 10, 10, 500]);
        check("0.5", &[0, 100, 5_000], &[0, 200, 10_000]);
        check("max", &[0, 100, 5_000], &[0, 0, 0]);
    }

    #[test]
    fn a_clock_that_ran_backwards_holds_nothing_up_and_reorders_nothing() {
        check("1", &[0, 200, 150, -1_000, 300], &[0, 200, 200, 200, 300]);
    }

    #[test]
    fn what_is_no_speed_is_refused() {
        for text in ["", "0", "-1", "fast", "NaN", "inf"] {
            let error = text.parse::<Speed>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is no speed")), "{error}");
        }
    }
}
