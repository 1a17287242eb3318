//! Data flow between calls that nobody declared: a value that a call returned and a later call is given.
//!
//! Only distinctive values count (ids, paths, addresses, names of several words), compared exactly. A value belongs to the first that
//! mentioned it: what the agent wrote itself, in the intent or in an argument, flows from no call, also if a result repeats it.
//! Values are kept as hashes, so nothing that passed through can be read back.

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;

use super::hash::{PrecomputedHash, fnv1a};

/// Shortest and longest value that is compared, in bytes; longer ones are split into their words only.
const VALUE_LEN_MIN: usize = 6;
const VALUE_LEN_MAX: usize = 300;
/// How much of one text is read, in bytes, and how many of its values are kept.
const TEXT_LEN_MAX: usize = 64 << 10;
const VALUES_PER_TEXT_MAX: usize = 500;
/// Values kept for one execution; further ones are not looked at.
const VALUES_MAX: usize = 2_000;

/// A call of the execution, by its number.
pub type Call = u32;

/// By the hash of a value: the call that returned it first, or `None` if the agent wrote it first.
#[expect(clippy::disallowed_types, reason = "it is only looked up, so it has no order")]
type Origins = std::collections::HashMap<u64, Option<Call>, BuildHasherDefault<PrecomputedHash>>;

/// The values seen in one execution, each with the first that mentioned it.
#[derive(Clone, Debug, Default)]
pub struct Values {
    origins: Origins,
}

impl Values {
    /// Adds what the agent wrote: an intent, or the arguments of a call.
    pub fn add_written<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        self.add(texts, None);
    }

    /// Adds what a call returned.
    pub fn add_returned<'a>(&mut self, call: Call, texts: impl IntoIterator<Item = &'a str>) {
        self.add(texts, Some(call));
    }

    fn add<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>, origin: Option<Call>) {
        for value in texts.into_iter().flat_map(|text| values(text, Strictness::Whole)) {
            if self.origins.len() >= VALUES_MAX {
                return;
            }
            self.origins.entry(fnv1a(value.as_bytes())).or_insert(origin);
        }
    }

    /// Returns the calls whose results the arguments use.
    pub fn sources<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> BTreeSet<Call> {
        let origin = |value: &str| self.origins.get(&fnv1a(value.as_bytes())).copied().flatten();
        arguments.into_iter().flat_map(|text| values(text, Strictness::Part)).filter_map(origin).collect()
    }
}

/// How distinctive a word inside a longer text has to be. The text as a whole is always judged as [`Strictness::Whole`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// As if it were an argument of its own.
    Whole,
    /// Like a word in a sentence, which may be there by chance.
    Part,
}

/// Returns the distinctive values of a text: itself, if it is one, and its words.
fn values(text: &str, words: Strictness) -> impl Iterator<Item = &str> {
    let text = &text[..text.floor_char_boundary(TEXT_LEN_MAX)];
    let whole = text.trim();
    // A single word is the text itself.
    let parts = Words { rest: whole }.filter(move |word| (VALUE_LEN_MIN..whole.len()).contains(&word.len()));
    let parts = parts.map(|word| word.trim_matches(is_punctuation)).filter(move |word| is_distinctive(word, words));
    Some(whole).filter(|whole| is_distinctive(whole, Strictness::Whole)).into_iter().chain(parts).take(VALUES_PER_TEXT_MAX)
}

/// What the bytes of a word are, each looked up in [`CLASSES`]: the questions that take longer are asked of the few words that have what
/// they look for.
#[derive(Clone, Copy, Default)]
struct Shape {
    digits: usize,
    slashes: usize,
    /// The classes of all bytes.
    classes: u8,
}

/// Classes of bytes: those that end a word, and those that values are told by.
const SEPARATOR: u8 = 1;
const DIGIT: u8 = 2;
const LETTER: u8 = 4;
const SLASH: u8 = 8;
const DOT: u8 = 16;
const AT: u8 = 32;
const COLON: u8 = 64;
/// Part of a character that is not ASCII: it may be anything.
const WIDE: u8 = 128;

const CLASSES: [u8; 256] = {
    let (mut classes, mut byte) = ([0; 256], 0_u8);
    loop {
        classes[byte as usize] = match byte {
            b' '
            | b'\t'..=b'\r'
            | b'"'
            | b'\''
            | b'`'
            | b','
            | b';'
            | b'<'
            | b'>'
            | b'('
            | b')'
            | b'['
            | b']'
            | b'{'..=b'}' => SEPARATOR,
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'/' | b'\\' => SLASH,
            b'.' => DOT,
            b'@' => AT,
            b':' => COLON,
            128.. => WIDE,
            _ => 0,
        };
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

impl Shape {
    fn of(text: &str) -> Self {
        let mut shape = Self::default();
        for class in text.bytes().map(|byte| CLASSES[usize::from(byte)]) {
            shape.classes |= class;
            shape.digits += usize::from(class == DIGIT);
            shape.slashes += usize::from(class == SLASH);
        }
        shape
    }

    fn has(self, class: u8) -> bool {
        self.classes & class != 0
    }
}

/// The words of a text.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = self.rest.as_bytes();
        let (mut end, mut separator_len) = (0, 0);
        while let Some(len) = bytes[end..].iter().position(|byte| CLASSES[usize::from(*byte)] & (SEPARATOR | WIDE) != 0) {
            end += len;
            let character = self.rest[end..].chars().next().expect("a byte was found there");
            // White space of other scripts ends a word, too.
            if character.is_ascii() || character.is_whitespace() {
                separator_len = character.len_utf8();
                break;
            }
            end += character.len_utf8();
        }
        if separator_len == 0 {
            end = bytes.len();
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = &rest[separator_len..];
        Some(word)
    }
}

fn is_punctuation(c: char) -> bool {
    matches!(c, '.' | ':' | '!' | '?' | '*' | '#' | '=')
}

/// Whether a value is unlikely to be in two places by chance.
fn is_distinctive(value: &str, strictness: Strictness) -> bool {
    if !(VALUE_LEN_MIN..=VALUE_LEN_MAX).contains(&value.len()) {
        return false;
    }
    let shape = Shape::of(value);
    // Few words look like a value, so the longer lists come last.
    looks_like_a_value(value, shape, strictness) && !is_date(value) && !is_well_known(value, shape)
}

fn looks_like_a_value(value: &str, shape: Shape, strictness: Strictness) -> bool {
    let has_letters = shape.has(LETTER) || (shape.has(WIDE) && value.chars().any(char::is_alphabetic));
    if !has_letters {
        // Round numbers are amounts and limits.
        return shape.digits >= 7 && shape.digits == value.len() && !value.ends_with("000");
    }
    let is_word = !shape.has(SEPARATOR) || !value.contains(' ');
    let is_address = shape.has(COLON) && shape.slashes >= 2 && value.contains("://");
    let is_mail = shape.has(AT) && is_word && is_mail_address(value);
    if is_address || is_mail || (shape.digits >= 2 && value.len() >= 8 && is_word) {
        return true;
    }
    if shape.slashes >= 2 && is_word {
        return true;
    }
    let is_path = shape.slashes == 1 && is_word;
    let is_file = shape.has(DOT) && is_word && has_extension(value);
    strictness == Strictness::Whole && (is_path || is_file || (!is_word && is_phrase(value)))
}

/// Dates and times, which are the same in unrelated places: `2026-01-31`, `2026-01-31T12:00:00Z`, `31/01/2026`.
fn is_date(value: &str) -> bool {
    let date = value.split(['T', ' ']).next().unwrap_or_default();
    let is_number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers = 0;
    date.split(['-', '/', '.']).all(|part| {
        numbers += 1;
        is_number(part)
    }) && numbers == 3
}

/// Media types, character sets and places that everybody names.
fn is_well_known(value: &str, shape: Shape) -> bool {
    let names = ["iso-8859", "windows-12", "localhost", "127.0.0.1"];
    let with_slash = [
        "application/",
        "text/",
        "image/",
        "audio/",
        "video/",
        "multipart/",
        "font/",
        "http/",
        "/dev/null",
        "https://example.com",
        "mozilla/",
    ];
    let begins = |prefix: &&str| value.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix));
    names.iter().any(begins) || (shape.slashes > 0 && with_slash.iter().any(begins))
}

fn is_mail_address(value: &str) -> bool {
    value.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
}

/// A file name: `report.pdf`.
fn has_extension(value: &str) -> bool {
    value.rsplit_once('.').is_some_and(|(stem, extension)| {
        let is_extension = (1..=5).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        stem.len() >= 3 && is_extension
    })
}

/// A name or title of several words: `Quarterly report for Anna`. Settings such as `ascending` have one word and no capital.
fn is_phrase(value: &str) -> bool {
    value.len() >= 12 && !value.contains('\n') && value.trim().contains(' ') && value.chars().any(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a call that is given `argument` uses a call that returned `result`.
    fn flows(result: &str, argument: &str) -> bool {
        let mut values = Values::default();
        values.add_returned(7, [result]);
        values.sources([argument]).contains(&7)
    }

    #[test]
    fn distinctive_values_flow() {
        for (result, argument) in [
            ("Created issue ACME-1042", "ACME-1042"),
            (r#"{"id": "b7e23ec29af22b0b"}"#, "b7e23ec29af22b0b"),
            ("[FILE] notes.txt\n[FILE] report.pdf", "report.pdf"),
            ("see https://host.example/a?b=1.", "https://host.example/a?b=1"),
            ("wrote /srv/data/out.csv", "please send /srv/data/out.csv to the team"),
            ("anna.k@corp.example", "anna.k@corp.example"),
            ("Quarterly report for Anna", "Quarterly report for Anna"),
            ("modelcontextprotocol/servers", "modelcontextprotocol/servers"),
            ("4815162342", "4815162342"),
        ] {
            assert!(flows(result, argument), "{result:?} -> {argument:?}");
        }
    }

    #[test]
    fn values_that_are_everywhere_do_not_flow() {
        for value in [
            "true",
            "42",
            "100000000",
            "ascending",
            "completed",
            "created_at",
            "2026-01-31",
            "2026-01-31T12:00:00Z",
            "31.01.2026",
            "application/json",
            "text/plain",
            "iso-8859-1",
            "/dev/null",
            "localhost:8080",
            "description",
            "en-US",
            "no results found",
        ] {
            assert!(!flows(value, value), "{value:?}");
            assert!(!flows(&format!("the value is {value} today"), value), "{value:?} in a text");
        }
    }

    #[test]
    fn words_that_two_sentences_share_do_not_flow() {
        assert!(!flows("The client/server protocol of config.toml is described below", "explain the client/server protocol"));
        assert!(!flows("Node.js is a runtime for JavaScript", "which versions of Node.js are there"));
        assert!(!flows("report.pdf", "summarise what a report.pdf usually holds"));
    }

    #[test]
    fn words_of_other_scripts_and_their_white_space_are_told_apart() {
        assert!(flows("\u{5831}\u{544a}\u{66f8}\u{3000}ACME-1042\u{3000}\u{5b8c}\u{4e86}", "ACME-1042"));
        assert!(flows(
            "ge\u{e4}ndert: /srv/gr\u{f6}\u{df}e/ma\u{df}e.csv \u{2013} fertig",
            "/srv/gr\u{f6}\u{df}e/ma\u{df}e.csv"
        ));
        assert!(flows(
            "\u{434}\u{430}\u{43d}\u{43d}\u{44b}\u{435}: \u{444}\u{430}\u{439}\u{43b}-2026-17",
            "\u{444}\u{430}\u{439}\u{43b}-2026-17"
        ));
        assert!(!flows("the word gr\u{f6}\u{df}enverh\u{e4}ltnis is long", "gr\u{f6}\u{df}enverh\u{e4}ltnis"));
    }

    #[test]
    fn a_value_is_not_found_inside_another() {
        assert!(!flows("/srv/data/out.csv", "/srv/data/out.csv.bak"));
        assert!(!flows("ACME-1042", "ACME-10420"));
    }

    #[test]
    fn what_the_agent_wrote_first_flows_from_nowhere() {
        let mut values = Values::default();
        values.add_written(["read /srv/data/in.csv"]);
        values.add_returned(1, ["content of /srv/data/in.csv: 17 rows, key b7e23ec29af22b0b"]);
        assert!(values.sources(["/srv/data/in.csv"]).is_empty());
        assert_eq!(values.sources(["b7e23ec29af22b0b"]), [1].into());
    }

    #[test]
    fn a_value_belongs_to_the_call_that_returned_it_first() {
        let mut values = Values::default();
        values.add_returned(1, ["b7e23ec29af22b0b"]);
        values.add_returned(2, ["b7e23ec29af22b0b", "c8f34fd3a0033c1c"]);
        assert_eq!(values.sources(["b7e23ec29af22b0b"]), [1].into());
        assert_eq!(values.sources(["from b7e23ec29af22b0b to c8f34fd3a0033c1c"]), [1, 2].into());
    }

    #[test]
    fn memory_is_bounded() {
        let mut values = Values::default();
        for call in 0..20 {
            let paths: Vec<String> = (0..1_000).map(|number| format!("/srv/{call}/file-{number:08}")).collect();
            values.add_returned(call, [paths.join(" ").as_str()]);
        }
        assert_eq!(values.origins.len(), VALUES_MAX);
        assert!(values.sources(["/srv/0/file-00000001"]).contains(&0), "what was first is kept");
    }
}
