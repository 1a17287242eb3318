//! A plan for an intent, asked over HTTP, over NATS and on the command line.

use serde_json::{Value, json};

use crate::nats_server::NatsServer;
use crate::run::{event, finished, step};
use crate::server::{Server, eventually, pml};

const INTENT: &str = "back up the customer database";
/// No templates, so that everything known was said by the test.
const BLANK: [(&str, &str); 2] = [("TEMPLATES__PATH", ""), ("GRAPH__MEASURES_EVERY_MS", "10")];

fn tool(id: &str, description: &str) -> Value {
    let (server, name) = id.split_once(':').unwrap();
    event("tool.registered", json!({"tool": id, "server": server, "name": name, "description": description}))
}

/// A nightly backup: dump the database and list the files, pack both, upload the archive. Another job sends mail.
fn publish_backups(server: &Server) {
    server.accept(&json!([
        tool("db:dump", "Dump a database into a file"),
        tool("fs:list", "List the files of a folder"),
        tool("zip:pack", "Pack files into an archive"),
        tool("s3:upload", "Upload an archive to the bucket"),
        tool("mail:send", "Send a message by mail"),
    ]));
    for (number, what) in ["customer", "order", "invoice", "product"].iter().enumerate() {
        let (backup, mail) = (format!("backup{number}"), format!("mail{number}"));
        server.accept(&json!([
            event("execution.started", json!({"execution": backup, "intent": format!("back up the {what} database")})),
            step(&backup, "dump", "db:dump", &[]),
            step(&backup, "list", "fs:list", &[]),
            step(&backup, "pack", "zip:pack", &["dump", "list"]),
            step(&backup, "upload", "s3:upload", &["pack"]),
            finished(&backup),
            event("execution.started", json!({"execution": mail, "intent": format!("tell Anna about the {what} numbers")})),
            step(&mail, "send", "mail:send", &[]),
            finished(&mail),
        ]));
    }
}

/// What `pml suggest` prints.
fn printed(arguments: &[&str]) -> String {
    let done = pml().arg("suggest").args(arguments).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

fn tools(plan: &Value) -> Vec<&str> {
    plan["tasks"].as_array().unwrap().iter().map(|task| task["tool"].as_str().unwrap()).collect()
}

/// The answer over HTTP, once it knows everything published so far.
fn settled(server: &Server, question: &Value) -> Value {
    let tail = server.settled_state()["applied_seq"].clone();
    eventually("the index to catch up", || {
        let answer = server.question("/v1/suggest", question);
        assert_eq!(answer.status, 200, "{answer:?}");
        Some(answer.json()).filter(|answer| answer["based_on_seq"] == tail)
    })
}

#[test]
fn the_backup_workflow_is_suggested_as_it_ran() {
    let server = Server::with(&BLANK);
    publish_backups(&server);
    let answer = settled(&server, &json!({"intent": INTENT}));
    let plan = &answer["plan"];
    let mut used = tools(plan);
    let order = used.clone();
    used.sort_unstable();
    assert_eq!(used, ["db:dump", "fs:list", "s3:upload", "zip:pack"], "{answer}");
    let task = |tool: &str| &plan["tasks"][order.iter().position(|other| *other == tool).unwrap()];
    let feeds = |tool: &str| -> Vec<&str> {
        task(tool)["depends_on"]
            .as_array()
            .unwrap()
            .iter()
            .map(|from| order[usize::try_from(from.as_u64().unwrap()).unwrap()])
            .collect()
    };
    assert_eq!(feeds("s3:upload"), ["zip:pack"], "{answer}");
    assert_eq!((&task("db:dump")["layer"], &task("fs:list")["layer"]), (&json!(0), &json!(0)), "{answer}");
    assert!(task("s3:upload")["layer"].as_u64() > task("zip:pack")["layer"].as_u64(), "{answer}");

    let text = printed(&[INTENT, "--url", server.url()]);
    assert!(text.contains("confidence") && text.contains("layer 1, side by side") && text.contains(" -> ["), "{text}");
    assert!(printed(&[INTENT, "--dot", "--url", server.url()]).starts_with("digraph plan {"));
    assert!(printed(&[INTENT, "--mermaid", "--url", server.url()]).starts_with("flowchart LR"));

    // What was called already is not suggested again.
    let rest = settled(&server, &json!({"intent": INTENT, "context": ["db:dump", "fs:list"]}));
    assert!(!tools(&rest["plan"]).contains(&"db:dump") && tools(&rest["plan"]).contains(&"zip:pack"), "{rest}");

    for (question, problem) in [
        (json!({"intent": " "}), "is blank"),
        (json!({"intent": "x", "k": 9}), "it must be from 1 to 3"),
        (json!({"intent": "x", "context": ["no tool"]}), "context"),
    ] {
        let refused = server.question("/v1/suggest", &question);
        assert!(refused.status == 400 && refused.text.contains(problem), "{refused:?}");
    }
}

#[test]
fn a_plan_that_was_rejected_is_suggested_with_less_confidence_and_one_accepted_with_more() {
    let server = Server::with(&BLANK);
    publish_backups(&server);
    let question = json!({"intent": INTENT});
    let before = settled(&server, &question);
    let (id, confidence) = (before["plan"]["id"].as_str().unwrap(), before["plan"]["confidence"].as_f64().unwrap());
    let verdict = |verdict: &str| event("feedback.given", json!({"suggestion": id, "verdict": verdict}));
    let confidence_of = |answer: &Value| {
        let plans = std::iter::once(&answer["plan"]).chain(answer["alternatives"].as_array().unwrap());
        plans.filter(|plan| plan["id"] == id).find_map(|plan| plan["confidence"].as_f64())
    };
    server.accept(&json!([verdict("accepted"), verdict("accepted")]));
    let accepted = settled(&server, &question);
    assert!(confidence_of(&accepted).unwrap() > confidence, "{accepted}");
    server.accept(&json!([verdict("rejected"), verdict("rejected"), verdict("rejected"), verdict("rejected")]));
    let rejected = settled(&server, &question);
    assert!(confidence_of(&rejected).is_none_or(|rejected| rejected < confidence), "{rejected}");
}

#[test]
fn only_what_does_no_harm_is_run_ahead() {
    let server = Server::with(&BLANK);
    publish_backups(&server);
    let read_only = event(
        "tool.registered",
        json!({"tool": "fs:list", "server": "fs", "name": "list", "description": "List the files of a folder",
            "annotations": {"readOnlyHint": true}}),
    );
    server.accept(&json!([read_only]));
    let suggestion = settled(&server, &json!({"intent": INTENT}));
    let ahead = |question: &Value| {
        let answer = server.question("/v1/speculate", question);
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        let tools = |list: &str| -> Vec<String> {
            answer[list].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap().to_owned()).collect()
        };
        (tools("run"), tools("wait"))
    };
    let plan = &suggestion["plan"]["tasks"];
    let named = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>();
    assert_eq!(ahead(&json!({"plan": plan})), (named(&["fs:list"]), named(&["db:dump"])));
    let predicted = ahead(&json!({"intent": INTENT, "context": ["db:dump", "fs:list"]}));
    assert_eq!(predicted, (named(&[]), named(&["zip:pack"])), "zip:pack may change something, or is not likely enough");
    for (question, problem) in [
        (json!({"plan": plan, "done": [9]}), "is not one of them"),
        (json!({"done": [0]}), "there is no plan"),
        (json!({"plan": [{"tool": "no tool"}]}), "plan"),
    ] {
        let refused = server.question("/v1/speculate", &question);
        assert!(refused.status == 400 && refused.text.contains(problem), "{refused:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    std::fs::write(&file, suggestion.to_string()).unwrap();
    let done = pml().args(["speculate", "--plan", file.to_str().unwrap(), "--url", server.url()]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("run   [") && text.contains("fs:list") && text.contains("wait"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_nats_and_the_command_line_suggest_the_same() {
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &BLANK);
    publish_backups(&server);
    let question = json!({"intent": INTENT, "k": 2});
    settled(&server, &question);
    let client = async_nats::connect(nats.url()).await.unwrap();
    let local = printed(&[INTENT, "--limit", "2", "--json", "--nats", &nats.url()]);
    let local: Value = serde_json::from_str(&local).unwrap();
    // The weights of the search index are fitted once the log is quiet.
    eventually("the server to answer as a fold of its log does", || {
        Some(server.question("/v1/suggest", &question).json()).filter(|answer| *answer == local)
    });
    let answer = client.request("pml.default.q.suggest", question.to_string().into()).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&answer.payload).unwrap(), local);
    let remote = printed(&[INTENT, "--limit", "2", "--json", "--url", server.url()]);
    assert_eq!(serde_json::from_str::<Value>(&remote).unwrap(), local);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_run_ahead_is_answered_over_nats_as_over_http() {
    let nats = NatsServer::start();
    let server = Server::serving(&["--nats", &nats.url()], &BLANK);
    publish_backups(&server);
    let client = async_nats::connect(nats.url()).await.unwrap();
    let ask = async |question: &Value| client.request("pml.default.q.speculate", question.to_string().into()).await.unwrap();
    let plan = settled(&server, &json!({"intent": INTENT}))["plan"]["tasks"].clone();
    for question in [json!({"plan": plan}), json!({"intent": INTENT, "context": ["db:dump", "fs:list"]})] {
        let answer: Value = serde_json::from_slice(&ask(&question).await.payload).unwrap();
        assert!(answer["run"].as_array().unwrap().is_empty() && !answer["wait"].as_array().unwrap().is_empty(), "{answer}");
        assert_eq!(answer, server.question("/v1/speculate", &question).json());
    }
    let refused = format!("{:?}", ask(&json!({"done": [0]})).await.headers);
    assert!(refused.contains("there is no plan"), "{refused}");
}
