//! Clauses: the parts of an intent that each ask for something.

use super::letters::is_ideograph;

/// Clauses per intent, at most (ALGORITHMS 8).
pub const CLAUSES_MAX: usize = 8;
/// Clauses with fewer words are dropped: they say too little on their own.
const CLAUSE_WORDS_MIN: usize = 2;

/// What tells a language, and its words between two clauses, longer ones first.
struct Language {
    small_words: &'static [&'static str],
    conjunctions: &'static [&'static str],
}

/// English, French, German and Spanish; the first one is taken when none is told.
const LANGUAGES: [Language; 4] = [
    Language {
        small_words: &["the", "a", "an", "and", "of", "to", "for", "from", "with", "then", "my", "it", "is", "on"],
        conjunctions: &[
            "and then",
            "and also",
            "after that",
            "followed by",
            "as well as",
            "afterwards",
            "finally",
            "and",
            "then",
        ],
    },
    Language {
        small_words: &[
            "le", "la", "les", "un", "une", "des", "du", "et", "puis", "dans", "avec", "pour", "mon", "ma", "mes", "l", "d",
        ],
        conjunctions: &["et puis", "et ensuite", "apr\u{e8}s cela", "ainsi que", "ensuite", "enfin", "puis", "et"],
    },
    Language {
        small_words: &[
            "der", "die", "das", "den", "dem", "ein", "eine", "einen", "und", "dann", "mit", "f\u{fc}r", "aus", "von", "zu",
        ],
        conjunctions: &["und dann", "und danach", "anschlie\u{df}end", "schlie\u{df}lich", "sowie", "danach", "dann", "und"],
    },
    Language {
        small_words: &["el", "la", "los", "las", "un", "una", "y", "de", "del", "en", "con", "para", "mi", "mis", "luego"],
        conjunctions: &["y luego", "y despu\u{e9}s", "as\u{ed} como", "despu\u{e9}s", "finalmente", "luego", "y"],
    },
];

/// The longest small word, in bytes: most words of an intent are longer and need not be compared.
const SMALL_WORD_BYTES_MAX: usize = 5;

/// Marks that end a sentence or a clause without white space after them: those of Chinese and Japanese.
const WIDE_MARKS: &str = "\u{ff0c}\u{3002}\u{ff1b}\u{ff1a}\u{ff01}\u{ff1f}\u{3001}";
/// "Then", "next", "after that", "and", "finally" in Chinese: words of their own, unlike single characters of the same meaning.
const IDEOGRAPHIC: [&str; 6] =
    ["\u{7136}\u{540e}", "\u{63a5}\u{7740}", "\u{4e4b}\u{540e}", "\u{5e76}\u{4e14}", "\u{4ee5}\u{53ca}", "\u{6700}\u{540e}"];

/// Splits an intent into clauses, at sentence ends, list marks and conjunctions. Empty when the whole intent is one clause.
pub fn clauses(intent: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let conjunctions = language(intent);
    for sentence in sentences(intent) {
        split_at_conjunctions(sentence, conjunctions, &mut clauses);
    }
    clauses.retain(|clause| has_words(clause));
    clauses.truncate(CLAUSES_MAX);
    if let [one] = clauses.as_slice()
        && trimmed(intent) == *one
    {
        clauses.clear();
    }
    clauses
}

/// Whether a clause has as many words as it needs. Each character of a script without spaces is one.
fn has_words(clause: &str) -> bool {
    let ideographs = clause.chars().filter(|character| is_ideograph(*character)).count();
    clause.split_whitespace().count().max(ideographs) >= CLAUSE_WORDS_MIN
}

/// The conjunctions of the language of a text: English, unless more of its words are small words of another one.
fn language(text: &str) -> &'static [&'static str] {
    let mut counts = [0_usize; LANGUAGES.len()];
    let words = text.split(|character: char| !character.is_alphanumeric());
    for word in words.filter(|word| (1..=SMALL_WORD_BYTES_MAX).contains(&word.len())) {
        for (count, language) in counts.iter_mut().zip(&LANGUAGES) {
            *count += usize::from(language.small_words.iter().any(|small| word.eq_ignore_ascii_case(small)));
        }
    }
    let other = counts.iter().zip(&LANGUAGES).skip(1).rev().max_by_key(|(count, _)| **count);
    let (count, language) = other.expect("there are other languages");
    if *count > counts[0] { language.conjunctions } else { LANGUAGES[0].conjunctions }
}

/// Splits at line ends, semicolons, at the punctuation of Chinese and Japanese, and at `.`, `!`, `?`, `:` and `,` where white space
/// follows, so that `example.wav` and `1,000` stay whole.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.char_indices().find(|&(at, character)| match character {
            '\n' | ';' => true,
            character if !character.is_ascii() && WIDE_MARKS.contains(character) => true,
            '.' | '!' | '?' | ':' | ',' => text[at + 1..].starts_with(char::is_whitespace),
            _ => false,
        });
        let (sentence, after) = end.map_or((text, None), |(at, mark)| (&text[..at], Some(&text[at + mark.len_utf8()..])));
        rest = after;
        Some(sentence)
    })
}

fn split_at_conjunctions<'a>(sentence: &'a str, conjunctions: &[&str], clauses: &mut Vec<&'a str>) {
    let mut start = 0;
    let mut at = 0;
    while let Some(gap) = sentence[at..].find(char::is_whitespace) {
        let word_from = at + gap + sentence[at + gap..].len() - sentence[at + gap..].trim_start().len();
        if let Some(len) = conjunction_at(&sentence[word_from..], conjunctions) {
            clauses.push(trimmed(&sentence[start..at + gap]));
            start = word_from + len;
            at = start;
        } else if word_from >= sentence.len() {
            break;
        } else {
            at = word_from;
        }
    }
    split_at_ideographs(&sentence[start..], clauses);
}

/// Splits a text without spaces at the Chinese words for "then".
fn split_at_ideographs<'a>(text: &'a str, clauses: &mut Vec<&'a str>) {
    let mut rest = text;
    while !rest.is_ascii()
        && let Some((at, word)) = IDEOGRAPHIC.iter().filter_map(|word| Some((rest.find(word)?, word))).min()
    {
        clauses.push(trimmed(&rest[..at]));
        rest = &rest[at + word.len()..];
    }
    clauses.push(trimmed(rest));
}

/// The length of the conjunction that `text` begins with, if white space follows it.
fn conjunction_at(text: &str, conjunctions: &[&str]) -> Option<usize> {
    let first = text.as_bytes().first().map(u8::to_ascii_lowercase);
    let begins = |conjunction: &&&str| {
        conjunction.as_bytes().first().copied() == first
            && text.get(..conjunction.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(conjunction))
            && text[conjunction.len()..].starts_with(char::is_whitespace)
    };
    conjunctions.iter().find(begins).map(|conjunction| conjunction.len())
}

fn trimmed(clause: &str) -> &str {
    clause.trim_matches(|character: char| {
        character.is_whitespace() || ",.;:-*!?".contains(character) || WIDE_MARKS.contains(character)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(intent: &str, expected: &[&str]) {
        assert_eq!(clauses(intent), expected, "{intent}");
    }

    #[test]
    fn an_intent_is_split_into_its_clauses() {
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

    #[test]
    fn no_small_word_is_longer_than_their_bound_and_conjunctions_begin_with_small_letters() {
        for language in &LANGUAGES {
            assert!(language.small_words.iter().all(|word| (1..=SMALL_WORD_BYTES_MAX).contains(&word.len())));
            assert!(language.conjunctions.iter().all(|word| word.as_bytes()[0].is_ascii_lowercase()));
        }
    }

    #[test]
    fn intents_in_other_languages_are_split_too() {
        check(
            "R\u{e9}serve un vol pour Lyon et loue une voiture, puis envoie le programme",
            &["R\u{e9}serve un vol pour Lyon", "loue une voiture", "envoie le programme"],
        );
        check(
            "Lies die Datei und dann z\u{e4}hle die Zeilen, anschlie\u{df}end schick mir das Ergebnis",
            &["Lies die Datei", "z\u{e4}hle die Zeilen", "schick mir das Ergebnis"],
        );
        check(
            "Busca el archivo y luego env\u{ed}a una copia a mi jefe",
            &["Busca el archivo", "env\u{ed}a una copia a mi jefe"],
        );
        // "First read the file, then count the lines; finally send the report."
        check(
            "\u{8bfb}\u{53d6}\u{6587}\u{4ef6}\u{ff0c}\u{7136}\u{540e}\u{7edf}\u{8ba1}\u{884c}\u{6570}\u{6700}\u{540e}\u{53d1}\u{9001}\u{62a5}\u{544a}\u{3002}",
            &["\u{8bfb}\u{53d6}\u{6587}\u{4ef6}", "\u{7edf}\u{8ba1}\u{884c}\u{6570}", "\u{53d1}\u{9001}\u{62a5}\u{544a}"],
        );
        check("\u{622a}\u{56fe}", &[]);
    }

    #[test]
    fn small_words_of_other_languages_do_not_split_english() {
        check("plot the values of x against y in a chart", &[]);
        check("find out whether the patients die of it", &[]);
        check("book a flight to La Paz and rent a car", &["book a flight to La Paz", "rent a car"]);
    }
}
