//! Standard input and output as a client of a running server's `/mcp`: each line is posted, each answer is printed. Messages are
//! passed on as they are; only the headers that HTTP needs are made from them.

use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::{Agent, Body, http::Response};

use super::super::remote::Unreachable;

/// Requests under way at the same time; further ones wait.
const REQUESTS_MAX: usize = 64;
/// Pause before the stream of notices is opened again.
const STREAM_PAUSE: Duration = Duration::from_secs(1);
const JSON_RPC_FAILED: i32 = -32_000;
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// `Bridge` passes messages between standard input and output and a server.
pub(super) struct Bridge {
    agent: Agent,
    base: String,
    key: Option<String>,
    session: Mutex<Session>,
    under_way: AtomicUsize,
}

/// The session that the client has begun, for protocol versions that have sessions.
#[derive(Default)]
struct Session {
    id: Option<String>,
    version: Option<String>,
    /// The client's `initialize`, to begin the session again if the server has forgotten it.
    opening: Option<Value>,
}

impl Bridge {
    /// Fails if nothing answers at the address.
    pub(super) fn connect(url: &str, key: Option<String>) -> Result<Arc<Self>, Unreachable> {
        let agent: Agent =
            Agent::config_builder().http_status_as_error(false).timeout_connect(Some(Duration::from_secs(5))).build().into();
        let base = url.trim_end_matches('/').to_owned();
        agent.get(format!("{base}/healthz")).call().map_err(|error| Unreachable::new(&base, &error))?;
        Ok(Arc::new(Self { agent, base, key, session: Mutex::default(), under_way: AtomicUsize::new(0) }))
    }

    /// Passes messages on until standard input ends, and waits for the answers under way.
    pub(super) fn run(self: Arc<Self>) -> std::io::Result<()> {
        let mut requests = Vec::new();
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Ok(message) = serde_json::from_slice::<Value>(&line) else {
                print(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32_700, "message": "not JSON"}}));
                continue;
            };
            if !message.is_object() {
                let problem = "not a JSON-RPC message; send one object per line, no batch";
                print(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32_600, "message": problem}}));
                continue;
            }
            // What others depend on is sent in order: the beginning of a session, and notifications.
            let in_order = message["method"] == "initialize" || message.get("id").is_none();
            if in_order || self.under_way.load(Ordering::Relaxed) >= REQUESTS_MAX {
                self.pass_on(&message);
            } else {
                self.under_way.fetch_add(1, Ordering::Relaxed);
                let bridge = Arc::clone(&self);
                requests.push(std::thread::spawn(move || {
                    bridge.pass_on(&message);
                    bridge.under_way.fetch_sub(1, Ordering::Relaxed);
                }));
            }
            requests.retain(|request| !request.is_finished());
        }
        for request in requests {
            // A panic there has been reported.
            drop(request.join());
        }
        self.end_session();
        Ok(())
    }

    /// Sends a message and prints what comes back.
    fn pass_on(self: &Arc<Self>, message: &Value) {
        let sent = self.post(message).and_then(|response| {
            // The server has forgotten the session: it was idle, or the server was restarted.
            if response.status() == 404 && self.reopen() { self.post(message) } else { Ok(response) }
        });
        let problem = match sent {
            Ok(response) => self.print_answer(message, response).err(),
            Err(error) => Some(format!("cannot reach {}: {error}", self.base)),
        };
        if let (Some(problem), Some(id)) = (problem, message.get("id")) {
            print(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": JSON_RPC_FAILED, "message": problem}}));
        }
    }

    fn print_answer(self: &Arc<Self>, message: &Value, mut response: Response<Body>) -> Result<(), String> {
        let status = response.status();
        if message["method"] == "initialize" && status.is_success() {
            self.note_opening(message, &response);
        }
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        if kind.starts_with("text/event-stream") {
            return self.print_events(response);
        }
        let body = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
        match serde_json::from_str::<Value>(&body) {
            Ok(answer) if answer.get("jsonrpc").is_some() => print(&answer),
            Ok(refused) if !status.is_success() => {
                return Err(format!("the server answered {status}: {}", refused["error"].as_str().unwrap_or(&body)));
            }
            _ if status.is_success() => {}
            _ => return Err(format!("the server answered {status}: {body}")),
        }
        Ok(())
    }

    /// Prints the messages of an event stream until it ends.
    fn print_events(&self, response: Response<Body>) -> Result<(), String> {
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            let line = line.map_err(|error| format!("the answer broke off: {error}"))?;
            let data = line.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty());
            let Some(message) = data.and_then(|data| serde_json::from_str::<Value>(data).ok()) else { continue };
            if let Some(version) = message["result"]["protocolVersion"].as_str() {
                self.session().version = Some(version.to_owned());
            }
            print(&message);
        }
        Ok(())
    }

    /// Remembers the session that an `initialize` has begun, and listens to its notices.
    fn note_opening(self: &Arc<Self>, message: &Value, response: &Response<Body>) {
        let id = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let is_first = self.session().opening.replace(message.clone()).is_none();
        let has_session = id.is_some();
        self.session().id = id;
        if is_first && has_session {
            let bridge = Arc::clone(self);
            // It ends with the process.
            std::thread::spawn(move || bridge.listen());
        }
    }

    /// Begins the session again; `false` if there was none.
    fn reopen(&self) -> bool {
        let Some(opening) = self.session().opening.clone() else { return false };
        self.session().id = None;
        let Ok(response) = self.post(&opening) else { return false };
        self.session().id = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        // The client knows the answer already.
        drop(response);
        let opened = self.session().id.is_some();
        opened && self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).is_ok()
    }

    /// Prints the notices of the session.
    fn listen(&self) {
        loop {
            let request = self.agent.get(format!("{}/mcp", self.base)).header("accept", "text/event-stream");
            match self.with_headers(request, &Value::Null).call() {
                // What is lost between two streams comes again with the next list.
                Ok(response) if response.status().is_success() => drop(self.print_events(response)),
                Ok(response) if response.status() == 405 => return,
                Ok(_) | Err(_) => {}
            }
            std::thread::sleep(STREAM_PAUSE);
        }
    }

    fn post(&self, message: &Value) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.post(format!("{}/mcp", self.base)).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        self.with_headers(request, message).send(message.to_string())
    }

    /// Adds the headers that streamable HTTP asks for. A message of a version without sessions names its version itself.
    fn with_headers<B>(&self, mut request: ureq::RequestBuilder<B>, message: &Value) -> ureq::RequestBuilder<B> {
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let params = &message["params"];
        if let Some(version) = params["_meta"][META_VERSION].as_str() {
            request = request.header("mcp-protocol-version", version);
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            match params["name"].as_str().or(params["uri"].as_str()) {
                Some(name) => request.header("mcp-name", name),
                None => request,
            }
        } else if message["method"] == "initialize" {
            request
        } else {
            let session = self.session();
            for (name, value) in [("mcp-session-id", &session.id), ("mcp-protocol-version", &session.version)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            request
        }
    }

    fn end_session(&self) {
        if self.session().id.is_some() {
            let request = self.agent.delete(format!("{}/mcp", self.base));
            // A session that is not ended is ended by the server when it is idle.
            drop(self.with_headers(request, &Value::Null).call());
        }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a message as one line. A client that has closed its side ends the process when standard input ends.
fn print(message: &Value) {
    let mut output = std::io::stdout().lock();
    drop(writeln!(output, "{message}").and_then(|()| output.flush()));
}
