//! Files that people write: the configuration, the list of servers, templates, programs.

use std::path::PathBuf;

use pml::config::Config;
use pml::upstream::servers_file::ServersFile;
use pml_fuzzer::{Form, Target};
use tempfile::TempDir;

use super::{JSON_TREE_MULTIPLE, target};

/// A file that holds the input.
struct InputFile {
    path: PathBuf,
    _home: TempDir,
}

impl InputFile {
    fn new(name: &str) -> Self {
        let home = TempDir::new().unwrap();
        Self { path: home.path().join(name), _home: home }
    }

    fn write(&self, input: &[u8]) {
        std::fs::write(&self.path, input).unwrap();
    }
}

pub(super) fn configuration() -> Target {
    let file = InputFile::new("pml.toml");
    let samples = vec![pml::config::DEFAULTS.as_bytes().to_vec()];
    let words = &["http", "listen", "0.0.0.0:0", "true", "[nats]", "[[", "]]", "18446744073709551616", "-1", "nan", "'''", "("];
    let mut target = target("config", Form::Text, samples, words, move |input| {
        file.write(input);
        Config::load(Some(&file.path), []).map(drop).map_err(|error| error.to_string())
    });
    // The defaults are parsed besides the input.
    (target.memory_fixed, target.memory_multiple) = (8 << 20, 256);
    target
}

pub(super) fn servers() -> Target {
    let file = InputFile::new("servers.json");
    let words =
        &["mcpServers", "command", "url", "args", "env", "headers", "disabled", "type", "sse", "http://", "${A}", "a__b"];
    let mut target = target("servers", Form::Json, vec![br#"{"mcpServers":{}}"#.to_vec()], words, move |input| {
        file.write(input);
        let servers = ServersFile::read(&file.path).map_err(|error| error.to_string())?;
        let problem = servers.entries().into_values().find_map(Result::err);
        problem.map_or(Ok(()), Err)
    });
    target.memory_multiple = JSON_TREE_MULTIPLE;
    target
}

pub(super) fn templates() -> Target {
    let file = InputFile::new("templates.yaml");
    let words =
        &["templates:", "workflows:", "name:", "edges:", "steps:", "- ", "[", "]", "&a", "*a", "<<: *a", "!!binary", "|", ">"];
    let samples = vec![b"templates: {}\n".to_vec()];
    let mut target = target("templates", Form::Text, samples, words, move |input| {
        file.write(input);
        pml::templates::load(file.path.to_str().unwrap()).map(drop).map_err(|error| error.to_string())
    });
    target.memory_fixed = 1 << 20;
    target
}

pub(super) fn typescript() -> Target {
    let words = &[
        "await",
        "async",
        "function",
        "=>",
        "mcp.fs.read",
        "for",
        "of",
        "while",
        "class",
        "enum",
        "interface",
        "type",
        "as",
        "?.",
        "??",
        "...",
        "`",
        "${",
        "}",
        "return",
        "const",
        "let",
        "switch",
        "case",
        "try",
        "catch",
        "yield",
        "import",
        "export",
        "satisfies",
        "<T>",
        "@x",
        "/*",
        "//",
        "#private",
        "new",
        "delete",
        "Promise.all([",
        "])",
    ];
    let mut target =
        target("typescript", Form::Text, vec![b"return await mcp.fs.read({ path: 1 });".to_vec()], words, |input| {
            let text = String::from_utf8_lossy(input);
            pml::code::read(&text).map(drop).map_err(|error| error.to_string())
        });
    // A tree with types is some hundred times as long as its text; the reading follows values along every path.
    (target.memory_fixed, target.memory_multiple) = (16 << 20, 2_048);
    target
}
