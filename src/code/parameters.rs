//! Parameters: literals that differ between programs of the same structure.
//!
//! Programs have the same structure if they make the same calls in the same order with the same data flow. Then the literals of one argument
//! can be compared: where they differ, the argument is a parameter, and the values seen are its examples.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pml_core::graph::edge::EdgeKind;
use serde_json::{Map, Value as Json, json};

use crate::structure::{Callee, Reading};

/// Examples of one parameter, at most; the first ones seen stay.
const EXAMPLES_MAX: usize = 10;

/// Why programs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error("there is no program to compare")]
    Nothing,
    #[error("program {program} has another structure than the first: {difference}")]
    OtherStructure { program: usize, difference: String },
}

/// An argument that differs between programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// A JavaScript name, unique among the parameters.
    pub name: String,
    /// The calls and arguments that it feeds: position of the call and JSON pointer.
    pub arguments: Vec<(usize, String)>,
    /// The values seen, each once, in the order of the programs.
    pub examples: Vec<Json>,
    /// Where the literals stand in the first program.
    spans: BTreeSet<(usize, usize)>,
    callee: Callee,
    types: BTreeSet<&'static str>,
    values: Vec<Json>,
}

/// The parameters of several programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters(pub Vec<Parameter>);

/// Compares the literals of programs of the same structure.
pub fn compare(programs: &[Reading]) -> Result<Parameters, CompareError> {
    let (first, others) = programs.split_first().ok_or(CompareError::Nothing)?;
    for (at, other) in others.iter().enumerate() {
        if let Some(difference) = difference(first, other) {
            return Err(CompareError::OtherStructure { program: at + 2, difference });
        }
    }
    let mut found: Vec<Parameter> = Vec::new();
    for (at, call) in first.calls.iter().enumerate() {
        for literal in &call.literals {
            let value = |reading: &Reading| {
                let same = reading.calls[at].literals.iter().find(|other| other.path == literal.path);
                same.map(|other| other.value.clone())
            };
            let Some(values) = programs.iter().map(value).collect::<Option<Vec<Json>>>() else { continue };
            if values.iter().all(|value| *value == values[0]) {
                continue;
            }
            let span = (literal.span.start, literal.span.end);
            let name = name_of(&literal.path);
            // One literal that feeds two calls is one parameter; so are two of the same name that always have the same value.
            let known = found.iter_mut().find(|known| {
                known.spans.contains(&span) || (known.values == values && name_of(&known.arguments[0].1) == name)
            });
            if let Some(known) = known {
                known.arguments.push((at, literal.path.clone()));
                known.spans.insert(span);
                continue;
            }
            found.push(Parameter {
                name: unique(&name, &call.callee, &found, first),
                arguments: vec![(at, literal.path.clone())],
                examples: distinct(&values),
                spans: [span].into(),
                callee: call.callee.clone(),
                types: values.iter().map(type_of).collect(),
                values,
            });
        }
    }
    Ok(Parameters(found))
}

impl Parameters {
    /// A JSON schema of the arguments of a run. Fields of `args` that the program reads already are its callers' business.
    pub fn schema(&self) -> Json {
        let property = |parameter: &Parameter| {
            let types: Vec<&str> = parameter.types.iter().copied().collect();
            let kind = if let [one] = types[..] { json!(one) } else { json!(types) };
            let path = parameter.arguments[0].1.trim_start_matches('/').replace('/', ".");
            let description = format!("{path} of {}", parameter.callee);
            (parameter.name.clone(), json!({"type": kind, "description": description, "examples": parameter.examples}))
        };
        let properties: Map<String, Json> = self.0.iter().map(property).collect();
        let required: Vec<&str> = self.0.iter().map(|parameter| parameter.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// The first program with its parameters in the place of their literals: `"a.txt"` becomes `args.path`.
    pub fn rewrite(&self, source: &str) -> String {
        let mut places: BTreeMap<usize, (Range<usize>, &str)> = BTreeMap::new();
        for parameter in &self.0 {
            for (start, end) in &parameter.spans {
                places.insert(*start, (*start..*end, &parameter.name));
            }
        }
        let (mut text, mut at) = (String::new(), 0);
        for (range, name) in places.into_values() {
            if range.start >= at {
                text.push_str(&source[at..range.start]);
                text.push_str("args.");
                text.push_str(name);
                at = range.end;
            }
        }
        text + &source[at..]
    }

    /// The arguments with which the rewritten program does what program `at` did.
    pub fn arguments_of(&self, at: usize) -> Json {
        let value = |parameter: &Parameter| Some((parameter.name.clone(), parameter.values.get(at)?.clone()));
        Json::Object(self.0.iter().filter_map(value).collect())
    }
}

/// The first difference between the structures of two programs.
fn difference(one: &Reading, other: &Reading) -> Option<String> {
    if one.calls.len() != other.calls.len() {
        return Some(format!("{} calls instead of {}", other.calls.len(), one.calls.len()));
    }
    for (at, (mine, theirs)) in one.calls.iter().zip(&other.calls).enumerate() {
        if mine.callee != theirs.callee {
            return Some(format!("call {} is {} instead of {}", at + 1, theirs.callee, mine.callee));
        }
    }
    let flow = |reading: &Reading| {
        let provides = reading.edges.iter().filter(|edge| edge.kind == EdgeKind::Provides);
        provides.map(|edge| (edge.from, edge.to)).collect::<BTreeSet<_>>()
    };
    (flow(one) != flow(other)).then(|| "other data flow".to_owned())
}

/// The last name in a JSON pointer that is not an index, as a JavaScript name.
fn name_of(path: &str) -> String {
    let is_index = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let last = path.rsplit('/').find(|part| !is_index(part)).unwrap_or_default();
    let name: String = last.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) { format!("value{name}") } else { name }
}

/// A name that is free: the argument's, else with the tool's before it, else with a number.
fn unique(name: &str, callee: &Callee, taken: &[Parameter], program: &Reading) -> String {
    let is_free = |name: &str| !taken.iter().any(|other| other.name == name) && !program.parameters.contains(name);
    let tool = match callee {
        Callee::Tool(tool) => name_of(tool.name()),
        Callee::Capability(name) => name_of(name),
        Callee::Computed => String::new(),
    };
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = [name.to_owned(), format!("{tool}_{name}")].into_iter().chain(numbered);
    names.find(|name| is_free(name)).expect("numbers do not end")
}

fn distinct(values: &[Json]) -> Vec<Json> {
    let mut seen: Vec<Json> = Vec::new();
    for value in values {
        if !seen.contains(value) && seen.len() < EXAMPLES_MAX {
            seen.push(value.clone());
        }
    }
    seen
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
    use crate::read;

    fn compared(sources: &[&str]) -> Result<Parameters, CompareError> {
        compare(&sources.iter().map(|source| read(source).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn literals_that_differ_become_parameters_and_the_others_stay() {
        let one = r#"const t = await tools.fs.read({ path: "a.txt", mode: "r" }); await tools.mail.send({ to: "x", body: t, n: 1 });"#;
        let two = r#"await tools.mail.send({ n: 2.5, body: await tools.fs.read({ mode: "r", path: "b.txt" }), to: "y" });"#;
        let parameters = compared(&[one, two]).unwrap();
        let schema = parameters.schema();
        assert_eq!(
            schema["properties"]["path"],
            json!({"type": "string", "description": "path of fs:read", "examples": ["a.txt", "b.txt"]})
        );
        assert_eq!(schema["properties"]["n"]["type"], json!(["integer", "number"]));
        assert_eq!(schema["required"], json!(["path", "n", "to"]));
        assert_eq!(
            parameters.rewrite(one),
            r#"const t = await tools.fs.read({ path: args.path, mode: "r" }); await tools.mail.send({ to: args.to, body: t, n: args.n });"#
        );
        assert_eq!(parameters.arguments_of(1), json!({"path": "b.txt", "n": 2.5, "to": "y"}));
    }

    #[test]
    fn a_rewritten_program_has_the_same_structure_and_takes_its_parameters() {
        let program = |dir: &str| {
            format!(
                "const dir = '{dir}'; const l = await tools.fs.list({{ dir }}); await tools.zip.pack({{ dir, l, to: ['{dir}', 1] }});"
            )
        };
        let sources = [program("a"), program("b")];
        let parameters = compared(&[&sources[0], &sources[1]]).unwrap();
        let names: Vec<&str> = parameters.0.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names, ["dir", "to"], "one literal that feeds two calls is one parameter");
        let rewritten = read(&parameters.rewrite(&sources[0])).unwrap();
        assert_eq!(rewritten.parameters, ["dir".to_owned(), "to".to_owned()].into());
        assert_eq!(rewritten.edges, read(&sources[0]).unwrap().edges);
    }

    #[test]
    fn names_do_not_collide() {
        let program = |a: &str, b: &str| {
            format!(
                "await tools.fs.read({{ path: '{a}' }}); await tools.fs.write({{ path: '{b}', old: args.path }}); await tools.fs.write({{ path: '{b}{a}' }});"
            )
        };
        let parameters = compared(&[&program("a", "b"), &program("c", "d")]).unwrap();
        let names: Vec<&str> = parameters.0.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names, ["read_path", "write_path", "path_2"]);
    }

    #[test]
    fn programs_of_another_structure_are_refused_with_the_difference() {
        let error =
            |other: &str| compared(&["const a = await tools.s.a({}); await tools.s.b({ a });", other]).unwrap_err().to_string();
        let prefix = "program 2 has another structure than the first: ";
        assert_eq!(error("await tools.s.a({});"), format!("{prefix}1 calls instead of 2"));
        assert_eq!(error("await tools.s.a({}); await tools.s.c({});"), format!("{prefix}call 2 is s:c instead of s:b"));
        assert_eq!(error("await tools.s.a({}); await tools.s.b({});"), format!("{prefix}other data flow"));
    }
}
