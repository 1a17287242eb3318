//! What is wrong is refused by field, reason and limit, and kept; what is right beside it is accepted.

use serde_json::{Value, json};

use crate::run::{event, finished, started, step, step_started, whole};
use crate::server::Server;

/// Publishes one event that must be refused: the status, where to look, why, and a part of the sentence for people.
fn check(server: &Server, event: &Value, field: &str, reason: &str, message: &str) {
    check_body(server, "application/json", event.to_string().as_bytes(), field, reason, message);
}

fn check_body(server: &Server, content_type: &str, body: &[u8], field: &str, reason: &str, message: &str) {
    let answer = server.post_as(content_type, body);
    let json = answer.json();
    let error = &json["results"][0]["error"];
    assert_eq!((answer.status, &json["refused"]), (400, &json!(1)), "{answer:?}");
    assert_eq!((&error["field"], &error["reason"]), (&json!(field), &json!(reason)), "{answer:?}");
    assert!(error["message"].as_str().unwrap().contains(message), "{answer:?}");
}

/// A request that is refused as a whole.
fn check_request(server: &Server, content_type: &str, body: impl AsRef<[u8]>, status: u16, message: &str) {
    let answer = server.post_as(content_type, body);
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.json()["error"].as_str().unwrap().contains(message), "{answer:?}");
}

fn with(mut event: Value, member: &str, value: Value) -> Value {
    event[member] = value;
    event
}

#[test]
fn an_envelope_that_is_wrong_is_refused_by_attribute() {
    let server = Server::start();
    let good = || started("e1");
    check(&server, &event("step.paused", json!({})), "type", "unknown_kind", "unknown kind 'pml.step.paused'; known kinds are");
    check(
        &server,
        &with(good(), "dataschema", json!("urn:pml:execution.started/v9")),
        "dataschema",
        "unknown_version",
        "no version 'v9'; known versions are v1",
    );
    check(&server, &with(good(), "id", json!("")), "id", "invalid_field", "is empty; leave it out to get one");
    check(&server, &with(good(), "id", json!(7)), "id", "invalid_field", "expected a string");
    check(&server, &with(good(), "time", json!("noon")), "time", "invalid_field", "RFC 3339");
    assert_eq!(server.get("/v1/traces/e1").status, 404, "nothing of it was taken");
}

#[test]
fn a_kind_only_pml_writes_cannot_be_published() {
    let server = Server::start();
    let trace = json!({
        "execution": "e1", "intent": "x", "steps": [], "success": true, "started_us": 1, "ended_us": 2, "abandoned": false,
    });
    for event in [
        event("trace.completed", trace),
        event("embedding.computed", json!({"text_hash": "h", "model": "m", "dim": 0, "vector": []})),
    ] {
        check(&server, &event, "type", "not_publishable", "is written by pml itself");
    }
}

#[test]
fn data_that_is_wrong_is_refused_by_field() {
    let server = Server::start();
    let start = |data: Value| event("execution.started", data);
    check(&server, &start(json!({"execution": "e1"})), "data.intent", "missing_field", "is missing");
    check(&server, &start(json!({"execution": 1, "intent": "x"})), "data.execution", "invalid_field", "string");
    check(&server, &start(json!({"execution": "e1", "intent": " "})), "data.intent", "invalid_field", "is blank");
    check(&server, &start(json!({"execution": "e 1", "intent": "x"})), "data.execution", "invalid_field", "printable ASCII");
    let misspelt = json!({"execution": "e1", "intent": "x", "sesion": "y"});
    check(&server, &start(misspelt), "data.sesion", "unknown_field", "did you mean 'session'?");
    let long_id = "e".repeat(129);
    check(&server, &started(&long_id), "data.execution", "invalid_field", "129 bytes long, the limit is 128");
    check(&server, &step("e1", "s1", ":read", &[]), "data.tool", "invalid_field", "names no server");
}

#[test]
fn an_intent_that_is_too_long_is_refused_with_the_limit() {
    let server = Server::with(&[("LIMITS__INTENT_BYTES_MAX", "20")]);
    let start = |intent: String| event("execution.started", json!({"execution": "e1", "intent": intent}));
    check(
        &server,
        &start("i".repeat(21)),
        "data.intent",
        "too_long",
        "is 21 bytes long, the limit is 20 (limits.intent_bytes_max)",
    );
    server.accept(&start("i".repeat(20)));
}

#[test]
fn a_step_too_many_is_refused_with_the_limit() {
    let server = Server::with(&[("LIMITS__STEPS_MAX", "2")]);
    server.accept(&json!([started("e1"), step("e1", "s1", "fs:read", &[]), step_started("e1", "s2", "fs:read")]));
    let message = "already has 2 steps, the limit (limits.steps_max)";
    check(&server, &step("e1", "s3", "fs:read", &[]), "data.step", "too_many", message);
    check(&server, &step_started("e1", "s3", "fs:read"), "data.step", "too_many", message);
    server.accept(&step("e1", "s2", "fs:read", &["s1"]));
    let many = step("e1", "s3", "fs:read", &["s1", "s2", "s4"]);
    check(&server, &many, "data.depends_on", "too_many", "has 3 entries, the limit is 2 (limits.steps_max)");
}

#[test]
fn one_open_execution_too_many_is_back_pressure_with_the_limit() {
    let server = Server::with(&[("LIMITS__OPEN_EXECUTIONS_MAX", "1")]);
    server.accept(&started("e1"));
    let answer = server.post(&started("e2"));
    assert_eq!((answer.status, answer.retry_after.is_some()), (429, true), "{answer:?}");
    let error = &answer.json()["results"][0]["error"];
    assert_eq!((&error["reason"], &error["field"]), (&json!("too_many_open"), &json!("data.execution")));
    assert!(error["message"].as_str().unwrap().contains("limits.open_executions_max"), "{answer:?}");
}

#[test]
fn events_that_do_not_fit_their_execution_are_refused() {
    // It has to stay open between the requests.
    let server = Server::with(&[("TRACE__SETTLE_MS", "600000"), ("TRACE__LATE_MS", "600000")]);
    for lost in [step("lost", "s1", "fs:read", &[]), step_started("lost", "s1", "fs:read"), finished("lost")] {
        check(&server, &lost, "data.execution", "unknown_execution", "'lost' is unknown; publish execution.started first");
    }
    server.accept(&json!([started("e1"), step("e1", "s1", "fs:read", &[])]));
    check(&server, &started("e1"), "data.execution", "already_started", "'e1' has already started");
    check(&server, &step("e1", "s1", "fs:read", &[]), "data.step", "already_finished", "'s1' has already finished");
    server.accept(&step_started("e1", "s2", "fs:read"));
    check(&server, &step_started("e1", "s2", "fs:read"), "data.step", "already_started", "'s2' has already started");
    check(&server, &step("e1", "s2", "fs:write", &[]), "data.tool", "invalid_field", "started with another tool, 'fs:read'");
    server.accept(&finished("e1"));
    check(&server, &finished("e1"), "data.execution", "already_finished", "'e1' has already finished");
}

#[test]
fn a_closed_execution_takes_no_more_events() {
    let server = Server::start();
    server.accept(&whole("e1"));
    server.closed_trace("e1");
    for late in [started("e1"), step("e1", "s9", "fs:read", &[]), finished("e1")] {
        check(&server, &late, "data.execution", "execution_closed", "'e1' is closed");
    }
}

#[test]
fn a_dependency_that_cannot_be_is_refused() {
    let server = Server::start();
    server.accept(&json!([
        started("e1"),
        step_started("e1", "s1", "fs:read"),
        step_started("e1", "s2", "fs:read"),
        step("e1", "s2", "fs:read", &["s1"])
    ]));
    let unknown = step("e1", "s3", "fs:read", &["s1", "s7"]);
    check(&server, &unknown, "data.depends_on", "unknown_step", "'s7' is not a step of this execution");
    let own = step("e1", "s1", "fs:read", &["s1"]);
    check(&server, &own, "data.depends_on", "dependency_cycle", "would close the cycle s1 -> s1");
    let cycle = step("e1", "s1", "fs:read", &["s2"]);
    check(&server, &cycle, "data.depends_on", "dependency_cycle", "would close the cycle");
    server.accept(&step("e1", "s1", "fs:read", &[]));
}

#[test]
fn a_cycle_within_one_batch_is_refused_where_it_closes() {
    let server = Server::start();
    let answer = server.post(&json!([
        started("e1"),
        step_started("e1", "s1", "fs:read"),
        step_started("e1", "s2", "fs:read"),
        step("e1", "s1", "fs:read", &["s2"]),
        step("e1", "s2", "fs:read", &["s1"])
    ]));
    assert_eq!(answer.statuses(), ["accepted", "accepted", "accepted", "accepted", "refused"]);
    assert_eq!(answer.json()["results"][4]["error"]["reason"], "dependency_cycle");
}

#[test]
fn bytes_that_are_not_utf8_are_malformed_and_kept() {
    let server = Server::start();
    let broken = [b"{\"specversion\": \"", &[0xff, 0xfe][..], b"\"}"].concat();
    check_body(&server, "application/json", &broken, "event", "malformed", "not UTF-8 after byte 17");
    let batch = [b"[", broken.as_slice(), b"]"].concat();
    check_body(&server, "application/cloudevents-batch+json", &batch, "body", "malformed", "not UTF-8 after byte 18");
    let lines =
        [started("e1").to_string().as_bytes(), b"\n", &broken, b"\n", step("e1", "s1", "fs:read", &[]).to_string().as_bytes()]
            .concat();
    let answer = server.post_as("application/x-ndjson", lines);
    assert_eq!((answer.status, answer.statuses()), (202, ["accepted", "refused", "accepted"].map(str::to_owned).to_vec()));
    let dead = server.ask("/v1/dead");
    let shown = String::from_utf8_lossy(&broken);
    assert_eq!(dead["dead"].as_array().unwrap().len(), 3);
    assert_eq!(dead["dead"][2]["event"], json!(shown));
}

#[test]
fn text_that_is_not_json_is_malformed() {
    let server = Server::start();
    check_body(&server, "application/json", b"{\"specversion\": ", "event", "malformed", "EOF");
    check_body(&server, "application/json", b"[{}, {]", "body", "malformed", "line 1 column");
    let answer = server.post_as("application/json", b"[1, null, \"x\"]");
    assert_eq!((answer.status, answer.statuses()), (400, vec!["refused".to_owned(); 3]));
}

#[test]
fn a_request_that_is_no_batch_of_events_is_refused_as_a_whole() {
    let server = Server::with(&[("HTTP__BATCH_EVENTS_MAX", "3")]);
    let many: Value = (0..4).map(|number| started(&format!("e{number}"))).collect();
    let limit = "has more than 3 entries, the limit (http.batch_events_max); nothing was taken";
    check_request(&server, "application/json", many.to_string(), 413, limit);
    check_request(&server, "application/json", "[]", 400, "holds no events");
    check_request(&server, "application/x-ndjson", "\n\n", 400, "holds no events");
    check_request(&server, "text/html", "<p>", 400, "content-type: 'text/html' is not one of");
    assert_eq!(server.ask("/v1/state")["open_executions"], 0);
}

#[test]
fn ten_megabytes_are_too_many() {
    let server = Server::start();
    let limit = "body: is larger than 4194304 bytes (http.body_bytes_max)";
    check_request(&server, "application/json", vec![b' '; 10 << 20], 413, limit);
    let question = server.question("/v1/discover", &json!({"intent": "x".repeat(10 << 20)}));
    assert_eq!((question.status, &question.json()["error"]), (413, &json!(limit)), "{question:?}");
    server.accept(&started("e1"));
}

#[test]
fn the_good_half_of_a_batch_is_accepted_and_the_bad_half_is_kept() {
    let server = Server::start();
    let bad = [event("step.paused", json!({})), step("lost", "s1", "fs:read", &[]), with(finished("e1"), "id", json!(""))];
    let batch = json!([started("e1"), bad[0], step("e1", "s1", "fs:read", &[]), bad[1], bad[2], finished("e1")]);
    let answer = server.post(&batch);
    assert_eq!(answer.status, 202);
    assert_eq!(answer.statuses(), ["accepted", "refused", "accepted", "refused", "refused", "accepted"]);
    let json = answer.json();
    assert_eq!((&json["accepted"], &json["duplicate"], &json["refused"]), (&json!(3), &json!(0), &json!(3)));
    for (result, sent) in json["results"].as_array().unwrap().iter().zip(batch.as_array().unwrap()) {
        assert_eq!(result["id"], sent["id"], "answers stand in the order of the batch");
    }
    let letters = server.ask("/v1/dead")["dead"].as_array().unwrap().clone();
    let mut reasons: Vec<&str> = letters.iter().map(|letter| letter["reason"].as_str().unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["invalid_field", "unknown_execution", "unknown_kind"]);
    for event in &bad {
        let kept = letters.iter().find(|letter| letter["event"] == json!(event.to_string()));
        assert_eq!(kept.unwrap_or_else(|| panic!("{event} is not among {letters:?}"))["origin"], "http");
    }
    assert_eq!(server.closed_trace("e1")["steps"].as_array().unwrap().len(), 1);
}

#[test]
fn letters_are_sent_again_however_short_the_queue_is() {
    let server = Server::with(&[("EXECUTION__QUEUE_EVENTS_MAX", "2"), ("HTTP__BATCH_EVENTS_MAX", "2")]);
    for execution in ["e1", "e2", "e3"] {
        check(&server, &step(execution, "s1", "fs:read", &[]), "data.execution", "unknown_execution", execution);
        server.accept(&started(execution));
    }
    assert_eq!(server.redrive()["accepted"], 2);
    assert_eq!(server.redrive()["accepted"], 1);
    assert_eq!(server.redrive()["results"], json!([]));
}

#[test]
fn a_step_refused_for_its_execution_is_accepted_once_that_has_started() {
    let server = Server::start();
    let overtaking = step("e1", "s1", "fs:read", &[]);
    check(&server, &overtaking, "data.execution", "unknown_execution", "'e1' is unknown");
    let still_lost = server.redrive();
    assert_eq!((&still_lost["accepted"], &still_lost["refused"]), (&json!(0), &json!(1)));
    assert_eq!(server.ask("/v1/dead")["dead"].as_array().unwrap().len(), 1, "it came back, once");
    server.accept(&started("e1"));
    let redriven = server.redrive();
    assert_eq!((&redriven["accepted"], &redriven["refused"]), (&json!(1), &json!(0)), "{redriven}");
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]));
    assert_eq!(server.post(&overtaking).statuses(), ["duplicate"]);
    server.accept(&finished("e1"));
    assert_eq!(server.closed_trace("e1")["steps"][0]["step"], "s1");
}
