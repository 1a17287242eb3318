//! The shape of JSON values: types and names of members, never values. Shapes of several values are merged, so that what a tool answers is
//! known better with each call; they are written as JSON Schema.
//!
//! A shape is bounded in depth and members, and merging only adds to it, so it stops changing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Deepest level that is described; what is inside is left open.
const DEPTH_MAX: usize = 6;
/// Most members of an object. One with more is a table whose keys are data: they are not described.
const MEMBERS_MAX: usize = 40;
/// Longest name of a member, in bytes; a longer one is data.
const NAME_LEN_MAX: usize = 64;
/// Elements of a list that are looked at.
const ELEMENTS_MAX: usize = 20;

/// What is known about values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    types: BTreeSet<&'static str>,
    /// Members with their shapes; `None` if the keys are data.
    members: Option<BTreeMap<String, Shape>>,
    /// Members that every object had.
    required: BTreeSet<String>,
    elements: Option<Box<Shape>>,
}

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

impl Shape {
    /// The shape of one value.
    pub fn from_value(value: &Value) -> Self {
        Self::at_depth(value, 0)
    }

    fn at_depth(value: &Value, depth: usize) -> Self {
        let (name, mut shape) = (type_name(value), Self::default());
        shape.types.insert(name);
        if depth == DEPTH_MAX {
            return shape;
        }
        match value {
            Value::Object(members) if members.len() <= MEMBERS_MAX && members.keys().all(|name| is_name(name)) => {
                shape.required = members.keys().cloned().collect();
                let member = |(name, value): (&String, &Value)| (name.clone(), Self::at_depth(value, depth + 1));
                shape.members = Some(members.iter().map(member).collect());
            }
            Value::Array(elements) => {
                let shapes = elements.iter().take(ELEMENTS_MAX).map(|element| Self::at_depth(element, depth + 1));
                shape.elements = shapes.reduce(Self::merge).map(Box::new);
            }
            _ => {}
        }
        shape
    }

    /// The shape that covers both.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let is_object = |shape: &Self| shape.types.contains("object");
        let required = match (is_object(&self), is_object(&other)) {
            (true, true) => self.required.intersection(&other.required).cloned().collect(),
            (true, false) => self.required.clone(),
            _ => other.required.clone(),
        };
        let members = match (is_object(&self), is_object(&other)) {
            (true, true) => merge_members(self.members, other.members),
            (true, false) => self.members,
            _ => other.members,
        };
        let elements = match (self.elements, other.elements) {
            (Some(one), Some(another)) => Some(Box::new(one.merge(*another))),
            (one, another) => one.or(another),
        };
        let required = if members.is_some() { required } else { BTreeSet::new() };
        Self { types: self.types.union(&other.types).copied().collect(), members, required, elements }
    }

    /// The shape as JSON Schema.
    pub fn to_schema(&self) -> Value {
        let mut schema = Map::new();
        // Every integer is a number, so only one of the two is named.
        let types: Vec<&str> =
            self.types.iter().copied().filter(|name| *name != "integer" || !self.types.contains("number")).collect();
        match types.as_slice() {
            [] => {}
            [one] => drop(schema.insert("type".to_owned(), json!(one))),
            several => drop(schema.insert("type".to_owned(), json!(several))),
        }
        if let Some(members) = &self.members {
            let properties: Map<String, Value> =
                members.iter().map(|(name, shape)| (name.clone(), shape.to_schema())).collect();
            schema.insert("properties".to_owned(), Value::Object(properties));
            if !self.required.is_empty() {
                schema.insert("required".to_owned(), json!(self.required));
            }
        }
        if let Some(elements) = &self.elements {
            schema.insert("items".to_owned(), elements.to_schema());
        }
        Value::Object(schema)
    }

    /// Reads what [`Self::to_schema`] wrote; what it does not know is left out.
    pub fn from_schema(schema: &Value) -> Self {
        let named = match &schema["type"] {
            Value::String(one) => vec![one.as_str()],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let member = |(name, schema): (&String, &Value)| (name.clone(), Self::from_schema(schema));
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        Self {
            types: TYPES.into_iter().filter(|name| named.contains(name)).collect(),
            members: schema["properties"].as_object().map(|members| members.iter().map(member).collect()),
            required: required.collect(),
            elements: schema.get("items").map(|items| Box::new(Self::from_schema(items))),
        }
    }
}

fn merge_members(
    one: Option<BTreeMap<String, Shape>>,
    another: Option<BTreeMap<String, Shape>>,
) -> Option<BTreeMap<String, Shape>> {
    let (mut merged, another) = (one?, another?);
    for (name, shape) in another {
        let known = merged.remove(&name);
        merged.insert(name, known.map_or_else(|| shape.clone(), |known| known.merge(shape.clone())));
    }
    (merged.len() <= MEMBERS_MAX).then_some(merged)
}

/// Whether the key of an object can be the name of a member, and not data: a word, not a number, a path or a sentence.
fn is_name(key: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '@' | ':');
    let digits = key.bytes().filter(u8::is_ascii_digit).count();
    !key.is_empty() && key.len() <= NAME_LEN_MAX && key.chars().all(letters) && digits * 2 < key.len()
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[Value], expected: &Value) {
        let shape = values.iter().map(Shape::from_value).reduce(Shape::merge).unwrap();
        assert_eq!(shape.to_schema(), *expected, "{values:?}");
        assert_eq!(Shape::from_schema(expected).to_schema(), *expected, "a schema is read back");
    }

    #[test]
    fn a_shape_has_types_and_names_and_no_values() {
        check(
            &[json!({"name": "Ada", "tags": ["x", 1], "age": 36, "score": 0.5, "none": null})],
            &json!({
                "type": "object",
                "properties": {
                    "age": {"type": "integer"},
                    "name": {"type": "string"},
                    "none": {"type": "null"},
                    "score": {"type": "number"},
                    "tags": {"type": "array", "items": {"type": ["integer", "string"]}},
                },
                "required": ["age", "name", "none", "score", "tags"],
            }),
        );
    }

    #[test]
    fn merging_keeps_what_all_had_as_required_and_covers_every_type() {
        check(
            &[json!({"a": 1, "b": "x"}), json!({"a": 2.5})],
            &json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}, "required": ["a"]}),
        );
        check(&[json!("x"), json!(null), json!("y")], &json!({"type": ["null", "string"]}));
        check(&[json!([]), json!([1])], &json!({"type": "array", "items": {"type": "integer"}}));
    }

    #[test]
    fn keys_that_are_data_are_not_kept() {
        check(&[json!({"ada@example.org with spaces": 1})], &json!({"type": "object"}));
        check(&[json!({"4711": 1})], &json!({"type": "object"}));
        let table: Map<String, Value> = (0..100).map(|number| (format!("user_{number}"), json!(1))).collect();
        check(&[Value::Object(table)], &json!({"type": "object"}));
        check(&[json!({"a": 1}), json!({"b c": 1})], &json!({"type": "object"}));
    }

    #[test]
    fn a_shape_is_bounded_in_depth() {
        let deep = (0..50).fold(json!("secret value"), |inner, _| json!({"in": inner}));
        let text = Shape::from_value(&deep).to_schema().to_string();
        assert!(text.len() < 600 && !text.contains("secret"), "{text}");
    }
}
