//! The servers file: which MCP servers there are, in the shape that agents use.
//!
//! Members that pml does not know are kept: the file may be shared with an agent. An entry that cannot be used spoils no other one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::private;

/// Longest name of a server, in bytes.
const NAME_LEN_MAX: usize = 64;
/// Names that mean something else in an id.
const RESERVED: [&str; 2] = ["capability", "pml"];
/// The members of a file that hold servers: those of Claude and Cursor, of Codex, and of VS Code.
const SERVER_MEMBERS: [&str; 3] = ["mcpServers", "mcp_servers", "servers"];

/// Why the file cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum ServersFileError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}: {problem}")]
    Malformed { path: PathBuf, problem: String },
    #[error("server '{name}': {problem}")]
    Entry { name: String, problem: String },
    #[error("no server is called '{0}'; `pml servers list` shows them")]
    Unknown(String),
    #[error("a server is called '{0}' already; remove it first, or choose another name")]
    Exists(String),
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A child process that speaks over its standard input and output.
    Command { command: String, args: Vec<String>, env: BTreeMap<String, String>, directory: Option<PathBuf> },
    /// A server that speaks streamable HTTP.
    Url { url: String, headers: BTreeMap<String, String> },
}

/// One server of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEntry {
    pub target: Target,
    pub disabled: bool,
    /// Names of tools that are not offered.
    pub disabled_tools: BTreeSet<String>,
    pub timeout_ms: Option<u64>,
    pub concurrency: Option<usize>,
}

/// The servers by name; an entry that cannot be used is its problem.
pub type Entries = BTreeMap<String, Result<ServerEntry, String>>;

/// The names of servers that were added, and those left out with the reason.
pub type Imported = (Vec<String>, Vec<(String, String)>);

#[derive(Deserialize)]
struct WrittenEntry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
    #[serde(default)]
    disabled_tools: BTreeSet<String>,
    timeout_ms: Option<u64>,
    concurrency: Option<usize>,
}

/// The file as it is written.
pub struct ServersFile {
    path: PathBuf,
    document: Map<String, Value>,
}

impl ServersFile {
    /// Reads the file; a missing one has no servers.
    pub fn read(path: &Path) -> Result<Self, ServersFileError> {
        let document = match std::fs::read_to_string(path) {
            Ok(text) => parse_document(path, &text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Map::new(),
            Err(source) => return Err(ServersFileError::Read { path: path.to_owned(), source }),
        };
        Ok(Self { path: path.to_owned(), document })
    }

    /// The servers of the file.
    pub fn entries(&self) -> Entries {
        let servers = self.document.get(SERVER_MEMBERS[0]).and_then(Value::as_object);
        let entry = |(name, value): (&String, &Value)| (name.clone(), parse_entry(name, value));
        servers.into_iter().flatten().map(entry).collect()
    }

    /// Adds a server.
    pub fn add(&mut self, name: &str, entry: Value) -> Result<(), ServersFileError> {
        parse_entry(name, &entry).map_err(|problem| ServersFileError::Entry { name: name.to_owned(), problem })?;
        let servers = self.servers_mut()?;
        if servers.contains_key(name) {
            return Err(ServersFileError::Exists(name.to_owned()));
        }
        servers.insert(name.to_owned(), entry);
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> Result<(), ServersFileError> {
        let removed = self.servers_mut()?.remove(name);
        removed.map(drop).ok_or_else(|| ServersFileError::Unknown(name.to_owned()))
    }

    /// Switches a server on or off.
    pub fn set_enabled(&mut self, name: &str, enabled: bool) -> Result<(), ServersFileError> {
        let entry = self.entry_mut(name)?;
        if enabled {
            entry.remove("disabled");
        } else {
            entry.insert("disabled".to_owned(), json!(true));
        }
        Ok(())
    }

    /// Switches one tool of a server on or off.
    pub fn set_tool_enabled(&mut self, name: &str, tool: &str, enabled: bool) -> Result<(), ServersFileError> {
        let entry = self.entry_mut(name)?;
        let listed = entry.get("disabled_tools").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let mut disabled: BTreeSet<String> = listed.map(str::to_owned).collect();
        if enabled {
            disabled.remove(tool);
        } else {
            disabled.insert(tool.to_owned());
        }
        entry.insert("disabled_tools".to_owned(), json!(disabled));
        Ok(())
    }

    /// Adds the servers of another agent's file (JSON or TOML). Returns the names added, and those left out with the reason.
    pub fn import(&mut self, path: &Path) -> Result<Imported, ServersFileError> {
        let read = |source| ServersFileError::Read { path: path.to_owned(), source };
        let other = parse_document(path, &std::fs::read_to_string(path).map_err(read)?)?;
        let nested = other.get("mcp").and_then(Value::as_object);
        let found = SERVER_MEMBERS.iter().find_map(|member| {
            let servers = other.get(*member).or_else(|| nested.and_then(|nested| nested.get(*member)));
            servers.and_then(Value::as_object)
        });
        let Some(found) = found else {
            let problem = format!("has none of {}", SERVER_MEMBERS.join(", "));
            return Err(ServersFileError::Malformed { path: path.to_owned(), problem });
        };
        let (mut added, mut left_out) = (Vec::new(), Vec::new());
        for (name, entry) in found {
            let name = usable_name(name);
            match self.add(&name, entry.clone()) {
                Ok(()) => added.push(name),
                Err(error) => left_out.push((name, error.to_string())),
            }
        }
        Ok((added, left_out))
    }

    /// Writes the file as a whole, for the owner only: it may hold secrets.
    pub fn write(&self) -> Result<(), ServersFileError> {
        let failed = |source| ServersFileError::Write { path: self.path.clone(), source };
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            private::create_directory(parent).map_err(failed)?;
        }
        let unfinished = self.path.with_extension("json.new");
        let text = serde_json::to_string_pretty(&self.document).expect("JSON values can be printed");
        let mut file = private::create_file(&unfinished).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&unfinished, &self.path).map_err(failed)
    }

    fn servers_mut(&mut self) -> Result<&mut Map<String, Value>, ServersFileError> {
        let servers = self.document.entry(SERVER_MEMBERS[0]).or_insert_with(|| json!({}));
        servers.as_object_mut().ok_or_else(|| ServersFileError::Malformed {
            path: self.path.clone(),
            problem: format!("'{}' is no object", SERVER_MEMBERS[0]),
        })
    }

    fn entry_mut(&mut self, name: &str) -> Result<&mut Map<String, Value>, ServersFileError> {
        let entry = self.servers_mut()?.get_mut(name).and_then(Value::as_object_mut);
        entry.ok_or_else(|| ServersFileError::Unknown(name.to_owned()))
    }
}

fn parse_document(path: &Path, text: &str) -> Result<Map<String, Value>, ServersFileError> {
    let malformed = |problem: String| ServersFileError::Malformed { path: path.to_owned(), problem };
    if path.extension().is_some_and(|extension| extension == "toml") {
        return toml::from_str(text).map_err(|error| malformed(error.to_string()));
    }
    serde_json::from_str(text).map_err(|error| malformed(error.to_string()))
}

fn parse_entry(name: &str, value: &Value) -> Result<ServerEntry, String> {
    check_name(name)?;
    let written = WrittenEntry::deserialize(value).map_err(|error| error.to_string())?;
    let target = match (written.command, written.url) {
        (Some(command), None) if !command.is_empty() => {
            Target::Command { command, args: written.args, env: written.env, directory: written.cwd }
        }
        (None, Some(_)) if written.kind.as_deref() == Some("sse") => {
            return Err("type: 'sse' is the transport that MCP gave up in 2025; pml speaks streamable HTTP".to_owned());
        }
        (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") || url.starts_with("${") => {
            Target::Url { url, headers: written.headers }
        }
        (None, Some(url)) => return Err(format!("url: '{url}' does not begin with http:// or https://")),
        _ => return Err("needs a command or a url, not both".to_owned()),
    };
    if written.concurrency == Some(0) || written.timeout_ms == Some(0) {
        return Err("concurrency and timeout_ms must be at least 1".to_owned());
    }
    Ok(ServerEntry {
        target,
        disabled: written.disabled,
        disabled_tools: written.disabled_tools,
        timeout_ms: written.timeout_ms,
        concurrency: written.concurrency,
    })
}

/// Names are the first half of tool ids, and of `server__tool` and `mcp__server__tool` in other spellings.
fn check_name(name: &str) -> Result<(), String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(letters) || name.contains("__") {
        return Err(format!("the name must have 1 to {NAME_LEN_MAX} letters, digits, '-' or single '_'"));
    }
    if RESERVED.contains(&name) {
        return Err(format!("'{name}' is reserved; choose another name"));
    }
    Ok(())
}

/// The name with characters replaced that it may not have.
fn usable_name(name: &str) -> String {
    let replaced: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let parts: Vec<&str> = replaced.split('_').filter(|part| !part.is_empty()).collect();
    parts.join("_").chars().take(NAME_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ServersFile {
        ServersFile { path: "x.json".into(), document: serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn an_entry_that_cannot_be_used_spoils_no_other() {
        let text = r#"{"mcpServers": {
            "fs": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "autoApprove": [], "disabled_tools": ["rm"]},
            "web": {"type": "http", "url": "https://x.example/mcp", "headers": {"A": "b"}, "timeout_ms": 5},
            "old": {"type": "sse", "url": "https://x.example/sse"},
            "both": {"command": "a", "url": "http://b"}, "ftp": {"url": "ftp://x"}, "bad name": {"command": "a"},
            "capability": {"command": "a"}, "zero": {"command": "a", "concurrency": 0}, "odd": {"command": 7}}}"#;
        let entries = file(text).entries();
        let usable: Vec<&str> = entries.iter().filter(|(_, entry)| entry.is_ok()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(usable, ["fs", "web"]);
        let fs = entries["fs"].as_ref().unwrap();
        assert!(fs.disabled_tools.contains("rm") && matches!(&fs.target, Target::Command { env, .. } if env["A"] == "b"));
        assert!(entries["old"].as_ref().unwrap_err().contains("streamable HTTP"));
    }

    #[test]
    fn changes_keep_what_others_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config/servers.json");
        let mut servers = ServersFile::read(&path).unwrap();
        servers.add("fs", json!({"command": "a", "autoApprove": ["x"]})).unwrap();
        assert!(matches!(servers.add("fs", json!({"command": "a"})), Err(ServersFileError::Exists(_))));
        servers.set_enabled("fs", false).unwrap();
        servers.set_tool_enabled("fs", "rm", false).unwrap();
        servers.set_tool_enabled("fs", "ls", false).unwrap();
        servers.set_tool_enabled("fs", "ls", true).unwrap();
        servers.write().unwrap();
        let mut read = ServersFile::read(&path).unwrap();
        assert_eq!(
            read.document["mcpServers"]["fs"],
            json!({"command": "a", "autoApprove": ["x"], "disabled": true, "disabled_tools": ["rm"]})
        );
        read.set_enabled("fs", true).unwrap();
        assert!(!read.entries()["fs"].as_ref().unwrap().disabled);
        read.remove("fs").unwrap();
        assert!(read.entries().is_empty() && matches!(read.remove("fs"), Err(ServersFileError::Unknown(_))));
    }

    #[test]
    fn files_of_other_agents_are_imported_whatever_their_shape() {
        let directory = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str, added: &[&str], left_out: &[&str]| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            let mut servers = file(r#"{"mcpServers": {"known": {"command": "a"}}}"#);
            let (found, skipped) = servers.import(&path).unwrap();
            assert_eq!(found, added, "{name}");
            assert_eq!(skipped.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), left_out, "{name}");
        };
        check("claude.json", r#"{"mcpServers": {"a": {"command": "x"}, "known": {"command": "y"}}}"#, &["a"], &["known"]);
        check("vscode.json", r#"{"servers": {"My Server!": {"type": "stdio", "command": "x"}}}"#, &["My_Server"], &[]);
        check("nested.json", r#"{"mcp": {"servers": {"a": {"url": "http://x"}}}}"#, &["a"], &[]);
        check("codex.toml", "[mcp_servers.docs]\ncommand = 'x'\nargs = ['-y']\n", &["docs"], &[]);
    }
}
