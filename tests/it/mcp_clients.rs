//! The MCP gateway and the official clients of the protocol: Python and TypeScript, the newest and an older version of each, over HTTP and
//! standard input and output; and the MCP inspector. `scripts/test` installs them.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::mcp::{desk, tool};
use crate::outside::installed;
use crate::run::whole;
use crate::server::{Server, eventually, pml};

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a client with a JSON value as its input.
pub(crate) fn run(mut command: Command, input: &Value) -> Value {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The program that the tests are linked to, as a client starts it.
fn stdio(arguments: &[&str]) -> Value {
    let mut all = vec!["mcp"];
    all.extend(arguments);
    json!({"command": pml().get_program().to_str().unwrap(), "args": all, "env": {"PATH": std::env::var("PATH").unwrap()}, "mode": "auto"})
}

#[test]
fn what_is_no_message_is_answered_and_does_not_end_the_connection() {
    let server = desk(&[]);
    let mut command = pml();
    command.args(["mcp", "--url", server.url()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = [&b"hello"[..], b"{\"method\":\"\xff\"}", b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"].join(&b'\n');
    child.stdin.take().unwrap().write_all(&lines).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    let code = |line: &str| serde_json::from_str::<Value>(line).unwrap()["error"]["code"].clone();
    assert_eq!(answers.lines().map(code).collect::<Vec<_>>(), [-32_700, -32_700, -32_600]);
}

/// Every tool, called once; what is not configured here says so.
fn calls() -> Value {
    json!([
        ["pml_discover", {"intent": "take a picture of the page"}],
        ["pml_search_tools", {"query": "screenshot"}],
        ["pml_search_capabilities", {"intent": "copy a file"}],
        ["pml_predict", {"intent": "copy a file", "context": ["fs:read"]}],
        ["pml_suggest", {"intent": "copy a file"}],
        ["pml_execute", {"tasks": [{"id": "a", "tool": "mail:send"}]}],
        ["pml_continue", {"cursor": "0-0"}],
        ["pml_feedback", {"prediction": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "verdict": "accepted"}],
    ])
}

/// A server with a procedure that ran often enough to be a skill, and the data directory of another one that has ended.
fn prepared() -> (Server, Server) {
    let [server, mut ended] = [desk(&[]), desk(&[])];
    for server in [&server, &ended] {
        for execution in ["e1", "e2", "e3"] {
            server.accept(&whole(execution));
        }
        let tail = server.settled_state()["applied_seq"].clone();
        eventually("the index to catch up", || {
            let answer = server.question("/v1/discover", &json!({"intent": "x"})).json();
            (answer["meta"]["based_on_seq"] == tail).then_some(())
        });
    }
    ended.terminate();
    (server, ended)
}

/// What every client must have seen, wherever it connected.
fn check(report: &Value) {
    let client = report["client"].as_str().unwrap();
    assert!(report["seen"][0]["instructions"].is_string(), "{client}");
    for seen in report["seen"].as_array().unwrap() {
        let names: Vec<&str> = seen["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let asked: Vec<String> = calls().as_array().unwrap().iter().map(|call| call[0].as_str().unwrap().to_owned()).collect();
        assert!(asked.iter().all(|name| names.contains(&name.as_str())) && names.len() == asked.len(), "{client}: {names:?}");
        for tool in seen["tools"].as_array().unwrap() {
            assert!(tool["outputSchema"].is_object() && tool["annotations"]["title"].is_string(), "{client}: {tool}");
        }
        // A client that is told the version asks for nothing but what it needs, so it has no instructions.
        assert!(seen["instructions"].as_str().is_none_or(|text| text.contains("browser")), "{client}: {seen}");
        assert!(seen["resources"].as_array().unwrap().contains(&json!("pml://capabilities")), "{client}");
        assert!(seen["templates"].as_array().unwrap().contains(&json!("pml://tools/{tool}")), "{client}");
        assert!(seen["catalogue"].as_str().unwrap().contains("pml://servers/browser"), "{client}");
        check_skills(client, seen);
        let answers = seen["answers"].as_array().unwrap();
        let failed: Vec<bool> = answers.iter().map(|answer| answer["is_error"] == true).collect();
        assert_eq!(failed, [false, false, false, false, false, true, true, false], "{client}: {answers:?}");
        assert_eq!(answers[0]["structured"]["results"][0]["id"], "browser:screenshot", "{client}");
        assert_eq!(answers[1]["structured"]["tools"][0]["tool_id"], "browser:screenshot", "{client}");
        assert_eq!(answers[2]["structured"]["results"][0]["type"], "capability", "{client}");
        assert_eq!(answers[3]["structured"]["ranked"][0]["item"], "fs:write", "{client}");
        assert!(answers[3]["structured"]["prediction"].is_string(), "{client}");
    }
}

/// The procedure that ran three times is a resource, as `pml skills export` would write it; one that is not there is an error.
fn check_skills(client: &str, seen: &Value) {
    assert!(seen["templates"].as_array().unwrap().contains(&json!("skill://{skill}/SKILL.md")), "{client}");
    let skills = seen["skills"].as_object().unwrap();
    let (uri, skill) = skills.iter().next().unwrap_or_else(|| panic!("{client}: {seen}"));
    let name = uri.strip_prefix("skill://").and_then(|rest| rest.strip_suffix("/SKILL.md")).unwrap();
    assert_eq!((skills.len(), &skill["listed_as"], &skill["mime_type"]), (1, &json!("text/markdown"), &json!("text/markdown")));
    let text = skill["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("---\nname: {name}\n")) && text.contains("pml-runs: \"3\""), "{client}: {text}");
    assert!(
        text.contains("1. `fs:read`") && text.contains("2. `fs:write`") && text.contains("copy a file"),
        "{client}: {text}"
    );
    let unknown = seen["unknown_skill"].as_str().unwrap_or_default();
    assert!(unknown.contains("no resource 'skill://no-such-skill/SKILL.md'"), "{client}: {seen}");
}

#[test]
fn the_official_python_client_lists_and_calls_every_tool() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let older = python.parent().unwrap().parent().unwrap().join("mcp-older");
    assert!(older.exists(), "{} is missing; run scripts/test, which installs it", older.display());
    let (server, ended) = prepared();
    let url = format!("{}/mcp", server.url());
    let targets = json!([
        {"url": url, "mode": "auto"},
        {"url": url, "mode": "legacy"},
        {"url": url, "mode": "2026-07-28"},
        stdio(&["--url", server.url()]),
        stdio(&["--data", ended.data().to_str().unwrap()]),
    ]);
    for path in [None, Some(&older)] {
        let mut command = Command::new(&python);
        command.arg(here("tests/mcp/client.py")).envs(path.map(|path| ("PYTHONPATH", path)));
        let report = run(command, &json!({"targets": targets, "calls": calls()}));
        check(&report);
        assert_eq!(report["client"], if path.is_some() { "2.1.1" } else { "2.3.0" });
        let protocols: Vec<&Value> = report["seen"].as_array().unwrap().iter().map(|seen| &seen["protocol"]).collect();
        assert_eq!(protocols[0], "2026-07-28");
        assert_ne!(protocols[1], "2026-07-28");
    }
}

#[test]
fn the_official_typescript_client_lists_and_calls_every_tool() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    assert!(here("tests/mcp/node_modules").exists(), "tests/mcp/node_modules is missing; run scripts/test, which installs it");
    let (server, ended) = prepared();
    let targets = json!([
        {"url": format!("{}/mcp", server.url()), "mode": "auto"},
        stdio(&["--url", server.url()]),
        stdio(&["--data", ended.data().to_str().unwrap()]),
    ]);
    for (package, version) in [("@modelcontextprotocol/sdk", "1.32.2"), ("sdk-older", "1.30.1")] {
        let mut command = Command::new(&node);
        command.arg(here("tests/mcp/client.mjs")).arg(package);
        let report = run(command, &json!({"targets": targets, "calls": calls()}));
        check(&report);
        assert_eq!(report["client"], version);
    }
}

#[test]
fn the_official_client_is_told_when_tools_and_resources_change() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    for mode in ["listen", "session"] {
        let server = desk(&[]);
        let mut command = Command::new(&python);
        command.arg(here("tests/mcp/notices.py")).args([&format!("{}/mcp", server.url()), mode]);
        let mut client = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "listening", "{mode}");
        server.accept(&tool("github:create_issue", "Create an issue"));
        let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(client.wait().unwrap().success());
        let events = report["events"].as_array().unwrap();
        assert!(
            ["ToolsListChanged", "ResourcesListChanged"].iter().all(|name| events.contains(&json!(name))),
            "{mode}: {report}"
        );
        assert!(report["tools"].to_string().contains("browser, github, mail"), "{mode}: {report}");
        assert!(report["resources"].as_array().unwrap().contains(&json!("pml://servers/github")), "{mode}: {report}");
    }
}

#[test]
fn the_mcp_inspector_lists_the_tools() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    let (server, ended) = prepared();
    let url = format!("{}/mcp", server.url());
    let data = ended.data();
    let program = pml().get_program().to_str().unwrap().to_owned();
    for target in [vec![url.as_str(), "--transport", "http"], vec![&program, "mcp", "--data", data.to_str().unwrap()]] {
        let output = Command::new(&node)
            .arg(here("tests/mcp/node_modules/.bin/mcp-inspector"))
            .arg("--cli")
            .args(&target)
            .args(["--method", "tools/list"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{target:?}: {output:?}");
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(listed["tools"].as_array().unwrap().len(), calls().as_array().unwrap().len(), "{listed}");
    }
}
