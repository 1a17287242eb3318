//! `pml learn`: the frozen samples of every format, through the real program, into a data directory and into a server.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{run, text};
use crate::nats_server::NatsServer;
use crate::server::{Server, eventually, pml};

/// The samples with the names of their formats.
const SAMPLES: [(&str, &str); 10] = [
    ("claude_code.jsonl", "claude-code"),
    ("codex.jsonl", "codex"),
    ("messages.jsonl", "messages"),
    ("mcpproxy.jsonl", "mcpproxy"),
    ("gateway_audit.jsonl", "gateway-audit"),
    ("otlp.jsonl", "otlp"),
    ("jaeger.json", "jaeger"),
    ("spans.jsonl", "spans"),
    ("langfuse.json", "langfuse"),
    ("langsmith.jsonl", "langsmith"),
];

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/readers/samples")
}

fn sample(name: &str) -> String {
    fs::read_to_string(samples().join(name)).unwrap()
}

/// How many runs and steps a sample gives, by what the reader's own tests expect.
fn expected(name: &str) -> (u64, u64) {
    let runs = sample(&format!("{}.runs", name.split('.').next().unwrap()));
    let lines: Vec<&str> = runs.lines().collect();
    let steps = lines.iter().filter(|line| line.starts_with("    ")).count();
    ((lines.len() - steps - 1) as u64, steps as u64)
}

/// The whole log of a data directory.
fn records(data: &Path) -> Vec<Value> {
    run(0, &["log", "cat", "--data", text(data)]).lines()
}

fn count(records: &[Value], kind: &str) -> usize {
    records.iter().filter(|record| record["type"] == format!("pml.{kind}")).count()
}

#[test]
fn every_format_is_recognised_by_content_and_learnt_once() {
    for (file, format) in SAMPLES {
        let home = TempDir::new().unwrap();
        // A name that says nothing.
        let (log, data) = (home.path().join("something.log"), home.path().join("data"));
        fs::copy(samples().join(file), &log).unwrap();
        let learn = || run(0, &["learn", text(&log), "--data", text(&data)]).json();
        let first = learn();
        let (runs, steps) = expected(file);
        assert_eq!(
            (&first["files"][format], &first["runs"], &first["steps"]),
            (&json!(1), &json!(runs), &json!(steps)),
            "{file}"
        );
        let events = runs * 2 + steps;
        assert_eq!(first["published"], json!({"accepted": events, "duplicate": 0, "refused": 0, "errors": []}), "{file}");
        let log_then = records(&data);
        assert_eq!(count(&log_then, "trace.completed") as u64, runs, "{file}");
        let again = learn();
        assert_eq!(again["published"], json!({"accepted": 0, "duplicate": events, "refused": 0, "errors": []}), "{file}");
        assert_eq!(records(&data), log_then, "{file}: reading twice changes nothing");
    }
}

#[test]
fn a_server_learns_what_a_data_directory_learns() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let here = run(0, &["learn", text(&samples()), "--data", text(&data)]).json();
    let server = Server::start();
    let there = run(0, &["learn", text(&samples()), "--url", server.url()]).json();
    assert_eq!((&there["runs"], &there["tools"]), (&here["runs"], &here["tools"]));
    assert_eq!(there["published"]["accepted"], here["published"]["accepted"]);
    assert_eq!(here["published"]["refused"], 0);
    server.settled_state();
    assert_eq!(executions(&server.records()), executions(&records(&data)));
}

/// The executions that were completed, sorted.
fn executions(records: &[Value]) -> Vec<String> {
    let completed = records.iter().filter(|record| record["type"] == "pml.trace.completed");
    let mut ids: Vec<String> = completed.map(|record| record["data"]["execution"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn the_work_queue_of_nats_teaches_what_a_data_directory_learns_and_twice_is_once() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let here = run(0, &["learn", text(&samples()), "--data", text(&data)]).json();
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &[]);
    let learn = || run(0, &["learn", text(&samples()), "--nats", &nats.url()]).json();
    let there = learn();
    assert_eq!((&there["runs"], &there["tools"]), (&here["runs"], &here["tools"]));
    assert_eq!(there["published"]["queued"], here["published"]["accepted"], "{there}");
    let expected = executions(&records(&data));
    eventually("the runs", || (executions(&server.records()) == expected).then_some(()));
    learn();
    // The queue is read in order, so whatever was learnt again comes before this.
    let tool = json!({"tool": "after:all", "name": "all", "description": ""}).to_string();
    run(0, &["publish", "--kind", "tool.registered", "--body", &tool, "--nats", &nats.url()]);
    eventually("the last event", || server.get("/v1/tools").text.contains("after:all").then_some(()));
    assert_eq!(executions(&server.records()), expected);
    assert_eq!(count(&server.records(), "step.finished"), count(&records(&data), "step.finished"));
}

#[test]
fn a_dry_run_shows_and_stores_nothing() {
    let home = TempDir::new().unwrap();
    let shown = run(0, &["learn", text(&samples()), "--dry-run", "--data", text(&home.path().join("data"))]).json();
    assert!(shown["runs"].as_u64().unwrap() > 10 && shown["tools"]["claude-code:bash:git"]["calls"] == 1, "{shown}");
    assert!(shown.get("published").is_none() && !home.path().join("data").exists());
    assert!(shown["not_recognised"].as_array().unwrap().is_empty(), "{shown}");
}

#[test]
fn runs_and_calls_are_left_out_as_asked() {
    let learn = |more: &[&str]| {
        let file = samples().join("claude_code.jsonl");
        let arguments = [&["learn", text(&file), "--dry-run"], more].concat();
        run(0, &arguments).json()
    };
    assert_eq!(learn(&["--since", "2026-03-02T09:02:30Z"])["runs"], 1);
    assert_eq!(learn(&["--since", "2026-03-03"])["runs"], 0);
    assert_eq!((&learn(&["--project", "shop"])["runs"], &learn(&["--project", "other"])["runs"]), (&json!(3), &json!(0)));
    let without = learn(&["--exclude-tool", "claude-code:bash*", "--exclude-tool", "claude-code:Edit"]);
    let tools: Vec<&String> = without["tools"].as_object().unwrap().keys().collect();
    assert!(!tools.iter().any(|tool| tool.contains("bash") || tool.contains("Edit")) && !tools.is_empty(), "{tools:?}");
    run(1, &["learn", "x", "--since", "yesterday", "--dry-run"]);
    run(1, &["learn", "no-such-file", "--dry-run"]);
}

#[test]
fn without_arguments_the_usual_places_are_read_but_not_without_a_yes() {
    let home = TempDir::new().unwrap();
    let project = home.path().join(".claude/projects/-home-dev-shop");
    let day = home.path().join(".codex/sessions/2026/03/02");
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&day).unwrap();
    fs::copy(samples().join("claude_code.jsonl"), project.join("5b6f.jsonl")).unwrap();
    fs::copy(samples().join("codex.jsonl"), day.join("rollout-1.jsonl")).unwrap();
    let data = home.path().join("data");
    let learn = |more: &[&str]| {
        let mut command = pml();
        command.env_remove("CLAUDE_CONFIG_DIR").env_remove("CODEX_HOME").env("HOME", home.path());
        command.args(["learn", "--data", text(&data)]).args(more).stdin(Stdio::null()).output().unwrap()
    };
    let asked = learn(&[]);
    let shown = String::from_utf8_lossy(&asked.stdout);
    assert!(!asked.status.success() && shown.contains("claude-code") && shown.contains("codex"), "{asked:?}");
    assert!(shown.contains("2026-03-02 to ") && shown.contains("tools in the beginnings"), "{shown}");
    assert!(!data.exists(), "nothing is stored before somebody agrees");
    let learnt = learn(&["--yes", "--json"]);
    let learnt: Value = serde_json::from_slice(&learnt.stdout).unwrap();
    assert_eq!(learnt["files"], json!({"claude-code": 1, "codex": 1}), "{learnt}");
}

/// A session of Claude Code with a request and a call at a time, each with a number of its own.
fn request(number: u32, time: &str) -> String {
    let user = json!({
        "type": "user", "uuid": format!("u{number}"), "sessionId": "s", "cwd": "/srv", "timestamp": time,
        "message": {"role": "user", "content": format!("count the lines of report {number}")},
    });
    let call = json!({
        "type": "assistant", "uuid": format!("a{number}"), "sessionId": "s", "timestamp": time,
        "message": {"content": [{"type": "tool_use", "id": format!("t{number}"), "name": "Bash", "input": {"command": "wc -l x"}}]},
    });
    let answer = json!({
        "type": "user", "uuid": format!("r{number}"), "sessionId": "s", "timestamp": time,
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("t{number}"), "content": "12 x"}]},
    });
    format!("{user}\n{call}\n{answer}\n")
}

#[test]
fn a_file_that_has_grown_adds_only_what_is_new() {
    let home = TempDir::new().unwrap();
    let (log, data) = (home.path().join("session.jsonl"), home.path().join("data"));
    let now = pml::clock::Clock::system().now().to_string();
    let learn = || run(0, &["learn", text(&log), "--data", text(&data)]).json();
    fs::write(&log, request(1, &now) + &request(2, &now)).unwrap();
    let first = learn();
    assert_eq!((&first["runs"], &first["open"]), (&json!(1), &json!(1)), "the last request may still go on");
    assert_eq!(first["published"]["accepted"], 3);
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(request(3, &now).as_bytes()).unwrap();
    let second = learn();
    assert_eq!(second["published"], json!({"accepted": 3, "duplicate": 3, "refused": 0, "errors": []}));
    assert_eq!(count(&records(&data), "trace.completed"), 2);
}

/// Ends the process that it follows.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.0.kill());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_watched_directory_is_followed_while_files_grow_are_cut_and_added() {
    let home = TempDir::new().unwrap();
    let log = home.path().join("logs/a.jsonl");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let now = pml::clock::Clock::system().now().to_string();
    fs::write(&log, request(1, &now) + &request(2, &now)).unwrap();
    let server = Server::start();
    let learnt = |wanted: usize| {
        eventually(&format!("{wanted} runs"), || {
            let traces = count(&server.records(), "trace.completed");
            assert!(traces <= wanted, "{traces} runs");
            (traces == wanted).then_some(())
        });
    };
    let mut command = pml();
    command.args(["learn", text(log.parent().unwrap()), "--watch", "--url", server.url()]);
    let _watching = Watching(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    learnt(1);
    let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
    // A line in two parts is one line.
    let more = request(3, &now);
    let (begin, rest) = more.split_at(40);
    file.write_all(begin.as_bytes()).unwrap();
    file.write_all(rest.as_bytes()).unwrap();
    learnt(2);
    fs::write(home.path().join("logs/b.jsonl"), request(11, &now) + &request(12, &now)).unwrap();
    learnt(3);
    // Cut and written anew, it is read from its beginning; what is known stays known.
    fs::write(&log, request(3, &now) + &request(4, &now)).unwrap();
    learnt(4);
}

#[test]
fn damaged_and_enormous_lines_are_counted_and_the_rest_is_learnt() {
    let home = TempDir::new().unwrap();
    let (log, data) = (home.path().join("session.jsonl"), home.path().join("data"));
    let mut file = fs::File::create(&log).unwrap();
    file.write_all(sample("claude_code.jsonl").as_bytes()).unwrap();
    file.write_all(
        b"{\"type\":\"user\",\"message\":{\n\xff\xfe\x00\n[[[[\n{\"type\":\"from-the-future\",\"sessionId\":\"s\"}\n",
    )
    .unwrap();
    let chunk = vec![b'x'; 1 << 20];
    (0..33).for_each(|_| file.write_all(&chunk).unwrap());
    file.write_all(b"\n").unwrap();
    file.write_all(request(21, "2026-03-02T10:00:00Z").as_bytes()).unwrap();
    // The file ends inside a line.
    file.write_all(b"{\"type\":\"assistant\",\"sess").unwrap();
    drop(file);
    let learnt = run(0, &["learn", text(&log), "--data", text(&data)]).json();
    assert_eq!((&learnt["runs"], &learnt["too_long"], &learnt["damaged"]), (&json!(4), &json!(1), &json!(4)), "{learnt}");
    assert_eq!(learnt["unknown_kinds"]["from-the-future"], 1);
    assert_eq!(learnt["published"]["refused"], 0);
}

#[test]
fn planted_secrets_are_nowhere_in_the_data_directory() {
    let secrets = [
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "hunter2hunter2",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "s3cr3tValueInUrl",
        "ACME-12345678",
    ];
    let [token, password, key, jwt, url, own] = secrets;
    let planted =
        format!("token {token} password={password} key {key} jwt {jwt} at https://user:{url}@host.example/x or {own}");
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    for (file, _) in SAMPLES {
        let mut out = String::new();
        // Every text that is words gets the secrets.
        for (at, part) in sample(file).split('"').enumerate() {
            let is_words = at % 2 == 1 && part.contains(' ') && !part.contains('\\') && !part.contains(':');
            out.push_str(if at == 0 { "" } else { "\"" });
            out.push_str(part);
            out.push_str(if is_words { &planted } else { "" });
        }
        fs::write(home.path().join(file), out).unwrap();
    }
    let mut command = pml();
    command.env("PML__REDACT__EXTRA", r#"["ACME-[0-9]{8}"]"#).args([
        "learn",
        text(home.path()),
        "--data",
        text(&data),
        "--json",
    ]);
    let learnt = command.output().unwrap();
    assert!(learnt.status.success(), "{learnt:?}");
    run(0, &["snapshot", "create", "--data", text(&data)]);
    run(
        0,
        &[
            "skills",
            "export",
            text(&home.path().join("skills")),
            "--min-runs",
            "1",
            "--min-success",
            "0",
            "--data",
            text(&data),
        ],
    );
    let mut shown = learnt.stdout;
    shown.extend(format!("{:?}", records(&data)).into_bytes());
    let mut open = vec![data, home.path().join("skills")];
    while let Some(place) = open.pop() {
        if place.is_dir() {
            open.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            shown.extend(fs::read(&place).unwrap());
        }
    }
    for secret in secrets {
        assert!(!shown.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret}");
    }
}
