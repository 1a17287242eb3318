//! Secrets are removed before anything is stored or answered: an append-only log cannot be cleaned afterwards.
//!
//! One redactor for all text: members of JSON by their names (`names`, `json`), and shapes in running text (`text`): tokens with the
//! public prefix of a provider (`tokens`), what follows the name of a secret (`assigned`), credentials in addresses and headers,
//! private keys. What it removes it replaces by `[redacted]`. Doing it twice changes nothing, it takes linear time, and texts that hold
//! nothing of the kind are only skimmed (`grams`).
//!
//! Ids are not redacted, since that would make different things the same: an id that holds a secret is refused (`intake`).

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

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("'{pattern}' is not a regular expression")]
    Syntax { pattern: String, source: regex::Error },
    #[error("'{pattern}' matches the empty text")]
    Empty { pattern: String },
}

/// Finds and replaces secrets.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// What is a secret besides the built-in shapes (`redact.extra`).
    extra: Vec<Regex>,
}

impl Redactor {
    /// The built-in shapes only.
    pub const fn builtin() -> Self {
        Self { extra: Vec::new() }
    }

    /// With further patterns. What one matches is replaced as a whole.
    pub fn with_extra(patterns: &[String]) -> Result<Self, PatternError> {
        let compile = |pattern: &String| match Regex::new(pattern) {
            Ok(regex) if regex.is_match("") => Err(PatternError::Empty { pattern: pattern.clone() }),
            Ok(regex) => Ok(regex),
            Err(source) => Err(PatternError::Syntax { pattern: pattern.clone(), source }),
        };
        Ok(Self { extra: patterns.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// `text` without its secrets; `None` if it holds none.
    pub fn text(&self, text: &str) -> Option<String> {
        if self.may_hold(text) { Walk::new(self, usize::MAX).text(text) } else { None }
    }

    /// Replaces `text` if it holds secrets.
    pub fn clean(&self, text: &mut String) {
        if let Some(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// `json` without its secrets and with strings of at most `string_len_max` bytes; `None` if it was so already.
    pub fn json(&self, json: &Json, string_len_max: usize) -> Option<Json> {
        if !self.may_hold(json.as_str()) && json.as_str().len() <= string_len_max {
            return None;
        }
        let mut value: Value = serde_json::from_str(json.as_str()).expect("Json holds valid JSON");
        let mut walk = Walk::new(self, string_len_max);
        walk.value(&mut value);
        walk.changed.then(|| Json::from_valid(value.to_string()))
    }

    /// What may be kept of bytes that should have been an event.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let lossy = String::from_utf8_lossy(bytes);
        let clean = match serde_json::from_str::<Value>(&lossy) {
            Ok(mut value) => {
                let mut walk = Walk::new(self, usize::MAX);
                walk.value(&mut value);
                // The second of two members with one name hides the first, which only the text shows.
                (walk.changed || self.running_text(&lossy).is_some()).then(|| value.to_string())
            }
            Err(_) => self.running_text(&lossy),
        };
        clean.map_or_else(|| bytes.to_vec(), String::into_bytes)
    }

    /// Whether a closer look at `text` is worth it.
    fn may_hold(&self, text: &str) -> bool {
        !self.extra.is_empty() || grams::next(text.as_bytes(), 0).is_some()
    }

    fn running_text(&self, text: &str) -> Option<String> {
        let mut clean = text::redact(text);
        for pattern in &self.extra {
            let given = clean.as_deref().unwrap_or(text);
            if pattern.is_match(given) {
                // What is redacted stays so: a pattern does not see it.
                let pieces: Vec<_> = given.split(REDACTED).map(|piece| pattern.replace_all(piece, REDACTED)).collect();
                let joined = pieces.join(REDACTED);
                clean = (joined != text).then_some(joined);
            }
        }
        clean
    }
}

/// `text` cut to at most `len_max` bytes, with a marker saying how much is gone.
pub fn cut(text: &mut String, len_max: usize) {
    if text.len() > len_max {
        let end = text.floor_char_boundary(len_max);
        let lost = text.len() - end;
        text.replace_range(end.., &format!("[cut {lost} bytes]"));
    }
}

#[cfg(test)]
mod tests;
