//! Data flow between calls that nobody declared: a value that a call returned and a later call is given.
//!
//! Only distinctive values count (ids, paths, addresses, names of several words), compared exactly. A value belongs to the first that
//! mentioned it: what the agent wrote itself, in the intent or in an argument, flows from no call, also if a result repeats it.
//! Values are kept as hashes, so nothing that passed through can be read back.

use std::collections::{BTreeMap, BTreeSet};

use super::hash::fnv1a;

/// Longest value that is compared, in bytes; longer ones are split into their words only.
const VALUE_LEN_MAX: usize = 300;
/// How much of one text is read, in bytes, and how many of its values are kept.
const TEXT_LEN_MAX: usize = 64 << 10;
const VALUES_PER_TEXT_MAX: usize = 500;
/// Values kept for one execution; further ones are not looked at.
const VALUES_MAX: usize = 2_000;

/// A call of the execution, by its number.
pub type Call = u32;

/// The values seen in one execution, each with the first that mentioned it.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// By the hash of the value: the call that returned it first, or `None` if the agent wrote it first.
    origins: BTreeMap<u64, Option<Call>>,
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
    let has_words = whole.contains(is_separator);
    let parts = whole.split(is_separator).filter(move |_| has_words).map(|word| word.trim_matches(is_punctuation));
    let parts = parts.filter(move |word| is_distinctive(word, words));
    Some(whole).filter(|whole| is_distinctive(whole, Strictness::Whole)).into_iter().chain(parts).take(VALUES_PER_TEXT_MAX)
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '<' | '>' | '(' | ')' | '[' | ']' | '{' | '}' | '|')
}

fn is_punctuation(c: char) -> bool {
    matches!(c, '.' | ':' | '!' | '?' | '*' | '#' | '=')
}

/// Whether a value is unlikely to be in two places by chance.
fn is_distinctive(value: &str, strictness: Strictness) -> bool {
    if value.len() < 6 || value.len() > VALUE_LEN_MAX || is_date(value) || is_well_known(value) {
        return false;
    }
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.chars().filter(|c| c.is_alphabetic()).count();
    if letters == 0 {
        // Round numbers are amounts and limits.
        return digits >= 7 && !value.ends_with("000") && value.bytes().all(|byte| byte.is_ascii_digit());
    }
    if value.contains("://") || is_mail_address(value) || (digits >= 2 && value.len() >= 8 && !value.contains(' ')) {
        return true;
    }
    let slashes = value.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    if slashes >= 2 && !value.contains(' ') {
        return true;
    }
    let is_path = slashes == 1 && !value.contains(' ');
    strictness == Strictness::Whole && (is_path || has_extension(value) || is_phrase(value))
}

/// Dates and times, which are the same in unrelated places: `2026-01-31`, `2026-01-31T12:00:00Z`, `31/01/2026`.
fn is_date(value: &str) -> bool {
    let date = value.split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = date.split(['-', '/', '.']).collect();
    let is_number = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

/// Media types, character sets and places that everybody names.
fn is_well_known(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let media = ["application/", "text/", "image/", "audio/", "video/", "multipart/", "font/"];
    let names = ["iso-8859", "windows-12", "http/", "/dev/null", "localhost", "127.0.0.1", "https://example.com", "mozilla/"];
    media.iter().chain(&names).any(|prefix| lower.starts_with(prefix))
}

fn is_mail_address(value: &str) -> bool {
    value.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !value.contains(' '))
}

/// A file name: `report.pdf`.
fn has_extension(value: &str) -> bool {
    value.rsplit_once('.').is_some_and(|(stem, extension)| {
        let is_extension = (1..=5).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        stem.len() >= 3 && is_extension && !value.contains(' ')
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
