//! Tool ids from the names that logs use. Tools of MCP servers keep their server; built-in tools belong to a server named after the
//! agent; a shell carries the program that it runs (`claude-code:bash:git`).

use std::borrow::Cow;

use pml_core::id::ToolId;
use pml_core::redact::Redactor;
use serde::Deserialize;

use crate::json;
use crate::shell;

/// Longest name of a tool that is kept, in bytes; longer ones are cut.
const NAME_LEN_MAX: usize = 100;
/// Longest name of a server that is kept, in bytes.
const SERVER_LEN_MAX: usize = 60;

/// Built-in tools that run commands, in lower case.
const SHELLS: [&str; 15] = [
    "bash",
    "shell",
    "local_shell",
    "shell_command",
    "exec_command",
    "unified_exec",
    "container.exec",
    "exec",
    "run_shell_command",
    "execute_command",
    "run_terminal_cmd",
    "run_command",
    "terminal",
    "powershell",
    "execute_bash",
];

/// The id of a tool that an agent named. Names with a server (`mcp__github__search`, `github:search`) keep it.
pub(crate) fn named(agent: &str, name: &str, arguments: Option<&str>, redactor: &Redactor) -> Option<ToolId> {
    if (name.contains("__") || name.contains(':'))
        && let Some(tool) = checked(name, redactor)
    {
        return Some(tool);
    }
    if SHELLS.contains(&name.to_ascii_lowercase().as_str()) {
        return shell_tool(agent, arguments, redactor);
    }
    on_server(agent, name, redactor)
}

/// The id of a tool of a server.
pub(crate) fn on_server(server: &str, name: &str, redactor: &Redactor) -> Option<ToolId> {
    let server = printable(server.trim(), SERVER_LEN_MAX).replace(':', "-");
    checked(&format!("{server}:{}", printable(name.trim(), NAME_LEN_MAX)), redactor)
}

fn shell_tool(agent: &str, arguments: Option<&str>, redactor: &Redactor) -> Option<ToolId> {
    let command = arguments.and_then(command);
    let program = command.as_deref().and_then(shell::program);
    let with_program = program.and_then(|program| on_server(agent, &format!("bash:{program}"), redactor));
    with_program.or_else(|| on_server(agent, "bash", redactor))
}

/// The command among the arguments of a shell.
fn command(arguments: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow, alias = "cmd", alias = "script")]
        command: Option<&'a serde_json::value::RawValue>,
    }
    let Ok(Arguments { command: Some(raw) }) = serde_json::from_str(arguments) else {
        // A tool with free text as its input.
        return serde_json::from_str(arguments).ok();
    };
    if json::is_string(raw) {
        return Some(json::text(raw).into_owned());
    }
    let words: Vec<Cow<'_, str>> = serde_json::from_str(raw.get()).ok()?;
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    shell::command_of(&words).map(str::to_owned)
}

/// Names come from strangers: one with a secret in it is not used, since ids cannot be redacted.
fn checked(name: &str, redactor: &Redactor) -> Option<ToolId> {
    let is_clean = |tool: &ToolId| redactor.text(name).is_none() && !redactor.is_in_tool(tool.as_str());
    name.parse().ok().filter(is_clean)
}

fn printable(name: &str, len_max: usize) -> String {
    let shown = name.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' });
    shown.take(len_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, arguments: &str, expected: Option<&str>) {
        let tool = named("codex", name, Some(arguments), &Redactor::builtin());
        assert_eq!(tool.as_ref().map(ToolId::as_str), expected, "{name}");
    }

    #[test]
    fn tools_keep_their_server_or_get_that_of_the_agent() {
        check("mcp__github__search_issues", "{}", Some("github:search_issues"));
        check("github__search", "{}", Some("github:search"));
        check("Read", "{}", Some("codex:Read"));
        check("my tool\u{e9}", "{}", Some("codex:my-tool-"));
        check("", "{}", None);
        check(&"x".repeat(500), "{}", Some(&format!("codex:{}", "x".repeat(100))));
    }

    #[test]
    fn shells_carry_the_program() {
        check("Bash", r#"{"command": "cd x && git log"}"#, Some("codex:bash:git"));
        check("shell", r#"{"command": ["bash", "-lc", "cargo \"test\""]}"#, Some("codex:bash:cargo"));
        check("exec_command", r#"{"cmd": "rg x"}"#, Some("codex:bash:rg"));
        check("shell", r#""make all""#, Some("codex:bash:make"));
        check("shell", r#"{"command": 7}"#, Some("codex:bash"));
        check("shell", "{}", Some("codex:bash"));
    }

    #[test]
    fn a_secret_in_a_name_is_not_used() {
        check("ghp_0123456789abcdefghijABCDEFGHIJ012345", "{}", None);
        check("bash", r#"{"command": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}"#, Some("codex:bash"));
    }
}
