//! JSON that is changed in one place and stays as it was written in all others.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object: its members in their order, with values as they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Object(Vec<(String, Box<RawValue>)>);

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let texts =
            |object: &Self| object.0.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect::<Vec<_>>();
        texts(self) == texts(other)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Object {
    /// Reads an object; an empty text is an empty one.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map_err(|error| anyhow::anyhow!("is not a JSON object: {error}"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }

    /// Sets a member, in its place if it is there, else as the last one. The value must be valid JSON.
    pub(super) fn set(&mut self, name: &str, value: String) {
        let value = RawValue::from_string(value).expect("values are made here, as JSON");
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// The object as text, one member per line, inside `depth` others.
    pub(super) fn text(&self, depth: usize) -> String {
        let member =
            |(name, value): &(String, Box<RawValue>)| format!("{}: {}", serde_json::Value::from(name.as_str()), value.get());
        bracketed(('{', '}'), self.0.iter().map(member).collect(), depth)
    }

    /// The object as a file in place of the text `before`, which stays if it says the same.
    pub(super) fn file_text(&self, before: &str) -> String {
        let is_same = !before.trim().is_empty() && Self::parse(before).is_ok_and(|object| object == *self);
        if is_same { before.to_owned() } else { self.text(0) + "\n" }
    }
}

/// The elements of an array as they are written; an empty text is an empty one.
pub(super) fn elements(text: &str) -> anyhow::Result<Vec<String>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| anyhow::anyhow!("is not a list: {error}"))?;
    Ok(elements.into_iter().map(|element| element.get().to_owned()).collect())
}

/// An array as text, one element per line, inside `depth` objects.
pub(super) fn array_text(elements: &[String], depth: usize) -> String {
    bracketed(('[', ']'), elements.to_vec(), depth)
}

fn bracketed((open, close): (char, char), parts: Vec<String>, depth: usize) -> String {
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    let (inside, outside) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    let lines: Vec<String> = parts.into_iter().map(|part| format!("{inside}{part}")).collect();
    format!("{open}\n{}\n{outside}{close}", lines.join(",\n"))
}
