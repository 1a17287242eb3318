//! `pml hook` and `pml init`: events of Claude Code's hooks reach a server, also one that was not there, and settings are written and taken out.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, eventually, pml};

/// The program in a home of its own.
fn at_home(home: &Path, arguments: &[&str]) -> Command {
    let mut command = pml();
    command.env_remove("XDG_STATE_HOME").env("HOME", home).current_dir(home).args(arguments);
    command
}

fn hook(home: &Path, url: &str, event: &Value) -> Output {
    let mut child = at_home(home, &["hook", "--url", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn prompt(text: &str) -> Value {
    json!({"session_id": "5b6f", "cwd": "/srv", "hook_event_name": "UserPromptSubmit", "prompt": text})
}

fn call(tool: &str, id: &str) -> Value {
    let input = json!({"command": "git push", "token": "ghp_0123456789abcdefghijABCDEFGHIJ012345"});
    json!({
        "session_id": "5b6f", "cwd": "/srv", "hook_event_name": "PostToolUse", "tool_name": tool, "tool_use_id": id,
        "tool_input": input, "tool_response": {"stdout": "ok"},
    })
}

fn end() -> Value {
    json!({"session_id": "5b6f", "cwd": "/srv", "hook_event_name": "SessionEnd", "reason": "exit"})
}

fn completed(server: &Server, wanted: usize) -> Vec<Value> {
    eventually("the runs", || {
        let records = server.records().into_iter().filter(|record| record["type"] == "pml.trace.completed");
        let closed: Vec<Value> = records.map(|mut record| record["data"].take()).collect();
        (closed.len() == wanted).then_some(closed)
    })
}

#[test]
fn events_of_hooks_are_delivered_at_once_and_those_of_a_time_without_a_server_later() {
    let home = TempDir::new().unwrap();
    let spool = home.path().join(".local/state/pml/hooks/spool.ndjson");
    // No server: the agent is not disturbed, and nothing is lost.
    for event in [prompt("push the branch"), call("Bash", "t1"), call("mcp__github__open", "t2")] {
        let ended = hook(home.path(), "http://127.0.0.1:9", &event);
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    }
    let kept = || {
        let leaving = spool.with_file_name("leaving.ndjson");
        [&spool, &leaving].map(|file| fs::read_to_string(file).unwrap_or_default()).concat()
    };
    eventually("the events in the spool", || (kept().lines().count() == 3).then_some(()));
    assert!(!kept().contains("ghp_0123456789"), "what waits has passed the redaction");
    let server = Server::start();
    hook(home.path(), server.url(), &end());
    let run = completed(&server, 1).remove(0);
    assert_eq!(
        (&run["intent"], &run["agent"], &run["session"]),
        (&json!("push the branch"), &json!("claude-code"), &json!("5b6f"))
    );
    let tools: Vec<&str> = run["steps"].as_array().unwrap().iter().map(|step| step["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["claude-code:bash:git", "github:open"]);
    eventually("an empty spool", || kept().is_empty().then_some(()));
    let nonsense = hook(home.path(), server.url(), &json!({"hook_event_name": "Stop", "session_id": "x"}));
    assert_eq!(nonsense.status.code(), Some(1), "an exit code of 2 would block the agent");
}

#[test]
fn an_event_that_the_server_refuses_for_good_is_set_aside_and_the_others_are_delivered() {
    let home = TempDir::new().unwrap();
    let mut large = call("Write", "t1");
    // Many texts: a single long one is cut.
    large["tool_input"]["lines"] = json!(vec!["a".repeat(300); 20]);
    for event in [prompt("write it down"), large, call("Bash", "t2"), end()] {
        assert!(hook(home.path(), "http://127.0.0.1:9", &event).status.success());
    }
    let server = Server::with(&[("HTTP__BODY_BYTES_MAX", "3000")]);
    let delivered = at_home(home.path(), &["hook", "--deliver", "--url", server.url()]).output().unwrap();
    assert!(delivered.status.success(), "{delivered:?}");
    assert!(String::from_utf8_lossy(&delivered.stderr).contains("refused.ndjson"), "{delivered:?}");
    let run = completed(&server, 1).remove(0);
    let tools: Vec<&str> = run["steps"].as_array().unwrap().iter().map(|step| step["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["claude-code:bash:git"]);
    let hooks = home.path().join(".local/state/pml/hooks");
    assert!(!hooks.join("leaving.ndjson").exists() && !hooks.join("spool.ndjson").exists());
    let refused: Value = serde_json::from_str(&fs::read_to_string(hooks.join("refused.ndjson")).unwrap()).unwrap();
    assert_eq!((&refused["status"], &refused["event"]["type"]), (&json!(413), &json!("pml.step.finished")), "{refused}");
    let doctor = at_home(home.path(), &["doctor", "--json", "--url", server.url()]).output().unwrap();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let found = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "hooks").unwrap();
    assert_eq!(found["result"], "bad");
    assert!(found["text"].as_str().unwrap().contains("413: body: is larger than 3000 bytes"), "{found}");
}

#[test]
fn calls_that_end_at_the_same_time_are_all_recorded() {
    let home = TempDir::new().unwrap();
    let server = Server::start();
    hook(home.path(), server.url(), &prompt("read everything"));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (home, url) = (home.path(), server.url());
            scope.spawn(move || hook(home, url, &call("Read", &format!("t{number}"))));
        }
    });
    hook(home.path(), server.url(), &end());
    assert_eq!(completed(&server, 1)[0]["steps"].as_array().unwrap().len(), 8);
}

#[test]
fn a_session_that_hooks_report_is_not_learnt_again_from_its_log() {
    let home = TempDir::new().unwrap();
    let now = pml::clock::Clock::system().now().to_string();
    let log = home.path().join("session.jsonl");
    let line = |session: &str| {
        let user = json!({
            "type": "user", "uuid": format!("u-{session}"), "sessionId": session, "cwd": "/srv", "timestamp": now,
            "message": {"role": "user", "content": "push the branch"},
        });
        let call = json!({
            "type": "assistant", "uuid": "a", "sessionId": session, "timestamp": now,
            "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "git push"}}]},
        });
        format!("{user}\n{call}\n")
    };
    hook(home.path(), "http://127.0.0.1:9", &prompt("push the branch"));
    fs::write(&log, line("5b6f") + &line("other") + &line("third")).unwrap();
    let learnt = at_home(home.path(), &["learn", "session.jsonl", "--dry-run", "--json"]).output().unwrap();
    let learnt: Value = serde_json::from_slice(&learnt.stdout).unwrap();
    assert_eq!((&learnt["reported_by_hooks"], &learnt["runs"], &learnt["open"]), (&json!(1), &json!(1), &json!(1)), "{learnt}");
}

#[test]
fn settings_are_shown_then_written_with_a_backup_and_taken_out_again() {
    let home = TempDir::new().unwrap();
    let file = |name: &str| home.path().join(name);
    fs::create_dir_all(file(".claude")).unwrap();
    fs::create_dir_all(file(".codex")).unwrap();
    let settings = "{\n  \"model\": \"x\",\n  \"theme\": \"dark\"\n}\n";
    fs::write(file(".claude/settings.json"), settings).unwrap();
    fs::write(file(".codex/config.toml"), "model = \"y\"\n").unwrap();
    let init = |arguments: &[&str]| {
        let ended = at_home(home.path(), &[&["init"], arguments].concat()).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let shown = init(&[]);
    assert!(shown.contains("+     \"UserPromptSubmit\": [") && shown.contains("+ [mcp_servers.pml]"), "{shown}");
    assert!(shown.contains("export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:8080"), "{shown}");
    assert_eq!(fs::read_to_string(file(".claude/settings.json")).unwrap(), settings, "nothing is written unasked");
    init(&["--write"]);
    let written: Value = serde_json::from_str(&fs::read_to_string(file(".claude/settings.json")).unwrap()).unwrap();
    assert!(written["hooks"]["PostToolUse"][0]["hooks"][0]["command"].as_str().unwrap().ends_with("pml hook"), "{written}");
    assert_eq!(fs::read_to_string(file(".claude/settings.json.pml-backup")).unwrap(), settings);
    let servers: Value = serde_json::from_str(&fs::read_to_string(file(".claude.json")).unwrap()).unwrap();
    assert_eq!(servers["mcpServers"]["pml"]["args"][0], "mcp");
    assert!(init(&["--write"]).contains("nothing to change"));
    init(&["--undo", "--write"]);
    assert_eq!(fs::read_to_string(file(".claude/settings.json")).unwrap(), settings);
    assert_eq!(fs::read_to_string(file(".codex/config.toml")).unwrap(), "model = \"y\"\n");
    assert_eq!(fs::read_to_string(file(".claude.json")).unwrap(), "{}\n");
}
