//! What a user asked for, out of the text that reached the model: without what the agent's program added, without pasted material, cut to
//! the request.

use pml_core::redact::Redactor;

use crate::run::INTENT_LEN_MAX;

/// How much of a message is looked at, in bytes.
const LOOKED_AT_MAX: usize = 128 << 10;
/// A line longer than this was pasted, or written by a program.
const LINE_LEN_MAX: usize = 1_500;

/// Elements that programs put around or into the user's words. Their content is not a request.
const ADDED_ELEMENTS: [&str; 24] = [
    "system-reminder",
    "system_reminder",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "command-message",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "user-prompt-submit-hook",
    "ide_opened_file",
    "ide_selection",
    "environment_context",
    "environment_details",
    "user_instructions",
    "permissions",
    "collaboration_mode",
    "skill",
    "turn_aborted",
    "task-notification",
    "attached_files",
    "file",
    "document",
    "documents",
];

/// Beginnings of messages that a program wrote as a whole.
const ADDED_MESSAGES: [&str; 5] = [
    "Caveat: The messages below were generated",
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "Base directory for this skill:",
];

/// Returns the request in a message, without secrets; `None` if there is none.
pub(crate) fn request(message: &str, redactor: &Redactor) -> Option<String> {
    let message = message[..message.floor_char_boundary(LOOKED_AT_MAX)].trim();
    if ADDED_MESSAGES.iter().any(|beginning| message.starts_with(beginning)) {
        return None;
    }
    let words = without_elements(message);
    let words = slash_command(&words).unwrap_or(words);
    // Secrets go first: one that is cut, or whose context is removed, is no longer recognised.
    let words = redactor.text(&words).unwrap_or(words);
    let own = own_words(&words);
    let words = if own.is_empty() { flat(&words) } else { own };
    Some(cut_to_sentence(words)).filter(|words| words.chars().any(char::is_alphanumeric))
}

/// Removes the elements of [`ADDED_ELEMENTS`]; one that is not closed reaches to the end.
fn without_elements(text: &str) -> String {
    let mut kept = String::with_capacity(text.len().min(4 << 10));
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        let (before, tag) = rest.split_at(open);
        kept.push_str(before);
        let name = element_name(tag);
        if !ADDED_ELEMENTS.contains(&name) {
            kept.push('<');
            rest = &tag[1..];
            continue;
        }
        let closing = format!("</{name}>");
        rest = match tag.find(&closing) {
            Some(at) => &tag[at + closing.len()..],
            None => "",
        };
    }
    kept.push_str(rest);
    kept
}

fn element_name(tag: &str) -> &str {
    let name = &tag[1..];
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(name.len());
    // "a < b" and "<3" are no elements.
    if name[end..].starts_with(['>', ' ', '\n']) { &name[..end] } else { "" }
}

/// A command of the agent's program is what was typed: its name and its arguments.
fn slash_command(text: &str) -> Option<String> {
    let inside = |name: &str| {
        let begin = text.find(&format!("<{name}>"))? + name.len() + 2;
        let len = text[begin..].find(&format!("</{name}>"))?;
        Some(text[begin..begin + len].trim())
    };
    let command = inside("command-name")?;
    Some(format!("{command} {}", inside("command-args").unwrap_or_default()))
}

/// Returns the lines that a person wrote, in one line: without code blocks, quotations, tables, logs and diffs.
fn own_words(text: &str) -> String {
    let mut in_block = false;
    let mut own = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            in_block = !in_block;
        } else if !in_block && !is_pasted(line) {
            own.push(line);
        }
    }
    flat(&own.join("\n"))
}

fn is_pasted(line: &str) -> bool {
    let trimmed = line.trim_start();
    let is_indented_code = line.starts_with("    ") || line.starts_with('\t');
    let is_quoted = [">", "|", "+++", "---", "@@", "diff --git", "Traceback (most recent", "$ ", "[Image", "[Pasted text"]
        .iter()
        .any(|beginning| trimmed.starts_with(beginning));
    line.len() > LINE_LEN_MAX || is_indented_code || is_quoted || is_frame(trimmed) || is_log(trimmed)
}

/// A line of a stack trace.
fn is_frame(line: &str) -> bool {
    (line.starts_with("at ") && line.ends_with(')')) || (line.starts_with("File \"") && line.contains(", line "))
}

/// A line that begins with a date or a level in brackets.
fn is_log(line: &str) -> bool {
    let digits = line.bytes().take(4).filter(u8::is_ascii_digit).count();
    let is_dated = digits == 4 && line.as_bytes().get(4) == Some(&b'-') && line.as_bytes().get(7) == Some(&b'-');
    let levels = ["[INFO", "[WARN", "[ERROR", "[DEBUG", "INFO ", "WARN ", "DEBUG ", "ERROR "];
    is_dated || levels.iter().any(|level| line.starts_with(level))
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Cuts after the last sentence that fits, or else after the last word.
fn cut_to_sentence(mut text: String) -> String {
    if text.len() <= INTENT_LEN_MAX {
        return text;
    }
    let room = &text[..text.floor_char_boundary(INTENT_LEN_MAX)];
    let sentence = room.rfind(['.', '!', '?']).map(|at| at + 1).filter(|end| *end > INTENT_LEN_MAX / 4);
    let end = sentence.or_else(|| room.rfind(' ')).unwrap_or(room.len());
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<&str>) {
        assert_eq!(request(message, &Redactor::builtin()).as_deref(), expected, "{message}");
    }

    #[test]
    fn what_the_program_added_is_removed() {
        check("<system-reminder>\nuse the todo list\n</system-reminder>\nFix the login test", Some("Fix the login test"));
        check("Fix it <system-reminder>never closed", Some("Fix it"));
        check("<environment_context>\n <cwd>/srv</cwd>\n</environment_context>", None);
        check("<ide_opened_file>The user opened /srv/a.rs</ide_opened_file> why is this slow?", Some("why is this slow?"));
        check("Caveat: The messages below were generated by the user while running local commands.", None);
        check("# AGENTS.md instructions for /srv/app\n\nuse tabs", None);
        check(
            "<command-name>/fix</command-name>\n<command-message>fix</command-message>\n<command-args>issue 7</command-args>",
            Some("/fix issue 7"),
        );
    }

    #[test]
    fn words_that_look_like_elements_stay() {
        check("is a < b and b > c? I <3 it, use Vec<String>", Some("is a < b and b > c? I <3 it, use Vec<String>"));
        check("put it in a <div> please", Some("put it in a <div> please"));
    }

    #[test]
    fn pasted_material_is_removed() {
        check("Why does this fail?\n```rust\nfn main() {}\n```\nPlease fix.", Some("Why does this fail? Please fix."));
        check(
            "Look:\n2026-01-31 12:00:00 ERROR x\n[INFO] y\n    indented\n> quoted\nand repair it",
            Some("Look: and repair it"),
        );
        check("Traceback (most recent call last):\n  File \"a.py\", line 3, in x\nexplain", Some("explain"));
        check("```\nonly code\n```", Some("``` only code ```"));
        check(&format!("Sum this up\n{}", "x".repeat(5_000)), Some("Sum this up"));
    }

    #[test]
    fn long_requests_are_cut_after_a_sentence() {
        let long = format!("First do this. {}", "Then do that as well. ".repeat(200));
        let cut = request(&long, &Redactor::builtin()).unwrap();
        assert!(cut.len() <= INTENT_LEN_MAX && cut.ends_with("as well."), "{cut}");
        let words = request(&"word ".repeat(2_000), &Redactor::builtin()).unwrap();
        assert!(words.len() <= INTENT_LEN_MAX && words.ends_with("word"));
        let wide = request(&"\u{e9}".repeat(740), &Redactor::builtin()).unwrap();
        assert_eq!(wide.len(), INTENT_LEN_MAX);
    }

    #[test]
    fn secrets_are_removed_before_the_text_is_cut() {
        let secret = format!("deploy with password={} {}", "hunter2hunter2", "and more. ".repeat(300));
        assert!(!request(&secret, &Redactor::builtin()).unwrap().contains("hunter2"));
    }

    #[test]
    fn empty_messages_are_no_requests() {
        for empty in ["", "   \n", "...", "<system-reminder>x</system-reminder>"] {
            check(empty, None);
        }
    }
}
