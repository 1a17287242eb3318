//! Agent Skills as text: `SKILL.md` files, read and written by the published rules.
//!
//! A skill is a folder with `SKILL.md`: a front matter with `name` (1 to 64 lower-case letters, digits and hyphens, equal to the name of
//! the folder) and `description` (at most 1,024 characters), optional members, and a body of instructions below 500 lines.

mod front_matter;
mod learnt;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pml_core::hash::fnv1a;
use pml_core::id::ToolId;

use front_matter::Member;
pub use learnt::{Learnt, LearntFailure, LearntStep};

pub const NAME_LEN_MAX: usize = 64;
pub const DESCRIPTION_CHARS_MAX: usize = 1_024;
pub const COMPATIBILITY_CHARS_MAX: usize = 500;
/// Bodies are read whole by agents, so they stay below this.
pub const BODY_LINES_MAX: usize = 500;
/// Longest file that is read, in bytes.
pub const FILE_LEN_MAX: usize = 1 << 20;
/// The member of the metadata that holds the checksum of what pml wrote.
const CHECKSUM: &str = "pml-checksum";

/// A rule that a skill breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    #[error("the file is {len} bytes long, the limit is {FILE_LEN_MAX}")]
    TooLong { len: usize },
    #[error("the file does not begin with a front matter between two lines '---'")]
    NoFrontMatter,
    #[error("line {line} of the front matter cannot be read: {problem}")]
    Line { line: usize, problem: &'static str },
    #[error("the front matter has no '{0}'")]
    Missing(&'static str),
    #[error("name: '{0}' is not 1 to {NAME_LEN_MAX} lower-case letters, digits and single hyphens")]
    Name(String),
    #[error("name: '{name}' is not the name of the folder, '{folder}'")]
    Folder { name: String, folder: String },
    #[error("{member}: has {chars} characters, the limit is {max}")]
    TooManyCharacters { member: &'static str, chars: usize, max: usize },
    #[error("the body has {0} lines, the limit is {BODY_LINES_MAX}")]
    BodyTooLong(usize),
}

/// A skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    pub allowed_tools: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    pub body: String,
}

impl Skill {
    /// Reads a `SKILL.md`. Members that the rules do not name are ignored; the rules themselves are for [`Self::check`].
    pub fn parse(text: &str) -> Result<Self, SkillError> {
        if text.len() > FILE_LEN_MAX {
            return Err(SkillError::TooLong { len: text.len() });
        }
        let (members, body) = front_matter::parse(text)?;
        let mut skill = Self { body: body.trim().to_owned(), ..Self::default() };
        for (name, member) in members {
            match (name.as_str(), member) {
                ("name", Member::Text(text)) => skill.name = text,
                ("description", Member::Text(text)) => skill.description = text,
                ("license", Member::Text(text)) => skill.license = Some(text),
                ("compatibility", Member::Text(text)) => skill.compatibility = Some(text),
                ("allowed-tools", Member::Text(text)) => {
                    skill.allowed_tools = text.split_whitespace().map(str::to_owned).collect();
                }
                ("allowed-tools", Member::List(tools)) => skill.allowed_tools = tools,
                ("metadata", Member::Map(map)) => skill.metadata = map,
                _ => {}
            }
        }
        if skill.name.is_empty() {
            return Err(SkillError::Missing("name"));
        }
        if skill.description.is_empty() {
            return Err(SkillError::Missing("description"));
        }
        Ok(skill)
    }

    /// Checks the published rules for a skill in a folder of this name.
    pub fn check(&self, folder: &str) -> Result<(), SkillError> {
        if !is_name(&self.name) {
            return Err(SkillError::Name(self.name.clone()));
        }
        if self.name != folder {
            return Err(SkillError::Folder { name: self.name.clone(), folder: folder.to_owned() });
        }
        let within = |member: &'static str, text: &str, max: usize| match text.chars().count() {
            0 => Err(SkillError::Missing(member)),
            chars if chars > max => Err(SkillError::TooManyCharacters { member, chars, max }),
            _ => Ok(()),
        };
        within("description", &self.description, DESCRIPTION_CHARS_MAX)?;
        if let Some(compatibility) = &self.compatibility {
            within("compatibility", compatibility, COMPATIBILITY_CHARS_MAX)?;
        }
        match self.body.lines().count() {
            lines if lines > BODY_LINES_MAX => Err(SkillError::BodyTooLong(lines)),
            _ => Ok(()),
        }
    }

    /// Writes the file, with a checksum by which [`is_unchanged`] finds changes made by hand.
    pub fn to_text(&self) -> String {
        let mut skill = self.clone();
        skill.metadata.remove(CHECKSUM);
        let checksum = format!("{:016x}", fnv1a(skill.plain_text().as_bytes()));
        skill.metadata.insert(CHECKSUM.to_owned(), checksum);
        skill.plain_text()
    }

    fn plain_text(&self) -> String {
        // The name of a skill that was read may be anything; one that follows the rules needs no quotes.
        let is_plain = self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let name = if is_plain { self.name.clone() } else { front_matter::quoted(&self.name) };
        let mut text = format!("---\nname: {name}\ndescription: {}\n", front_matter::quoted(&self.description));
        let optional = [("license", &self.license), ("compatibility", &self.compatibility)];
        for (name, value) in optional.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            writeln!(text, "{name}: {}", front_matter::quoted(value)).expect("writing to a string");
        }
        if !self.allowed_tools.is_empty() {
            let tools = self.allowed_tools.join(" ");
            writeln!(text, "allowed-tools: {}", front_matter::quoted(&tools)).expect("writing to a string");
        }
        if !self.metadata.is_empty() {
            text.push_str("metadata:\n");
            for (name, value) in &self.metadata {
                writeln!(text, "  {name}: {}", front_matter::quoted(value)).expect("writing to a string");
            }
        }
        text.push_str("---\n\n");
        text.push_str(self.body.trim());
        text.push('\n');
        text
    }

    /// The tools that the skill names: in `allowed-tools`, and in backquotes in its body as `server:tool` or `mcp__server__tool`.
    pub fn tools(&self) -> Vec<ToolId> {
        let allowed = self.allowed_tools.iter().map(|tool| tool.split('(').next().unwrap_or(tool));
        let quoted = self.body.split('`').skip(1).step_by(2);
        let mut found: Vec<ToolId> = Vec::new();
        for name in allowed.chain(quoted) {
            let is_named =
                name.starts_with("mcp__") || name.split_once(':').is_some_and(|(_, tool)| !tool.starts_with(['/', ':']));
            let tool = Some(name).filter(|_| is_named).and_then(|name| name.parse().ok());
            if let Some(tool) = tool.filter(|tool| !found.contains(tool)) {
                found.push(tool);
            }
        }
        found
    }
}

/// Whether a file is as pml wrote it, so that it may be written again.
pub fn is_unchanged(text: &str) -> bool {
    Skill::parse(text).is_ok_and(|skill| skill.metadata.contains_key(CHECKSUM) && skill.to_text() == text)
}

/// Whether a name is valid: no hyphen at an end, none after another.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_LEN_MAX).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// A valid name made of any text, and of an id so that equal texts have different names.
pub fn name_of(text: &str, id: &str) -> String {
    const ID_LEN: usize = 8;
    let mut name = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_LEN_MAX - ID_LEN - 1);
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(ID_LEN).collect();
    let joined = format!("{}-{}", name.trim_matches('-'), id.to_ascii_lowercase());
    let joined = joined.trim_matches('-');
    if joined.is_empty() { "skill".to_owned() } else { joined.to_owned() }
}

#[cfg(test)]
mod tests;
