//! Recognising the format of an input by its content. File names are not looked at.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::pieces::{Layout, Piece, Pieces};

/// How much of an input is needed to recognise it, in bytes.
pub const HEAD_LEN: usize = 1 << 20;
/// Pieces of the beginning that are looked at.
const PIECES_MAX: usize = 50;

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Sessions of Claude Code.
    ClaudeCode,
    /// Rollouts of Codex.
    Codex,
    /// Conversations in the style of OpenAI's chat API.
    Messages,
    /// mcpproxy's activity export.
    Mcpproxy,
    /// Audit logs of MCP gateways.
    GatewayAudit,
    /// OTLP trace requests in JSON, as the collector's file exporter writes them.
    Otlp,
    /// Traces from Jaeger's API or UI.
    Jaeger,
    /// One span per object, as OpenInference tools and the console exporter of OpenTelemetry write them.
    SpanRows,
    /// Traces and observations of Langfuse.
    Langfuse,
    /// Runs of LangSmith.
    Langsmith,
}

impl Format {
    pub const ALL: [Self; 10] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Messages,
        Self::Mcpproxy,
        Self::GatewayAudit,
        Self::Otlp,
        Self::Jaeger,
        Self::SpanRows,
        Self::Langfuse,
        Self::Langsmith,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Messages => "messages",
            Self::Mcpproxy => "mcpproxy",
            Self::GatewayAudit => "gateway-audit",
            Self::Otlp => "otlp",
            Self::Jaeger => "jaeger",
            Self::SpanRows => "spans",
            Self::Langfuse => "langfuse",
            Self::Langsmith => "langsmith",
        }
    }
}

/// Recognises an input by its beginning, of which [`HEAD_LEN`] bytes are enough. Returns the format that most of its pieces have.
pub fn recognise(head: &[u8]) -> Option<(Format, Layout)> {
    let layout = Layout::of(head);
    let mut votes: BTreeMap<Format, usize> = BTreeMap::new();
    let mut seen = 0;
    let mut vote = |piece: Piece<'_>| {
        let Piece::Whole(bytes) = piece else { return };
        seen += 1;
        if seen > PIECES_MAX {
            return;
        }
        if let Ok(Value::Object(object)) = serde_json::from_slice(bytes)
            && let Some(format) = of_object(&object)
        {
            *votes.entry(format).or_default() += 1;
        }
    };
    let mut pieces = Pieces::new(layout);
    pieces.feed(head, &mut vote);
    if head.len() < HEAD_LEN {
        pieces.finish(&mut vote);
    }
    let most = votes.iter().max_by_key(|(format, count)| (**count, std::cmp::Reverse(**format))).map(|(format, _)| *format);
    most.or_else(|| of_beginning(head)).map(|format| (format, layout))
}

/// The format of an object whose end is beyond the beginning: by the name of the list that it is made of.
fn of_beginning(head: &[u8]) -> Option<Format> {
    let lists = [
        ("\"resourceSpans\"", Format::Otlp),
        ("\"traceID\"", Format::Jaeger),
        ("\"observations\"", Format::Langfuse),
        ("\"messages\"", Format::Messages),
    ];
    let holds = |name: &str| memchr::memmem::find(head, name.as_bytes()).is_some();
    lists.iter().find(|(name, _)| holds(name)).map(|(_, format)| *format)
}

const OBSERVATIONS: [&str; 11] =
    ["SPAN", "EVENT", "GENERATION", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL", "trace"];

fn of_object(object: &Map<String, Value>) -> Option<Format> {
    let has = |name: &str| object.contains_key(name);
    let any = |names: &[&str]| names.iter().any(|name| has(name));
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_list = |name: &str| object.get(name).is_some_and(Value::is_array);
    let inside = |outer: &str, inner: &str| object.get(outer).is_some_and(|value| value.get(inner).is_some());
    if is_list("resourceSpans") || is_list("resource_spans") {
        return Some(Format::Otlp);
    }
    if has("traceID") && is_list("spans") {
        return Some(Format::Jaeger);
    }
    let codex = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
    if has("payload") && codex.contains(&text("type")) {
        return Some(Format::Codex);
    }
    if has("type")
        && (has("sessionId") && any(&["uuid", "message", "operation", "cwd"])
            || has("leafUuid")
            || has("messageId") && has("snapshot"))
    {
        return Some(Format::ClaudeCode);
    }
    if has("run_type") && any(&["trace_id", "dotted_order", "inputs"]) {
        return Some(Format::Langsmith);
    }
    let is_observation = OBSERVATIONS.contains(&text("type")) && any(&["startTime", "start_time"]);
    if (is_observation && any(&["traceId", "trace_id"])) || is_list("observations") {
        return Some(Format::Langfuse);
    }
    if inside("context", "trace_id")
        || has("context.trace_id")
        || (any(&["span_id", "spanId"]) && any(&["trace_id", "traceId"]))
    {
        return Some(Format::SpanRows);
    }
    if has("tool_name") && has("server_name") && any(&["status", "work_session_id", "duration_ms"]) && !has("method") {
        return Some(Format::Mcpproxy);
    }
    let is_audit = any(&["tool", "upstream", "server_name", "server", "params", "event_type"]);
    if has("method") && is_audit && !has("payload") {
        return Some(Format::GatewayAudit);
    }
    let is_codex_item = matches!(text("type"), "function_call" | "function_call_output" | "local_shell_call" | "reasoning");
    if is_codex_item || (text("type") == "message" && has("role")) {
        return Some(Format::Codex);
    }
    let is_message = has("role") && any(&["content", "tool_calls"]);
    let is_conversation = is_list("messages") || inside("request", "messages") || inside("body", "messages");
    (is_message || is_conversation).then_some(Format::Messages)
}
