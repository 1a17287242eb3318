//! The rules of the house that a compiler does not know: layering, sizes, dead files, unread keys. Reads the sources, links nothing.

#![expect(clippy::unwrap_used, reason = "a panic in a helper fails the test that used it, which is what it is for")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CODE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
/// The pure crates.
const PURE_CRATES: [&str; 3] = ["src/core", "src/model", "src/readers"];
/// All crates but the root: Cargo keeps them from using anything above them.
const CRATES: [&str; 4] = ["src/code", "src/core", "src/model", "src/readers"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `directory`, as a path relative to the project.
fn rust_files(directory: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(directory)];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{directory} holds no sources");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The part of a file before its unit tests.
fn code(path: &Path) -> String {
    let text = read(path);
    text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn lines_with(path: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let text = code(path);
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//") && wanted(line));
    numbered.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())).collect()
}

#[test]
fn the_core_has_no_io_clock_async_threads_or_randomness() {
    let banned = [
        "std::fs",
        "std::io",
        "std::net",
        "std::env",
        "std::thread",
        "std::process",
        "std::time",
        "SystemTime",
        "Instant",
        "tokio",
        "actix",
        "async ",
        ".await",
        "getrandom",
        "rand::",
        "Mutex",
        "RwLock",
        "static mut",
        "thread_local",
        "tracing::",
    ];
    // One product may be computed on several threads: they share out its rows, so the result does not depend on them.
    let shares_rows =
        |path: &Path, line: &str| path == Path::new("src/model/shgat/product.rs") && line.contains("thread::scope");
    // The formatter of serde_json is given the trait of writers; what it writes to is in memory.
    let formats =
        |path: &Path, line: &str| path == Path::new("src/core/event/codec/present.rs") && line == "use std::io::{self, Write};";
    let is_allowed = |path: &Path, line: &str| shares_rows(path, line) || formats(path, line);
    let guilty =
        |path: &PathBuf| lines_with(path, |line| banned.iter().any(|word| line.contains(word)) && !is_allowed(path, line));
    report(&PURE_CRATES.iter().flat_map(|folder| rust_files(folder)).flat_map(|path| guilty(&path)).collect::<Vec<_>>());
}

/// The module of `src` that a file belongs to: the first folder, or the file itself.
fn module(path: &Path) -> String {
    let first = path.strip_prefix("src").unwrap().components().next().unwrap();
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
}

/// The layers of modules as ARCHITECTURE.md draws them, the lowest last: lines of names, with a remark after `|`.
fn layers(architecture: &str) -> Vec<Vec<&str>> {
    let picture = architecture.split("## Layers").nth(1).expect("ARCHITECTURE.md has a section 'Layers'");
    let section = picture.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("    ") && line.contains('|'));
    lines.map(|line| line.split('|').next().unwrap_or_default().split_whitespace().collect()).collect()
}

/// Every use of a module that does not stand in a layer below, as `file: a uses b`.
fn upward_uses<'a>(layers: &[Vec<&str>], files: impl Iterator<Item = (&'a Path, &'a str)>) -> Vec<String> {
    let height = |name: &str| layers.iter().rev().position(|layer| layer.contains(&name));
    let mut problems = Vec::new();
    for (path, text) in files {
        let own = module(path);
        let is_own_crate = CRATES.iter().any(|folder| path.starts_with(folder));
        if is_own_crate || ["lib", "main"].contains(&own.as_str()) {
            continue;
        }
        let Some(own_height) = height(&own) else {
            problems.push(format!("{}: '{own}' has no layer in ARCHITECTURE.md", path.display()));
            continue;
        };
        let names: BTreeSet<&str> = text
            .split("crate::")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default())
            .filter(|name| *name != own)
            .collect();
        let wrong = names.into_iter().filter(|name| height(name).is_some_and(|other| other >= own_height));
        problems.extend(wrong.map(|name| format!("{}: {own} uses {name}, which is not below it", path.display())));
    }
    problems
}

#[test]
fn a_module_uses_only_modules_below_it() {
    let architecture = read(Path::new("ARCHITECTURE.md"));
    let layers = layers(&architecture);
    let sources: Vec<(PathBuf, String)> = rust_files("src").into_iter().map(|path| (path.clone(), code(&path))).collect();
    report(&upward_uses(&layers, sources.iter().map(|(path, text)| (path.as_path(), text.as_str()))));
    let modules: BTreeSet<String> = sources.iter().map(|(path, _)| module(path)).collect();
    let gone = layers.iter().flatten().filter(|name| !modules.contains(**name));
    report(&gone.map(|name| format!("ARCHITECTURE.md: the layers name '{name}', which does not exist")).collect::<Vec<_>>());
}

#[test]
fn a_planted_cycle_of_modules_is_found() {
    let layers = layers("## Layers\n\n    upper | x\n    lower | y\n\n## Next\n");
    let check = |path: &str, text: &str| upward_uses(&layers, [(Path::new(path), text)].into_iter());
    assert_eq!(check("src/upper/a.rs", "use crate::lower::B;"), [""; 0]);
    assert_eq!(
        check("src/lower.rs", "fn f() { crate::upper::g() }"),
        ["src/lower.rs: lower uses upper, which is not below it"]
    );
    assert_eq!(check("src/new.rs", ""), ["src/new.rs: 'new' has no layer in ARCHITECTURE.md"]);
}

#[test]
fn the_root_of_a_folder_is_a_file_beside_it() {
    let second_style = |path: &&PathBuf| path.ends_with("mod.rs");
    let files = rust_files("src");
    let problems = files.iter().filter(second_style).map(|path| format!("{}: name it after its folder", path.display()));
    report(&problems.collect::<Vec<_>>());
}

#[test]
fn serde_stays_at_the_edge_of_the_core() {
    // Redaction has to look inside carried JSON; workflows and shapes are about the JSON of arguments and results.
    let folders = ["src/core/event", "src/core/redact", "src/core/workflow"];
    let files = ["src/core/redact.rs", "src/core/workflow.rs", "src/core/shape.rs"];
    let allowed =
        |path: &Path| folders.iter().any(|folder| path.starts_with(folder)) || files.iter().any(|file| path == Path::new(file));
    let guilty = |path: &PathBuf| lines_with(path, |line| line.contains("serde"));
    report(&rust_files("src/core").iter().filter(|path| !allowed(path)).flat_map(guilty).collect::<Vec<_>>());
}

#[test]
fn actix_actors_stay_in_actors() {
    let allowed = |path: &Path| {
        path.starts_with("src/actors") || path == Path::new("src/actors.rs") || path == Path::new("src/publisher.rs")
    };
    let guilty = |path: &PathBuf| lines_with(path, |line| line.contains("use actix::") || line.contains("actix::"));
    report(&rust_files("src").iter().filter(|path| !allowed(path)).flat_map(guilty).collect::<Vec<_>>());
}

#[test]
fn settings_and_time_are_read_in_one_place_each() {
    let mut problems = Vec::new();
    for path in rust_files("src") {
        let name = path.to_string_lossy().into_owned();
        let reads_time = ["src/bench", "src/code/bench", "src/code/main.rs", "src/clock.rs"];
        if !reads_time.iter().any(|allowed| name.starts_with(allowed)) {
            problems.extend(lines_with(&path, |line| line.contains("SystemTime::now") || line.contains("Instant::now")));
        }
        if !name.starts_with("src/cli") {
            problems.extend(lines_with(&path, |line| line.contains("std::env::var")));
        }
    }
    report(&problems);
}

#[test]
fn files_and_functions_stay_small() {
    let mut problems = Vec::new();
    for path in rust_files("src") {
        let text = code(&path);
        let lines = text.lines().count();
        if lines > CODE_LINES_MAX {
            problems.push(format!("{}: {lines} lines before its tests, the limit is {CODE_LINES_MAX}", path.display()));
        }
        problems.extend(long_functions(&path, &text));
    }
    report(&problems);
}

/// Functions by the indentation of their first and last line, which rustfmt guarantees.
fn long_functions(path: &Path, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let is_function = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "async fn ", "pub async fn "]
            .iter()
            .chain(&["pub(crate) async fn ", "pub(super) async fn ", "const fn ", "pub const fn "])
            .any(|prefix| body.starts_with(prefix));
        if !is_function {
            continue;
        }
        let indent = " ".repeat(line.len() - body.len());
        let end = lines[start..].iter().position(|line| *line == format!("{indent}}}"));
        if let Some(len) = end.filter(|len| *len > FUNCTION_LINES_MAX) {
            problems.push(format!("{}:{}: {len} lines in one function", path.display(), start + 1));
        }
    }
    problems
}

#[test]
fn every_source_file_is_part_of_the_crate() {
    let mut problems = Vec::new();
    for directory in ["src", "tests/it"] {
        for path in rust_files(directory) {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            if ["lib", "main"].contains(&stem.as_str()) {
                continue;
            }
            let (name, parent) = (stem, path.parent().unwrap().to_owned());
            let declared = |file: PathBuf| {
                root().join(&file).exists()
                    && read(&file).lines().any(|line| line.trim_end().ends_with(&format!("mod {name};")))
            };
            let candidates = [parent.join("lib.rs"), parent.join("main.rs"), parent.with_extension("rs")];
            if !candidates.into_iter().any(declared) {
                problems.push(format!("{}: no `mod {name};` leads to it", path.display()));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_configuration_key_is_read() {
    let config = read(Path::new("config/pml.toml"));
    let keys: BTreeSet<&str> = config
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = ").map(|(key, _)| key.trim()))
        .collect();
    assert!(keys.len() > 20, "the configuration lists its keys one per line");
    let sources: String =
        rust_files("src").iter().filter(|path| **path != Path::new("src/config.rs")).map(|path| code(path)).collect();
    let own = code(Path::new("src/config.rs"));
    let unread = keys.iter().filter(|key| {
        let field = format!(".{key}");
        // The limits are handed over as a whole, in the configuration's own conversion.
        !sources.contains(&field) && !own.contains(&format!("{key}: keys.{key}"))
    });
    report(&unread.map(|key| format!("config/pml.toml: nothing reads '{key}'")).collect::<Vec<_>>());
}

#[test]
fn the_packages_have_the_version_of_the_program() {
    let manifest = read(Path::new("Cargo.toml"));
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"').to_owned();
    let places = [
        ("clients/python/pyproject.toml", format!("\nversion = \"{version}\"\n"), 1),
        ("clients/python/pml_client/__init__.py", format!("\n__version__ = \"{version}\"\n"), 1),
        ("clients/typescript/package.json", format!("\n  \"version\": \"{version}\","), 1),
        ("packaging/npm/package.json", format!("\n  \"version\": \"{version}\","), 1),
        // The launcher and the programs of the platforms are released together.
        ("packaging/npm/package.json", format!("\": \"{version}\""), 5),
    ];
    let wrong = places.iter().filter(|(path, text, times)| read(Path::new(path)).matches(text.as_str()).count() != *times);
    report(&wrong.map(|(path, text, _)| format!("{path}: expected {}", text.trim())).collect::<Vec<_>>());
}

#[test]
fn sources_are_ascii_and_free_of_leftovers() {
    let banned = ["todo!(", "unimplemented!(", "dbg!(", "FIXME", "XXX", "#[ignore", "#[allow", "simplified", "for now"];
    let mut problems = Vec::new();
    for directory in ["src", "tests/it", "benches"] {
        for path in rust_files(directory) {
            for (at, line) in read(&path).lines().enumerate() {
                if !line.is_ascii() {
                    problems.push(format!("{}:{}: not ASCII", path.display(), at + 1));
                }
                if let Some(word) = banned.iter().find(|word| line.contains(**word)) {
                    problems.push(format!("{}:{}: {word}", path.display(), at + 1));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn documents_are_ascii_and_name_tests_that_exist() {
    let architecture = read(Path::new("ARCHITECTURE.md"));
    let mut sources = String::new();
    for directory in ["src", "tests"] {
        sources.extend(rust_files(directory).iter().map(|path| read(path)));
    }
    // Names of tests stand in backquotes after "held by".
    let named = architecture
        .lines()
        .filter_map(|line| line.split_once("Held by "))
        .flat_map(|(_, rest)| rest.split('`').skip(1).step_by(2));
    let named: Vec<&str> = named.collect();
    assert!(named.len() >= 9, "every invariant names its test");
    let missing = named.iter().filter(|name| !sources.contains(&format!("fn {}(", name.rsplit("::").next().unwrap())));
    report(&missing.map(|name| format!("ARCHITECTURE.md: no test `{name}`")).collect::<Vec<_>>());
}
