//! References of arguments to results: `$OUTPUT[task]` with a path, such as `.items[0].name` or `["any key"]`.
//!
//! A string that is one reference becomes the value itself; inside a longer string a reference becomes text: strings as they are, other
//! values as JSON. `$$OUTPUT[` stands for the text `$OUTPUT[`. What a result holds is never read for references.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::id::StepId;

const OPENING: &str = "$OUTPUT[";
/// Members or elements that an error lists, at most.
const LISTED_MAX: usize = 8;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Member(String),
    Element(usize),
}

/// A reference to a result, or to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    task: String,
    path: Vec<Segment>,
}

/// A piece of a string.
enum Piece<'a> {
    Text(&'a str),
    Reference(Reference, &'a str),
}

/// The tasks that the arguments refer to, in order of appearance.
pub(super) fn tasks_in(arguments: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut tasks = Vec::new();
    let mut waiting: Vec<&Value> = arguments.values().rev().collect();
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => {
                for piece in pieces(text)? {
                    if let Piece::Reference(reference, _) = piece {
                        tasks.push(reference.task);
                    }
                }
            }
            Value::Array(items) => waiting.extend(items.iter().rev()),
            Value::Object(members) => waiting.extend(members.values().rev()),
            _ => {}
        }
    }
    Ok(tasks)
}

/// The arguments with every reference replaced by what `results` holds. An error says which reference has no value, and what there is.
pub fn resolve(
    arguments: &Map<String, Value>,
    results: &BTreeMap<StepId, impl AsRef<Value>>,
) -> Result<Map<String, Value>, String> {
    let mut find = |task: &str| results.iter().find(|(id, _)| id.as_str() == task).map(|(_, value)| value.as_ref());
    resolve_members(arguments, &mut find)
}

fn resolve_members<'a>(
    members: &Map<String, Value>,
    find: &mut impl FnMut(&str) -> Option<&'a Value>,
) -> Result<Map<String, Value>, String> {
    members.iter().map(|(key, value)| Ok((key.clone(), resolve_value(value, find)?))).collect()
}

fn resolve_value<'a>(value: &Value, find: &mut impl FnMut(&str) -> Option<&'a Value>) -> Result<Value, String> {
    match value {
        Value::String(text) => resolve_text(text, find),
        Value::Array(items) => items.iter().map(|item| resolve_value(item, find)).collect::<Result<_, _>>().map(Value::Array),
        Value::Object(members) => resolve_members(members, find).map(Value::Object),
        other => Ok(other.clone()),
    }
}

fn resolve_text<'a>(text: &str, find: &mut impl FnMut(&str) -> Option<&'a Value>) -> Result<Value, String> {
    let pieces = pieces(text)?;
    if let [Piece::Reference(reference, written)] = pieces.as_slice() {
        return look_up(reference, written, find).cloned();
    }
    let mut resolved = String::with_capacity(text.len());
    for piece in pieces {
        match piece {
            Piece::Text(text) => resolved.push_str(text),
            Piece::Reference(reference, written) => match look_up(&reference, written, find)? {
                Value::String(text) => resolved.push_str(text),
                other => resolved.push_str(&other.to_string()),
            },
        }
    }
    Ok(Value::String(resolved))
}

fn look_up<'a>(
    reference: &Reference,
    written: &str,
    find: &mut impl FnMut(&str) -> Option<&'a Value>,
) -> Result<&'a Value, String> {
    let mut value = find(&reference.task).ok_or_else(|| format!("{written}: there is no result of '{}'", reference.task))?;
    for segment in &reference.path {
        let inner = match segment {
            Segment::Member(name) => value.get(name),
            Segment::Element(at) => value.get(at),
        };
        value = inner.ok_or_else(|| format!("{written}: the result has no {}; {}", describe(segment), contents(value)))?;
    }
    Ok(value)
}

fn describe(segment: &Segment) -> String {
    match segment {
        Segment::Member(name) => format!("member '{name}'"),
        Segment::Element(at) => format!("element {at}"),
    }
}

/// What could have been referred to instead. Names of members only, never values.
fn contents(value: &Value) -> String {
    match value {
        Value::Object(members) if members.is_empty() => "it is an empty object there".to_owned(),
        Value::Object(members) => {
            let names: Vec<&str> = members.keys().take(LISTED_MAX).map(String::as_str).collect();
            let more = if members.len() > LISTED_MAX { ", ..." } else { "" };
            format!("it has {}{more} there", names.join(", "))
        }
        Value::Array(items) => format!("it is a list of {} there", items.len()),
        Value::String(_) => "it is a text there".to_owned(),
        _ => "it is a single value there".to_owned(),
    }
}

/// Splits a string into text and references.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(OPENING) {
        if rest[..at].ends_with('$') {
            // The escaped form: the text without its first dollar sign.
            pieces.push(Piece::Text(&rest[..at - 1]));
            pieces.push(Piece::Text(OPENING));
            rest = &rest[at + OPENING.len()..];
            continue;
        }
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let (reference, len) = parse(&rest[at..])?;
        pieces.push(Piece::Reference(reference, &rest[at..at + len]));
        rest = &rest[at + len..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Parses the reference at the start of `text`; returns it with its length.
fn parse(text: &str) -> Result<(Reference, usize), String> {
    let inner = &text[OPENING.len()..];
    let end = inner.find(']').ok_or_else(|| format!("'{OPENING}' is not closed with ']'"))?;
    let task = inner[..end].to_owned();
    let mut at = OPENING.len() + end + 1;
    let mut path = Vec::new();
    while let Some((segment, len)) = parse_segment(&text[at..])? {
        path.push(segment);
        at += len;
    }
    Ok((Reference { task, path }, at))
}

/// Parses `.name`, `[7]` or `["name"]` at the start of `text`; `None` if the path ends here.
fn parse_segment(text: &str) -> Result<Option<(Segment, usize)>, String> {
    if let Some(name) = text.strip_prefix('.') {
        let len = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(name.len());
        return Ok((len > 0).then(|| (Segment::Member(name[..len].to_owned()), len + 1)));
    }
    let Some(inner) = text.strip_prefix('[') else { return Ok(None) };
    let digits = inner.find(|c: char| !c.is_ascii_digit()).unwrap_or(inner.len());
    if digits > 0 && inner[digits..].starts_with(']') {
        let element = inner[..digits].parse().map_err(|_| format!("'{}' is no position", &inner[..digits]))?;
        return Ok(Some((Segment::Element(element), digits + 2)));
    }
    let Some(quoted) = inner.strip_prefix('"') else { return Ok(None) };
    let end = quoted.find("\"]").ok_or_else(|| "a quoted member of a reference is not closed with '\"]'".to_owned())?;
    Ok(Some((Segment::Member(quoted[..end].to_owned()), end + 4)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn check(argument: Value, expected: Result<Value, &str>) {
        let result = json!({"items": [{"id": 7, "a key": true}], "name": "x$OUTPUT[a].name", "n": null, "empty": {}});
        let results: BTreeMap<StepId, Arc<Value>> = [("a".parse().unwrap(), Arc::new(result))].into();
        let arguments = Map::from_iter([("x".to_owned(), argument)]);
        let resolved = resolve(&arguments, &results).map(|mut resolved| resolved["x"].take());
        assert_eq!(resolved, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_whole_reference_is_the_value_and_one_inside_a_string_its_text() {
        check(json!("$OUTPUT[a].items[0].id"), Ok(json!(7)));
        check(json!(["$OUTPUT[a].items"]), Ok(json!([[{"id": 7, "a key": true}]])));
        check(json!({"deep": "$OUTPUT[a].items[0][\"a key\"]"}), Ok(json!({"deep": true})));
        check(json!("$OUTPUT[a].n"), Ok(json!(null)));
        check(json!("id $OUTPUT[a].items[0].id."), Ok(json!("id 7.")));
        check(json!("$OUTPUT[a].items[0].id$OUTPUT[a].empty"), Ok(json!("7{}")));
        check(json!(12), Ok(json!(12)));
    }

    #[test]
    fn results_are_not_read_for_references_and_the_mark_can_be_escaped() {
        check(json!("<$OUTPUT[a].name>"), Ok(json!("<x$OUTPUT[a].name>")));
        check(json!("write $$OUTPUT[a] and $OUTPUT"), Ok(json!("write $OUTPUT[a] and $OUTPUT")));
    }

    #[test]
    fn a_missing_part_is_an_error_that_says_what_there_is() {
        check(json!("$OUTPUT[b]"), Err("$OUTPUT[b]: there is no result of 'b'"));
        check(
            json!("$OUTPUT[a].itmes"),
            Err("$OUTPUT[a].itmes: the result has no member 'itmes'; it has empty, items, n, name there"),
        );
        check(json!("$OUTPUT[a].items[3]"), Err("$OUTPUT[a].items[3]: the result has no element 3; it is a list of 1 there"));
        check(json!("$OUTPUT[a].name.x"), Err("$OUTPUT[a].name.x: the result has no member 'x'; it is a text there"));
        check(json!("$OUTPUT[a"), Err("'$OUTPUT[' is not closed with ']'"));
    }
}
