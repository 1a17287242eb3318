//! The settings of each agent: which file, what is added, and how it is found again.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::json_text::{Object, array_text, elements};
use crate::readers::hook::EVENTS;

/// The name of pml among an agent's MCP servers.
const NAME: &str = "pml";
/// The table of Codex's configuration.
const CODEX_TABLE: &str = "[mcp_servers.pml]";

/// Whether settings are added or taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Remove,
}

/// What a file of settings holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Hooks of Claude Code.
    ClaudeHooks,
    /// MCP servers of Claude Code.
    ClaudeServers,
    /// Codex's configuration, in TOML.
    Codex,
}

pub(super) struct SettingsFile {
    pub(super) agent: &'static str,
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
}

/// The files of the agents that are installed.
pub(super) fn files(home: &Path) -> Vec<SettingsFile> {
    let mut files = Vec::new();
    let file = |agent, path: PathBuf, kind| SettingsFile { agent, path, kind };
    if home.join(".claude").is_dir() {
        files.push(file("Claude Code", home.join(".claude/settings.json"), FileKind::ClaudeHooks));
        files.push(file("Claude Code", home.join(".claude.json"), FileKind::ClaudeServers));
    }
    if home.join(".codex").is_dir() {
        files.push(file("Codex", home.join(".codex/config.toml"), FileKind::Codex));
    }
    files
}

/// What the settings refer to.
pub(super) struct Settings {
    pub(super) program: String,
    pub(super) url: String,
}

impl Settings {
    /// Returns the text of a file with the settings, or without them. What else it holds stays as it is written.
    pub(super) fn changed(&self, kind: FileKind, text: &str, change: Change) -> anyhow::Result<String> {
        match kind {
            FileKind::ClaudeHooks => self.with_hooks(text, change),
            FileKind::ClaudeServers => self.with_server(text, change),
            FileKind::Codex => self.with_table(text, change),
        }
    }

    /// The variables with which OpenTelemetry reports to pml.
    pub(super) fn variables(&self) -> Vec<(String, Value)> {
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), json!(self.url)),
            ("OTEL_EXPORTER_OTLP_PROTOCOL".to_owned(), json!("http/protobuf")),
        ]
    }

    fn with_hooks(&self, text: &str, change: Change) -> anyhow::Result<String> {
        let mut settings = Object::parse(text)?;
        let mut hooks = Object::parse(settings.get("hooks").unwrap_or_default())?;
        for event in EVENTS {
            let mut groups = elements(hooks.get(event).unwrap_or_default())?;
            let has = groups.iter().any(|group| is_own(group));
            match change {
                Change::Add if !has => groups.push(self.hook_group(event)),
                Change::Remove if has => groups.retain(|group| !is_own(group)),
                _ => continue,
            }
            if groups.is_empty() {
                hooks.remove(event);
            } else {
                hooks.set(event, array_text(&groups, 2));
            }
        }
        if hooks.is_empty() && change == Change::Remove {
            settings.remove("hooks");
        } else if Object::parse(settings.get("hooks").unwrap_or_default())? != hooks {
            settings.set("hooks", hooks.text(1));
        }
        Ok(settings.file_text(text))
    }

    fn hook_group(&self, event: &str) -> String {
        // A shell runs the command.
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
        let command = if self.program.chars().all(is_plain) {
            format!("{} hook", self.program)
        } else {
            format!("'{}' hook", self.program.replace('\'', r"'\''"))
        };
        let hooks = json!([{"type": "command", "command": command, "timeout": 5}]);
        let group = if event.contains("ToolUse") { json!({"matcher": "*", "hooks": hooks}) } else { json!({"hooks": hooks}) };
        group.to_string()
    }

    fn with_server(&self, text: &str, change: Change) -> anyhow::Result<String> {
        let mut settings = Object::parse(text)?;
        let mut servers = Object::parse(settings.get("mcpServers").unwrap_or_default())?;
        match (change, servers.get(NAME).is_some()) {
            (Change::Add, false) => {
                let server = json!({"type": "stdio", "command": self.program, "args": ["mcp", "--url", self.url]});
                servers.set(NAME, server.to_string());
            }
            (Change::Remove, true) => servers.remove(NAME),
            _ => return Ok(text.to_owned()),
        }
        if servers.is_empty() {
            settings.remove("mcpServers");
        } else {
            settings.set("mcpServers", servers.text(1));
        }
        Ok(settings.file_text(text))
    }

    /// The result is read again: tables can be written in more ways than these lines know.
    fn with_table(&self, text: &str, change: Change) -> anyhow::Result<String> {
        let has = |text: &str| {
            let settings: toml::Table =
                toml::from_str(text).map_err(|error| anyhow::anyhow!("is not TOML: {}", error.message()))?;
            Ok::<_, anyhow::Error>(settings.get("mcp_servers").is_some_and(|servers| servers.get(NAME).is_some()))
        };
        let changed = match (change, has(text)?) {
            (Change::Add, false) => {
                let (program, url) = (toml_text(&self.program), toml_text(&self.url));
                let gap = if text.is_empty() {
                    ""
                } else if text.ends_with('\n') {
                    "\n"
                } else {
                    "\n\n"
                };
                format!("{text}{gap}{CODEX_TABLE}\ncommand = {program}\nargs = [\"mcp\", \"--url\", {url}]\n")
            }
            (Change::Remove, true) => without_table(text),
            _ => return Ok(text.to_owned()),
        };
        let is_done = has(&changed).is_ok_and(|has| has == (change == Change::Add));
        anyhow::ensure!(is_done, "mcp_servers is written in a way that cannot be changed here; change it by hand");
        Ok(changed)
    }
}

fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Takes the table out, with the tables in it: from its name to the next one, with the blank line before it.
fn without_table(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            inside = is_own_table(line);
            if inside && kept.last().is_some_and(|last| last.trim().is_empty()) {
                kept.pop();
            }
        }
        if !inside {
            kept.push(line);
        }
    }
    kept.concat()
}

/// Whether a line begins pml's table or one in it: `[mcp_servers.pml]`, `[mcp_servers."pml".env] # mine`.
fn is_own_table(line: &str) -> bool {
    let header: Result<toml::Table, _> = toml::from_str(line);
    let servers = header.ok().and_then(|header| header.get("mcp_servers")?.as_table().cloned());
    servers.is_some_and(|servers| servers.contains_key(NAME))
}

/// Whether a group of hooks runs `pml hook` and nothing else.
fn is_own(group: &str) -> bool {
    let Ok(group) = serde_json::from_str::<Value>(group) else { return false };
    let hooks = group["hooks"].as_array().map_or(&[][..], Vec::as_slice);
    let runs_pml = |hook: &Value| {
        let (program, last) = hook["command"].as_str().and_then(|command| command.rsplit_once(' ')).unwrap_or_default();
        last == "hook" && program.trim_matches(['\'', '"']).rsplit('/').next() == Some("pml")
    };
    !hooks.is_empty() && hooks.iter().all(runs_pml)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { program: "pml".to_owned(), url: "http://127.0.0.1:8080".to_owned() }
    }

    /// Adds and removes; what was there is there again, letter by letter.
    #[track_caller]
    fn check_undo(kind: FileKind, text: &str) -> String {
        let added = settings().changed(kind, text, Change::Add).unwrap();
        assert_eq!(settings().changed(kind, &added, Change::Add).unwrap(), added, "adding twice is adding once");
        assert_eq!(settings().changed(kind, &added, Change::Remove).unwrap(), text);
        added
    }

    #[test]
    fn hooks_are_added_beside_those_of_others_and_taken_out_again() {
        let text = r#"{
  "model": "x",
  "hooks": {
    "PostToolUse": [
      {
        "matcher": "Edit",
        "hooks": [{ "type": "command", "command": "cargo fmt" }]
      }
    ]
  },
  "zeta": { "a": [1, 2 ] }
}
"#;
        let added = check_undo(FileKind::ClaudeHooks, text);
        let value: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(value["hooks"]["PostToolUse"][0]["hooks"][0]["command"], "cargo fmt");
        assert_eq!(value["hooks"]["PostToolUse"][1]["hooks"][0]["command"], "pml hook");
        assert_eq!(
            (&value["hooks"]["PostToolUse"][1]["matcher"], &value["hooks"]["SessionEnd"][0]["matcher"]),
            (&json!("*"), &Value::Null)
        );
        assert_eq!(value["hooks"].as_object().unwrap().len(), EVENTS.len());
        assert!(added.contains(r#""zeta": { "a": [1, 2 ] }"#), "the rest stays as it was written");
        check_undo(FileKind::ClaudeHooks, "{\n  \"model\": \"x\"\n}\n");
        assert!(settings().changed(FileKind::ClaudeHooks, "[1]", Change::Add).is_err(), "it is not made worse");
    }

    #[test]
    fn a_program_with_blanks_in_its_path_is_quoted_and_found_again() {
        let settings = Settings { program: "/opt/my tools/pml".to_owned(), url: String::new() };
        let added = settings.changed(FileKind::ClaudeHooks, "", Change::Add).unwrap();
        assert!(added.contains("'/opt/my tools/pml' hook"), "{added}");
        assert_eq!(settings.changed(FileKind::ClaudeHooks, &added, Change::Remove).unwrap().trim(), "{}");
    }

    #[test]
    fn the_server_is_added_to_the_servers_and_to_the_toml_of_codex() {
        let added = check_undo(
            FileKind::ClaudeServers,
            "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"x\"}\n  }\n}\n",
        );
        let value: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(value["mcpServers"]["pml"]["args"], json!(["mcp", "--url", "http://127.0.0.1:8080"]));
        let added = check_undo(FileKind::Codex, "model = \"x\" # mine\n\n[mcp_servers.fs]\ncommand = \"y\"\n");
        let parsed: toml::Value = toml::from_str(&added).unwrap();
        assert_eq!(parsed["mcp_servers"]["pml"]["args"][0].as_str(), Some("mcp"));
        let before_others = "[mcp_servers.pml]\ncommand = \"pml\"\n\n[other]\nx = 1\n";
        assert_eq!(settings().changed(FileKind::Codex, before_others, Change::Remove).unwrap(), "[other]\nx = 1\n");
    }

    #[test]
    fn a_table_of_codex_is_recognised_however_it_is_written_and_never_written_twice() {
        for header in ["[mcp_servers.pml] # mine", "[ mcp_servers . \"pml\" ]", "mcp_servers.pml = {}\n[a]"] {
            let text = format!("{header}\ncommand = \"pml\"\n");
            assert_eq!(settings().changed(FileKind::Codex, &text, Change::Add).unwrap(), text);
        }
        let with_env = "[mcp_servers.'pml'] # mine\ncommand = \"pml\"\n\n[mcp_servers.pml.env]\nA = \"b\"\n\n[other]\nx = 1\n";
        assert_eq!(settings().changed(FileKind::Codex, with_env, Change::Remove).unwrap(), "[other]\nx = 1\n");
        for text in ["mcp_servers = { fs = { command = \"x\" } }\n", "not toml"] {
            assert!(settings().changed(FileKind::Codex, text, Change::Add).is_err(), "{text}");
        }
        assert!(settings().changed(FileKind::Codex, "mcp_servers.pml.command = \"x\"\n", Change::Remove).is_err());
    }

    #[test]
    fn a_program_whose_path_a_shell_would_interpret_is_quoted() {
        for program in ["/opt/$(id)/pml", "/opt/a;b/pml", "/opt/a&b/pml", "/opt/it's/pml"] {
            let settings = Settings { program: program.to_owned(), url: String::new() };
            let added = settings.changed(FileKind::ClaudeHooks, "", Change::Add).unwrap();
            let value: Value = serde_json::from_str(&added).unwrap();
            let command = value["hooks"]["SessionEnd"][0]["hooks"][0]["command"].as_str().unwrap();
            assert_eq!(command, format!("'{}' hook", program.replace('\'', r"'\''")));
            assert_eq!(settings.changed(FileKind::ClaudeHooks, &added, Change::Remove).unwrap().trim(), "{}");
        }
    }
}
