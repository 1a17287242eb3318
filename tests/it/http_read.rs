//! Asking over HTTP: the log as a stream, and questions about what is known.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::run::{event, finished, started, step, whole};
use crate::server::{Answer, Server, agent};

/// A server that knows nothing but what the test tells it.
fn blank() -> Server {
    Server::with(&[("TEMPLATES__PATH", "")])
}

fn ids(list: &Value, name: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

fn seqs(lines: &str) -> Vec<u64> {
    lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap()).collect()
}

/// Opens the log as server-sent events.
fn subscribe(server: &Server, path: &str, last_event_id: Option<u64>) -> impl Iterator<Item = (u64, String, Value)> {
    let mut request = agent().get(format!("{}{path}", server.url())).header("accept", "text/event-stream");
    if let Some(seq) = last_event_id {
        request = request.header("last-event-id", seq.to_string());
    }
    let response = request.call().unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (200, &"text/event-stream".parse().unwrap()));
    let mut lines = BufReader::new(response.into_body().into_reader()).lines().map(Result::unwrap);
    std::iter::from_fn(move || {
        let mut member = |name: &str| lines.find_map(|line| line.strip_prefix(name).map(str::to_owned));
        let id = member("id: ")?.parse().unwrap();
        Some((id, member("event: ")?, serde_json::from_str(&member("data: ")?).unwrap()))
    })
}

#[test]
fn the_log_is_read_from_any_position() {
    let server = blank();
    for number in 0..300 {
        server.accept(&json!([started(&format!("e{number}")), step(&format!("e{number}"), "s1", "fs:read", &[])]));
    }
    let answer = server.get("/v1/events");
    assert_eq!(seqs(&answer.text), (1..=600).collect::<Vec<_>>());
    assert_eq!(seqs(&server.get("/v1/events?from=599").text), [599, 600]);
    assert_eq!(seqs(&server.get("/v1/events?from=601").text), [] as [u64; 0]);
    let first: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["type"], &first["data"]["execution"]), (&json!("pml.execution.started"), &json!("e0")));
}

#[test]
fn the_log_is_read_by_kinds() {
    let server = blank();
    for number in 0..100 {
        server.accept(&json!([started(&format!("e{number}")), step(&format!("e{number}"), "s1", "fs:read", &[])]));
    }
    // Longer than a page of records, so that whole pages hold none of the kind.
    server.accept(&json!([finished("e99")]));
    assert_eq!(seqs(&server.get("/v1/events?kinds=execution.finished").text), [201]);
    assert_eq!(seqs(&server.get("/v1/events?from=198&kinds=execution.started,execution.finished").text), [199, 201]);
    assert_eq!(seqs(&server.get("/v1/events?from=10&to=13&kinds=step.finished").text), [10, 12]);
    assert_eq!(seqs(&server.get("/v1/events?from=10&to=12").text), [10, 11, 12]);
    assert_eq!(server.get("/v1/events?from=202&kinds=execution.finished").text, "");
    let streamed: Vec<_> = subscribe(&server, "/v1/events?from=1&kinds=execution.finished", None).take(1).collect();
    assert_eq!((streamed[0].0, streamed[0].1.as_str()), (201, "execution.finished"));
    let wrong = server.get("/v1/events?kinds=execution.ended");
    assert_eq!((wrong.status, &wrong.json()["error"]), (400, &json!("kinds: 'execution.ended' is not a kind of events")));
}

#[test]
fn a_stream_that_broke_goes_on_without_gap_or_repeat() {
    let server = blank();
    server.accept(&whole("e1"));
    server.settled_state();
    let first: Vec<_> = subscribe(&server, "/v1/events?from=1", None).take(3).collect();
    assert_eq!(first.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [1, 2, 3]);
    server.accept(&whole("e2"));
    server.settled_state();
    // The header of a browser that reconnects wins over the address it reconnects to.
    let rest: Vec<_> = subscribe(&server, "/v1/events?from=1", Some(3)).take(9).collect();
    let streamed: Vec<Value> = first.into_iter().chain(rest).map(|(_, _, data)| data).collect();
    assert_eq!(streamed, server.records());
}

#[test]
fn a_stream_brings_what_is_published_while_it_is_open() {
    let server = blank();
    server.accept(&started("before"));
    let mut stream = subscribe(&server, "/v1/events", None);
    server.accept(&whole("e1"));
    let kinds: Vec<String> = stream
        .by_ref()
        .take(5)
        .map(|(seq, kind, data)| {
            assert_eq!((&data["seq"], &data["data"]["execution"]), (&json!(seq), &json!("e1")));
            kind
        })
        .collect();
    assert_eq!(kinds, ["execution.started", "step.finished", "step.finished", "execution.finished", "trace.completed"]);
}

#[test]
fn a_stream_from_nowhere_and_one_too_many_are_refused() {
    let server = Server::with(&[("HTTP__STREAMS_MAX", "1")]);
    let open = |last: &str| {
        let request = agent().get(format!("{}/v1/events", server.url())).header("accept", "text/event-stream");
        request.header("last-event-id", last).call()
    };
    let nonsense = Answer::read(open("yesterday")).unwrap();
    assert_eq!(nonsense.status, 400);
    assert!(nonsense.text.contains("Last-Event-ID"), "{nonsense:?}");
    let seldom = agent().get(format!("{}/v1/events?every_ms=10001", server.url())).header("accept", "text/event-stream");
    let seldom = Answer::read(seldom.call()).unwrap();
    assert_eq!(seldom.status, 400);
    assert!(seldom.text.contains("every_ms: must be at most 10000"), "{seldom:?}");
    let _held = open("0").unwrap();
    let refused = Answer::read(open("0")).unwrap();
    assert_eq!((refused.status, refused.retry_after.is_some()), (429, true), "{refused:?}");
    assert!(refused.text.contains("http.streams_max"), "{refused:?}");
}

#[test]
fn what_was_observed_is_answered() {
    let server = blank();
    let described = json!({"tool": "mcp__fs__read", "description": "Reads a file", "input_schema": {"type": "object"}});
    server.accept(&event("tool.registered", described));
    for execution in ["e1", "e2"] {
        server.accept(&whole(execution));
    }
    let state = server.settled_state();
    assert_eq!((&state["tools"], &state["tools_unregistered"]), (&json!(1), &json!(1)));
    assert_eq!((&state["capabilities"], &state["traces"]), (&json!(1), &json!(2)));

    let tools = server.ask("/v1/tools");
    assert_eq!(ids(&tools["tools"], "tool"), ["fs:read", "fs:write"]);
    let (read, write) = (&tools["tools"][0], &tools["tools"][1]);
    assert_eq!((&read["stub"], &read["description"], &read["calls"]), (&json!(false), &json!("Reads a file"), &json!(2)));
    assert_eq!((&write["stub"], &write["calls"], &write["success_rate"]), (&json!(true), &json!(2), &json!(1.0)));
    let page = server.ask("/v1/tools?limit=1");
    assert_eq!((ids(&page["tools"], "tool"), &page["next"]), (vec!["fs:read".to_owned()], &json!("fs:read")));
    let page = server.ask("/v1/tools?limit=1&after=fs:read");
    assert_eq!((ids(&page["tools"], "tool"), &page["next"]), (vec!["fs:write".to_owned()], &Value::Null));

    let capability = &server.ask("/v1/capabilities")["capabilities"][0];
    assert_eq!((&capability["calls"], &capability["flow"]), (&json!(["fs:read", "fs:write"]), &json!([[0, 1]])));
    assert_eq!((&capability["usage_count"], &capability["intents"]), (&json!(2), &json!(["copy a file"])));

    let graph = server.ask("/v1/graph?kind=provides");
    let edge = &graph["edges"][0];
    assert_eq!((&graph["total_edges"], &edge["from"], &edge["to"]), (&json!(1), &json!("fs:read"), &json!("fs:write")));
    assert_eq!((&edge["kind"], &edge["observations"], &edge["successes"]), (&json!("provides"), &json!(2), &json!(2)));
    assert_eq!(server.ask("/v1/graph")["total_edges"], json!(3), "one provides, two contains");
}

#[test]
fn a_question_that_cannot_be_read_is_answered_with_the_reason() {
    let server = blank();
    let check = |answer: Answer, message: &str| {
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(message), "{answer:?}");
    };
    check(server.get("/v1/events?form=1"), "query: unknown field `form`, expected one of `from`");
    check(server.get("/v1/tools?limit=many"), "query: limit: invalid digit");
    check(server.get("/v1/graph?measures=maybe"), "query: measures: provided string was not `true` or `false`");
    let kinds =
        "kind: 'bogus' is not a kind of edges; there are dependency, contains, provides, alternative, sequence, conditional";
    check(server.get("/v1/graph?kind=bogus"), kinds);
    check(server.get("/v1/tools?limit=0"), "limit: is 0, it must be from 1 to 1000");
    check(server.get("/v1/traces/e%201"), "execution: contains ' '");
    let redrive = |content_type: &str, body: &str| {
        let request = agent().post(format!("{}/v1/dead/redrive", server.url())).header("content-type", content_type);
        Answer::read(request.send(body)).unwrap()
    };
    check(redrive("text/plain", "{}"), "content-type: is not application/json");
    check(redrive("application/json", "{"), "body: EOF");
    check(redrive("application/json", r#"{"numbers": "all"}"#), "body: numbers: invalid type");
    check(redrive("application/json", "[]"), "body: invalid type: sequence, expected an object");
    let document = agent().post(format!("{}/v1/executions", server.url())).send(r#"{"intent": "x", "limit": NaN}"#);
    check(Answer::read(document).unwrap(), "body: cannot be read: expected value");
}

#[test]
fn a_trace_is_answered_while_it_is_open_and_when_it_is_closed() {
    let server = blank();
    assert_eq!(server.get("/v1/traces/e1").status, 404);
    server.accept(&json!([started("e1"), step("e1", "s1", "fs:read", &[])]));
    let open = crate::server::eventually("the fold to see it", || {
        let answer = server.get("/v1/traces/e1");
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!((&open["status"], open.get("success"), &open["steps"][0]["tool"]), (&json!("open"), None, &json!("fs:read")));
    server.accept(&finished("e1"));
    let closed = server.closed_trace("e1");
    assert_eq!((&closed["status"], &closed["success"]), (&json!("completed"), &json!(true)));
    assert_eq!(closed["steps"], open["steps"]);
}

#[test]
fn health_readiness_and_metrics_are_answered() {
    let server = blank();
    server.accept(&whole("e1"));
    server.settled_state();
    assert_eq!(server.ask("/healthz")["status"], "ok");
    let ready = server.ask("/readyz");
    assert_eq!((&ready["ready"], &ready["tail_seq"], &ready["behind"]), (&json!(true), &json!(7), &json!(0)));
    let metrics = server.get("/metrics").text;
    for line in ["pml_events_accepted_total{kind=\"step.finished\"} 2\n", "pml_traces 1\n", "pml_applied_seq 7\n", "# EOF\n"] {
        assert!(metrics.contains(line), "no '{line}' in {metrics}");
    }
    let lost = server.get("/v2/events");
    assert_eq!(lost.status, 404);
    assert!(lost.json()["error"].as_str().unwrap().contains("/openapi.json"), "{lost:?}");
}

/// Every `$ref`, with the document its pointer is read in: a schema with an `$id` is a document of its own.
fn check_references(value: &Value, document: &Value) -> usize {
    let document = if value.get("$id").is_some() { value } else { document };
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).map_or(0, |target| {
                let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{target} points elsewhere"));
                assert!(document.pointer(pointer).is_some(), "nothing at {target}");
                1
            });
            own + members.values().map(|member| check_references(member, document)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|item| check_references(item, document)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[test]
fn the_interface_is_described_and_every_reference_resolves() {
    let server = blank();
    let document = server.ask("/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    assert!(check_references(&document, &document) > 10);
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations.get("get").is_some() {
            // The head alone: a stream of predictions never ends.
            let asked = agent().get(format!("{}{}", server.url(), path.replace("{execution}", "e1"))).call().unwrap();
            let status = asked.status().as_u16();
            let parameters = operations["get"]["parameters"].as_array().unwrap();
            let needs_more = parameters.iter().any(|parameter| parameter["required"] == true);
            let expected = match path.as_str() {
                // MCP clients say which kinds of answers they take.
                "/mcp" => 406..=406,
                _ if needs_more => 400..=404,
                _ => 200..=200,
            };
            assert!(expected.contains(&status), "{path} is described and answers {status}");
        }
    }
}
