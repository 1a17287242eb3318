//! Requests over HTTP: paths, queries, headers and bodies, answered by a whole process.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use pml_fuzzer::{Form, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::Process;
use super::{JSON_TREE_MULTIPLE, target};

/// Bytes of an answer that are looked at: its head and the beginning of its body.
const ANSWER_BYTES: usize = 2_048;
/// The routes whose queries, headers and bodies are changed. None of them trains, runs tools or writes snapshots.
const REQUESTS: &[&str] = &[
    "GET /v1/executions?q=invoice&tool=fs:read&outcome=success&since=2026-01-31T12:00:00Z&until=2026-02-01T00:00:00Z&limit=5\n\n",
    "GET /v1/executions?capability=capability:00112233445566778899aabbccddeeff&outcome=open\n\n",
    "GET /v1/events?from=2&to=9&kinds=step.finished,tool.registered&vectors=true\n\n",
    "GET /v1/events?execution=e1&every_ms=100\nAccept: text/event-stream\nLast-Event-ID: 3\n\n",
    "GET /v1/predictions?session=s1\n\n",
    "GET /v1/tools?limit=3&after=fs:read\n\n",
    "GET /v1/capabilities?limit=3\n\n",
    "GET /v1/graph?limit=9&kind=dependency&measures=true&at=2026-01-31T12:00:00Z\n\n",
    "GET /v1/related?tool=fs:read&to=fs:write&limit=4&at=now\n\n",
    "GET /v1/quality?over=day\n\n",
    "GET /v1/traces/e1\n\n",
    "GET /v1/dead?after=1&limit=2\n\n",
    "GET /v1/execute/run-1/a?offset=3&limit=10\n\n",
    "GET /assets/00/app.js\nIf-None-Match: \"x\"\nAccept-Encoding: br\n\n",
    "POST /v1/discover?at=7\nContent-Type: application/json\n\n{\"intent\":\"read a file\",\"limit\":3}",
    "POST /v1/predict?at=2026-01-31T12:00:00Z\nContent-Type: application/json\n\n{\"intent\":\"read a file\",\"context\":[\"fs:read\"],\"limit\":3}",
    "POST /v1/score\nContent-Type: application/json\n\n{\"intent\":\"read\",\"path\":[\"fs:read\"],\"by_level\":true}",
    "POST /v1/suggest\nContent-Type: application/json\n\n{\"intent\":\"read a file and write it\",\"k\":2}",
    "POST /v1/speculate\nContent-Type: application/json\n\n{\"intent\":\"read\",\"context\":[]}",
    "POST /v1/explain\nContent-Type: application/json\n\n{\"intent\":\"read\",\"item\":\"fs:read\"}",
    "POST /v1/search_tools\nContent-Type: application/json\n\n{\"query\":\"read\"}",
    "POST /v1/capabilities/x/rename\nContent-Type: application/json\n\n{\"name\":\"y\"}",
    "POST /v1/dead/redrive\nContent-Type: application/json\n\n{\"numbers\":[1]}",
    "POST /v1/execute/continue\nContent-Type: application/json\n\n{\"run\":\"run-1\"}",
    "POST /v1/events\nContent-Type: application/cloudevents+json\nce-id: 1\n\n{\"specversion\":\"1.0\"}",
];
const WORDS: &[&str] = &[
    "at",
    "=",
    "&",
    "?",
    "limit",
    "after",
    "offset",
    "now",
    "-1h",
    "18446744073709551616",
    "-1",
    "0",
    "%00",
    "%ff",
    "%",
    "+",
    "//",
    "..",
    "2026-01-31T12:00:00Z",
    "9999-12-31T23:59:60Z",
    "-262144-01-01",
    "success",
    "open",
    "e1",
    "fs:read",
    "true",
    "text/event-stream",
    "Last-Event-ID: ",
    "Accept: ",
    "Content-Type: ",
    "application/json",
    "intent",
    "context",
    "null",
    "[]",
];

/// A process that answers over HTTP.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let process = Process::start();
        let address = process.system.block_on(async {
            let (server, address) = process.runtime.serve_http(&process.config.http).unwrap();
            actix_rt::spawn(server);
            address
        });
        Self { process, address }
    }

    /// Sends a request and returns the beginning of the answer, which may have no end.
    fn answer(&self, request: &[u8]) -> String {
        let answer = self.process.system.block_on(async {
            let mut connection = TcpStream::connect(self.address).await.unwrap();
            connection.write_all(request).await.unwrap();
            let mut answer = vec![0; ANSWER_BYTES];
            let read = tokio::time::timeout(Duration::from_secs(10), connection.read(&mut answer)).await;
            let length = read.expect("a request is answered").unwrap_or(0);
            answer.truncate(length);
            answer
        });
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// The request that the input describes: method and target, header lines, an empty line, the body. What would end a line is escaped.
fn request(input: &[u8]) -> Option<Vec<u8>> {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let (head, body) = (&input[..end], input.get(end + 2..).unwrap_or_default());
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let (method, path) = first.split_at(first.iter().position(|byte| *byte == b' ')?);
    let method = if method == b"POST" { "POST" } else { "GET" };
    let mut text = format!("{method} ");
    for byte in &path[1..] {
        if byte.is_ascii_graphic() { text.push(char::from(*byte)) } else { write!(text, "%{byte:02x}").unwrap() }
    }
    text.push_str(" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n");
    for line in lines {
        let is_plain = line.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        let line = String::from_utf8_lossy(line);
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        // These say how long the request is, and where its end is.
        let frames = ["content-length", "transfer-encoding", "connection", "host", "expect", "upgrade"];
        if is_plain && line.contains(": ") && !frames.contains(&name.trim()) {
            text.push_str(&line);
            text.push_str("\r\n");
        }
    }
    write!(text, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
    Some([text.as_bytes(), body].concat())
}

pub(super) fn http() -> Target {
    let server = Server::start();
    let samples = REQUESTS.iter().map(|request| request.as_bytes().to_vec()).collect();
    let mut target = target("http", Form::Text, samples, WORDS, move |input| {
        let request = request(input).ok_or_else(|| "no request".to_owned())?;
        let answer = server.answer(&request);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        match status {
            Some(200..300) => Ok(()),
            Some(300..500 | 503) => {
                // Without quotes, because answers are told apart by what is not quoted.
                let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                Err(body.replace('"', " "))
            }
            _ => panic!("answered with {answer:?}"),
        }
    });
    // The actors of the process work at the same time: they embed, index and fold.
    (target.memory_fixed, target.memory_multiple) = (64 << 20, JSON_TREE_MULTIPLE);
    // A handler, the blocking threads and the fold of a past moment share the machine with the tests.
    target.time_max = Duration::from_secs(10);
    target
}
