//! What a user's next words say about the run before: a small list of English phrases. Whatever is concluded from them is marked as
//! inferred.

/// What the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    /// The same request goes on: "yes", "continue".
    Continues,
    /// The result was not what was wanted.
    Objects,
    Approves,
    /// Nothing about the run before.
    Silent,
}

/// The cue, and whether the words say nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) cue: Cue,
    pub(crate) is_bare: bool,
}

/// Most words of a message that says nothing but its cue.
const BARE_WORDS_MAX: usize = 5;
/// How far into a message an objection or approval is looked for, in words: later ones are about something else.
const LOOKED_AT_WORDS: usize = 14;

/// Whole messages.
const CONTINUES: [&str; 17] = [
    "yes",
    "y",
    "yep",
    "yeah",
    "yes please",
    "ok",
    "okay",
    "sure",
    "continue",
    "please continue",
    "go on",
    "go ahead",
    "proceed",
    "keep going",
    "carry on",
    "do it",
    "go",
];

/// First words. Those with an exception below do not count if it matches.
const OBJECTS_FIRST: [&str; 19] = [
    "no",
    "nope",
    "wrong",
    "incorrect",
    "not quite",
    "not what",
    "try again",
    "undo",
    "revert",
    "stop",
    "wait",
    "hmm",
    "why did you",
    "you broke",
    "you forgot",
    "you missed",
    "you did not",
    "same error",
    "same problem",
];
const OBJECTS_FIRST_EXCEPT: [&str; 6] = ["no problem", "no worries", "no need", "wait for", "stop the", "undo the"];

/// Anywhere among the first words.
const OBJECTS: [&str; 29] = [
    "that failed",
    "it failed",
    "this failed",
    "that fails",
    "it fails",
    "still fails",
    "still failing",
    "still broken",
    "still wrong",
    "still not",
    "still get",
    "still see",
    "does not work",
    "did not work",
    "is not working",
    "not working",
    "not what i",
    "that is wrong",
    "this is wrong",
    "that is not",
    "this is not",
    "is incorrect",
    "not correct",
    "is broken",
    "you broke",
    "got an error",
    "getting an error",
    "made it worse",
    "do not do that",
];

const APPROVES: [&str; 21] = [
    "thanks",
    "thank you",
    "thx",
    "great",
    "perfect",
    "awesome",
    "excellent",
    "nice",
    "cool",
    "well done",
    "good job",
    "good work",
    "looks good",
    "lgtm",
    "that works",
    "it works",
    "works now",
    "works great",
    "love it",
    "that worked",
    "it worked",
];

/// Judges a message by its first words.
pub(crate) fn judge(message: &str) -> Judgement {
    let words = normal_words(message);
    let text = words.join(" ");
    let is_short = words.len() <= BARE_WORDS_MAX && normal_words_len(message) <= BARE_WORDS_MAX;
    let begins = |phrases: &[&str]| phrases.iter().any(|phrase| starts_with_words(&text, phrase));
    let holds = |phrases: &[&str]| phrases.iter().any(|phrase| has_words(&text, phrase));
    let cue = if is_short && CONTINUES.contains(&text.as_str()) {
        Cue::Continues
    } else if begins(&APPROVES) && !has_words(&text, "but") {
        Cue::Approves
    } else if (begins(&OBJECTS_FIRST) && !begins(&OBJECTS_FIRST_EXCEPT)) || holds(&OBJECTS) {
        Cue::Objects
    } else if holds(&APPROVES) {
        Cue::Approves
    } else {
        Cue::Silent
    };
    Judgement { cue, is_bare: is_short && cue != Cue::Silent }
}

/// The first words in lower case, without punctuation and short forms.
fn normal_words(message: &str) -> Vec<String> {
    let words = message.split_whitespace().take(LOOKED_AT_WORDS).flat_map(|word| {
        let word = word.to_lowercase().replace('\u{2019}', "'");
        let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        match word.as_str() {
            "that's" | "thats" => vec!["that".to_owned(), "is".to_owned()],
            "it's" => vec!["it".to_owned(), "is".to_owned()],
            "doesn't" | "doesnt" => vec!["does".to_owned(), "not".to_owned()],
            "didn't" | "didnt" => vec!["did".to_owned(), "not".to_owned()],
            "don't" | "dont" => vec!["do".to_owned(), "not".to_owned()],
            "isn't" | "isnt" => vec!["is".to_owned(), "not".to_owned()],
            _ => vec![word],
        }
    });
    words.filter(|word| !word.is_empty()).collect()
}

fn normal_words_len(message: &str) -> usize {
    message.split_whitespace().take(BARE_WORDS_MAX + 1).count()
}

fn starts_with_words(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

fn has_words(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let ends = text[at + phrase.len()..].is_empty() || text[at + phrase.len()..].starts_with(' ');
        ends && (at == 0 || text.as_bytes()[at - 1] == b' ')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cue: Cue, is_bare: bool, messages: &[&str]) {
        for message in messages {
            assert_eq!(judge(message), Judgement { cue, is_bare }, "{message}");
        }
    }

    #[test]
    fn objections_are_found() {
        check(
            Cue::Objects,
            true,
            &["no", "No!", "Nope.", "that failed", "It doesn't work", "still broken", "try again", "Undo that"],
        );
        check(
            Cue::Objects,
            false,
            &[
                "no, use the staging database instead of production",
                "That's not what I asked for, rename the function as well",
                "I ran it and got an error: connection refused",
                "the build still fails with the message from before",
                "thanks, but it still fails on my machine",
                "same error as in the run before this one",
                "It didn\u{2019}t work, the port is already in use there",
            ],
        );
    }

    #[test]
    fn approvals_and_continuations_are_found() {
        check(Cue::Approves, true, &["thanks!", "Perfect.", "Great, thank you", "it works"]);
        check(
            Cue::Approves,
            false,
            &[
                "Great, now write the release notes for it",
                "great, now search for what is broken",
                "no problem, that works, next the docs please",
            ],
        );
        check(Cue::Continues, true, &["yes", "Continue.", "go ahead", "OK", "yes please"]);
    }

    #[test]
    fn requests_say_nothing_about_the_run_before() {
        check(
            Cue::Silent,
            false,
            &[
                "",
                "add a test for the parser",
                "notify the team when the deployment has ended",
                "nodes should be sorted by name",
                "stop the server on port 8080 and start it again",
                "wait for the build and then publish it",
                "yes, and also add a changelog entry for the users",
                "write a greatest common divisor function",
                "in a long message the first words count and what comes much later about something that failed does not",
            ],
        );
    }
}
