//! A structure as text for people.

use std::fmt::Write;

use pml_core::graph::edge::EdgeKind;

use crate::structure::{Edge, Reading, Repetition};

/// One line per call in the order of the program, and below it where its arguments and its turn come from.
pub fn draw(reading: &Reading) -> String {
    let mut text = String::new();
    for (at, call) in reading.calls.iter().enumerate() {
        let mut remarks = Vec::new();
        match call.repetition {
            Repetition::Once => {}
            Repetition::Loop => remarks.push("repeated"),
            Repetition::Parallel => remarks.push("repeated, in parallel"),
        }
        if call.is_optional {
            remarks.push("optional");
        }
        let remarks = if remarks.is_empty() { String::new() } else { format!("  ({})", remarks.join(", ")) };
        put(&mut text, &format!("{:>3}  {}{remarks}  line {}", at + 1, call.callee, call.position.line));
        for literal in &call.literals {
            put(&mut text, &format!("       {} = {}", argument(&literal.path), literal.value));
        }
        for (path, fields) in &call.inputs {
            let fields: Vec<String> = fields.iter().map(|field| input(field)).collect();
            put(&mut text, &format!("       {} <- {}", argument(path), fields.join(", ")));
        }
        for edge in reading.edges.iter().filter(|edge| edge.to == at) {
            put(&mut text, &format!("       {}", arrow(edge)));
        }
    }
    for unresolved in &reading.unresolved {
        put(&mut text, &format!("  ?  {} at {}: only a run can tell", unresolved.reason, unresolved.position));
    }
    text
}

fn arrow(edge: &Edge) -> String {
    let from = edge.from + 1;
    match edge.kind {
        EdgeKind::Provides => {
            let arguments: Vec<String> = edge.arguments.iter().map(|path| argument(path)).collect();
            format!("{} <- {from}", arguments.join(", "))
        }
        EdgeKind::Conditional => format!("if {from}"),
        _ => format!("after {from}"),
    }
}

fn argument(path: &str) -> String {
    if path.is_empty() { "arguments".to_owned() } else { path[1..].replace('/', ".") }
}

fn input(field: &str) -> String {
    if field.is_empty() { "args".to_owned() } else { format!("args.{field}") }
}

fn put(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_shows_calls_arguments_and_what_only_a_run_can_tell() {
        let source = "const list = await tools.fs.list({ dir: 'a' });\nfor (const file of list) {\n  if (file.big) await tools.zip.pack({ file, to: args.to });\n}\nawait tools.s[args.name]({});";
        let expected = "  1  fs:list  line 1
       dir = \"a\"
  2  zip:pack  (repeated, optional)  line 3
       to <- args.to
       file <- 1
       if 1
  3  ?  line 5
       after 2
  ?  the name of the tool is computed at 5:7: only a run can tell
";
        assert_eq!(draw(&crate::read(source).unwrap()), expected);
    }
}
