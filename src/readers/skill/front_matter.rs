//! The front matter of a skill: the part of YAML that skills use. Members are texts (plain, quoted, or blocks after `>` and `|`), lists
//! of texts and maps of texts; anything else is refused with its line.

use std::collections::BTreeMap;

use super::SkillError;

/// The value of a member.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Member {
    Text(String),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
}

/// Members of a front matter, at most.
const MEMBERS_MAX: usize = 100;

/// Members in their order.
type Members = Vec<(String, Member)>;

/// Splits a file into the members of its front matter and its body.
pub(super) fn parse(text: &str) -> Result<(Members, &str), SkillError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---").and_then(|rest| rest.trim_start_matches([' ', '\r']).strip_prefix('\n'));
    let rest = rest.ok_or(SkillError::NoFrontMatter)?;
    let mut lines = Vec::new();
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end();
        if line == "---" {
            return Ok((members(&lines)?, &rest[at..]));
        }
        lines.push(line);
    }
    Err(SkillError::NoFrontMatter)
}

fn members(lines: &[&str]) -> Result<Vec<(String, Member)>, SkillError> {
    let mut members = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let number = at + 2;
        let line = lines[at];
        at += 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let refused = |problem| SkillError::Line { line: number, problem };
        if line.starts_with([' ', '\t']) {
            return Err(refused("it is indented, but belongs to no member"));
        }
        let (name, value) = split(line).ok_or_else(|| refused("it is not 'name: value'"))?;
        let begin = at;
        while lines
            .get(at)
            .is_some_and(|next| next.trim().is_empty() || next.starts_with([' ', '\t']) || next.starts_with("- "))
        {
            at += 1;
        }
        if members.len() >= MEMBERS_MAX {
            return Err(refused("there are too many members"));
        }
        members.push((unquoted(name).map_err(refused)?, member(value, &lines[begin..at]).map_err(refused)?));
    }
    Ok(members)
}

/// Splits at the first colon that a space or the end follows.
fn split(line: &str) -> Option<(&str, &str)> {
    let at =
        line.match_indices(':').map(|(at, _)| at).find(|at| line[at + 1..].is_empty() || line[at + 1..].starts_with(' '))?;
    Some((line[..at].trim(), line[at + 1..].trim())).filter(|(name, _)| !name.is_empty())
}

fn member(value: &str, block: &[&str]) -> Result<Member, &'static str> {
    let value_only = without_comment(value);
    match value_only {
        "|" | "|-" | "|+" => Ok(Member::Text(dedented(block).join("\n").trim_end().to_owned())),
        ">" | ">-" | ">+" => Ok(Member::Text(folded(&dedented(block)))),
        "" => nested(block),
        _ if value_only.starts_with('[') => flow_list(value_only),
        _ if value_only.starts_with(['{', '&', '*', '!', '@', '`', '%']) => Err("values of this form are not read"),
        _ => {
            // A text may go on in indented lines; without quotes, comments may stand between them.
            let is_quoted = value_only.starts_with(['"', '\'']);
            let further = block.iter().map(|line| line.trim());
            let further = further.filter(|line| is_quoted || !line.starts_with('#'));
            let further = further.map(|line| if is_quoted { line } else { without_comment(line) });
            let joined = std::iter::once(value_only).chain(further).filter(|line| !line.is_empty());
            Ok(Member::Text(unquoted(&joined.collect::<Vec<_>>().join(" "))?))
        }
    }
}

fn nested(block: &[&str]) -> Result<Member, &'static str> {
    let lines: Vec<&str> =
        block.iter().map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if lines.is_empty() {
        return Ok(Member::Text(String::new()));
    }
    if lines.iter().all(|line| line.starts_with("- ")) {
        return Ok(Member::List(lines.iter().map(|line| unquoted(without_comment(&line[2..]))).collect::<Result<_, _>>()?));
    }
    let pair = |line: &&str| {
        let (name, value) = split(line).ok_or("it is not a map of 'name: value'")?;
        Ok((unquoted(name)?, unquoted(without_comment(value))?))
    };
    lines.iter().map(pair).collect::<Result<_, _>>().map(Member::Map)
}

fn flow_list(value: &str) -> Result<Member, &'static str> {
    let inside = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or("the list is not closed")?;
    let items = inside.split(',').map(str::trim).filter(|item| !item.is_empty());
    Ok(Member::List(items.map(unquoted).collect::<Result<_, _>>()?))
}

/// Lines without the indentation that all of them have.
fn dedented<'a>(block: &[&'a str]) -> Vec<&'a str> {
    let indent = |line: &&&str| line.len() - line.trim_start_matches(' ').len();
    let least = block.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(&line)).min().unwrap_or(0);
    block.iter().map(|line| line.get(least..).unwrap_or("")).collect()
}

/// Lines joined by spaces; an empty line is a line break.
fn folded(lines: &[&str]) -> String {
    let paragraphs = lines.split(|line| line.trim().is_empty());
    let paragraphs: Vec<String> = paragraphs.map(|lines| lines.join(" ")).filter(|text| !text.is_empty()).collect();
    paragraphs.join("\n")
}

fn without_comment(value: &str) -> &str {
    if value.starts_with(['"', '\'']) {
        return value;
    }
    value.split(" #").next().unwrap_or(value).trim()
}

/// Removes quotes: double ones have JSON's escapes, single ones are doubled inside.
fn unquoted(value: &str) -> Result<String, &'static str> {
    if let Some(inside) = value.strip_prefix('\'') {
        let inside = inside.strip_suffix('\'').ok_or("the quoted text is not closed")?;
        return Ok(inside.replace("''", "'"));
    }
    if value.starts_with('"') {
        return serde_json::from_str(value).map_err(|_| "the quoted text cannot be read");
    }
    Ok(value.to_owned())
}

/// A text in double quotes: JSON strings are YAML, if they are ASCII or printable.
pub(super) fn quoted(text: &str) -> String {
    let printable: String = text.chars().filter(|c| !c.is_control()).collect();
    serde_json::Value::from(printable).to_string()
}
