//! A learnt capability as a skill: when to use it, its steps and parameters, what failed; statistics in the metadata.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{DESCRIPTION_CHARS_MAX, Skill, name_of};

/// Lines of each part of the body, at most.
const STEPS_MAX: usize = 100;
const INTENTS_MAX: usize = 5;
const FAILURES_MAX: usize = 10;
/// Longest text of a line, in characters.
const LINE_CHARS_MAX: usize = 300;

/// What pml knows about a capability. Its texts have passed the redaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learnt {
    pub id: String,
    pub name: String,
    pub description: String,
    pub steps: Vec<LearntStep>,
    /// Names of parameters with the texts that describe them.
    pub parameters: BTreeMap<String, String>,
    /// What it was used for, the most frequent first.
    pub intents: Vec<String>,
    pub failures: Vec<LearntFailure>,
    pub runs: u64,
    pub successes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntStep {
    pub tool: String,
    pub purpose: String,
    /// The numbers of the steps whose results it uses, from 1.
    pub uses: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LearntFailure {
    pub tool: String,
    pub kind: String,
    pub count: u64,
    /// The tool that worked instead.
    pub instead: Option<String>,
}

impl Learnt {
    /// Returns the skill. The same knowledge gives the same text, and the name follows from the id and the first name.
    pub fn skill(&self) -> Skill {
        let mut metadata = BTreeMap::new();
        metadata.insert("pml-capability".to_owned(), self.id.clone());
        metadata.insert("pml-runs".to_owned(), self.runs.to_string());
        metadata.insert("pml-successes".to_owned(), self.successes.to_string());
        Skill {
            name: name_of(&self.name, &self.id),
            description: self.described(),
            metadata,
            body: self.body(),
            ..Skill::default()
        }
    }

    fn described(&self) -> String {
        let mut text = line(&self.description);
        if text.is_empty() {
            text = line(&self.name);
        }
        if let Some(intent) = self.intents.first() {
            write!(text, " Use when asked to: {}", line(intent)).expect("writing to a string");
        }
        text.chars().take(DESCRIPTION_CHARS_MAX).collect()
    }

    fn body(&self) -> String {
        let mut body = format!("# {}\n", line(&self.name));
        section(&mut body, "When to use", self.intents.iter().take(INTENTS_MAX).map(|intent| format!("- {}", line(intent))));
        let step = |(at, step): (usize, &LearntStep)| {
            let purpose = line(&step.purpose);
            let uses: Vec<String> = step.uses.iter().map(ToString::to_string).collect();
            let purpose = if purpose.is_empty() { String::new() } else { format!(": {purpose}") };
            let uses = if uses.is_empty() { String::new() } else { format!(" (uses the result of step {})", uses.join(", ")) };
            format!("{}. `{}`{purpose}{uses}", at + 1, code(&step.tool))
        };
        section(&mut body, "Steps", self.steps.iter().enumerate().take(STEPS_MAX).map(step));
        let parameters = self.parameters.iter().map(|(name, text)| format!("- `{}`: {}", code(name), line(text)));
        section(&mut body, "Parameters", parameters.take(STEPS_MAX));
        let failure = |failure: &LearntFailure| {
            let instead =
                failure.instead.as_ref().map_or_else(String::new, |tool| format!("; `{}` worked instead", code(tool)));
            format!("- `{}` failed {} times ({}){instead}", code(&failure.tool), failure.count, line(&failure.kind))
        };
        section(&mut body, "What failed", self.failures.iter().take(FAILURES_MAX).map(failure));
        let record = format!("{} of {} runs succeeded.", self.successes, self.runs);
        section(&mut body, "Record", std::iter::once(record));
        body
    }
}

fn section(body: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if !lines.is_empty() {
        write!(body, "\n## {title}\n\n{}\n", lines.join("\n")).expect("writing to a string");
    }
}

/// Text of others in one line, so that it cannot begin a section or an element of its own.
fn line(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let flat: String = flat.chars().filter(|c| !c.is_control()).take(LINE_CHARS_MAX).collect();
    flat.replace('<', "&lt;").trim_start_matches('#').to_owned()
}

fn code(text: &str) -> String {
    line(text).replace('`', "'")
}
