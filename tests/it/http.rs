//! Publishing over HTTP: every form, in any order, again, under pressure; and who may do it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pml::gateway::http::{hash_key, new_key};
use serde_json::{Value, json};

use crate::run::{finished, started, step, whole};
use crate::server::{Answer, Server, agent, pml};

/// Publishes a run in some form; the trace must be the same whatever the form.
fn check_form(publish: impl FnOnce(&Server, &[Value])) {
    let server = Server::start();
    publish(&server, whole("e1").as_array().unwrap());
    let trace = server.closed_trace("e1");
    assert_eq!(
        (&trace["status"], &trace["success"], &trace["intent"]),
        (&json!("completed"), &json!(true), &json!("copy a file"))
    );
    let steps: Vec<_> = trace["steps"].as_array().unwrap().iter().map(|step| (&step["tool"], &step["depends_on"])).collect();
    assert_eq!(steps, [(&json!("fs:read"), &json!([])), (&json!("fs:write"), &json!(["s1"]))]);
}

#[test]
fn one_event_per_request_is_accepted() {
    check_form(|server, events| {
        for event in events {
            let answer = server.post_as("application/cloudevents+json", event.to_string());
            assert_eq!((answer.status, answer.statuses()), (202, vec!["accepted".to_owned()]));
        }
    });
}

#[test]
fn a_batch_is_accepted() {
    check_form(|server, events| {
        let answer = server.post_as("application/cloudevents-batch+json", json!(events).to_string());
        assert_eq!((answer.status, answer.statuses()), (202, vec!["accepted".to_owned(); 4]));
    });
}

#[test]
fn lines_are_accepted() {
    check_form(|server, events| {
        let lines = events.iter().map(ToString::to_string).collect::<Vec<_>>().join("\r\n\n");
        let answer = server.post_as("application/x-ndjson", lines);
        assert_eq!((answer.status, answer.statuses()), (202, vec!["accepted".to_owned(); 4]));
    });
}

#[test]
fn binary_mode_is_accepted() {
    check_form(|server, events| {
        for event in events {
            let mut request = agent().post(format!("{}/v1/events", server.url())).header("content-type", "application/json");
            for name in ["specversion", "id", "source", "type"] {
                request = request.header(format!("ce-{name}"), event[name].as_str().unwrap());
            }
            let answer = Answer::read(request.send(event["data"].to_string())).unwrap();
            assert_eq!((answer.status, answer.statuses()), (202, vec!["accepted".to_owned()]), "{answer:?}");
        }
    });
}

#[test]
fn an_event_sent_again_is_a_duplicate_at_its_first_position() {
    let server = Server::start();
    let batch = whole("e1");
    let seqs = |answer: &Answer| -> Vec<Value> {
        answer.json()["results"].as_array().unwrap().iter().map(|result| result["seq"].clone()).collect()
    };
    let first = server.accept(&batch);
    for closed in [false, true] {
        let again = server.post(&batch);
        assert_eq!((again.status, again.statuses()), (202, vec!["duplicate".to_owned(); 4]), "closed: {closed}");
        assert_eq!(seqs(&again), seqs(&first), "closed: {closed}");
        server.closed_trace("e1");
    }
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]), "a repeat is not a refusal");
    let within = started("e2");
    let answer = server.post(&json!([within, within]));
    assert_eq!(answer.statuses(), ["accepted", "duplicate"], "{answer:?}");
    assert_eq!(seqs(&answer)[0], seqs(&answer)[1]);
}

#[test]
fn events_that_overtake_their_execution_wait_for_it() {
    let server = Server::with(&[("EXECUTION__REORDER_WAIT_MS", "20000"), ("TRACE__SETTLE_MS", "2000")]);
    let backwards = [
        finished("e1"),
        step("e1", "s3", "fs:write", &["s2", "s1"]),
        step("e1", "s2", "text:upper", &["s1"]),
        step("e1", "s1", "fs:read", &[]),
    ];
    std::thread::scope(|scope| {
        for event in &backwards {
            scope.spawn(|| server.accept(event));
        }
        // Gives them time to overtake; the outcome is the same if they do not.
        std::thread::sleep(Duration::from_millis(50));
        server.accept(&started("e1"));
    });
    let trace = server.closed_trace("e1");
    let steps: Value = trace["steps"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert_eq!((steps, &trace["success"]), (json!(["s1", "s2", "s3"]), &json!(true)));
    assert_eq!(server.ask("/v1/dead")["dead"], json!([]));
}

#[test]
fn back_pressure_is_429_and_whoever_tries_again_loses_and_doubles_nothing() {
    const THREADS: usize = 8;
    const BATCHES: usize = 25;
    let server = Server::with(&[("EXECUTION__QUEUE_EVENTS_MAX", "4"), ("HTTP__BATCH_EVENTS_MAX", "4")]);
    let busy = AtomicUsize::new(0);
    let publish = |thread: usize| {
        for batch in 0..BATCHES {
            let events: Value = (0..4).map(|event| started(&format!("e-{thread}-{batch}-{event}"))).collect();
            loop {
                let answer = server.post(&events);
                if answer.status == 202 {
                    assert_eq!(answer.statuses(), ["accepted"; 4]);
                    break;
                }
                assert_eq!((answer.status, answer.retry_after.as_deref()), (429, Some("1")), "{answer:?}");
                assert!(answer.json()["error"].as_str().unwrap().contains("execution.queue_events_max"), "{answer:?}");
                busy.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || publish(thread)))));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for record in server.records().iter().filter(|record| record["type"] == "pml.execution.started") {
        *seen.entry(record["data"]["execution"].to_string()).or_default() += 1;
    }
    assert_eq!((seen.len(), seen.values().max()), (THREADS * BATCHES * 4, Some(&1)));
    let busy = busy.into_inner();
    assert!(busy > 0, "{THREADS} publishers never met back-pressure");
    let counted = format!("pml_requests_busy_total {busy}\n");
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains(&counted), "no '{counted}' in {metrics}");
}

#[test]
fn a_server_told_to_stop_answers_what_it_was_asked_and_ends_well() {
    let mut server = Server::with(&[("EXECUTION__REORDER_WAIT_MS", "1000"), ("HTTP__WORKERS", "1")]);
    // Waits for an execution that does not come. The one worker has taken it up when it answers what was asked after it.
    let body = step("lost", "s1", "fs:read", &[]).to_string();
    let mut waiting = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap();
    write!(waiting, "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    server.accept(&started("e1"));
    assert_eq!(server.terminate(), Some(0));
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("unknown_execution"), "{answer}");
    server.restart();
    assert_eq!(server.ask("/v1/traces/e1")["status"], "open");
    assert_eq!(server.ask("/v1/dead")["dead"].as_array().unwrap().len(), 1);
}

#[test]
fn an_address_others_can_reach_needs_keys() {
    let run = |listen: &str| pml().args(["serve", "--json", "--listen", listen, "--data", "/nonexistent"]).output().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let ended = run(listen);
        let said = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(
            said.contains("http.listen") && said.contains("is not a loopback address") && said.contains("pml key"),
            "{said}"
        );
    }
}

#[test]
fn a_key_opens_what_its_scopes_say() {
    let [publisher, reader, admin] = [new_key(), new_key(), new_key()];
    let entry = |key: &str, scope: &str| format!("{{name = '{scope}', hash = '{}', scopes = ['{scope}']}}", hash_key(key));
    let keys = format!("[{}, {}, {}]", entry(&publisher, "publish"), entry(&reader, "query"), entry(&admin, "admin"));
    let server = Server::with(&[("HTTP__KEYS", &keys)]);
    let status = |key: Option<&str>, method: &str, path: &str| {
        let url = format!("{}{path}", server.url());
        let bearer = key.map(|key| format!("Bearer {key}")).unwrap_or_default();
        let response = match method {
            "GET" => agent().get(url).header("authorization", bearer).call(),
            _ => agent()
                .post(url)
                .header("authorization", bearer)
                .header("content-type", "application/json")
                .send(started("e1").to_string()),
        };
        Answer::read(response).unwrap().status
    };
    let doors = [
        ("POST", "/v1/events"),
        ("GET", "/v1/tools"),
        ("GET", "/v1/events"),
        ("GET", "/metrics"),
        ("GET", "/v1/dead"),
        ("GET", "/healthz"),
    ];
    let check = |key: Option<&str>, expected: [u16; 6]| {
        assert_eq!(doors.map(|(method, path)| status(key, method, path)), expected, "for {doors:?}");
    };
    check(None, [401, 401, 401, 401, 401, 200]);
    check(Some("pml_guessed"), [401, 401, 401, 401, 401, 200]);
    check(Some(&publisher), [202, 403, 403, 403, 403, 200]);
    check(Some(&reader), [403, 200, 200, 200, 403, 200]);
    check(Some(&admin), [400, 200, 200, 200, 200, 200]);
}

#[test]
fn web_pages_and_other_names_are_kept_out_while_there_are_no_keys() {
    let server = Server::start();
    let status = |name: &str, value: &str| {
        let request = agent().get(format!("{}/v1/tools", server.url())).header(name, value);
        let answer = Answer::read(request.call()).unwrap();
        assert!(answer.status == 200 || answer.json()["error"].as_str().unwrap().contains("no API keys"), "{answer:?}");
        answer.status
    };
    assert_eq!(status("host", "evil.example"), 403);
    assert_eq!(status("host", "localhost.evil.example:8080"), 403);
    assert_eq!(status("origin", "https://evil.example"), 403);
    assert_eq!(status("origin", "null"), 403);
    assert_eq!(status("host", "localhost:1234"), 200);
    assert_eq!(status("origin", "http://127.0.0.1:3000"), 200);
}
