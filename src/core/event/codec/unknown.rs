//! Members of an event's data, or of a whole run, that pml does not know. Producers add members of their own, so these are ignored and
//! reported; a member whose name is that of a known one with a slip of the pen is refused, since what it says would be lost.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// Most names of ignored members that are reported, and most levels of an event at which members are removed.
const REPORTED_MAX: usize = 16;
const LEVELS_MAX: usize = 8;
/// Longest name that is compared with known ones, which are shorter.
const COMPARED_LEN_MAX: usize = 32;

/// Calls `read` with `json`, which is at path `root`, without the members that it calls unknown. Returns what it read and the paths of
/// those members.
pub(in crate::event) fn without_unknown_members<T>(
    root: &str,
    json: &str,
    read: impl Fn(&str) -> Result<T, Refusal>,
) -> Result<(T, Vec<String>), Refusal> {
    let mut text = Cow::Borrowed(json);
    let mut ignored = Vec::new();
    for _ in 0..LEVELS_MAX {
        let (field, known) = match read(&text) {
            Err(Refusal::UnknownMember { field, known }) => (field, known),
            outcome => return outcome.map(|event| (event, ignored)),
        };
        let mut data: Value = serde_json::from_str(&text)
            .map_err(|error| Refusal::Malformed { field: super::root_name(root).to_owned(), problem: error.to_string() })?;
        let path = field.strip_prefix(root).map_or(&*field, |path| path.trim_start_matches('.'));
        let (parent, _) = path.rsplit_once('.').unwrap_or(("", path));
        let known: Vec<&str> = known.split(", ").collect();
        remove_unknown(&mut data, parent, root, &known, &mut ignored)?;
        text = Cow::Owned(data.to_string());
    }
    read(&text).map(|event| (event, ignored))
}

/// Removes the unknown members of the object at `path`; of a list on the way, those of all its elements.
fn remove_unknown(
    value: &mut Value,
    path: &str,
    shown: &str,
    known: &[&str],
    ignored: &mut Vec<String>,
) -> Result<(), Refusal> {
    if let Value::Array(elements) = value {
        return elements.iter_mut().try_for_each(|element| remove_unknown(element, path, shown, known, ignored));
    }
    let Value::Object(members) = value else { return Ok(()) };
    if path.is_empty() {
        return remove_members(members, shown, known, ignored);
    }
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let head = head.split('[').next().unwrap_or(head);
    match members.get_mut(head) {
        Some(member) => remove_unknown(member, rest, &joined(shown, head), known, ignored),
        // The name itself has a dot.
        None => remove_members(members, shown, known, ignored),
    }
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

fn remove_members(
    members: &mut Map<String, Value>,
    shown: &str,
    known: &[&str],
    ignored: &mut Vec<String>,
) -> Result<(), Refusal> {
    let unknown: Vec<String> = members.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
    for name in unknown {
        let field = joined(shown, &name);
        if let Some(meant) = known.iter().find(|known| !members.contains_key(**known) && is_misspelt(&name, known)) {
            return Err(Refusal::Misspelt { field, meant: (*meant).to_owned() });
        }
        members.remove(&name);
        if ignored.len() < REPORTED_MAX && !ignored.contains(&field) {
            ignored.push(field);
        }
    }
    Ok(())
}

/// Whether `name` was probably meant to be `known`: the same but for case and separators, or within one edit, two for long names.
fn is_misspelt(name: &str, known: &str) -> bool {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(COMPARED_LEN_MAX).collect()
    };
    let (name, known) = (plain(name), plain(known));
    edits(&name, &known) <= if known.len() < 6 { 1 } else { 2 }
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string alignment).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_told_from_another_name() {
        for (name, known) in [
            ("intnet", "intent"),
            ("sesion", "session"),
            ("dependsOn", "depends_on"),
            ("Duration-MS", "duration_ms"),
            ("tol", "tool"),
        ] {
            assert!(is_misspelt(name, known), "{name} for {known}");
        }
        for (name, known) in
            [("model", "intent"), ("user", "step"), ("cost", "tool"), ("result", "result_summary"), ("status", "success")]
        {
            assert!(!is_misspelt(name, known), "{name} for {known}");
        }
    }
}
