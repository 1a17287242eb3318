//! Recognition of values assigned to the name of a secret: `password=x`, `"token": "x"`, `--api-key x`, `Authorization: Bearer x`,
//! `SECRET_KEY=x`.
//!
//! Prose and code also have words after such names (`password: the one you chose`, `token = next_token()`), so the value is examined
//! too: the beginning of a sentence, the name of a type, a placeholder and a function call are not secrets. Without a separator
//! (`the token is x`), only a long word that looks random is one.

use std::ops::Range;

use super::ahead::Ahead;
use super::names::{self, Degree};
use super::text::is_placeholder;
use super::tokens;

/// Longest part of a name that is read on each side of the gram.
const NAME_LEN_MAX: usize = 64;
/// Most spaces between a name, its separator and its value.
const SPACES_MAX: usize = 8;
/// Words that are not secrets: they stand for a value in descriptions and code.
const HARMLESS_WORDS: [&str; 36] = [
    "a",
    "an",
    "any",
    "are",
    "array",
    "bool",
    "boolean",
    "bytes",
    "each",
    "empty",
    "enter",
    "false",
    "for",
    "hidden",
    "if",
    "int",
    "integer",
    "invalid",
    "is",
    "it",
    "missing",
    "none",
    "null",
    "number",
    "object",
    "optional",
    "redacted",
    "required",
    "self",
    "str",
    "string",
    "text",
    "the",
    "true",
    "undefined",
    "your",
];
/// Schemes that precede the secret in a header.
const SCHEMES: [&str; 8] = ["bearer", "basic", "token", "digest", "negotiate", "apikey", "key", "aws4-hmac-sha256"];

/// The separator between a name and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `=`, `:=`, `=>`
    Equals,
    Colon,
    /// A space after `--name`.
    Flag,
    /// `is`, `was`, or nothing but a space.
    Words,
}

/// Returns the value of the secret whose name is at `at`.
pub(super) fn value_at(text: &str, at: usize, floor: usize, ahead: &mut Ahead) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let left = bytes[floor..at].iter().rev().take(NAME_LEN_MAX).take_while(|byte| part(byte)).count();
    let right = bytes[at..].iter().take(NAME_LEN_MAX).take_while(|byte| part(byte)).count();
    let (start, end) = (at - left, at + right);
    let name = text.get(start..end)?;
    let degree = names::degree(name)?;
    let (separator, from) = separator(text, end, name.starts_with("--"))?;
    let environment = separator == Separator::Equals && is_environment(text, start, name);
    let value = AssignedValue::read(text, from, environment, ahead)?;
    let shown = text.get(value.range.clone())?;
    let is_secret = match (degree, separator) {
        (_, Separator::Words) => is_random_word(shown),
        (Degree::Strong, _) => value.is_secret(text, shown, name, separator),
        (Degree::Short, _) => {
            separator != Separator::Colon && !is_plain(shown) && value.is_secret(text, shown, name, separator)
        }
        (Degree::Weak, _) => tokens::is_random(shown),
    };
    is_secret.then(|| if names::is_whole_line(name) { value.whole_line(text) } else { value.with_scheme(text, shown) })
}

/// Returns the separator after the name that ends at `end`, and the start of the value.
fn separator(text: &str, end: usize, flag: bool) -> Option<(Separator, usize)> {
    let bytes = text.as_bytes();
    let closed =
        bytes[end..].iter().take(SPACES_MAX).take_while(|byte| matches!(byte, b'\\' | b'"' | b'\'' | b'`' | b']')).count();
    let after = skip_spaces(bytes, end + closed);
    let (separator, next) = match bytes.get(after..)? {
        [b':', b':' | b'/', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>' | b'=' | b'~', ..] => (Separator::Equals, after + 2),
        [b'=', ..] => (Separator::Equals, after + 1),
        [b':', ..] => (Separator::Colon, after + 1),
        _ if closed == 0 && after > end && flag => (Separator::Flag, after),
        _ if closed == 0 && after > end => (Separator::Words, after + copula(&bytes[after..])),
        _ => return None,
    };
    Some((separator, skip_spaces(bytes, next)))
}

/// Returns the length of a leading "is ", "was " or "to ".
fn copula(bytes: &[u8]) -> usize {
    [&b"is "[..], b"was ", b"is: ", b"to "].iter().find(|word| bytes.starts_with(word)).map_or(0, |word| word.len())
}

fn skip_spaces(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take(SPACES_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether `name` is an environment variable at the start of a line; then its value ends at the next space.
fn is_environment(text: &str, start: usize, name: &str) -> bool {
    let upper = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let before = text[..start].trim_end_matches(' ');
    upper && (before.is_empty() || before.ends_with(['\n', ';']) || before.ends_with("export") || before.ends_with("env"))
}

/// Whether `word` is an ordinary value in prose and code: lowercase letters, or a number.
fn is_plain(word: &str) -> bool {
    let number = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number || word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.')
}

/// The value after a separator.
struct AssignedValue {
    range: Range<usize>,
    quoted: bool,
}

impl AssignedValue {
    /// Reads the value that begins at `from`, up to the closing quote or the end of the word.
    fn read(text: &str, from: usize, environment: bool, ahead: &mut Ahead) -> Option<Self> {
        let bytes = text.as_bytes();
        let escapes = bytes.get(from..)?.iter().take(SPACES_MAX).take_while(|byte| **byte == b'\\').count();
        let quote = bytes.get(from + escapes).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        if let Some(quote) = quote {
            let start = from + escapes + 1;
            if let Some(end) = closing(&bytes[start..], quote, escapes) {
                return Some(Self { range: start..start + end, quoted: true });
            }
        }
        let start = if quote.is_some() { from + escapes + 1 } else { from };
        let ends =
            |byte: u8| byte.is_ascii_whitespace() || b"\"'`\\<>".contains(&byte) || !environment && b"&,;|)}]".contains(&byte);
        // A placeholder such as `<token>` or `{token}` includes its brackets.
        let open = bytes[start..].iter().take_while(|byte| matches!(byte, b'<' | b'{' | b'$' | b'(')).count();
        let mut end = ahead.values[usize::from(environment)].find(bytes, start + open, ends);
        if open > 0 {
            end += bytes[end..].iter().take(open).take_while(|byte| matches!(byte, b'>' | b'}' | b')')).count();
        }
        (end > start).then_some(Self { range: start..end, quoted: false })
    }

    fn is_secret(&self, text: &str, shown: &str, name: &str, separator: Separator) -> bool {
        let harmless = |word: &str| HARMLESS_WORDS.iter().any(|entry| word.eq_ignore_ascii_case(entry));
        let word = shown.trim_end_matches(['.', ':', '!', '?']);
        if harmless(word) || is_placeholder(shown) || names::is_count(name) && is_number(shown) || is_same(name, word) {
            return false;
        }
        if self.quoted {
            return true;
        }
        if shown.starts_with(['[', '{', '(', '|', '>', '%']) || word.is_empty() {
            return false;
        }
        let next = text.as_bytes().get(self.range.end).copied();
        // `next_token()`, `os.environ["TOKEN"]`: the word is code.
        if next == Some(b'(') || shown.contains(['(', '[']) && !shown.starts_with(['$', '#']) {
            return false;
        }
        separator != Separator::Colon || !self.is_prose(text, word)
    }

    /// Whether the value is a word of a sentence: letters only, with another word after it.
    fn is_prose(&self, text: &str, word: &str) -> bool {
        let scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        let letters = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '/'));
        let after = text[self.range.end..].trim_start_matches(['.', ',', ';', ')']);
        let goes_on = after
            .strip_prefix(' ')
            .is_some_and(|after| after.trim_start().starts_with(|c: char| c.is_alphabetic() || c == '('));
        !scheme && letters(word) && goes_on
    }

    /// Returns the word after the name of a scheme if the value is one, else the value.
    fn with_scheme(self, text: &str, shown: &str) -> Range<usize> {
        let scheme = SCHEMES.iter().any(|scheme| shown.eq_ignore_ascii_case(scheme));
        let rest = &text.as_bytes()[self.range.end..];
        if !scheme || self.quoted || rest.first() != Some(&b' ') {
            return self.range;
        }
        let word = |byte: &u8| !byte.is_ascii_whitespace() && !b"\"'`\\<>".contains(byte);
        let start = self.range.end + 1;
        start..start + rest[1..].iter().take_while(|byte| word(byte)).count()
    }

    /// Returns the rest of the line, up to a quote, without the name of a scheme.
    fn whole_line(self, text: &str) -> Range<usize> {
        if self.quoted {
            return self.range;
        }
        let rest = &text.as_bytes()[self.range.start..];
        let len = rest.iter().position(|byte| b"\r\n\"'`\\<>".contains(byte)).unwrap_or(rest.len());
        let line = &text[self.range.start..self.range.start + len];
        let scheme = line.split_once(' ').filter(|(word, _)| SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)));
        let start = self.range.start + scheme.map_or(0, |(word, _)| word.len() + 1);
        start..self.range.start + line.trim_end().len()
    }
}

/// Returns the position of the closing quote on the same line. `escapes` backslashes came before the opening one.
fn closing(bytes: &[u8], quote: u8, escapes: usize) -> Option<usize> {
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\\' => run += 1,
            b'\n' => return None,
            byte if *byte == quote && run <= escapes => return Some(at - run),
            _ => run = 0,
        }
    }
    None
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'))
}

/// Whether `word` looks random, without the punctuation that ends a sentence.
fn is_random_word(word: &str) -> bool {
    tokens::is_random(word.trim_end_matches(['.', ':', '!', '?']))
}

/// Whether name and value are the same, as in `password=password`, which passes a variable on.
fn is_same(name: &str, word: &str) -> bool {
    let last = name.rsplit(['.', '-']).next().unwrap_or_default();
    let Some(start) = word.len().checked_sub(last.len()) else { return false };
    let is_whole = start == 0 || word.as_bytes()[start - 1] == b'.';
    is_whole && word.get(start..).is_some_and(|given| last.eq_ignore_ascii_case(given))
}
