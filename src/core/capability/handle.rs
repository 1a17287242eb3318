//! Handles: short readable names of capabilities, such as `search-and-book-flight`, by which people and commands refer to them.
//!
//! A handle is made when a capability becomes known, from the names of its calls, or from its name if it was declared. If another
//! capability has that one already, words of the intent are added, and if that is taken too, digits of the id. It never changes.

use std::collections::BTreeSet;

use crate::id::{Callee, CapabilityId};
use crate::text::is_stop_word;

/// Longest handle without digits of the id, in bytes.
const LEN_MAX: usize = 48;
/// Calls that are named, words of each call, and words of an intent or a declared name, at most.
const CALLS_MAX: usize = 3;
const CALL_WORDS_MAX: usize = 3;
const INTENT_WORDS_MAX: usize = 2;
const NAME_WORDS_MAX: usize = 6;
/// For capabilities whose calls and intent have no letters or digits of ASCII.
const FALLBACK: &str = "capability";
/// Digits of the id that are added, fewest first.
const ID_DIGITS: [usize; 3] = [4, 8, 32];

/// What a handle is made from.
pub(super) enum Origin<'a> {
    /// The calls in the order of data flow, and the intent of the run.
    Learned {
        calls: Vec<&'a Callee>,
        intent: &'a str,
    },
    Declared {
        name: &'a str,
    },
}

/// The handle of the capability `id`: the first form that is not taken.
pub(super) fn choose(id: CapabilityId, origin: &Origin<'_>, is_taken: impl Fn(&str) -> bool) -> String {
    let (base, intent) = match origin {
        Origin::Learned { calls, intent } => (from_calls(calls), *intent),
        Origin::Declared { name } => (joined(words(name).into_iter().take(NAME_WORDS_MAX)), ""),
    };
    let base = if base.is_empty() { FALLBACK.to_owned() } else { base };
    if !is_taken(&base) {
        return base;
    }
    let known: BTreeSet<&str> = base.split('-').collect();
    let more = words(intent).into_iter().filter(|word| !is_stop_word(word) && !known.contains(word.as_str()));
    let more = joined(more.take(INTENT_WORDS_MAX));
    if !more.is_empty() {
        let longer = format!("{base}-for-{more}");
        if longer.len() <= LEN_MAX && !is_taken(&longer) {
            return longer;
        }
    }
    let id = id.to_string();
    let numbered = ID_DIGITS.map(|digits| format!("{base}-{}", &id[..digits]));
    numbered.into_iter().find(|handle| !is_taken(handle)).unwrap_or(id)
}

/// `search-and-book-flight` for `search_flight` and `book_flight`: a word that the last call has too is said once.
fn from_calls(calls: &[&Callee]) -> String {
    let mut names: Vec<Vec<String>> = Vec::new();
    let mut more = false;
    for call in calls {
        let name = match call {
            Callee::Tool(tool) => words(tool.name()),
            Callee::Capability(_) => vec![FALLBACK.to_owned()],
        };
        let name: Vec<String> = name.into_iter().take(CALL_WORDS_MAX).collect();
        if name.is_empty() || names.contains(&name) {
            continue;
        }
        if names.len() == CALLS_MAX {
            more = true;
            break;
        }
        names.push(name);
    }
    let Some(mut last) = names.pop() else { return String::new() };
    let mut said: Vec<String> = Vec::new();
    for name in names {
        let kept: Vec<String> = name.iter().filter(|word| !last.contains(word)).cloned().collect();
        said.extend(if kept.is_empty() { name } else { kept });
    }
    if more {
        last.extend(["and".to_owned(), "more".to_owned()]);
    } else if !said.is_empty() {
        said.push("and".to_owned());
    }
    said.extend(last);
    joined(said.into_iter())
}

/// The words of a text in lower case: letters and digits of ASCII, names split into their parts (`read_file`, `readFile`).
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for character in text.chars() {
        let hump = previous.is_ascii_lowercase() && character.is_ascii_uppercase();
        if (hump || !character.is_ascii_alphanumeric()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if character.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(character.to_ascii_lowercase());
        }
        previous = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The words with hyphens between them, as many as fit.
fn joined(words: impl Iterator<Item = String>) -> String {
    let mut handle = String::new();
    for word in words {
        let word = &word[..word.len().min(LEN_MAX)];
        if handle.len() + usize::from(!handle.is_empty()) + word.len() > LEN_MAX {
            break;
        }
        if !handle.is_empty() {
            handle.push('-');
        }
        handle.push_str(word);
    }
    handle
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: CapabilityId = CapabilityId::from_bits(0x1234_5678_9abc_def0_1234_5678_9abc_def0);

    fn learned(calls: &[&str], intent: &str, taken: &[&str]) -> String {
        let calls: Vec<Callee> = calls.iter().map(|call| call.parse().unwrap()).collect();
        choose(ID, &Origin::Learned { calls: calls.iter().collect(), intent }, |handle| taken.contains(&handle))
    }

    #[test]
    fn a_handle_says_what_the_calls_do() {
        assert_eq!(learned(&["air:search_flight", "air:book_flight"], "", &[]), "search-and-book-flight");
        assert_eq!(learned(&["fs:list", "zip:pack"], "Zip the reports", &[]), "list-and-pack");
        assert_eq!(learned(&["fs:readFile"], "", &[]), "read-file");
        assert_eq!(learned(&["a:read", "b:read", "c:write"], "", &[]), "read-and-write");
        assert_eq!(learned(&["a:one", "a:two", "a:three", "a:four"], "", &[]), "one-two-three-and-more");
        assert_eq!(learned(&["a:\u{7e}"], "", &[]), "capability");
        let long = format!("a:{}", "x".repeat(150));
        assert_eq!(learned(&[&long], "", &[]).len(), LEN_MAX);
    }

    #[test]
    fn a_handle_that_is_taken_gets_words_of_the_intent_then_digits() {
        let taken = ["list-and-pack", "list-and-pack-for-zip-reports", "list-and-pack-1234"];
        let made = |count: usize| learned(&["fs:list", "zip:pack"], "Zip the reports, please", &taken[..count]);
        assert_eq!(made(1), "list-and-pack-for-zip-reports");
        assert_eq!(made(2), "list-and-pack-1234");
        assert_eq!(made(3), "list-and-pack-12345678");
    }

    #[test]
    fn a_declared_name_is_kept_in_words() {
        let declared = |name| choose(ID, &Origin::Declared { name }, |_| false);
        assert_eq!(declared("Book a flight!"), "book-a-flight");
        assert_eq!(declared("\u{4e2d}\u{6587}"), "capability");
    }
}
