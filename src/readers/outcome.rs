//! Whether a call succeeded, from what it returned: a flag where the log has one, else the exit code, else what the text begins with.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;

/// How much of a result is looked at, in bytes: exit codes and errors stand at the beginning.
const LOOKED_AT_MAX: usize = 2 << 10;

/// What a result says about its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    /// Whether it was concluded from the text.
    pub(crate) inferred: bool,
    pub(crate) error_kind: Option<String>,
    pub(crate) duration_ms: Option<u64>,
}

impl Outcome {
    pub(crate) fn succeeded() -> Self {
        Self { success: true, inferred: false, error_kind: None, duration_ms: None }
    }

    pub(crate) fn failed(kind: &str) -> Self {
        Self { success: false, inferred: false, error_kind: Some(kind.to_owned()), duration_ms: None }
    }

    /// The outcome of a call whose log has a flag for failures; the text tells what kind of failure it was.
    pub(crate) fn flagged(failed: bool, text: &str) -> Self {
        let stated = Self::of_text(text);
        let kind = if failed { stated.error_kind.or_else(|| Some(class(text).to_owned())) } else { None };
        Self { success: !failed, inferred: false, error_kind: kind, duration_ms: stated.duration_ms }
    }

    /// The outcome of a call of which only the text of the result is known.
    pub(crate) fn of_text(text: &str) -> Self {
        let beginning = &text[..text.floor_char_boundary(LOOKED_AT_MAX)];
        if let Some(code) = exit_code(beginning) {
            return Self { duration_ms: wall_time_ms(beginning), ..Self::exited(code) };
        }
        let trimmed = text.trim_start();
        if trimmed.starts_with('{') {
            return Self::of_object(trimmed).unwrap_or(Self { inferred: true, ..Self::succeeded() });
        }
        let failed = ERROR_BEGINNINGS.iter().any(|error| starts_with_ignoring_case(trimmed, error));
        let kind = failed.then(|| class(beginning).to_owned());
        Self { success: !failed, inferred: true, error_kind: kind, duration_ms: None }
    }

    fn exited(code: i64) -> Self {
        if code == 0 { Self::succeeded() } else { Self::failed(&format!("exit {code}")) }
    }

    /// The outcome in the members of an object, if it is valid and has one of them.
    fn of_object(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Metadata {
            exit_code: Option<i64>,
            duration_seconds: Option<f64>,
        }
        #[derive(Deserialize)]
        struct Object<'a> {
            metadata: Option<Metadata>,
            exit_code: Option<i64>,
            #[serde(alias = "isError")]
            is_error: Option<bool>,
            #[serde(alias = "ok")]
            success: Option<bool>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
            #[serde(borrow)]
            status: Option<Cow<'a, str>>,
        }
        let object: Object<'_> = serde_json::from_str(text).ok()?;
        let metadata = object.metadata.as_ref();
        let seconds = metadata.and_then(|metadata| metadata.duration_seconds);
        let duration_ms = seconds.and_then(millis);
        if let Some(code) = metadata.and_then(|metadata| metadata.exit_code).or(object.exit_code) {
            return Some(Self { duration_ms, ..Self::exited(code) });
        }
        let has_error = object.error.is_some_and(|error| !matches!(error.get(), "null" | "false" | "\"\"" | "{}" | "[]"));
        let says_error = object.status.is_some_and(|status| matches!(&*status, "error" | "failed" | "failure"));
        let failed = object.is_error.or(object.success.map(|success| !success)).unwrap_or(has_error || says_error);
        let kind = failed.then(|| class(text).to_owned());
        Some(Self { success: !failed, inferred: true, error_kind: kind, duration_ms })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be between 0 and ten days")]
fn millis(seconds: f64) -> Option<u64> {
    (0.0..864_000.0).contains(&seconds).then(|| (seconds * 1_000.0).round() as u64)
}

const ERROR_BEGINNINGS: [&str; 9] = [
    "error:",
    "error ",
    "traceback (most recent call last)",
    "exception:",
    "fatal:",
    "<tool_use_error>",
    "failed to ",
    "tool error",
    "err:",
];

fn starts_with_ignoring_case(text: &str, beginning: &str) -> bool {
    text.as_bytes().get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning.as_bytes()))
}

/// Reads `Exit code: 1`, `Exit code 1` and `Process exited with code 1`, in a line of its own.
fn exit_code(text: &str) -> Option<i64> {
    let code = |line: &str| {
        let line = line.trim();
        let rest = ["Exit code:", "Exit code", "exit code:", "Process exited with code", "Command exited with code"];
        let number = rest.iter().find_map(|label| line.strip_prefix(label))?.trim();
        number.parse().ok()
    };
    text.lines().take(8).find_map(code)
}

/// Reads `Wall time: 0.25 seconds`.
fn wall_time_ms(text: &str) -> Option<u64> {
    let line = text.lines().take(8).find_map(|line| line.trim().strip_prefix("Wall time:"))?;
    millis(line.trim().trim_end_matches("seconds").trim().parse().ok()?)
}

/// A short class of a failure from its text.
fn class(text: &str) -> &'static str {
    let beginning = text[..text.floor_char_boundary(LOOKED_AT_MAX)].to_ascii_lowercase();
    let classes: [(&str, &[&str]); 6] = [
        ("rejected", &["user doesn't want to proceed", "user rejected", "rejected by user", "tool use was rejected"]),
        ("interrupted", &["interrupted by user", "aborted by user", "cancelled"]),
        ("timeout", &["timed out", "timeout", "deadline exceeded"]),
        ("denied", &["denied", "forbidden", "unauthorized", "not permitted", "haven't granted"]),
        ("not found", &["not found", "no such file", "does not exist", "enoent"]),
        ("invalid", &["invalid", "validation", "unexpected argument", "inputvalidationerror"]),
    ];
    let found = classes.iter().find(|(_, words)| words.iter().any(|word| beginning.contains(word)));
    found.map_or("error", |(name, _)| name)
}

/// Returns the texts of a result in one: strings as they are, lists of content blocks by their `text`, other values as JSON.
pub(crate) fn result_text(raw: &RawValue) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Option<Cow<'a, str>>,
    }
    if !raw.get().starts_with('[') {
        return json::text(raw);
    }
    match serde_json::from_str::<Vec<Block<'_>>>(raw.get()) {
        Ok(blocks) if blocks.iter().any(|block| block.text.is_some()) => {
            let texts: Vec<Cow<'_, str>> = blocks.into_iter().filter_map(|block| block.text).collect();
            Cow::Owned(texts.join("\n"))
        }
        _ => Cow::Borrowed(raw.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, success: bool, inferred: bool, kind: Option<&str>) {
        let outcome = Outcome::of_text(text);
        assert_eq!((outcome.success, outcome.inferred, outcome.error_kind.as_deref()), (success, inferred, kind), "{text}");
    }

    #[test]
    fn exit_codes_are_statements() {
        check("Exit code: 0\nWall time: 0.25 seconds\nOutput:\nok", true, false, None);
        check("Exit code 2\nmake: error", false, false, Some("exit 2"));
        check("Chunk ID: 7\nProcess exited with code 101\n", false, false, Some("exit 101"));
        check(r#"{"output": "x", "metadata": {"exit_code": 1, "duration_seconds": 0.5}}"#, false, false, Some("exit 1"));
        assert_eq!(Outcome::of_text("Exit code: 0\nWall time: 0.25 seconds").duration_ms, Some(250));
    }

    #[test]
    fn other_texts_are_judged_by_their_beginning_or_members() {
        check("Error: file not found", false, true, Some("not found"));
        check("Traceback (most recent call last):\n", false, true, Some("error"));
        check(r#"{"isError": true, "content": []}"#, false, true, Some("error"));
        check(r#"{"error": {"message": "deadline exceeded"}}"#, false, true, Some("timeout"));
        check(r#"{"error": null, "rows": 3}"#, true, true, None);
        check(r#"{"success": false, "reason": "invalid id"}"#, false, true, Some("invalid"));
        check("42 errors found in the log", true, true, None);
        check("", true, true, None);
        check("{broken", true, true, None);
    }

    #[test]
    fn a_flag_decides_and_the_text_names_the_kind() {
        assert_eq!(
            Outcome::flagged(true, "The user doesn't want to proceed with this tool use.").error_kind.unwrap(),
            "rejected"
        );
        assert_eq!(Outcome::flagged(true, "Exit code 1").error_kind.unwrap(), "exit 1");
        assert_eq!(Outcome::flagged(false, "Error: is what the file says"), Outcome::succeeded());
    }
}
