//! The tools of an agent as TypeScript declarations: `pml.d.ts`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use pml_core::id::ToolId;
use serde_json::{Map, Value as Json};

/// Depth to which schemas are written out; deeper ones are `unknown`, also those that refer to themselves.
const DEPTH_MAX: usize = 8;

/// A tool as far as its declaration needs it.
#[derive(Clone, Debug)]
pub struct ToolDeclaration<'a> {
    pub id: &'a ToolId,
    pub description: &'a str,
    pub input_schema: Option<&'a Json>,
    pub output_schema: Option<&'a Json>,
}

/// The text of `pml.d.ts`: the names that a program has, with a typed function for every tool.
pub fn declarations(tools: &[ToolDeclaration<'_>]) -> String {
    let mut servers: BTreeMap<&str, BTreeMap<&str, &ToolDeclaration<'_>>> = BTreeMap::new();
    for tool in tools {
        servers.entry(tool.id.server()).or_default().insert(tool.id.name(), tool);
    }
    let mut text =
        String::from("// Written by `pml types`. The names that a program of code mode has.\n\ndeclare const tools: {\n");
    for (server, tools) in &servers {
        line(&mut text, 1, &format!("{}: {{", key(server)));
        for (name, tool) in tools {
            comment(&mut text, 2, tool.description);
            let input = tool.input_schema.map_or_else(|| "Record<string, unknown>".to_owned(), |schema| typed(schema, 2));
            let output = tool.output_schema.map_or_else(|| "any".to_owned(), |schema| typed(schema, 2));
            // Without required fields the argument may be left out.
            let optional = if tool.input_schema.is_some_and(has_required) { "" } else { "?" };
            line(&mut text, 2, &format!("{}(input{optional}: {input}): Promise<{output}>;", key(name)));
        }
        line(&mut text, 1, "};");
    }
    text += "};\n\n/** Capabilities by name or id. */\n";
    text += "declare const capabilities: Record<string, (input?: Record<string, unknown>) => Promise<any>>;\n\n";
    text += "/** The arguments of this run. */\ndeclare const args: any;\n";
    text
}

/// The TypeScript type of a JSON schema. `indent` is the depth of the line that it begins on.
pub fn typed(schema: &Json, indent: usize) -> String {
    Schema { root: schema, open: BTreeSet::new() }.typed(schema, indent, DEPTH_MAX)
}

fn has_required(schema: &Json) -> bool {
    schema["required"].as_array().is_some_and(|required| !required.is_empty())
}

struct Schema<'a> {
    root: &'a Json,
    /// References that are being followed.
    open: BTreeSet<&'a str>,
}

impl<'a> Schema<'a> {
    fn typed(&mut self, schema: &'a Json, indent: usize, depth: usize) -> String {
        let Json::Object(fields) = schema else {
            return if *schema == Json::Bool(false) { "never".to_owned() } else { "unknown".to_owned() };
        };
        if depth == 0 {
            return "unknown".to_owned();
        }
        if let Some(reference) = fields.get("$ref").and_then(Json::as_str) {
            return self.referred(reference, indent, depth);
        }
        if let Some(value) = fields.get("const") {
            return value.to_string();
        }
        if let Some(values) = fields.get("enum").and_then(Json::as_array) {
            return alternatives(values.iter().map(ToString::to_string));
        }
        for (word, separator) in [("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")] {
            if let Some(parts) = fields.get(word).and_then(Json::as_array).filter(|parts| !parts.is_empty()) {
                let parts: Vec<String> = parts.iter().map(|part| self.typed(part, indent, depth - 1)).collect();
                return if separator == " | " { alternatives(parts.into_iter()) } else { parts.join(separator) };
            }
        }
        match fields.get("type") {
            Some(Json::Array(types)) => {
                let parts: Vec<String> =
                    types.iter().filter_map(Json::as_str).map(|one| self.of_type(one, fields, indent, depth)).collect();
                alternatives(parts.into_iter())
            }
            Some(Json::String(one)) => self.of_type(one, fields, indent, depth),
            _ if fields.contains_key("properties") => self.of_type("object", fields, indent, depth),
            _ => "unknown".to_owned(),
        }
    }

    fn of_type(&mut self, kind: &str, fields: &'a Map<String, Json>, indent: usize, depth: usize) -> String {
        match kind {
            "string" | "boolean" | "null" => kind.to_owned(),
            "number" | "integer" => "number".to_owned(),
            "array" => {
                let items =
                    fields.get("items").map_or_else(|| "unknown".to_owned(), |items| self.typed(items, indent, depth - 1));
                if items.contains([' ', '\n']) { format!("Array<{items}>") } else { format!("{items}[]") }
            }
            "object" => self.object(fields, indent, depth),
            _ => "unknown".to_owned(),
        }
    }

    fn object(&mut self, fields: &'a Map<String, Json>, indent: usize, depth: usize) -> String {
        let Some(properties) = fields.get("properties").and_then(Json::as_object).filter(|properties| !properties.is_empty())
        else {
            return match fields.get("additionalProperties") {
                Some(Json::Bool(false)) => "Record<string, never>".to_owned(),
                Some(schema @ Json::Object(_)) => format!("Record<string, {}>", self.typed(schema, indent, depth - 1)),
                _ => "Record<string, unknown>".to_owned(),
            };
        };
        let required: BTreeSet<&str> =
            fields.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        let mut text = String::from("{\n");
        for (name, schema) in properties {
            comment(&mut text, indent + 1, schema["description"].as_str().unwrap_or_default());
            let mark = if required.contains(name.as_str()) { "" } else { "?" };
            let kind = self.typed(schema, indent + 1, depth - 1);
            line(&mut text, indent + 1, &format!("{}{mark}: {kind};", key(name)));
        }
        text + &"  ".repeat(indent) + "}"
    }

    /// A reference within the schema: `#/$defs/Name`.
    fn referred(&mut self, reference: &'a str, indent: usize, depth: usize) -> String {
        let found = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(schema) = found.filter(|_| self.open.insert(reference)) else { return "unknown".to_owned() };
        let kind = self.typed(schema, indent, depth - 1);
        self.open.remove(reference);
        kind
    }
}

fn alternatives(parts: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for part in parts {
        if !seen.contains(&part) {
            seen.push(part);
        }
    }
    if seen.is_empty() { "never".to_owned() } else { seen.join(" | ") }
}

/// A name as a key of an object type.
fn key(name: &str) -> String {
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$');
    let starts = name.starts_with(|letter: char| !letter.is_ascii_digit());
    if is_plain && starts { name.to_owned() } else { Json::from(name).to_string() }
}

fn comment(text: &mut String, indent: usize, words: &str) {
    if !words.trim().is_empty() {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "* /");
        line(text, indent, &format!("/** {words} */"));
    }
}

fn line(text: &mut String, indent: usize, words: &str) {
    writeln!(text, "{}{words}", "  ".repeat(indent)).expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Json, expected: &str) {
        assert_eq!(typed(schema, 0), expected, "{schema}");
    }

    #[test]
    fn a_schema_becomes_a_type() {
        check(&json!({"type": "string"}), "string");
        check(&json!({"type": ["integer", "null"]}), "number | null");
        check(&json!({"type": ["integer", "number"]}), "number");
        check(&json!({"enum": ["a", 1, null]}), "\"a\" | 1 | null");
        check(&json!({"const": "x"}), "\"x\"");
        check(&json!({"type": "array", "items": {"type": "string"}}), "string[]");
        check(&json!({"type": "array", "items": {"enum": ["a", "b"]}}), "Array<\"a\" | \"b\">");
        check(&json!({"type": "array"}), "unknown[]");
        check(&json!({"type": "object", "additionalProperties": {"type": "number"}}), "Record<string, number>");
        check(&json!({"type": "object", "additionalProperties": false}), "Record<string, never>");
        check(&json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "string | null");
        check(&json!({"allOf": [{"type": "string"}, {"enum": ["a"]}]}), "string & \"a\"");
        check(&json!({"properties": {"a-b": {"type": "boolean"}}, "required": ["a-b"]}), "{\n  \"a-b\": boolean;\n}");
        check(&json!(true), "unknown");
        check(&json!(false), "never");
    }

    #[test]
    fn references_are_followed_and_end() {
        let list =
            json!({"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}});
        check(&list, "{\n  next?: unknown;\n}");
        check(&json!({"$ref": "other.json"}), "unknown");
    }

    #[test]
    fn every_tool_is_a_typed_function_and_the_text_is_typescript() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string", "description": "where */ it is"}, "limit": {"type": "integer"}}});
        let (read, odd): (ToolId, ToolId) = ("fs:read".parse().unwrap(), "my-server:do.it".parse().unwrap());
        let tools = [
            ToolDeclaration { id: &odd, description: "", input_schema: None, output_schema: None },
            ToolDeclaration {
                id: &read,
                description: "Reads\na file",
                input_schema: Some(&schema),
                output_schema: Some(&json!({"type": "string"})),
            },
        ];
        let text = declarations(&tools);
        let expected = "declare const tools: {
  fs: {
    /** Reads a file */
    read(input: {
      limit?: number;
      /** where * / it is */
      path: string;
    }): Promise<string>;
  };
  \"my-server\": {
    \"do.it\"(input?: Record<string, unknown>): Promise<any>;
  };
};
";
        assert!(text.contains(expected), "{text}");
        assert_eq!(crate::read(&text).map(|reading| reading.calls), Ok(Vec::new()), "it parses");
    }
}
