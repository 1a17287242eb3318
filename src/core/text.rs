//! Words and clauses of texts that people and servers wrote. Deterministic and without a dictionary.

/// Clauses per intent, at most (ALGORITHMS 8).
pub const CLAUSES_MAX: usize = 8;
/// Clauses with fewer words are dropped: they say too little on their own.
const CLAUSE_WORDS_MIN: usize = 2;

/// Words left out of the index. The list is short on purpose: BM25 gives frequent words little weight by itself.
const STOP_WORDS: [&str; 38] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "for", "from", "i", "in", "is", "it", "like", "me", "my",
    "need", "of", "on", "or", "please", "that", "the", "this", "to", "want", "was", "we", "will", "with", "would", "you",
    "your", "our", "us",
];

/// Whether a word in lower case says nothing about what a text is about.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

/// Words between two clauses, besides punctuation.
const CONJUNCTIONS: [&str; 9] =
    ["and then", "and also", "after that", "followed by", "as well as", "afterwards", "finally", "and", "then"];

/// Returns the words of a text: lower-case stems without stop words. Names are split into their parts (`read_file`, `readFile`);
/// every character of a script without spaces is a word.
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
        } else if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
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

/// Han, kana and hangul: written without spaces between words.
fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// Strips English endings, so that `files`, `filing` and `file` become the same. Crude, but applied to questions and texts alike.
fn stem(word: &str) -> String {
    const ENDINGS: [(&str, &str); 7] =
        [("ings", ""), ("ing", ""), ("ies", "y"), ("ied", "y"), ("es", ""), ("ed", ""), ("s", "")];
    const STEM_LEN_MIN: usize = 3;
    let cut = ENDINGS.iter().find_map(|(ending, instead)| {
        let stem = word.strip_suffix(ending).filter(|stem| stem.len() >= STEM_LEN_MIN)?;
        Some(format!("{stem}{instead}"))
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

/// Splits an intent into clauses, at sentence ends, list marks and conjunctions. Empty when the whole intent is one clause.
pub fn clauses(intent: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    for sentence in sentences(intent) {
        split_at_conjunctions(sentence, &mut clauses);
    }
    clauses.retain(|clause| clause.split_whitespace().count() >= CLAUSE_WORDS_MIN);
    clauses.truncate(CLAUSES_MAX);
    if let [one] = clauses.as_slice()
        && trimmed(intent) == *one
    {
        clauses.clear();
    }
    clauses
}

/// Splits at line ends, semicolons, and at `.`, `!`, `?`, `:` and `,` where white space follows, so that `example.wav` and `1,000`
/// stay whole.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.char_indices().find(|&(at, character)| match character {
            '\n' | ';' => true,
            '.' | '!' | '?' | ':' | ',' => text[at + 1..].starts_with(char::is_whitespace),
            _ => false,
        });
        let (sentence, after) = end.map_or((text, None), |(at, _)| (&text[..at], Some(&text[at + 1..])));
        rest = after;
        Some(sentence)
    })
}

fn split_at_conjunctions<'a>(sentence: &'a str, clauses: &mut Vec<&'a str>) {
    let mut start = 0;
    let mut at = 0;
    while let Some(gap) = sentence[at..].find(char::is_whitespace) {
        let word_from = at + gap + sentence[at + gap..].len() - sentence[at + gap..].trim_start().len();
        if let Some(len) = conjunction_at(&sentence[word_from..]) {
            clauses.push(trimmed(&sentence[start..at + gap]));
            start = word_from + len;
            at = start;
        } else if word_from >= sentence.len() {
            break;
        } else {
            at = word_from;
        }
    }
    clauses.push(trimmed(&sentence[start..]));
}

/// The length of the conjunction that `text` begins with, if white space follows it.
fn conjunction_at(text: &str) -> Option<usize> {
    let begins = |conjunction: &&&str| {
        text.get(..conjunction.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(conjunction))
            && text[conjunction.len()..].starts_with(char::is_whitespace)
    };
    CONJUNCTIONS.iter().find(begins).map(|conjunction| conjunction.len())
}

fn trimmed(clause: &str) -> &str {
    clause.trim_matches(|character: char| character.is_whitespace() || ",.;:-*!?".contains(character))
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

    #[test]
    fn an_intent_is_split_into_its_clauses() {
        let check = |intent: &str, expected: &[&str]| assert_eq!(clauses(intent), expected, "{intent}");
        check("take a screenshot", &[]);
        check("take a screenshot.", &[]);
        check("", &[]);
        check(
            "Extract the audio from example.mp4, transcribe the speech, and then apply reverb. Finally draw a waveform",
            &["Extract the audio from example.mp4", "transcribe the speech", "apply reverb", "draw a waveform"],
        );
        check("book a flight and rent a car", &["book a flight", "rent a car"]);
        check("1. find the file\n2. read the file", &["find the file", "read the file"]);
        check("sand and soil", &[]);
        let many = "do it, ".repeat(20);
        assert_eq!(clauses(&many).len(), CLAUSES_MAX);
    }
}
