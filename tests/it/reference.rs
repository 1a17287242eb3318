//! `docs/reference/`: made from the program itself, and compared with it. `PML_BLESS=1` writes the files anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::server::{Server, pml};

/// Compares a page with its file, or writes it.
fn check(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name);
    if std::env::var_os("PML_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{} is not what the program says; PML_BLESS=1 writes it anew", path.display());
}

fn page(title: &str, origin: &str) -> String {
    format!("# {title}\n\nMade from {origin} by `tests/it/reference.rs`; changes here are overwritten.\n\n")
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[test]
fn the_configuration_is_described_as_it_is() {
    let mut text = page("Configuration", "`config/pml.toml`");
    text.push_str("A file (`--config`, `PML_CONFIG`) and variables `PML__SECTION__KEY` override the defaults. `pml config default` prints this as a file.\n");
    let (mut comment, mut open) = (String::new(), false);
    // The head of the file is about all keys.
    for line in pml::config::DEFAULTS.lines().skip_while(|line| line.starts_with('#')) {
        if let Some(words) = line.strip_prefix("# ") {
            write!(comment, "{words} ").unwrap();
        } else if line.starts_with('[') {
            write!(text, "\n## {line}\n").unwrap();
            open = false;
        } else if let Some((key, value)) = line.split_once(" = ") {
            if !open {
                text.push_str("\n| key | default | meaning |\n|---|---|---|\n");
                open = true;
            }
            let meaning = if comment.is_empty() { "see above".to_owned() } else { cell(&comment) };
            writeln!(text, "| `{key}` | `{value}` | {meaning} |").unwrap();
            comment.clear();
        }
    }
    check("configuration.md", &text);
}

/// The help of a command and of those below it.
fn add_help(command: &[String], text: &mut String) {
    let output = pml().args(command).arg("--help").env("COLUMNS", "120").output().unwrap();
    assert!(output.status.success(), "{command:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    let depth = "#".repeat(command.len().min(2) + 1);
    let title = if command.is_empty() { "pml".to_owned() } else { format!("pml {}", command.join(" ")) };
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    write!(text, "\n{depth} {title}\n\n```text\n{}\n```\n", lines.join("\n")).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let names = listed.lines().take_while(|line| !line.is_empty());
    for name in
        names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty() && *name != "help"))
    {
        let mut below = command.to_vec();
        below.push(name.to_owned());
        add_help(&below, text);
    }
}

#[test]
fn the_commands_are_described_as_they_are() {
    let mut text = page("Commands", "`pml --help`");
    add_help(&[], &mut text);
    check("commands.md", &text);
}

/// The type of a member, as a schema says it.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap_or(name).to_owned();
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(kinds) = schema[several].as_array() {
            let kinds: Vec<String> = kinds.iter().map(type_of).filter(|kind| kind != "null").collect();
            return kinds.join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| value.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" or ");
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("any").to_owned(),
        _ => "any JSON".to_owned(),
    };
    if kind == "array" { format!("list of {}", type_of(&schema["items"])) } else { kind }
}

#[test]
fn the_events_are_described_as_they_are() {
    use pml::core::event::{Kind, schema};
    let mut text = page("Events", "the schemas in `schemas/`");
    text.push_str("The data of every kind. Agents publish the first ones; the rest is written by pml.\n");
    let (ours, theirs): (Vec<Kind>, Vec<Kind>) = Kind::ALL.into_iter().partition(|kind| !kind.is_publishable());
    for kind in theirs.into_iter().chain(ours) {
        let schema = schema::for_kind(kind);
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let described = cell(schema["description"].as_str().unwrap_or_default());
        write!(text, "\n## pml.{kind}\n\n{described}\n\n| member | type | meaning |\n|---|---|---|\n").unwrap();
        for (name, member) in schema["properties"].as_object().unwrap() {
            let needed = if required.contains(&name.as_str()) { ", required" } else { "" };
            let meaning = cell(member["description"].as_str().unwrap_or_default());
            writeln!(text, "| `{name}` | {}{needed} | {meaning} |", type_of(member)).unwrap();
        }
    }
    check("events.md", &text);
}

#[test]
fn the_metrics_are_described_as_they_are() {
    let server = Server::start();
    let mut text = page("Metrics", "`GET /metrics`");
    text.push_str("| metric | type | meaning |\n|---|---|---|\n");
    let answer = server.get("/metrics").text;
    let mut rows: Vec<String> = Vec::new();
    for line in answer.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, meaning) = line.split_once(' ').unwrap();
        let kind = answer.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        let suffix = if kind == "counter" { "_total" } else { "" };
        rows.push(format!("| `{name}{suffix}` | {kind} | {} |", cell(meaning)));
    }
    assert!(rows.len() > 10, "{answer}");
    rows.sort();
    text.push_str(&(rows.join("\n") + "\n"));
    check("metrics.md", &text);
}

#[test]
fn the_routes_are_described_as_they_are() {
    let document = Server::start().ask("/openapi.json");
    let mut text = page("HTTP", "`GET /openapi.json`");
    text.push_str("| operation | scope | answers |\n|---|---|---|\n");
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let scope = operation["security"].as_array().into_iter().flatten().find_map(|one| one["key"][0].as_str());
            let summary = cell(operation["summary"].as_str().unwrap_or_default());
            writeln!(text, "| `{} {path}` | {} | {summary} |", method.to_uppercase(), scope.unwrap_or("none")).unwrap();
        }
    }
    check("http.md", &text);
}
