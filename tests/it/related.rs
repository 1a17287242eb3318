//! What stands next to a tool, asked over HTTP and on the command line.

use serde_json::{Value, json};

use crate::run::{event, finished, started, step, whole};
use crate::server::{Answer, Server, eventually, pml};

/// No templates, so that everything known was said by the test; measures as soon as there is something to measure.
fn blank() -> Server {
    Server::with(&[("TEMPLATES__PATH", ""), ("GRAPH__MEASURES_EVERY_MS", "10")])
}

/// The answer once the measures know everything published so far.
fn settled(server: &Server, path: &str) -> Value {
    let tail = server.settled_state()["applied_seq"].clone();
    eventually("the measures to catch up", || Some(server.ask(path)).filter(|answer| answer["based_on_seq"] == tail))
}

/// Each with its relation or kind.
fn tools(list: &Value) -> Vec<(&str, &str)> {
    list.as_array().unwrap().iter().map(|item| (item["tool"].as_str().unwrap(), label(item))).collect()
}

fn label(item: &Value) -> &str {
    item["relation"].as_str().or(item["kind"].as_str()).unwrap()
}

/// Commit what was copied; push it.
fn publish_runs(server: &Server) {
    for number in 0..3 {
        server.accept(&whole(&format!("copy{number}")));
        let execution = format!("push{number}");
        server.accept(&json!([
            started(&execution),
            step(&execution, "s1", "fs:write", &[]),
            step(&execution, "s2", "git:commit", &["s1"]),
            step(&execution, "s3", "git:push", &[]),
            finished(&execution)
        ]));
    }
}

#[test]
fn neighbours_related_tools_community_and_a_way_are_answered() {
    let server = blank();
    publish_runs(&server);
    let answer = settled(&server, "/v1/related?tool=mcp__fs__write&to=git:push");
    assert_eq!(answer["tool"], "fs:write");
    assert_eq!(tools(&answer["related_tools"]), [("fs:read", "often_before"), ("git:commit", "often_after")]);
    let before = &answer["related_tools"][0];
    assert_eq!((&before["score"], &before["times"], &before["of"]), (&json!(0.5), &json!(3), &json!(6)));
    let from = tools(&answer["neighbours"]["in"]);
    assert_eq!(from.iter().filter(|(_, kind)| *kind == "contains").count(), 2, "{from:?}");
    assert_eq!(tools(&answer["neighbours"]["out"]), [("git:commit", "provides")]);
    assert_eq!(answer["path"]["steps"], json!(["fs:write", "git:commit", "git:push"]));
    assert!((answer["path"]["cost"].as_f64().unwrap() - (1.0 / 0.7 + 4.0)).abs() < 1e-9, "{answer}");
    assert!(answer["community"].is_string() && answer["pagerank"].as_f64() > Some(0.0), "{answer}");
    let mates = answer["community_mates"].as_array().unwrap().len();
    assert_eq!(answer["community_size"], json!(mates + 1));
    let back = server.ask("/v1/related?tool=git:push&to=fs:read");
    assert_eq!(back["path"], json!({"to": "fs:read", "steps": [], "cost": null}));
    assert_eq!(server.ask("/v1/related?tool=fs:write&limit=1")["neighbours"]["in"].as_array().unwrap().len(), 1);
    let capability = server.ask("/v1/capabilities")["capabilities"][0]["capability"].clone();
    let members = server.ask(&format!("/v1/related?tool=capability:{}", capability.as_str().unwrap()));
    assert_eq!(members["neighbours"]["out"][0]["kind"], "contains");
}

#[test]
fn tools_that_were_only_described_are_joined_with_their_server_and_the_state_does_not_know() {
    let describe = |server: &Server| {
        for tool in ["fs:read", "fs:write", "git:push"] {
            server.accept(&event("tool.registered", json!({"tool": tool, "description": format!("does {tool}")})));
        }
    };
    let server = blank();
    describe(&server);
    let answer = settled(&server, "/v1/related?tool=fs:read");
    assert_eq!(tools(&answer["neighbours"]["out"]), [("fs:write", "category")]);
    assert_eq!((&answer["neighbours"]["out"][0]["source"], &answer["related_tools"]), (&json!("template"), &json!([])));
    assert_eq!(answer["community_mates"], json!(["fs:write"]));
    assert_eq!(server.ask("/v1/state")["edges"], 0);
    let plain = Server::with(&[("TEMPLATES__PATH", ""), ("GRAPH__CATEGORY_EDGES", "false")]);
    describe(&plain);
    assert_eq!(settled(&plain, "/v1/related?tool=fs:read")["neighbours"]["out"], json!([]));
}

#[test]
fn an_unknown_or_unreadable_tool_is_an_error_that_says_so() {
    let server = blank();
    let check = |answer: Answer, status: u16, message: &str| {
        assert!(answer.status == status && answer.text.contains(message), "{answer:?}");
    };
    check(server.get("/v1/related"), 400, "missing field `tool`");
    check(server.get("/v1/related?tool=read"), 400, "tool: 'read' names no server");
    check(server.get("/v1/related?tool=fs:read"), 404, "tool: nothing is known about 'fs:read'");
    check(server.get("/v1/related?tool=fs:read&limit=0"), 400, "limit: is 0");
}

#[test]
fn the_command_says_the_same_with_and_without_a_server() {
    let mut server = blank();
    publish_runs(&server);
    settled(&server, "/v1/related?tool=fs:read");
    let run = |place: [&str; 2], form: &[&str]| {
        let output = pml().args(["related", "fs:read", "--to", "git:push"]).args(place).args(form).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let remote = json(run(["--url", server.url()], &["--json"]));
    let table = run(["--url", server.url()], &[]);
    for part in ["often after", "fs:write", "provides (observed)", "path: fs:read -> fs:write -> git:commit -> git:push"] {
        assert!(table.contains(part), "no '{part}' in {table}");
    }
    server.kill9();
    let data = server.data();
    let mut local = json(run(["--data", data.to_str().unwrap()], &["--json"]));
    // The ranks of a server start from those before, so they differ within the tolerance.
    let (a, b) = (remote["pagerank"].as_f64().unwrap(), local["pagerank"].as_f64().unwrap());
    assert!((a - b).abs() < 1e-5, "{a} {b}");
    local["pagerank"] = remote["pagerank"].clone();
    assert_eq!(local, remote);
}
