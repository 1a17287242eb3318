//! Secrets are removed before the append: an append-only log cannot be cleaned afterwards.
//!
//! Members whose name looks like a secret lose their value, bearer tokens are recognised by their prefix, long strings are cut with
//! a marker. What remains is compact JSON with sorted members.

use serde_json::Value;

use super::event::Json;

const REDACTED: &str = "[redacted]";

/// Parts of member names, compared in lower case with `-` and `_` removed.
const SECRET_NAMES: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "cookie",
    "credential",
];

/// The redacted form of `json`; strings longer than `string_len_max` bytes are cut.
pub fn redact(json: &Json, string_len_max: usize) -> Json {
    let mut value: Value = serde_json::from_str(json.as_str()).expect("Json holds valid JSON");
    redact_value(&mut value, string_len_max);
    Json::from_valid(value.to_string())
}

/// `text` cut to at most `len_max` bytes, with a marker saying how much is gone.
pub fn cut(text: &mut String, len_max: usize) {
    if text.len() > len_max {
        let end = text.floor_char_boundary(len_max);
        let lost = text.len() - end;
        text.replace_range(end.., &format!("[cut {lost} bytes]"));
    }
}

fn redact_value(value: &mut Value, string_len_max: usize) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if is_secret_name(name) {
                    *member = Value::from(REDACTED);
                } else {
                    redact_value(member, string_len_max);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, string_len_max)),
        Value::String(text) if is_bearer(text) => *value = Value::from(REDACTED),
        Value::String(text) => cut(text, string_len_max),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|secret| plain.contains(secret))
}

fn is_bearer(text: &str) -> bool {
    text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("bearer "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: &str) {
        assert_eq!(redact(&Json::from_valid(given), 8).as_str(), expected);
    }

    #[test]
    fn secrets_lose_their_value_at_any_depth() {
        check(r#"{"user":"ann","Password":"x"}"#, r#"{"Password":"[redacted]","user":"ann"}"#);
        check(r#"{"headers":[{"x-api-key":{"a":1}}]}"#, r#"{"headers":[{"x-api-key":"[redacted]"}]}"#);
        check(r#"{"accessToken":null,"n":1}"#, r#"{"accessToken":"[redacted]","n":1}"#);
        check(r#"["Bearer abc"]"#, r#"["[redacted]"]"#);
    }

    #[test]
    fn long_strings_are_cut_at_a_character_and_say_so() {
        check(r#"{"text":"0123456789"}"#, r#"{"text":"01234567[cut 2 bytes]"}"#);
        check("\"1234567\u{e9}9\"", r#""1234567[cut 3 bytes]""#);
    }
}
