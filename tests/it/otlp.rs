//! Spans by OTLP/HTTP: from exporters that other people wrote, and what the protocol says about bad requests.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::outside::installed;
use crate::server::{Answer, Server, agent, eventually};

/// A server that does not wait long for further spans.
fn server() -> Server {
    Server::with(&[("OTLP__LINGER_MS", "100"), ("OTLP__TIMEOUT_MS", "400"), ("OTLP__SPANS_MAX", "4")])
}

fn post(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut request = agent().post(format!("{}/v1/traces", server.url()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::read(request.send(body)).unwrap()
}

const JSON: (&str, &str) = ("content-type", "application/json");
const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");

/// A span of the trace with this number: the root without `parent`, else a call of `tool`.
fn span(trace: u32, id: u32, tool: Option<&str>) -> Value {
    let attribute = |name: &str, value: &str| json!({"key": name, "value": {"stringValue": value}});
    let attributes = match tool {
        Some(tool) => vec![attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", tool)],
        None => vec![attribute("gen_ai.operation.name", "invoke_agent"), attribute("input.value", "water the plants")],
    };
    let mut span = json!({
        "traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}"), "name": tool.unwrap_or("agent"),
        "startTimeUnixNano": (1_772_000_000_000_000_000_u64 + u64::from(id) * 1_000_000).to_string(),
        "endTimeUnixNano": (1_772_000_000_500_000_000_u64 + u64::from(id) * 1_000_000).to_string(),
        "attributes": attributes,
    });
    if tool.is_some() {
        span["parentSpanId"] = json!(format!("{:016x}", 1));
    }
    span
}

fn request(spans: &[Value]) -> String {
    let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "garden"}}]});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).to_string()
}

/// The completed traces, once there are as many.
fn traces(server: &Server, wanted: usize) -> Vec<Value> {
    eventually(&format!("{wanted} traces"), || {
        let closed: Vec<Value> =
            server.records().into_iter().filter(|record| record["type"] == "pml.trace.completed").collect();
        assert!(closed.len() <= wanted, "{closed:?}");
        (closed.len() == wanted).then(|| closed.into_iter().map(|mut record| record["data"].take()).collect())
    })
}

fn tools(trace: &Value) -> Vec<&str> {
    trace["steps"].as_array().unwrap().iter().map(|step| step["tool"].as_str().unwrap()).collect()
}

#[test]
fn spans_become_a_run_when_the_root_has_ended_and_late_ones_continue_it() {
    let server = server();
    let taken = post(&server, &[JSON], request(&[span(1, 3, Some("hose:open")), span(1, 2, Some("shed:unlock"))]).as_bytes());
    assert_eq!((taken.status, taken.text.as_str()), (200, "{}"));
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(request(&[span(1, 1, None)]).as_bytes()).unwrap();
    let taken = post(&server, &[JSON, ("content-encoding", "gzip")], &packed.finish().unwrap());
    assert_eq!((taken.status, taken.text.as_str()), (200, "{}"));
    let run = traces(&server, 1).remove(0);
    assert_eq!((&run["intent"], tools(&run)), (&json!("water the plants"), vec!["shed:unlock", "hose:open"]));
    assert_eq!(run["agent"], "garden");
    post(&server, &[JSON], request(&[span(1, 4, Some("hose:close"))]).as_bytes());
    let late = traces(&server, 2).remove(1);
    assert_eq!((&late["intent"], tools(&late)), (&json!("water the plants"), vec!["hose:close"]));
    let started = server.records().into_iter().find(|record| record["data"]["execution"] == late["execution"]).unwrap();
    assert_eq!(started["data"]["parent"], run["execution"]);
    // Without its root, a trace waits for the time-out.
    post(&server, &[JSON], request(&[span(2, 2, Some("shed:lock"))]).as_bytes());
    assert_eq!(tools(&traces(&server, 3)[2]), ["shed:lock"]);
}

#[test]
fn spans_that_cannot_be_taken_are_a_partial_success() {
    let server = server();
    let without_id = json!({"name": "lost"});
    let many: Vec<Value> = (2..9).map(|id| span(1, id, Some("pump:run"))).chain([without_id]).collect();
    let answer = post(&server, &[JSON], request(&many).as_bytes());
    assert_eq!((answer.status, &answer.json()["partialSuccess"]["rejectedSpans"]), (200, &json!("4")), "{answer:?}");
    assert_eq!(tools(&traces(&server, 1)[0]).len(), 4, "as many as otlp.spans_max");
    // A trace request with one span without ids, in protobuf: resource_spans { scope_spans { spans { name } } }.
    let answer = post(&server, &[PROTOBUF], b"\x0a\x0a\x12\x08\x12\x06\x2a\x04lost");
    assert_eq!(answer.status, 200);
    assert!(
        answer.text.starts_with('\u{a}') && answer.text.contains("\u{8}\u{1}") && answer.text.contains("rejected"),
        "{answer:?}"
    );
    assert_eq!(post(&server, &[PROTOBUF], b"").text, "", "full success is an empty message");
}

#[test]
fn bad_requests_are_told_what_is_wrong_in_their_own_encoding() {
    let server = Server::with(&[("HTTP__BODY_BYTES_MAX", "2000")]);
    let bad = post(&server, &[JSON], b"{\"resourceSpans\": 7");
    assert_eq!((bad.status, &bad.json()["code"]), (400, &json!(3)), "{bad:?}");
    let bad = post(&server, &[PROTOBUF], b"\xff\xff\xff");
    assert!(bad.status == 400 && bad.text.contains("not an OTLP trace request in protobuf"), "{bad:?}");
    assert_eq!(post(&server, &[("content-type", "text/plain")], b"x").status, 400);
    assert_eq!(post(&server, &[JSON, ("content-encoding", "br")], b"{}").status, 400);
    assert_eq!(post(&server, &[JSON, ("content-encoding", "gzip")], b"not gzip").status, 400);
    assert_eq!(post(&server, &[JSON], " ".repeat(2_001).as_bytes()).status, 413);
    // A small body that unpacks to a large one.
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![b' '; 50 << 20]).unwrap();
    let bomb = packed.finish().unwrap();
    let server = Server::with(&[("HTTP__BODY_BYTES_MAX", "100000")]);
    assert_eq!(post(&server, &[JSON, ("content-encoding", "gzip")], &bomb).status, 413);
    assert!(server.peak_memory().is_none_or(|peak| peak < 400 << 20));
}

#[test]
fn a_sender_is_told_to_wait_when_there_is_no_room_and_what_waits_is_recorded_at_the_end() {
    let settings = [("OTLP__LINGER_MS", "60000"), ("OTLP__TIMEOUT_MS", "60000"), ("OTLP__BYTES_MAX", "2000")];
    let mut server = Server::with(&settings);
    let send =
        |trace: u32| post(&server, &[JSON], request(&[span(trace, 2, Some("pump:run")), span(trace, 1, None)]).as_bytes());
    // What is beyond the limit is refused, or makes the oldest trace be closed before its time.
    let statuses: Vec<u16> = (1..200).map(|trace| send(trace).status).collect();
    assert!(statuses.contains(&200) && statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    let busy = statuses.iter().filter(|status| **status == 429).count();
    assert!(busy > 0, "{statuses:?}");
    let taken = 199 - busy;
    assert_eq!(server.terminate(), Some(0));
    server.restart();
    assert_eq!(traces(&server, taken).len(), taken);
}

#[test]
fn the_sdk_for_python_openinference_and_langfuse_reach_pml() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let server = server();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/spans.py");
    let sent = Command::new(python).arg(script).env("OTEL_EXPORTER_OTLP_ENDPOINT", server.url()).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let runs = traces(&server, 3);
    let run = |agent: &str| runs.iter().find(|run| run["agent"] == agent).unwrap_or_else(|| panic!("{agent}: {runs:?}"));
    let plain = run("python-plain");
    assert_eq!(tools(plain), ["python-plain:read_sheet", "python-plain:sum"]);
    assert!(plain["intent"].as_str().unwrap().starts_with("sum up the sales of March"), "{plain}");
    assert_eq!((&plain["steps"][1]["success"], &plain["success"]), (&json!(false), &json!(false)));
    let chain = run("python-openinference");
    assert_eq!((&chain["intent"], &chain["success"]), (&json!("book me a flight to Oslo"), &json!(true)));
    assert_eq!(tools(chain), ["python-openinference:search_flights", "python-openinference:book_flight"]);
    assert_eq!(chain["steps"][1]["depends_on"], json!([chain["steps"][0]["step"]]), "the flight was found by the first call");
    let letter = run("python-langfuse");
    assert_eq!(
        (&letter["intent"], tools(letter)),
        (&json!("translate the letter to French"), vec!["python-langfuse:translate_text", "python-langfuse:save_letter"])
    );
    assert_eq!(letter["steps"][1]["success"], json!(false));
    let all = format!("{:?}", server.records());
    assert!(!all.contains("ghp_0123456789abcdefghijABCDEFGHIJ012345") && !all.contains("sk-lf-test"));
}

#[test]
fn the_sdk_for_node_reaches_pml_in_both_encodings() {
    let Some(node) = installed("PML_TEST_NODE") else { return };
    let server = server();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/otlp/spans.mjs");
    let sent = Command::new(node).arg(script).env("OTEL_EXPORTER_OTLP_ENDPOINT", server.url()).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    for run in traces(&server, 2) {
        let agent = run["agent"].as_str().unwrap().to_owned();
        assert!(["node-json", "node-protobuf"].contains(&agent.as_str()));
        assert_eq!(run["intent"], "book a table for two, my password=[redacted]");
        assert_eq!(run["session"], format!("conversation-{agent}"));
        assert_eq!(tools(&run), [format!("{agent}:find_restaurant"), format!("{agent}:book_table")]);
        assert_eq!(run["steps"][1]["depends_on"], json!([run["steps"][0]["step"]]));
        assert_eq!((&run["steps"][1]["success"], &run["steps"][1]["error_kind"]), (&json!(false), &json!("timeout")));
    }
}
