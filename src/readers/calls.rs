//! Logs of calls that passed through a proxy or gateway: mcpproxy's activity export and audit logs of MCP gateways. Each line is a call,
//! a result or a search for tools; lines of several sessions are mixed, and may be in the order of time or against it.
//!
//! The lines of a session are gathered until it is idle for half an hour, then read in the order of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use pml_core::id::ToolId;
use pml_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::conversation::{Answer, Call, Conversation, Output, session_id};
use crate::outcome::Outcome;
use crate::reader::{PieceReader, Reading};
use crate::run::Options;
use crate::{time, tool};

/// A session that was idle for this long has begun something else.
const IDLE_MS: u64 = 30 * 60 * 1_000;
/// Sessions gathered at once, and the bytes of all their texts.
const SESSIONS_MAX: usize = 256;
const BYTES_MAX: usize = 32 << 20;
/// How much of a result and of arguments is held, in bytes.
const RESULT_LEN_MAX: usize = 16 << 10;
const ARGUMENTS_LEN_MAX: usize = 64 << 10;

/// Which log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Mcpproxy,
    GatewayAudit,
}

/// One line of a session.
struct Entry {
    time: Option<Timestamp>,
    what: What,
}

enum What {
    Asked(String),
    Called { id: String, tool: ToolId, arguments: Option<String>, reason: Option<String> },
    Answered { id: String, text: String, outcome: Outcome },
}

#[derive(Default)]
struct Session {
    entries: Vec<Entry>,
    bytes: usize,
    last: Option<Timestamp>,
    /// The number of the last line of the session, to find the one that was idle for longest.
    line: u64,
}

pub(crate) struct Calls {
    dialect: Dialect,
    options: Arc<Options>,
    sessions: BTreeMap<String, Session>,
    bytes: usize,
    lines: u64,
}

impl Calls {
    pub(crate) fn new(dialect: Dialect, options: Arc<Options>) -> Self {
        Self { dialect, options, sessions: BTreeMap::new(), bytes: 0, lines: 0 }
    }

    fn agent(&self) -> &'static str {
        match self.dialect {
            Dialect::Mcpproxy => "mcpproxy",
            Dialect::GatewayAudit => "mcp-gateway",
        }
    }

    fn add(&mut self, session: &str, time: Option<Timestamp>, entries: Vec<What>, out: &mut Output) {
        self.lines += 1;
        let known = self.sessions.get(session);
        let is_apart = |before: Timestamp, now: Timestamp| now.millis_since(before).max(before.millis_since(now)) > IDLE_MS;
        let is_new = known.is_some_and(|known| known.last.zip(time).is_some_and(|(before, now)| is_apart(before, now)));
        if is_new || known.is_some_and(|known| known.entries.len() >= 2 * self.options.steps_max) {
            self.close(session.to_owned(), out);
        }
        while self.bytes > BYTES_MAX || (self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(session)) {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.line).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            self.close(oldest, out);
        }
        let bytes: usize = entries.iter().map(What::len).sum();
        let open = self.sessions.entry(session.to_owned()).or_default();
        open.entries.extend(entries.into_iter().map(|what| Entry { time, what }));
        open.last = time.or(open.last);
        open.line = self.lines;
        open.bytes += bytes;
        self.bytes += bytes;
    }

    fn close(&mut self, name: String, out: &mut Output) {
        if let Some((mut conversation, bytes)) = self.read_session(&name, out) {
            self.bytes -= bytes;
            conversation.end(None, out);
        }
    }

    /// Reads the lines of a session in the order of time; the last run stays open.
    fn read_session(&mut self, name: &str, out: &mut Output) -> Option<(Conversation, usize)> {
        let mut session = self.sessions.remove(name)?;
        let descends = session.entries.first().and_then(|first| first.time) > session.entries.last().and_then(|last| last.time);
        if descends {
            session.entries.reverse();
            // A call and its result may stand in one line.
            session.entries.sort_by_key(|entry| (entry.time, matches!(entry.what, What::Answered { .. })));
        } else {
            session.entries.sort_by_key(|entry| entry.time);
        }
        let mut conversation = Conversation::new(self.agent(), Arc::clone(&self.options));
        conversation.session = session_id(name, &self.options.redactor);
        let mut asked: Option<String> = None;
        for Entry { time, what } in session.entries {
            match what {
                What::Asked(words) if asked.as_ref() != Some(&words) => {
                    conversation.end(None, out);
                    conversation.request(None, &words, time, out);
                    asked = Some(words);
                }
                What::Asked(_) => {}
                What::Called { id, tool, arguments, reason } => {
                    if !conversation.is_open() {
                        begin(&mut conversation, &tool, reason, time, out);
                    }
                    conversation.call(Call { id: &id, tool, arguments: arguments.as_deref(), time }, out);
                }
                What::Answered { id, text, outcome } => {
                    // The time of the line is that of the call where both stand in one line.
                    conversation.answer(Answer { call: &id, text: &text, outcome, time: None });
                }
            }
        }
        Some((conversation, session.bytes))
    }
}

/// Begins a run for which nobody asked in words.
fn begin(conversation: &mut Conversation, tool: &ToolId, reason: Option<String>, time: Option<Timestamp>, out: &mut Output) {
    if let Some(reason) = reason {
        conversation.request(None, &reason, time, out);
    }
    if !conversation.is_open() {
        let described = tool.name().replace(['_', '-', '.', ':', '/'], " ");
        conversation.begin(None, format!("{} {described}", tool.server()), true, time);
    }
}

impl What {
    fn len(&self) -> usize {
        match self {
            Self::Asked(words) => words.len(),
            Self::Called { arguments, .. } => 200 + arguments.as_ref().map_or(0, String::len),
            Self::Answered { text, .. } => 100 + text.len(),
        }
    }
}

impl PieceReader for Calls {
    fn read(&mut self, piece: &[u8], out: &mut Output) -> Reading {
        let Ok(Value::Object(line)) = serde_json::from_slice(piece) else { return Reading::Damaged };
        let time = ["timestamp", "ts", "time", "@timestamp"].iter().find_map(|name| line.get(*name)).and_then(time_of);
        let entries = match self.dialect {
            Dialect::Mcpproxy => self.mcpproxy(&line),
            Dialect::GatewayAudit => self.gateway(&line),
        };
        let session = ["work_session_id", "session_id", "sessionId", "mcp_session_id", "client_id"];
        let session = session.iter().filter_map(|name| text(&line, name)).find(|text| !text.is_empty()).unwrap_or("");
        match entries {
            Ok(entries) => {
                self.add(session, time, entries, out);
                Reading::Used
            }
            Err(reading) => reading,
        }
    }

    fn finish(&mut self, out: &mut Output) {
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        for name in names {
            if let Some((mut conversation, _)) = self.read_session(&name, out) {
                conversation.finish(out);
            }
        }
        self.bytes = 0;
    }
}

impl Calls {
    /// A record of mcpproxy. Calls through its own `call_tool_*` tools are recorded twice: as internal ones, and as those of the server.
    fn mcpproxy(&self, line: &Map<String, Value>) -> Result<Vec<What>, Reading> {
        let kind = text(line, "type").unwrap_or("tool_call");
        let name = text(line, "tool_name").unwrap_or_default();
        let arguments = line.get("arguments").filter(|arguments| arguments.is_object());
        if name == "retrieve_tools" {
            let query = arguments.and_then(|arguments| arguments.get("query")).and_then(Value::as_str);
            return query.map(|query| vec![What::Asked(query.to_owned())]).ok_or(Reading::Ignored);
        }
        if kind != "tool_call" {
            return Err(Reading::Ignored);
        }
        let server = text(line, "server_name").ok_or(Reading::Damaged)?;
        let intent = line.get("intent").or_else(|| line.get("metadata").and_then(|metadata| metadata.get("intent")));
        let reason = intent.and_then(|intent| intent.get("reason")).and_then(Value::as_str).map(str::to_owned);
        let failed = text(line, "status").is_some_and(|status| status != "success");
        self.call(line, (server, name), arguments, reason, failed)
    }

    /// A line of a gateway's audit log, or one half of it if requests and responses have lines of their own.
    fn gateway(&self, line: &Map<String, Value>) -> Result<Vec<What>, Reading> {
        let event = text(line, "event_type").unwrap_or_default().to_ascii_uppercase();
        if event == "RESPONSE" {
            let failed = text(line, "response_status").is_some_and(|status| status != "success");
            return Ok(vec![answer(line, failed)]);
        }
        if text(line, "method").is_some_and(|method| method != "tools/call") || event == "NOTIFICATION" {
            return Err(Reading::Ignored);
        }
        let body = ["params", "request_body", "request"].iter().find_map(|name| line.get(*name));
        let body = body.map(|body| body.get("params").unwrap_or(body));
        let named = ["tool", "tool_name", "name"].iter().find_map(|name| text(line, name)).filter(|name| !name.is_empty());
        let in_body = body.and_then(|body| body.get("name")).and_then(Value::as_str);
        let Some(name) = named.or(in_body) else { return Err(Reading::Unknown("no tool".to_owned())) };
        let server = ["upstream", "server_name", "server", "backend"].iter().find_map(|name| text(line, name));
        let server = server.filter(|server| !server.is_empty()).unwrap_or(self.agent());
        let arguments = line.get("arguments").or_else(|| body.and_then(|body| body.get("arguments")));
        let arguments = arguments.filter(|arguments| arguments.is_object());
        let mut entries = self.call(line, (server, name), arguments, None, is_refused(line))?;
        if event == "REQUEST" {
            entries.truncate(1);
        }
        Ok(entries)
    }

    fn call(
        &self,
        line: &Map<String, Value>,
        (server, name): (&str, &str),
        arguments: Option<&Value>,
        reason: Option<String>,
        failed: bool,
    ) -> Result<Vec<What>, Reading> {
        let Some(tool) = tool::on_server(server, name, &self.options.redactor) else { return Err(Reading::Damaged) };
        let arguments = arguments.map(Value::to_string).filter(|arguments| arguments.len() <= ARGUMENTS_LEN_MAX);
        Ok(vec![What::Called { id: id(line), tool, arguments, reason }, answer(line, failed)])
    }
}

fn answer(line: &Map<String, Value>, failed: bool) -> What {
    let error = ["error_message", "error"].iter().find_map(|name| text(line, name)).filter(|error| !error.is_empty());
    let result = ["response", "result", "response_body"].iter().find_map(|name| line.get(*name));
    let result = result.map(|result| result.as_str().map_or_else(|| result.to_string(), str::to_owned));
    let mut text = error.map(str::to_owned).or(result).unwrap_or_default();
    text.truncate(text.floor_char_boundary(RESULT_LEN_MAX));
    let mut outcome = Outcome::flagged(failed || error.is_some(), &text);
    outcome.duration_ms = line.get("duration_ms").and_then(Value::as_f64).and_then(whole_millis).or(outcome.duration_ms);
    What::Answered { id: id(line), text, outcome }
}

/// Whether a gateway refused a call, or passed on a failure.
fn is_refused(line: &Map<String, Value>) -> bool {
    let decision = ["action", "decision", "outcome", "pipeline_outcome"].iter().find_map(|name| text(line, name));
    let is_passed =
        |decision: &str| matches!(decision, "allow" | "allowed" | "redact" | "modified" | "success" | "ok" | "no_security");
    let status = line.get("status");
    let is_failure = match status {
        Some(Value::Number(code)) => code.as_i64().is_some_and(|code| code >= 400),
        Some(Value::String(status)) => !matches!(status.as_str(), "success" | "ok" | "allowed" | "completed"),
        _ => line.get("success") == Some(&Value::Bool(false)),
    };
    is_failure || decision.is_some_and(|decision| !is_passed(&decision.to_ascii_lowercase()))
}

fn id(line: &Map<String, Value>) -> String {
    let given = ["request_id", "id", "call_id"].iter().find_map(|name| line.get(*name));
    given.map_or_else(String::new, |id| id.as_str().map_or_else(|| id.to_string(), str::to_owned))
}

fn text<'a>(line: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    line.get(name).and_then(Value::as_str)
}

fn time_of(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => time::parse(text),
        Value::Number(number) => number.as_f64().and_then(time::from_number),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be between 0 and ten days")]
fn whole_millis(millis: f64) -> Option<u64> {
    (0.0..864e6).contains(&millis).then(|| millis.round() as u64)
}
