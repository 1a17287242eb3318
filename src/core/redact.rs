//! Redaction: secrets are removed before anything is stored or answered, because an append-only log cannot be cleaned afterwards.
//!
//! [`Redactor`] replaces secrets by `[redacted]`: members of JSON by their names (`names`, `json`), and patterns in running text
//! (`text`): tokens with the public prefix of a provider (`tokens`), values assigned to the name of a secret (`assigned`), credentials
//! in addresses and headers, private keys. It is idempotent and takes linear time; texts without any such pattern are only scanned for
//! the byte sequences that secrets begin with (`grams`).
//!
//! Ids are not redacted, since different ids would become equal: an event with a secret in an id is refused (`intake`).

mod ahead;
mod assigned;
mod grams;
mod json;
mod names;
mod text;
mod tokens;

use regex::Regex;
use serde_json::Value;

use super::event::Json;
use json::Walk;

const REDACTED: &str = "[redacted]";

/// A pattern of `redact.extra` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("'{pattern}' is not a regular expression")]
    Syntax { pattern: String, source: regex::Error },
    #[error("'{pattern}' matches the empty text")]
    Empty { pattern: String },
}

/// `Redactor` finds secrets and replaces them by `[redacted]`.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Patterns besides the built-in ones (`redact.extra`).
    extra: Vec<Regex>,
}

impl Redactor {
    /// Creates a redactor with the built-in patterns only.
    pub const fn builtin() -> Self {
        Self { extra: Vec::new() }
    }

    /// Creates a redactor with further patterns. The whole match of a pattern is replaced.
    pub fn with_extra(patterns: &[String]) -> Result<Self, PatternError> {
        let compile = |pattern: &String| match Regex::new(pattern) {
            Ok(regex) if regex.is_match("") => Err(PatternError::Empty { pattern: pattern.clone() }),
            Ok(regex) => Ok(regex),
            Err(source) => Err(PatternError::Syntax { pattern: pattern.clone(), source }),
        };
        Ok(Self { extra: patterns.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Returns `text` without its secrets; `None` if it holds none.
    pub fn text(&self, text: &str) -> Option<String> {
        if self.may_hold(text) { Walk::new(self, usize::MAX).text(text) } else { None }
    }

    /// Whether the id of a tool holds a secret. Server and name are looked at apart: together, `password:generate` would read as a password
    /// with its value.
    pub fn is_in_tool(&self, tool: &str) -> bool {
        tool.splitn(2, ':').any(|part| self.text(part).is_some())
    }

    /// Replaces `text` if it holds secrets.
    pub fn clean(&self, text: &mut String) {
        if let Some(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Returns `json` without its secrets and with strings of at most `string_len_max` bytes; `None` if nothing changes.
    pub fn json(&self, json: &Json, string_len_max: usize) -> Option<Json> {
        if !self.may_hold(json.as_str()) && json.as_str().len() <= string_len_max {
            return None;
        }
        let mut value: Value = serde_json::from_str(json.as_str()).expect("Json holds valid JSON");
        let mut walk = Walk::new(self, string_len_max);
        walk.value(&mut value);
        walk.changed.then(|| Json::from_valid(value.to_string()))
    }

    /// Returns bytes that could not be read as an event without their secrets.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let lossy = String::from_utf8_lossy(bytes);
        let clean = match serde_json::from_str::<Value>(&lossy) {
            Ok(mut value) => {
                let mut walk = Walk::new(self, usize::MAX);
                walk.value(&mut value);
                // Parsing drops the first of two members with one name, so the text is checked too.
                (walk.changed || self.running_text(&lossy).is_some()).then(|| value.to_string())
            }
            Err(_) => self.running_text(&lossy),
        };
        clean.map_or_else(|| bytes.to_vec(), String::into_bytes)
    }

    /// Whether `text` may hold a secret; a cheap test before the full search.
    fn may_hold(&self, text: &str) -> bool {
        !self.extra.is_empty() || grams::next(text.as_bytes(), 0).is_some()
    }

    /// Redacts text that is not parsed as JSON.
    fn running_text(&self, text: &str) -> Option<String> {
        let mut clean = text::redact(text);
        for pattern in &self.extra {
            let given = clean.as_deref().unwrap_or(text);
            if pattern.is_match(given) {
                // A pattern does not see what is already redacted.
                let pieces: Vec<_> = given.split(REDACTED).map(|piece| pattern.replace_all(piece, REDACTED)).collect();
                let joined = pieces.join(REDACTED);
                clean = (joined != text).then_some(joined);
            }
        }
        clean
    }
}

/// Truncates `text` to at most `len_max` bytes and appends a marker with the number of bytes removed.
pub fn cut(text: &mut String, len_max: usize) {
    cut_beginning(text, len_max, text.len());
}

/// The same for `text` that is the beginning of a text of `len` bytes: the marker counts all bytes that are missing.
pub fn cut_beginning(text: &mut String, len_max: usize, len: usize) {
    if len > len_max {
        let end = text.floor_char_boundary(len_max);
        let lost = len - end;
        text.replace_range(end.., &format!("[cut {lost} bytes]"));
    }
}

#[cfg(test)]
mod tests;
