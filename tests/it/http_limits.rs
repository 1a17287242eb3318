//! What clients can hold of a server: bodies, batches, streams, and for how long.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::run::{event, started};
use crate::server::{Server, eventually};

/// What a place of a client that is gone may take to be free again.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap()
}

/// Asks for a stream and reads the head of the answer.
fn open(server: &Server, path: &str, accept: &str) -> (u16, BufReader<TcpStream>) {
    let mut connection = connect(server);
    write!(connection, "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n").unwrap();
    let mut answer = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(answer.read_line(&mut head).unwrap(), 0, "the head of the answer ended early: {head}");
    }
    (head.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// Sends a request whose body stops coming, and reads until the server closes the connection.
fn trickle(server: &Server, path: &str, length: &str, part: &str) -> String {
    let mut connection = connect(server);
    write!(connection, "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n{part}")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_body_that_stops_coming_is_answered_with_408_and_the_connection_is_closed() {
    let server = Server::with(&[("HTTP__BODY_TIMEOUT_MS", "200"), ("HTTP__BODY_BYTES_MAX", "100")]);
    for path in ["/v1/events", "/v1/discover", "/v1/dead/redrive"] {
        for (length, part) in
            [("content-length: 90", "{"), ("content-length: 90", ""), ("transfer-encoding: chunked", "1\r\n{\r\n")]
        {
            let answer = trickle(&server, path, length, part);
            assert!(
                answer.starts_with("HTTP/1.1 408 ") && answer.contains("(http.body_timeout_ms)"),
                "{path} {length}: {answer}"
            );
        }
    }
    let too_large = trickle(&server, "/v1/events", "content-length: 1000", &"x".repeat(101));
    assert!(too_large.starts_with("HTTP/1.1 413 ") && too_large.contains("http.body_bytes_max"), "{too_large}");
    for length in ["content-length: 90", "transfer-encoding: chunked"] {
        let unread = trickle(&server, "/v1/nowhere", length, "1\r\n{\r\n");
        assert!(unread.starts_with("HTTP/1.1 404 "), "{unread}");
    }
}

#[test]
fn a_batch_that_is_far_too_long_costs_little() {
    const BODY_BYTES: usize = 4 << 20;
    /// A few copies of the body, and what the server does beside it.
    const GROWTH_MAX: u64 = 64 << 20;
    let server = Server::start();
    server.accept(&started("e1"));
    let before = server.peak_memory();
    let array = |element: &str| {
        let elements = element.to_owned() + ",";
        format!("[{}{element}]", elements.repeat((BODY_BYTES - 4 * elements.len()) / elements.len()))
    };
    let lines = |line: &str| (line.to_owned() + "\n").repeat(BODY_BYTES / (line.len() + 1));
    let bodies = [
        ("application/json", array("0")),
        ("application/json", array("{}")),
        ("application/cloudevents-batch+json", array("[]")),
        ("application/x-ndjson", lines("0")),
        ("application/x-ndjson", lines("{}")),
        ("application/x-ndjson", lines(r#"{"id":"x"}"#)),
    ];
    for (content_type, body) in &bodies {
        let answer = server.post_as(content_type, body);
        assert_eq!(answer.status, 413, "{content_type} {}: {answer:?}", &body[..10]);
        assert!(answer.text.contains("more than 1000 entries, the limit (http.batch_events_max)"), "{answer:?}");
    }
    // One event, whose id is told although it is refused.
    let event = format!(r#"{{"id":"x","data":{}}}"#, array("0").replacen("0,", "", 100));
    let answer = server.post_as("application/json", event);
    assert_eq!((answer.status, &answer.json()["results"][0]["id"]), (400, &json!("x")), "{answer:?}");
    if let (Some(before), Some(after)) = (before, server.peak_memory()) {
        assert!(after - before < GROWTH_MAX, "memory grew from {before} to {after} bytes");
    }
}

#[test]
fn readers_that_do_not_read_hold_little() {
    const READERS: usize = 30;
    const RECORDS: usize = 60;
    /// Each reader has a piece and a record in hand, twice while it is being handed over.
    const GROWTH_MAX: u64 = 100 << 20;
    let server = Server::with(&[("TEMPLATES__PATH", "")]);
    for number in 0..RECORDS {
        let schema = json!({"type": "object", "description": "x".repeat(200_000)});
        let data = json!({"tool": format!("fs:t{number}"), "description": "", "input_schema": schema});
        server.accept(&event("tool.registered", data));
    }
    server.settled_state();
    let before = server.peak_memory();
    let readers: Vec<_> = (0..READERS)
        .map(|number| {
            let accept = if number % 2 == 0 { "*/*" } else { "text/event-stream" };
            let (status, mut answer) = open(&server, "/v1/events?from=1", accept);
            assert_eq!((status, answer.fill_buf().unwrap().is_empty()), (200, false));
            answer
        })
        .collect();
    if let (Some(before), Some(after)) = (before, server.peak_memory()) {
        assert!(after - before < GROWTH_MAX, "memory grew from {before} to {after} bytes");
    }
    drop(readers);
    assert_eq!(server.records().len() as u64, server.tail(), "and whoever reads gets everything");
}

#[test]
fn every_streamed_answer_counts() {
    let server = Server::with(&[("HTTP__STREAMS_MAX", "1")]);
    let (status, held) = open(&server, "/v1/predictions", "*/*");
    assert_eq!(status, 200);
    let streams =
        [("/v1/events", "*/*"), ("/v1/events", "text/event-stream"), ("/v1/predictions", "*/*"), ("/v1/backup", "*/*")];
    for (path, accept) in streams {
        assert_eq!(open(&server, path, accept).0, 429, "{path} {accept}");
    }
    drop(held);
    for (path, accept) in streams {
        eventually("the place to be free", || (open(&server, path, accept).0 == 200).then_some(()));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how soon another process notices is what is measured")]
fn the_place_of_a_client_that_left_is_soon_free() {
    let server = Server::with(&[("HTTP__STREAMS_MAX", "1"), ("TEMPLATES__PATH", "")]);
    server.accept(&started("e1"));
    for path in ["/v1/events", "/v1/predictions"] {
        for half_closed in [false, true] {
            let stream = || Some(open(&server, path, "text/event-stream")).filter(|(status, _)| *status == 200);
            let (_, held) = eventually("a place", stream);
            let held = Some(held).filter(|held| half_closed && held.get_ref().shutdown(Shutdown::Write).is_ok());
            let left = Instant::now();
            eventually("the place to be free", || (server.get("/v1/events").status == 200).then_some(()));
            assert!(left.elapsed() < NOTICED_WITHIN, "{path}, half closed: {half_closed}: {:?}", left.elapsed());
            drop(held);
        }
    }
}

#[test]
fn events_that_wait_for_their_verdict_have_room_for_so_many_bytes() {
    let settings = [("EXECUTION__QUEUE_BYTES_MAX", "1000"), ("EXECUTION__REORDER_WAIT_MS", "2000"), ("HTTP__WORKERS", "1")];
    let server = Server::with(&settings);
    // Waits for an execution that does not come; alone, it may be larger than the room. The one worker has taken it up when it answers
    // what was asked after it.
    let data = json!({"execution": "lost", "step": "s1", "tool": "fs:read", "arguments": {"text": "x".repeat(1_000)}});
    let body = event("step.started", data).to_string();
    let mut waiting = connect(&server);
    let length = body.len();
    write!(
        waiting,
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    server.ask("/healthz");
    let refused = server.post(&started("e1"));
    assert_eq!((refused.status, refused.retry_after.as_deref()), (429, Some("1")), "{refused:?}");
    assert!(refused.text.contains("execution.queue_bytes_max"), "{refused:?}");
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("unknown_execution"), "{answer}");
    server.accept(&started("e1"));
}
