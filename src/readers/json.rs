//! Looking into JSON without building it: the text of a value, and the texts and long numbers inside one.

use std::borrow::Cow;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// How much of one value is looked at for texts, in bytes.
const LOOKED_AT_MAX: usize = 256 << 10;
/// Shortest number that may identify something.
const NUMBER_LEN_MIN: usize = 7;

/// Returns a string as what it says, and another value as its JSON.
pub(crate) fn text(raw: &RawValue) -> Cow<'_, str> {
    unquoted(raw.get())
}

pub(crate) fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn unquoted(json: &str) -> Cow<'_, str> {
    if !json.starts_with('"') {
        return Cow::Borrowed(json);
    }
    // A lone surrogate is no text, and is kept as it was written.
    serde_json::from_str(json).map_or(Cow::Borrowed(json), |Text(text)| text)
}

/// Whether `text` is one JSON object or list.
pub(crate) fn is_structure(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns the strings (not the names of members) and long numbers in valid JSON, at any depth, in order.
pub(crate) fn texts(json: &str) -> Vec<Cow<'_, str>> {
    let json = &json[..json.floor_char_boundary(LOOKED_AT_MAX)];
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let Some(end) = string_end(bytes, at) else { break };
                let is_name = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if !is_name {
                    found.push(unquoted(&json[at..end]));
                }
                at = end;
            }
            b'0'..=b'9' => {
                let end = at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                if end - at >= NUMBER_LEN_MIN {
                    found.push(Cow::Borrowed(&json[at..end]));
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    found
}

/// Returns the position after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_at_any_depth_and_names_are_not() {
        let json = r#"{"path": "/srv/a \"b\"", "list": [{"id" : 48151623}, "x"], "n": 42, "deep": {"k": {"v": "\u00e9"}}}"#;
        assert_eq!(texts(json), ["/srv/a \"b\"", "48151623", "x", "\u{e9}"]);
        assert_eq!(texts(r#""one""#), ["one"]);
        assert_eq!(texts(r#"{"cut": "no end"#), [""; 0]);
        assert_eq!(texts(r#"{"cut": "\"#), [""; 0]);
    }
}
