//! The programs of `programs/`, each with the structure that it must give.
//!
//! A file holds cases: `=== name`, the program, `---`, the expected structure. Calls are numbered from 1; `1 -> 2 provides /body` says that
//! the result of the first may become part of the argument `body` of the second.

use std::fmt::Write;

use super::{ReadError, read};
use crate::structure::{Reading, Repetition};

const FILES: [(&str, &str); 8] = [
    ("straight", include_str!("programs/straight.txt")),
    ("values", include_str!("programs/values.txt")),
    ("branches", include_str!("programs/branches.txt")),
    ("loops", include_str!("programs/loops.txt")),
    ("parallel", include_str!("programs/parallel.txt")),
    ("functions", include_str!("programs/functions.txt")),
    ("unresolved", include_str!("programs/unresolved.txt")),
    ("errors", include_str!("programs/errors.txt")),
];

struct Case {
    name: String,
    program: String,
    expected: String,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, text) in FILES {
        for case in format!("\n{text}").split("\n=== ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (program, expected) = rest.split_once("\n---").unwrap_or((rest, ""));
            cases.push(Case { name: format!("{file}: {name}"), program: program.to_owned(), expected: expected.to_owned() });
        }
    }
    cases
}

fn show(read: &Result<Reading, ReadError>) -> String {
    let reading = match read {
        Ok(reading) => reading,
        Err(error) => return format!("error {error}\n"),
    };
    let mut text = String::new();
    for (at, call) in reading.calls.iter().enumerate() {
        write!(text, "{} {}", at + 1, call.callee).unwrap();
        for literal in &call.literals {
            write!(text, " {}={}", literal.path, literal.value).unwrap();
        }
        for (path, fields) in &call.inputs {
            let fields: Vec<String> = fields.iter().map(|field| format!("args.{field}")).collect();
            write!(text, " {path}={}", fields.join("|")).unwrap();
        }
        text += match call.repetition {
            Repetition::Once => "",
            Repetition::Loop => " loop",
            Repetition::Parallel => " parallel",
        };
        text += if call.is_optional { " optional\n" } else { "\n" };
    }
    for edge in &reading.edges {
        let arguments: Vec<&str> = edge.arguments.iter().map(|path| if path.is_empty() { "/" } else { path }).collect();
        writeln!(text, "{} -> {} {} {}", edge.from + 1, edge.to + 1, edge.kind.name(), arguments.join(" ")).unwrap();
    }
    for unresolved in &reading.unresolved {
        writeln!(text, "? {} {}", unresolved.position, unresolved.reason).unwrap();
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn every_program_of_the_suite_gives_its_structure() {
    let cases = cases();
    assert!(cases.len() >= 60, "{} programs", cases.len());
    let mut wrong = String::new();
    for case in &cases {
        let found = show(&read(&case.program));
        if found.trim() != case.expected.trim() {
            write!(wrong, "=== {}\n{}---\n{found}", case.name, case.program).unwrap();
        }
    }
    assert!(wrong.is_empty(), "these programs give another structure:\n{wrong}");
}

#[test]
fn a_program_that_nests_too_deep_or_repeats_too_much_is_refused() {
    let nested = |open: &str, times: usize, close: &str| format!("{}1{}", open.repeat(times), close.repeat(times));
    let double = |at: usize| format!("async function f{at}() {{ await f{0}(); await f{0}(); }}", at + 1);
    let doubled = (0..40).map(double).collect::<Vec<_>>().join("\n");
    let programs = [
        nested("[", 20_000, "]"),
        nested("!", 60_000, ""),
        nested("1?1:", 16_000, ""),
        nested("1+", 30_000, ""),
        nested("if(1)", 13_000, ""),
        nested("x.then(", 450, ")"),
        nested("for(;;)", 9_000, ""),
        format!("{doubled} async function f40() {{ await tools.s.x({{}}); }} await f0();"),
        "x".repeat(super::SOURCE_BYTES_MAX + 1),
    ];
    for program in programs {
        let found = read(&program).map(|_| ());
        let is_refused = matches!(found, Err(ReadError::TooComplex | ReadError::TooLong { .. }));
        assert!(is_refused, "{found:?}: {}", &program[..20]);
    }
    assert!(read(&nested("a=>", 20_000, "")).is_ok(), "functions that nobody calls are not read");
}
