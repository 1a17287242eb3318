//! Words and clauses of texts that people and servers wrote, in any language. Deterministic and without a dictionary.

mod clauses;
mod letters;

pub use clauses::{CLAUSES_MAX, clauses};
use letters::{is_ideograph, plain};

/// Whether a word in lower case says nothing about what a text is about. The list is short on purpose: BM25 gives frequent words little
/// weight by itself. Asked about every word, so it compares only words of the same length, and those as numbers.
pub fn is_stop_word(word: &str) -> bool {
    match word.len() {
        1 => matches!(word, "a" | "i"),
        2 => {
            matches!(word, "an" | "as" | "at" | "be" | "by" | "in" | "is" | "it" | "me")
                || matches!(word, "my" | "of" | "on" | "or" | "to" | "us" | "we")
        }
        3 => matches!(word, "and" | "are" | "can" | "for" | "the" | "was" | "you" | "our"),
        4 => matches!(word, "from" | "like" | "need" | "that" | "this" | "want" | "will" | "with" | "your"),
        5 => matches!(word, "could" | "would"),
        6 => word == "please",
        _ => false,
    }
}

/// Returns the words of a text: lower-case stems without stop words. Names are split into their parts (`read_file`, `readFile`);
/// every character of a script without spaces is a word. Letters lose their accents: people leave them out when they type.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous = ' ';
    for character in text.chars() {
        let hump = previous.is_lowercase() && character.is_uppercase();
        if hump || !character.is_alphanumeric() || is_ideograph(character) {
            push_word(&mut word, &mut words);
        }
        if is_ideograph(character) {
            words.push(character.to_string());
        } else if character.is_ascii_alphanumeric() {
            word.push(character.to_ascii_lowercase());
        } else if character.is_alphanumeric() {
            character.to_lowercase().for_each(|letter| match plain(letter) {
                Some(plain) => word.push_str(plain),
                None => word.push(letter),
            });
        }
        previous = character;
    }
    push_word(&mut word, &mut words);
    words
}

fn push_word(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() && !is_stop_word(word) {
        words.push(stem(word));
    }
    word.clear();
}

/// Strips English endings, so that `files`, `filing` and `file` become the same. Crude, but applied to questions and texts alike.
fn stem(word: &str) -> String {
    const ENDINGS: [(&str, &str); 7] =
        [("ings", ""), ("ing", ""), ("ies", "y"), ("ied", "y"), ("es", ""), ("ed", ""), ("s", "")];
    const STEM_LEN_MIN: usize = 3;
    // The last letters of the endings: most words have another one.
    let may_end = word.ends_with(['s', 'g', 'd']);
    let cut = ENDINGS.iter().filter(|_| may_end).find_map(|(ending, instead)| {
        let stem = word.strip_suffix(ending).filter(|stem| stem.len() >= STEM_LEN_MIN)?;
        Some([stem, instead].concat())
    });
    let mut stem = cut.unwrap_or_else(|| word.to_owned());
    if stem.len() > STEM_LEN_MIN && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

/// Splits a name into words with spaces between them: `get_user-details` and `getUserDetails`.
pub fn name_to_words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 8);
    let mut previous = ' ';
    for character in name.chars() {
        let between = (previous.is_lowercase() || previous.is_ascii_digit()) && character.is_uppercase();
        if between {
            words.push(' ');
        }
        words.push(if matches!(character, '_' | '-' | '.' | '/' | ':') { ' ' } else { character });
        previous = character;
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text by which a tool or a capability is embedded and searched: name and description. Parameter descriptions are left out,
/// because they make the tools of one server look alike (ALGORITHMS 1).
pub fn searchable_text(name: &str, description: &str) -> String {
    let name = name_to_words(name);
    if description.trim().is_empty() { name } else { format!("{name}. {description}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_stems_without_stop_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("Read the files, please", &["read", "fil"]);
        check("readFile read_file READ-FILES", &["read", "fil", "read", "fil", "read", "fil"]);
        check("copies copied copying", &["copy", "copy", "copy"]);
        check("as is", &[]);
        check("", &[]);
        check("\u{67e5}\u{8be2} api2", &["\u{67e5}", "\u{8be2}", "api2"]);
        check("l'\u{e9}t\u{e9} \u{c9}T\u{c9}", &["l", "ete", "ete"]);
        check("Stra\u{df}e \u{15f}i\u{15f}e", &["strass", "sis"]);
    }

    #[test]
    fn names_are_split_into_words() {
        let check = |name: &str, expected: &str| assert_eq!(name_to_words(name), expected);
        check("get_user-details", "get user details");
        check("Video-to-Audio", "Video to Audio");
        check("getUserByID", "get User By ID");
        check("", "");
        assert_eq!(searchable_text("read_file", "Reads."), "read file. Reads.");
        assert_eq!(searchable_text("read_file", " "), "read file");
    }
}
