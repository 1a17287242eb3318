//! The parameters that a tool's input schema names (JSON Schema, as MCP servers give it). Other keywords are not interpreted.

use serde::Deserialize;

use super::Json;

/// One property of an input or output schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// Whether the schema lists it under `required`.
    pub required: bool,
    /// The value of `type`, if it is one word.
    pub value_type: Option<String>,
}

#[derive(Deserialize)]
struct ObjectSchema {
    #[serde(default)]
    properties: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    required: Vec<String>,
}

/// The properties of an object schema, by name. Empty if the schema describes no object.
pub fn parameters(schema: &Json) -> Vec<Parameter> {
    let Ok(ObjectSchema { properties, required }) = serde_json::from_str(schema.as_str()) else { return Vec::new() };
    let value_type = |name: &str| properties.get(name)?.get("type")?.as_str().map(str::to_owned);
    let mut names: Vec<&String> = properties.keys().chain(&required).collect();
    names.sort_unstable();
    names.dedup();
    let parameter =
        |name: &String| Parameter { name: name.clone(), required: required.contains(name), value_type: value_type(name) };
    names.into_iter().map(parameter).collect()
}

/// The kinds of values that a schema lists under `field` (`input_types` or `output_types`, as some datasets declare them).
pub fn kinds(schema: &Json, field: &str) -> Vec<String> {
    let listed = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(schema.as_str()).ok();
    let listed = listed.and_then(|mut schema| serde_json::from_value(schema.remove(field)?).ok());
    listed.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_listed_by_name_with_those_required() {
        let check = |schema: &str, expected: &[(&str, bool, Option<&str>)]| {
            let parameters = parameters(&Json::from_valid(schema));
            let found: Vec<_> = parameters.iter().map(|p| (p.name.as_str(), p.required, p.value_type.as_deref())).collect();
            assert_eq!(found, expected, "{schema}");
        };
        check(
            r#"{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":["integer","null"]}},"required":["path"]}"#,
            &[("depth", false, None), ("path", true, Some("string"))],
        );
        check(r#"{"required":["path"]}"#, &[("path", true, None)]);
        check(r#"{"properties":{}}"#, &[]);
        check("true", &[]);
        check(r#"{"properties":[]}"#, &[]);
    }

    #[test]
    fn kinds_are_those_listed() {
        let schema = Json::from_valid(r#"{"input_types":["url"],"output_types":["image","text"]}"#);
        assert_eq!(kinds(&schema, "output_types"), ["image", "text"]);
        assert_eq!(kinds(&schema, "properties"), [""; 0]);
        assert_eq!(kinds(&Json::from_valid("true"), "input_types"), [""; 0]);
    }
}
