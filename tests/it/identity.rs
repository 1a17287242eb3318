//! Ids and names as other systems have them: any CloudEvents id, ids left to the server, attributes that are kept, members that are
//! ignored, tools without a server. The same on redb and on JetStream.

use serde_json::{Value, json};

use crate::nats_serve::json_of;
use crate::nats_server::NatsServer;
use crate::server::{Server, eventually, pml};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn event(source: &str, id: &str, kind: &str, data: Value) -> Value {
    let mut event = json!({"specversion": "1.0", "id": id, "source": source, "type": format!("pml.{kind}")});
    event["data"] = data;
    event
}

fn start(source: &str, id: &str, execution: &str) -> Value {
    event(source, id, "execution.started", json!({"execution": execution, "intent": "zip the reports"}))
}

fn registered(source: &str, id: &str, description: &str) -> Value {
    event(source, id, "tool.registered", json!({"tool": "fs:read", "description": description}))
}

fn metric(server: &Server, name: &str) -> f64 {
    let text = server.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
    line.trim().parse().unwrap()
}

/// The record that an event of this source and id became.
fn record(server: &Server, source: &str, id: &str) -> Value {
    let is_it = |record: &Value| record["source"] == source && record["id"] == id;
    server.records().into_iter().find(is_it).unwrap_or_else(|| panic!("no record {id} of {source}"))
}

/// Ids of every form; the same ones again, of another source, and with other content.
fn check_identity(mut server: Server) {
    let ids = ["1", "A234-1234-1234", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "caf\u{e9} 1", "01ARZ3NDEKTSV4RRFFQ69G5FAV"];
    for (number, id) in ids.into_iter().enumerate() {
        server.accept(&start("/agents/a", id, &format!("a{number}")));
        assert_eq!(record(&server, "/agents/a", id)["data"]["execution"], format!("a{number}"));
    }
    server.accept(&start("/agents/b", "1", "b1"));
    let other = server.post(&start("/agents/b", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "b2"));
    assert_eq!((other.status, other.statuses()), (409, vec!["refused".to_owned()]), "a ULID is its own identity: {other:?}");

    let settled = server.settled_open_state();
    for again in 0..2 {
        let sent = [start("/agents/a", "1", "a0"), start("/agents/a", "1", "a9")];
        let answer = server.post(&json!(sent));
        assert_eq!(answer.statuses(), ["duplicate", "refused"], "{again}: {answer:?}");
        let error = &answer.json()["results"][1]["error"];
        assert_eq!((&error["reason"], &error["field"]), (&json!("conflict"), &json!("id")));
        let known = server.settled_open_state();
        assert_eq!(known["digest"], settled["digest"], "nothing was taken");
        server.restart();
        eventually("the server to take events again", || (server.get("/readyz").status == 200).then_some(()));
    }
    assert_eq!(server.get("/v1/traces/a9").status, 404);
    // What conflicts at once, before anything was folded.
    let batch = server.post(&json!([registered("/c", "9", "one"), registered("/c", "9", "one"), registered("/c", "9", "two")]));
    assert_eq!(batch.statuses(), ["accepted", "duplicate", "refused"], "{batch:?}");
    let step = |id: &str, step: &str| {
        event("/c", id, "step.finished", json!({"execution": "c1", "step": step, "tool": "fs:read", "success": true}))
    };
    let steps = json!([start("/c", "10", "c1"), step("11", "s1"), step("11", "s2"), step("12", "s2"), step("11", "s1")]);
    let answer = server.post(&steps);
    let expected = ["accepted", "accepted", "refused", "accepted", "duplicate"];
    assert_eq!(answer.statuses(), expected, "a step whose id is taken did not happen: {answer:?}");
    let letters = server.ask("/v1/dead");
    assert_eq!(letters["dead"][0]["reason"], "conflict", "{letters}");

    let mut without_id = start("/agents/a", "", "a7");
    without_id.as_object_mut().unwrap().remove("id");
    let answer = server.accept(&without_id).json();
    let given = answer["results"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(record(&server, "/agents/a", given)["data"]["execution"], "a7");
}

#[test]
fn every_id_of_an_event_is_accepted_once_and_a_conflict_is_told_from_a_duplicate() {
    check_identity(Server::start());
}

#[test]
fn every_id_of_an_event_is_accepted_once_on_jetstream_too() {
    let nats = NatsServer::start();
    check_identity(Server::serving(&["--nats", &nats.url()], &[]));
    let verified = json_of(pml().args(["log", "verify", "--nats", &nats.url()]));
    assert_eq!(verified["problems"], json!([]));
}

#[test]
fn subject_and_trace_context_are_kept_in_both_modes_and_through_an_archive() {
    let mut server = Server::start();
    let mut first = start("/agents/a", "1", "e1");
    (first["subject"], first["traceparent"], first["tracestate"]) = (json!("order 12"), json!(TRACE), json!("vendor=1"));
    server.accept(&first);
    let mut second = start("/agents/a", "2", "e2");
    (second["traceparent"], second["tracestate"]) = (json!("none"), json!("vendor=1"));
    let answer = server.accept(&second).json();
    assert_eq!(answer["results"][0]["ignored"], json!(["traceparent"]));
    let headers = [("ce-specversion", "1.0"), ("ce-id", "3"), ("ce-source", "/agents/a"), ("ce-type", "pml.execution.started")];
    let mut request = crate::server::agent().post(format!("{}/v1/events", server.url())).header("ce-traceparent", TRACE);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let sent = request.content_type("application/json").send(json!({"execution": "e3", "intent": "x"}).to_string());
    assert_eq!(crate::server::Answer::read(sent).unwrap().status, 202);
    let check = |server: &Server| {
        let kept = record(server, "/agents/a", "1");
        assert_eq!(
            (&kept["subject"], &kept["traceparent"], &kept["tracestate"]),
            (&json!("order 12"), &json!(TRACE), &json!("vendor=1"))
        );
        assert_eq!(record(server, "/agents/a", "2").get("tracestate"), None);
        assert_eq!(record(server, "/agents/a", "3")["traceparent"], TRACE);
    };
    check(&server);
    server.restart();
    check(&server);

    let (archive, copy) = (server.data().with_file_name("archive"), server.data().with_file_name("copy"));
    assert_eq!(server.terminate(), Some(0));
    let run = |arguments: &[&str]| json_of(pml().args(arguments));
    run(&["log", "export", archive.to_str().unwrap(), "--data", server.data().to_str().unwrap()]);
    run(&["replay", "--from-parquet", archive.to_str().unwrap(), "--into", copy.to_str().unwrap()]);
    let verify = |data: &std::path::Path| run(&["log", "verify", "--data", data.to_str().unwrap()]);
    let (original, again) = (verify(&server.data()), verify(&copy));
    assert_eq!((&again["problems"], &again["digest"]), (&json!([]), &original["digest"]));
    let cat = |data: &std::path::Path| pml().args(["log", "cat", "--json", "--data"]).arg(data).output().unwrap().stdout;
    assert_eq!(String::from_utf8(cat(&copy)).unwrap(), String::from_utf8(cat(&server.data())).unwrap());
}

#[test]
fn members_that_a_kind_does_not_have_are_ignored_and_counted() {
    let server = Server::start();
    let before = metric(&server, "pml_event_members_ignored_total");
    let data = json!({"execution": "e1", "intent": "x", "model": "gpt", "intents": ["y"], "usage": {"tokens": 7}});
    let answer = server.accept(&event("me", "1", "execution.started", data)).json();
    assert_eq!(answer["results"][0]["ignored"], json!(["data.intents", "data.model", "data.usage"]));
    assert_eq!(record(&server, "me", "1")["data"], json!({"execution": "e1", "intent": "x"}));
    let nodes = json!([{"id": "a", "tool": "fs:read", "label": "x"}, {"id": "b", "tool": "fs:write", "color": "red"}]);
    let declared = json!({"name": "n", "description": "d", "structure": {"nodes": nodes, "layout": "left"}});
    let answer = server.accept(&event("me", "2", "capability.declared", declared)).json();
    let ignored = json!(["data.structure.layout", "data.structure.nodes.label", "data.structure.nodes.color"]);
    assert_eq!(answer["results"][0]["ignored"], ignored);
    assert!(metric(&server, "pml_event_members_ignored_total") - before > 5.5, "three and three");
    let misspelt = json!({"name": "n", "description": "d", "structure": {"nodes": [{"id": "a", "toll": "fs:read"}]}});
    let refused = server.post(&event("me", "3", "capability.declared", misspelt)).json();
    assert_eq!(refused["results"][0]["error"]["field"], "data.structure.nodes.toll", "{refused}");
}

#[test]
fn a_tool_without_a_server_belongs_to_the_source_or_to_the_configured_server() {
    let run = |execution: &str| {
        let step = json!({"execution": execution, "step": "s1", "tool": "get_weather", "success": true});
        json!([
            start("/agents/planner", &format!("{execution}-1"), execution),
            event("/agents/planner", &format!("{execution}-2"), "step.finished", step),
            event(
                "/agents/planner",
                &format!("{execution}-3"),
                "execution.finished",
                json!({"execution": execution, "success": true})
            ),
        ])
    };
    let mut server = Server::start();
    server.accept(&run("e1"));
    assert_eq!(server.closed_trace("e1")["steps"][0]["tool"], "planner:get_weather");
    let own = json!({"tool": "get_weather", "server": "weather", "description": "the weather"});
    server.accept(&event("/agents/planner", "own", "tool.registered", own));
    assert_eq!(record(&server, "/agents/planner", "own")["data"]["tool"], "weather:get_weather");
    server.restart_with(&[("DEFAULT_SERVER", "tools")]);
    server.accept(&run("e2"));
    assert_eq!(server.closed_trace("e2")["steps"][0]["tool"], "tools:get_weather");
    let refused = pml().arg("doctor").env("PML__DEFAULT_SERVER", "a b").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("default_server: 'a b' cannot be the server"), "{refused:?}");
}
