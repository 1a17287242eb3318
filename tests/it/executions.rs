//! `POST /v1/executions`: a whole run as one document.

use serde_json::{Value, json};

use crate::server::{Answer, Server};

fn post(server: &Server, document: &Value) -> Answer {
    server.question("/v1/executions", document)
}

fn zip() -> Value {
    json!({
        "execution": "zip-1", "intent": "zip the reports", "session": "s1",
        "steps": [
            {"tool": "fs:list", "arguments": {"path": "reports", "password": "hunter2"}, "duration_ms": 12},
            {"tool": "fs:stat"},
            {"tool": "zip:pack", "depends_on": ["s1"], "success": true},
        ],
    })
}

#[test]
fn a_run_as_one_document_is_learnt_once_however_often_it_is_sent() {
    let server = Server::start();
    let answer = post(&server, &zip());
    assert_eq!((answer.status, answer.json()["execution"].clone()), (202, json!("zip-1")), "{answer:?}");
    assert_eq!(answer.statuses(), ["accepted"; 5]);
    let trace = server.closed_trace("zip-1");
    assert_eq!((&trace["success"], &trace["intent"]), (&json!(true), &json!("zip the reports")));
    let tools: Vec<&Value> = trace["steps"].as_array().unwrap().iter().map(|step| &step["tool"]).collect();
    assert_eq!(tools, ["fs:list", "fs:stat", "zip:pack"], "in the order of the document");
    assert_eq!(trace["steps"][2]["depends_on"], json!(["s1"]));
    assert_eq!(post(&server, &zip()).statuses(), ["duplicate"; 5]);
    let log = server.get("/v1/events").text;
    assert!(log.contains("[redacted]") && !log.contains("hunter2"));
}

#[test]
fn a_document_without_an_id_gets_one_and_each_is_a_run_of_its_own() {
    let server = Server::start();
    let document =
        json!({"intent": "list the reports", "steps": [{"tool": "fs:list", "success": false, "error_kind": "timeout"}]});
    let ids = [(); 2].map(|()| post(&server, &document).json()["execution"].as_str().unwrap().to_owned());
    assert_ne!(ids[0], ids[1]);
    let trace = server.closed_trace(&ids[1]);
    assert_eq!((&trace["success"], &trace["steps"][0]["error_kind"]), (&json!(false), &json!("timeout")));
}

#[test]
fn members_that_a_document_does_not_have_are_ignored_named_and_counted() {
    let server = Server::start();
    let mut document = zip();
    (document["model"], document["steps"][1]["usage"]) = (json!("m"), json!({"tokens": 7}));
    let answer = post(&server, &document);
    assert_eq!((answer.status, &answer.json()["ignored"]), (202, &json!(["model", "steps.usage"])), "{answer:?}");
    assert!(server.get("/metrics").text.contains("pml_event_members_ignored_total 2"));
    document["intnet"] = document.as_object_mut().unwrap().remove("intent").unwrap();
    let answer = post(&server, &document);
    assert!(answer.status == 400 && answer.text.contains("did you mean"), "{answer:?}");
}

#[test]
fn a_wrong_document_is_refused_as_a_whole_with_the_name_of_its_field() {
    let server = Server::with(&[("LIMITS__STEPS_MAX", "3")]);
    let check = |change: (&str, Value), expected: &str| {
        let mut document = zip();
        document[change.0] = change.1;
        let answer = post(&server, &document);
        assert_eq!((answer.status, answer.json()["error"].as_str().unwrap()), (400, expected));
    };
    check(("intent", json!(" ")), "intent: is blank");
    check(("steps", json!([{"tool": "fs:list"}, {}])), "steps[1].tool: is missing");
    check(("steps", json!(vec![json!({"tool": "fs:list"}); 4])), "steps: has 4 entries, the limit is 3 (limits.steps_max)");
    check(
        ("steps", json!([{"tool": "fs:list", "depends_on": ["x"]}])),
        "steps[0].depends_on: 'x' is not a step above this one",
    );
    check(("session", json!("")), "session: is empty");
    let secret = json!([{"tool": "fs:list", "step": "password=hunter2hunter2"}]);
    let answer = post(&server, &json!({"intent": "x", "steps": secret}));
    assert!(answer.status == 400 && !answer.text.contains("hunter2"), "{answer:?}");
    assert_eq!(server.ask("/v1/state")["events"]["execution.started"], 0);
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]), "whoever sent it was told");
}
