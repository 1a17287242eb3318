//! Parameters: literals that differ between programs of the same structure.
//!
//! Programs have the same structure if they make the same calls in the same order with the same data flow. Then the literals of one argument
//! can be compared: where they differ, the argument becomes a parameter, and the values seen become its examples. A capability keeps one
//! program and the JSON schema of its arguments ([`Learnt`]); every run adds to them what it shows.

mod schema;

use std::collections::{BTreeMap, BTreeSet};

use pml_core::graph::edge::EdgeKind;
use serde_json::{Map, Value as Json};

use crate::structure::{Callee, Reading};
use schema::Schema;

/// Parameters of one program, at most; further literals stay as they are.
const PARAMETERS_MAX: usize = 64;

/// A program and the JSON schema of its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    pub code: String,
    pub schema: Json,
}

/// A program that ran.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    pub source: &'a str,
    pub reading: &'a Reading,
    /// The arguments of the run.
    pub arguments: &'a Map<String, Json>,
    /// Whether a literal at this path of a call's arguments must not be kept: then it is a parameter without examples.
    pub is_secret: &'a dyn Fn(&str, &Json) -> bool,
}

/// A literal that becomes a parameter.
struct Found {
    name: String,
    /// Where it stands in the program that is kept.
    spans: BTreeSet<(usize, usize)>,
    path: String,
    callee: Callee,
    values: Vec<Json>,
    is_secret: bool,
}

impl Ran<'_> {
    /// Adds a value to a property, unless it must not be kept.
    fn observe(&self, schema: &mut Schema, field: &str, path: &str, value: &Json) {
        if !(self.is_secret)(path, value) {
            schema.observe(field, value);
        }
    }
}

/// What the first run of a program shows.
pub fn first(ran: Ran<'_>) -> Learnt {
    let mut schema = Schema::default();
    for field in ran.reading.parameters.iter().filter(|field| !field.is_empty()) {
        schema.add(field, "");
        if let Some(value) = ran.arguments.get(field) {
            schema.require(field);
            ran.observe(&mut schema, field, field, value);
        }
    }
    let secrets =
        found(ran.reading, &schema, |_, path, value| (ran.is_secret)(path, value).then(|| (vec![value.clone()], true)));
    rewritten(ran.source, schema, secrets)
}

/// What is known after a further run, or the difference between the structures of the two programs. `known_reading` is that of the
/// program that is kept.
pub fn join(known: &Learnt, known_reading: &Reading, ran: Ran<'_>) -> Result<Learnt, String> {
    if let Some(difference) = difference(known_reading, ran.reading) {
        return Err(difference);
    }
    let mut schema = Schema::parse(&known.schema);
    for (field, value) in ran.arguments.iter().filter(|(field, _)| known_reading.parameters.contains(*field)) {
        ran.observe(&mut schema, field, field, value);
    }
    for (at, call) in known_reading.calls.iter().enumerate() {
        for (path, fields) in &call.inputs {
            // A value that may come from several fields is an example of none.
            let one = if fields.len() == 1 { fields.first() } else { None };
            if let (Some(field), Some(value)) = (one, literal(ran.reading, at, path)) {
                ran.observe(&mut schema, field, path, value);
            }
        }
    }
    let differing = found(known_reading, &schema, |at, path, value| {
        let other = literal(ran.reading, at, path).or_else(|| given(ran, at, path))?;
        (other != value).then(|| (vec![value.clone(), other.clone()], (ran.is_secret)(path, other)))
    });
    Ok(rewritten(&known.code, schema, differing))
}

fn literal<'a>(reading: &'a Reading, call: usize, path: &str) -> Option<&'a Json> {
    reading.calls[call].literals.iter().find(|literal| literal.path == path).map(|literal| &literal.value)
}

/// The value that a run's arguments gave to an argument of a call.
fn given<'a>(ran: Ran<'a>, call: usize, path: &str) -> Option<&'a Json> {
    let fields = ran.reading.calls[call].inputs.get(path)?;
    if fields.len() == 1 { ran.arguments.get(fields.first()?) } else { None }
}

/// The literals of a program for which `values` gives values, and whether they are secret.
fn found(reading: &Reading, schema: &Schema, values: impl Fn(usize, &str, &Json) -> Option<(Vec<Json>, bool)>) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for (at, call) in reading.calls.iter().enumerate() {
        for literal in &call.literals {
            let Some((values, is_secret)) = values(at, &literal.path, &literal.value) else { continue };
            let span = (literal.span.start, literal.span.end);
            let name = name_of(&literal.path);
            // One literal that feeds two calls is one parameter; so are two of the same name that always have the same value.
            let known =
                all.iter_mut().find(|one| one.spans.contains(&span) || (one.values == values && name_of(&one.path) == name));
            if let Some(known) = known {
                known.spans.insert(span);
                continue;
            }
            if all.len() + schema.len() >= PARAMETERS_MAX {
                return all;
            }
            let is_free = |name: &str| {
                !all.iter().any(|other| other.name == name) && !schema.contains(name) && !reading.parameters.contains(name)
            };
            let (path, callee) = (literal.path.clone(), call.callee.clone());
            all.push(Found { name: free_name(&name, &callee, is_free), spans: [span].into(), path, callee, values, is_secret });
        }
    }
    all
}

/// The program with the found parameters in the place of their literals: `"a.txt"` becomes `args.path`.
fn rewritten(source: &str, mut schema: Schema, found: Vec<Found>) -> Learnt {
    let mut places: BTreeMap<usize, (usize, &str)> = BTreeMap::new();
    for parameter in &found {
        places.extend(parameter.spans.iter().map(|(start, end)| (*start, (*end, parameter.name.as_str()))));
    }
    let (mut code, mut at) = (String::new(), 0);
    for (start, (end, name)) in places {
        if start >= at {
            code.push_str(&source[at..start]);
            code.push_str("args.");
            code.push_str(name);
            at = end;
        }
    }
    code.push_str(&source[at..]);
    for parameter in &found {
        let path = parameter.path.trim_start_matches('/').replace('/', ".");
        schema.add(&parameter.name, &format!("{path} of {}", parameter.callee));
        schema.require(&parameter.name);
        for value in parameter.values.iter().filter(|_| !parameter.is_secret) {
            schema.observe(&parameter.name, value);
        }
    }
    Learnt { code, schema: schema.to_json() }
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
fn free_name(name: &str, callee: &Callee, is_free: impl Fn(&str) -> bool) -> String {
    let tool = match callee {
        Callee::Tool(tool) => name_of(tool.name()),
        Callee::Capability(name) => name_of(name),
        Callee::Computed => String::new(),
    };
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = [name.to_owned(), format!("{tool}_{name}")].into_iter().chain(numbered);
    names.find(|name| is_free(name)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read;

    /// What is known after programs that ran one after the other, each with its arguments.
    fn learnt(programs: &[(&str, Json)]) -> Result<Learnt, String> {
        let mut known: Option<Learnt> = None;
        for (source, arguments) in programs {
            let reading = read(source).unwrap();
            let arguments = arguments.as_object().unwrap();
            let ran = Ran { source, reading: &reading, arguments, is_secret: &|path, _| path.ends_with("password") };
            known = Some(match known {
                Some(known) => join(&known, &read(&known.code).unwrap(), ran)?,
                None => first(ran),
            });
        }
        Ok(known.unwrap())
    }

    fn without_arguments(programs: &[&str]) -> Result<Learnt, String> {
        learnt(&programs.iter().map(|program| (*program, json!({}))).collect::<Vec<_>>())
    }

    #[test]
    fn literals_that_differ_become_parameters_and_the_others_stay() {
        let one = r#"const t = await tools.fs.read({ path: "a.txt", mode: "r" }); await tools.mail.send({ to: "x", body: t, n: 1 });"#;
        let two = r#"await tools.mail.send({ n: 2.5, body: await tools.fs.read({ mode: "r", path: "b.txt" }), to: "y" });"#;
        assert_eq!(without_arguments(&[one, one]), Ok(Learnt { code: one.to_owned(), schema: Schema::default().to_json() }));
        let known = without_arguments(&[one, two, one, two]).unwrap();
        assert_eq!(
            known.schema["properties"]["path"],
            json!({"type": "string", "description": "path of fs:read", "examples": ["a.txt", "b.txt"]})
        );
        assert_eq!(known.schema["properties"]["n"]["type"], json!("number"));
        assert_eq!(known.schema["required"], json!(["n", "path", "to"]));
        assert_eq!(
            known.code,
            r#"const t = await tools.fs.read({ path: args.path, mode: "r" }); await tools.mail.send({ to: args.to, body: t, n: args.n });"#
        );
    }

    #[test]
    fn further_runs_and_arguments_add_examples_and_parameters() {
        let program = |path: &str, mode: &str| format!("return await tools.fs.read({{ path: '{path}', mode: '{mode}' }});");
        let [a, b, c] = [program("a", "r"), program("b", "r"), program("c", "x")];
        let known = learnt(&[(&a, json!({})), (&b, json!({})), (&c, json!({}))]).unwrap();
        assert_eq!(known.schema["properties"]["path"]["examples"], json!(["a", "b", "c"]));
        assert_eq!(known.schema["properties"]["mode"]["examples"], json!(["r", "x"]));
        // The program itself, run with arguments; and one that takes an argument where the known one has a literal.
        let again = learnt(&[
            (&a, json!({})),
            (&b, json!({})),
            ("return await tools.fs.read({ path: args.file, mode: 'r' });", json!({"file": "d"})),
        ]);
        assert_eq!(
            again.unwrap().schema["properties"]["path"]["examples"],
            json!(["a", "b"]),
            "`file` is no parameter of the known program"
        );
        let first = "return await tools.fs.read({ path: args.file, limit: args.limit });";
        let known = learnt(&[(first, json!({"file": "d"})), (first, json!({"file": "e", "limit": 3}))]).unwrap();
        assert_eq!(known.schema["properties"]["file"]["examples"], json!(["d", "e"]));
        assert_eq!(known.schema["properties"]["limit"], json!({"type": "integer", "examples": [3]}));
        assert_eq!(known.schema["required"], json!(["file"]), "the first run did without a limit");
    }

    #[test]
    fn a_secret_is_a_parameter_and_no_example() {
        let known = without_arguments(&["await tools.db.open({ user: 'me', password: 'hunter2' });"]).unwrap();
        assert_eq!(known.code, "await tools.db.open({ user: 'me', password: args.password });");
        assert_eq!(known.schema["properties"]["password"], json!({"description": "password of db:open"}));
        assert_eq!(known.schema["required"], json!(["password"]));
    }

    #[test]
    fn a_rewritten_program_has_the_same_structure_and_takes_its_parameters() {
        let program = |dir: &str| {
            format!(
                "const dir = '{dir}'; const l = await tools.fs.list({{ dir }}); await tools.zip.pack({{ dir, l, to: ['{dir}', 1] }});"
            )
        };
        let (one, two) = (program("a"), program("b"));
        let known = without_arguments(&[&one, &two]).unwrap();
        let rewritten = read(&known.code).unwrap();
        assert_eq!(rewritten.parameters, ["dir".to_owned(), "to".to_owned()].into(), "one literal that feeds two calls is one");
        assert_eq!(rewritten.edges, read(&one).unwrap().edges);
    }

    #[test]
    fn names_do_not_collide() {
        let program = |a: &str, b: &str| {
            format!(
                "await tools.fs.read({{ path: '{a}' }}); await tools.fs.write({{ path: '{b}', old: args.path }}); await tools.fs.write({{ path: '{b}{a}' }});"
            )
        };
        let known = without_arguments(&[&program("a", "b"), &program("c", "d")]).unwrap();
        assert_eq!(known.schema["required"], json!(["path_2", "read_path", "write_path"]));
    }

    #[test]
    fn programs_of_another_structure_are_refused_with_the_difference() {
        let error =
            |other: &str| without_arguments(&["const a = await tools.s.a({}); await tools.s.b({ a });", other]).unwrap_err();
        assert_eq!(error("await tools.s.a({});"), "1 calls instead of 2");
        assert_eq!(error("await tools.s.a({}); await tools.s.c({});"), "call 2 is s:c instead of s:b");
        assert_eq!(error("await tools.s.a({}); await tools.s.b({});"), "other data flow");
    }
}
