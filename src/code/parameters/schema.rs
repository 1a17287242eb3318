//! The JSON schema of a program's arguments, as it grows with every run.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

/// Examples of one parameter, at most; the first ones seen stay.
const EXAMPLES_MAX: usize = 10;
/// Longest value that is kept as an example, in bytes of JSON.
const EXAMPLE_BYTES_MAX: usize = 200;

/// Properties with types and examples, and which of them are required. Whatever else a schema says is kept.
#[derive(Default)]
pub(super) struct Schema {
    rest: Map<String, Json>,
    properties: Map<String, Json>,
    required: BTreeSet<String>,
}

impl Schema {
    pub(super) fn parse(schema: &Json) -> Self {
        let mut rest = schema.as_object().cloned().unwrap_or_default();
        let properties = match rest.remove("properties") {
            Some(Json::Object(properties)) => properties,
            _ => Map::new(),
        };
        let required = match rest.remove("required") {
            Some(Json::Array(names)) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => BTreeSet::new(),
        };
        Self { rest, properties, required }
    }

    pub(super) fn len(&self) -> usize {
        self.properties.len()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    /// Adds a property, if it is new.
    pub(super) fn add(&mut self, name: &str, description: &str) {
        let described = || if description.is_empty() { json!({}) } else { json!({ "description": description }) };
        self.properties.entry(name).or_insert_with(described);
    }

    pub(super) fn require(&mut self, name: &str) {
        self.required.insert(name.to_owned());
    }

    /// Adds a value of a known property to its types and examples.
    pub(super) fn observe(&mut self, name: &str, value: &Json) {
        let Some(Json::Object(property)) = self.properties.get_mut(name) else { return };
        let mut types: BTreeSet<String> = match property.get("type") {
            Some(Json::String(one)) => [one.clone()].into(),
            Some(Json::Array(several)) => several.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
            _ => BTreeSet::new(),
        };
        types.insert(type_of(value).to_owned());
        if types.contains("number") {
            types.remove("integer");
        }
        let named: Vec<Json> = types.into_iter().map(Json::String).collect();
        property.insert("type".to_owned(), if let [one] = &named[..] { one.clone() } else { Json::Array(named) });
        if value.to_string().len() > EXAMPLE_BYTES_MAX {
            return;
        }
        if let Json::Array(examples) = property.entry("examples").or_insert_with(|| json!([]))
            && examples.len() < EXAMPLES_MAX
            && !examples.contains(value)
        {
            examples.push(value.clone());
        }
    }

    pub(super) fn to_json(&self) -> Json {
        let mut schema = self.rest.clone();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Json::Object(self.properties.clone()));
        schema.insert("required".to_owned(), json!(self.required));
        Json::Object(schema)
    }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_examples_are_gathered_within_their_limits() {
        let mut schema = Schema::parse(&json!({"title": "mine", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
        schema.observe("n", &json!(2.5));
        schema.observe("other", &json!(1));
        schema.add("text", "a text");
        (0..20).for_each(|number| schema.observe("text", &json!(format!("example {}", number / 2))));
        schema.observe("text", &json!(null));
        schema.observe("text", &json!("x".repeat(EXAMPLE_BYTES_MAX)));
        let written = schema.to_json();
        assert_eq!(
            (&written["title"], &written["required"], &written["type"]),
            (&json!("mine"), &json!(["n"]), &json!("object"))
        );
        assert_eq!(written["properties"]["n"], json!({"type": "number", "examples": [2.5]}));
        assert_eq!(written["properties"]["text"]["type"], json!(["null", "string"]));
        assert_eq!(written["properties"]["text"]["examples"].as_array().unwrap().len(), EXAMPLES_MAX);
        assert_eq!(written["properties"].as_object().unwrap().len(), 2);
        assert_eq!(Schema::parse(&written).to_json(), written);
    }
}
