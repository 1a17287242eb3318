//! Redaction of JSON: the values of members with the name of a secret are replaced, all other strings are redacted as text.
//!
//! A JSON Schema describes secrets without holding them: `properties: {password: {type: string}}` is kept, but its default, examples,
//! constant and enumerated values are replaced. Booleans and null are never secrets; numbers are, unless the name is that of a count.

use serde_json::{Map, Value};

use super::names::{self, Degree};
use super::{REDACTED, Redactor, cut};

/// How many levels of JSON within strings are parsed; deeper ones are redacted as text.
const NESTED_MAX: usize = 3;
/// Members of a JSON Schema that hold properties by name.
const PROPERTIES: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members of a JSON Schema that hold values.
const VALUES: [&str; 5] = ["default", "const", "example", "examples", "enum"];
/// Members of a JSON Schema that hold schemas of the same thing.
const SUBSCHEMAS: [&str; 5] = ["anyOf", "oneOf", "allOf", "items", "additionalProperties"];
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// `Walk` redacts one JSON value in place.
pub(super) struct Walk<'a> {
    redactor: &'a Redactor,
    string_len_max: usize,
    /// The number of JSON strings around this value.
    nested: usize,
    /// Whether anything was replaced or truncated.
    pub(super) changed: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(redactor: &'a Redactor, string_len_max: usize) -> Self {
        Self { redactor, string_len_max, nested: 0, changed: false }
    }

    /// Redacts a value of any type.
    pub(super) fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => self.members(members),
            Value::Array(items) => self.items(items),
            Value::String(text) => self.string(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns a string without its secrets; `None` if it holds none. A string that is JSON is redacted as JSON.
    pub(super) fn text(&mut self, text: &str) -> Option<String> {
        if self.nested < NESTED_MAX
            && let Some(mut value) = parsed(text)
        {
            let mut walk = Walk { nested: self.nested + 1, string_len_max: usize::MAX, changed: false, ..*self };
            walk.value(&mut value);
            if walk.changed {
                return Some(value.to_string());
            }
        }
        self.redactor.running_text(text)
    }

    fn string(&mut self, text: &mut String) {
        if let Some(clean) = self.text(text) {
            self.changed = true;
            *text = clean;
        }
        if text.len() > self.string_len_max {
            self.changed = true;
            cut(text, self.string_len_max);
        }
    }

    fn members(&mut self, members: &mut Map<String, Value>) {
        self.rename(members);
        // Headers and form fields are often listed as {"name": "Authorization", "value": "..."}.
        let named = ["name", "key", "header"].iter().find_map(|name| members.get(*name)?.as_str());
        let pair = named.is_some_and(|name| names::degree(name) == Some(Degree::Strong));
        for (name, member) in members.iter_mut() {
            match member {
                Value::Object(properties) if PROPERTIES.contains(&name.as_str()) && properties.values().all(may_be_schema) => {
                    for (property, schema) in properties.iter_mut() {
                        self.schema(schema, names::degree(property) == Some(Degree::Strong));
                    }
                }
                _ if pair && name == "value" => self.hide(member),
                _ => self.member(name, member),
            }
        }
    }

    fn member(&mut self, name: &str, member: &mut Value) {
        match (names::degree(name), &*member) {
            (Some(Degree::Strong), Value::Number(_)) if names::is_count(name) => {}
            (Some(Degree::Strong), Value::Object(_)) if is_schema(member) => self.schema(member, true),
            (Some(Degree::Strong), _) | (Some(Degree::Short), Value::String(_)) => self.hide(member),
            (Some(Degree::Weak), Value::String(text)) if super::tokens::is_random(text) => self.hide(member),
            _ => self.value(member),
        }
    }

    /// Redacts a list, which may be a command line: `["--password", "x"]`.
    fn items(&mut self, items: &mut [Value]) {
        let mut flag = false;
        for item in items {
            let is_flag = item.as_str().is_some_and(|text| {
                text.starts_with("--") && !text.contains(['=', ' ']) && names::degree(text) == Some(Degree::Strong)
            });
            if flag && item.is_string() && !is_flag {
                self.hide(item);
            } else {
                self.value(item);
            }
            flag = is_flag;
        }
    }

    fn schema(&mut self, schema: &mut Value, secret: bool) {
        match schema {
            Value::Object(members) if secret => {
                for (name, member) in members.iter_mut() {
                    match name.as_str() {
                        name if VALUES.contains(&name) => self.hide_each(member),
                        name if SUBSCHEMAS.contains(&name) => self.schema(member, true),
                        _ => self.value(member),
                    }
                }
            }
            Value::Array(schemas) if secret => schemas.iter_mut().for_each(|schema| self.schema(schema, true)),
            _ => self.value(schema),
        }
    }

    fn hide_each(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            _ => self.hide(value),
        }
    }

    fn hide(&mut self, value: &mut Value) {
        let empty = match value {
            Value::Null | Value::Bool(_) => true,
            Value::String(text) => text.is_empty() || text == REDACTED,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Number(_) => false,
        };
        if !empty {
            *value = Value::from(REDACTED);
            self.changed = true;
        }
    }

    /// Redacts the names of members, which may hold secrets too: `{"ghp_...": "build"}`.
    fn rename(&mut self, members: &mut Map<String, Value>) {
        let renamed: Vec<(String, String)> =
            members.keys().filter_map(|name| Some((name.clone(), self.redactor.running_text(name)?))).collect();
        for (name, clean) in renamed {
            if let Some(member) = members.remove(&name) {
                members.insert(clean, member);
                self.changed = true;
            }
        }
    }
}

/// Parses `text` if it is a JSON object or list.
fn parsed(text: &str) -> Option<Value> {
    let trimmed = text.trim_ascii();
    let holds = |open: char, close: char| trimmed.starts_with(open) && trimmed.ends_with(close);
    (holds('{', '}') || holds('[', ']')).then(|| serde_json::from_str(trimmed).ok()).flatten()
}

fn may_be_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

fn is_schema(value: &Value) -> bool {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value.get("type") {
        Some(Value::Array(types)) => types.iter().all(is_type),
        Some(name) => is_type(name),
        None => ["$ref", "anyOf", "oneOf", "allOf"].iter().any(|name| value.get(name).is_some()),
    }
}
