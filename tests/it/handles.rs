//! Readable names of capabilities: wherever an answer, a notice or a printed line mentions a capability, its handle stands there.

use std::time::Duration;

use pml::bus::Delivery;
use pml::clock::Clock;
use serde_json::{Value, json};

use crate::embedded::Embedded;
use crate::run::{event, finished, started, step};
use crate::server::{Server, eventually, pml};

fn zip_run(execution: &str) -> Value {
    let mut start = started(execution);
    start["data"]["intent"] = json!("zip the reports");
    json!([start, step(execution, "s1", "fs:list", &[]), step(execution, "s2", "zip:pack", &["s1"]), finished(execution)])
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Ids of capabilities in an answer that have no handle: neither beside them nor in the answer's `handles`.
fn nameless(answer: &Value) -> Vec<String> {
    fn walk(value: &Value, has_handle: bool, handles: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => {
                let id = text.strip_prefix("capability:").filter(|id| is_id(id));
                if id.is_some() && !has_handle && handles.get(text).is_none() {
                    found.push(text.clone());
                }
            }
            // A list of names has no handle beside it.
            Value::Array(elements) => elements.iter().for_each(|element| walk(element, false, handles, found)),
            Value::Object(members) => {
                let handles = members.get("handles").unwrap_or(handles);
                members.values().for_each(|member| walk(member, members.contains_key("handle"), handles, found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(answer, false, &Value::Null, &mut found);
    found
}

/// A server that knows `list-and-pack`, and a procedure that calls it.
fn learnt() -> (Server, String) {
    let server = Server::with(&[("TEMPLATES__PATH", ""), ("GRAPH__MEASURES_EVERY_MS", "10")]);
    for number in 0..5 {
        server.accept(&zip_run(&format!("zip-{number}")));
    }
    server.settled_state();
    let capabilities = server.ask("/v1/capabilities");
    let id = format!("capability:{}", capabilities["capabilities"][0]["capability"].as_str().unwrap());
    let nodes = json!([{"id": "a", "tool": id}, {"id": "b", "tool": "mail:send"}]);
    let structure = json!({"nodes": nodes, "edges": [{"from": "a", "to": "b", "kind": "provides"}]});
    let declared = json!({"name": "send the reports", "description": "zip and send", "structure": structure});
    server.accept(&json!([event("capability.declared", declared)]));
    let start = event("execution.started", json!({"execution": "outer", "intent": "send the reports"}));
    server.accept(&json!([start, step("outer", "s1", &id, &[]), step("outer", "s2", "mail:send", &["s1"]), finished("outer")]));
    let tail = server.settled_state()["applied_seq"].clone();
    eventually("the measures", || (server.ask("/v1/related?tool=fs:list")["based_on_seq"] == tail).then_some(()));
    (server, id)
}

#[test]
fn an_answer_that_mentions_a_capability_has_its_handle() {
    let (server, id) = learnt();
    let mut mentioned = 0;
    let mut check = |what: &str, answer: &Value| {
        assert_eq!(nameless(answer), Vec::<String>::new(), "{what}: {answer}");
        mentioned += usize::from(answer.to_string().contains("list-and-pack"));
    };
    for path in [
        "/v1/related?tool=fs:list&to=mail:send",
        "/v1/related?tool=list-and-pack",
        "/v1/capabilities",
        "/v1/graph",
        "/v1/graph?kind=contains",
        "/v1/traces/outer",
        "/v1/models",
    ] {
        check(path, &server.ask(path));
    }
    let (zip, send) = ("zip the reports", "send the reports");
    for (path, question) in [
        ("/v1/discover", json!({"intent": send})),
        ("/v1/predict", json!({"intent": send})),
        ("/v1/predict", json!({"intent": zip, "context": ["fs:list"], "only": "capability"})),
        ("/v1/explain", json!({"intent": zip, "item": id})),
        ("/v1/explain", json!({"intent": send, "context": [id]})),
        ("/v1/suggest", json!({"intent": zip})),
        ("/v1/suggest", json!({"intent": send})),
        ("/v1/score", json!({"intent": send, "path": [id]})),
        ("/v1/speculate", json!({"plan": [{"tool": id}]})),
    ] {
        let answer = server.question(path, &question);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        check(path, &answer.json());
    }
    assert!(mentioned >= 13, "most of them mention the capability: {mentioned}");
    let related = server.ask("/v1/related?tool=fs:list");
    assert_eq!(related["handles"][&id], "list-and-pack", "{related}");
}

#[test]
fn what_is_printed_for_people_has_handles_instead_of_ids() {
    let (server, id) = learnt();
    let tail = server.settled_state()["applied_seq"].to_string();
    for arguments in [
        &["related", "fs:list"][..],
        &["related", "list-and-pack"],
        &["suggest", "zip the reports"],
        &["discover", "send the reports"],
        &["predict", "send the reports", "--after", &id],
        &["explain", "send the reports", "--after", &id],
        &["score", "send the reports", "--path", &id],
        &["diff", "1", &tail, "--intent", "zip the reports"],
    ] {
        let output = pml().args(arguments).args(["--url", server.url()]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let words = printed.split(|c: char| !c.is_ascii_alphanumeric());
        // `diff` names the capabilities that changed by id, with the handle beside it.
        let ids = words.filter(|word| is_id(word)).count();
        assert!(ids == 0 || arguments[0] == "diff", "{arguments:?}: {printed}");
        // Whether the next call is a capability is not for this test to say.
        assert!(printed.contains("list-and-pack") || arguments[0] == "predict", "{arguments:?}: {printed}");
    }
}

#[actix_rt::test]
async fn notices_name_what_was_learnt() {
    let embedded = Embedded::start(Clock::system(), &[]).await;
    let runtime = &embedded.runtime;
    let mut notices = runtime.bus.subscribe("pml.default.notify.>".parse().unwrap(), 64).await.unwrap();
    embedded.accept(&zip_run("e1")).await;
    let learnt = async {
        loop {
            let Some(Delivery::Message { subject, payload }) = notices.next().await else { panic!("the bus has ended") };
            if subject.as_str().ends_with("capability_learned") {
                return serde_json::from_slice::<Value>(&payload).unwrap();
            }
        }
    };
    let notice = tokio::time::timeout(Duration::from_secs(30), learnt).await.expect("told in time");
    assert_eq!(notice["handle"], "list-and-pack", "{notice}");
    embedded.stop().await;
}
