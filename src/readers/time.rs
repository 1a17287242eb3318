//! Times in the forms that logs use: RFC 3339 with and without an offset, and numbers of seconds or parts of one since 1970.

use pml_core::time::Timestamp;
use serde_json::value::RawValue;

/// Reads a time; without an offset it is UTC.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return from_number(number);
    }
    let (date, time) = text.split_once(['T', ' '])?;
    let has_offset = time.ends_with(['Z', 'z']) || time.contains(['+', '-']);
    format!("{date}T{time}{}", if has_offset { "" } else { "Z" }).parse().ok()
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size: each is a time between 1973 and 5138.
#[expect(clippy::cast_possible_truncation, reason = "checked to be far below the largest integer")]
pub(crate) fn from_number(number: f64) -> Option<Timestamp> {
    let micros = match number {
        number if !(1e8..1e20).contains(&number) => return None,
        number if number < 1e11 => number * 1e6,
        number if number < 1e14 => number * 1e3,
        number if number < 1e17 => number,
        _ => number / 1e3,
    };
    Some(Timestamp::from_micros(micros.round() as i64))
}

pub(crate) fn from_nanos(nanos: u64) -> Option<Timestamp> {
    i64::try_from(nanos / 1_000).ok().filter(|micros| *micros > 0).map(Timestamp::from_micros)
}

pub(crate) fn from_raw(raw: Option<&RawValue>) -> Option<Timestamp> {
    parse(&crate::json::text(raw?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_time_is_read() {
        let expected: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let forms = [
            "2026-01-31T12:00:00Z",
            "2026-01-31T13:00:00+01:00",
            "2026-01-31 12:00:00",
            "2026-01-31 12:00:00.000000",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00+00:00",
            "1769860800",
            "1769860800000",
            "1769860800000000",
            "1769860800000000000",
        ];
        for form in forms {
            assert_eq!(parse(form), Some(expected), "{form}");
        }
        for wrong in ["", "soon", "2026-01-31", "12", "1e300", "NaN", "-5", "2026-13-31 12:00:00"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
