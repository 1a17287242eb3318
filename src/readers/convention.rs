//! What the attributes of a span mean: OpenTelemetry's conventions for generative AI in their newer and older names, OpenInference,
//! OpenLLMetry (`traceloop`), and the conventions for MCP.

use pml_core::id::ToolId;
use pml_core::redact::Redactor;

use crate::json;
use crate::span::{Attributes, RawSpan, Role, Span, Status};
use crate::tool;
use crate::words;

/// The server of tools whose span names neither a server nor a service.
const UNNAMED: &str = "otel";

const TELLING: [&str; 19] = [
    "gen_ai.",
    "mcp.",
    "openinference.",
    "tool.",
    "tool_call.",
    "input.",
    "output.",
    "llm.input_messages.",
    "session.",
    "traceloop.",
    "service.name",
    "error.",
    "exception.",
    "agent.",
    "langfuse.",
    "rpc.method",
    "ai.",
    "operation.name",
    "status.",
];

/// Whether an attribute is looked at.
pub(crate) fn is_telling(name: &str) -> bool {
    TELLING.iter().any(|beginning| name.starts_with(beginning))
}

const TOOL_NAMES: [&str; 6] =
    ["gen_ai.tool.name", "tool.name", "mcp.tool.name", "tool_call.function.name", "ai.toolCall.name", "traceloop.entity.name"];
const ARGUMENTS: [&str; 9] = [
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.arguments",
    "tool_call.function.arguments",
    "tool.parameters",
    "ai.toolCall.args",
    "mcp.request.arguments",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "input.value",
];
const RESULTS: [&str; 6] = [
    "gen_ai.tool.call.result",
    "gen_ai.tool.output",
    "ai.toolCall.result",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "output.value",
];
const INPUTS: [&str; 7] = [
    "gen_ai.input.messages",
    "gen_ai.user.message",
    "gen_ai.prompt",
    "langfuse.observation.input",
    "ai.prompt",
    "traceloop.entity.input",
    "input.value",
];
const SESSIONS: [&str; 5] = [
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "mcp.session.id",
];

/// Reads the meaning of a span.
pub(crate) fn understood(raw: RawSpan, redactor: &Redactor) -> Span {
    let attributes = &raw.attributes;
    let agent = attributes.first(&["gen_ai.agent.name", "agent.name"]).or_else(|| raw.resource.get("service.name"));
    let role = role(&raw, redactor);
    let is_tool = matches!(role, Role::Tool(_));
    let words = if is_tool { None } else { said(attributes) };
    let error_type = attributes.first(&["error.type", "exception.type"]);
    let error = raw.message.clone().filter(|message| !message.is_empty());
    let error = error.or_else(|| attributes.get("exception.message").map(str::to_owned));
    Span {
        status: if raw.status == Status::Unset && error_type.is_some() { Status::Error } else { raw.status },
        error: error.or_else(|| error_type.map(str::to_owned)),
        error_type: error_type.map(str::to_owned),
        words,
        arguments: if is_tool { arguments(attributes) } else { None },
        result: if is_tool { attributes.first(&RESULTS).map(str::to_owned) } else { None },
        session: attributes.first(&SESSIONS).or_else(|| raw.resource.first(&SESSIONS)).map(str::to_owned),
        agent: agent.map(str::to_owned),
        role,
        trace: raw.trace,
        id: raw.id,
        parent: raw.parent.filter(|parent| !parent.is_empty()),
        name: raw.name,
        start: raw.start,
        end: raw.end,
    }
}

fn role(raw: &RawSpan, redactor: &Redactor) -> Role {
    let attributes = &raw.attributes;
    let operation = attributes.get("gen_ai.operation.name").unwrap_or_default();
    let kind = attributes.first(&["openinference.span.kind", "traceloop.span.kind", "langfuse.observation.type"]);
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    let method = attributes.first(&["mcp.method.name", "rpc.method"]).unwrap_or_default();
    let is_vercel = attributes.first(&["ai.operationId", "operation.name"]).is_some_and(|name| name.starts_with("ai.toolCall"));
    if operation == "execute_tool" || kind == "tool" || method == "tools/call" || is_vercel {
        return tool_of(raw, redactor).map_or(Role::Other, Role::Tool);
    }
    match (operation, kind.as_str()) {
        ("invoke_agent" | "create_agent" | "invoke_workflow", _) | (_, "agent" | "workflow") => Role::Agent,
        ("chat" | "text_completion" | "generate_content" | "completion", _) | (_, "llm" | "generation") => Role::Model,
        _ => Role::Other,
    }
}

/// The tool: by its attribute, or by the name of the span (`execute_tool search`, `tools/call search`).
fn tool_of(raw: &RawSpan, redactor: &Redactor) -> Option<ToolId> {
    let by_span = || {
        let name = raw.name.trim();
        let prefixes = ["execute_tool ", "tools/call ", "tool ", "running tool: "];
        prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name.trim_end_matches(".tool"))
    };
    let name = raw.attributes.first(&TOOL_NAMES).unwrap_or_else(by_span);
    let arguments = raw.attributes.first(&ARGUMENTS);
    let server = raw.attributes.first(&["mcp.server.name", "gen_ai.tool.server"]);
    match server {
        Some(server) => tool::on_server(server, name, redactor),
        None => tool::named(raw.resource.get("service.name").unwrap_or(UNNAMED), name, arguments, redactor),
    }
}

/// The arguments of a tool as JSON; text is one string. Older MCP instrumentation has an attribute for each argument.
fn arguments(attributes: &Attributes) -> Option<String> {
    const EACH: &str = "mcp.request.argument.";
    if let Some(text) = attributes.first(&ARGUMENTS) {
        let is_whole = json::is_structure(text);
        return Some(if is_whole { text.to_owned() } else { serde_json::Value::from(text).to_string() });
    }
    let each = attributes.iter().filter_map(|(name, value)| Some((name.strip_prefix(EACH)?.to_owned(), value.into())));
    let members: serde_json::Map<String, serde_json::Value> = each.collect();
    (!members.is_empty()).then(|| serde_json::Value::Object(members).to_string())
}

/// What a user said, in the input of an agent or a model.
fn said(attributes: &Attributes) -> Option<String> {
    let input = INPUTS.iter().filter_map(|name| attributes.get(name)).find_map(words::last_said);
    input
        .or_else(|| flattened(attributes, "llm.input_messages.", ".message.role", ".message.content"))
        .or_else(|| flattened(attributes, "gen_ai.prompt.", ".role", ".content"))
}

/// Messages whose members have an attribute each: `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content`.
fn flattened(attributes: &Attributes, messages: &str, role: &str, content: &str) -> Option<String> {
    let number = |name: &str| name.strip_prefix(messages)?.strip_suffix(role)?.parse::<usize>().ok();
    let users = attributes.iter().filter(|(_, value)| *value == "user").filter_map(|(name, _)| number(name));
    let last = users.max()?;
    attributes.get(&format!("{messages}{last}{content}")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn span(name: &str, attributes: &[(&str, &str)]) -> Span {
        let mut raw = RawSpan { name: name.to_owned(), ..RawSpan::default() };
        for (name, value) in attributes {
            raw.attributes.insert(name, (*value).to_owned());
        }
        let mut resource = Attributes::default();
        resource.insert("service.name", "travel".to_owned());
        raw.resource = Arc::new(resource);
        understood(raw, &Redactor::builtin())
    }

    #[track_caller]
    fn check_tool(name: &str, attributes: &[(&str, &str)], tool: &str, arguments: Option<&str>) {
        let span = span(name, attributes);
        assert_eq!(span.role, Role::Tool(tool.parse().unwrap()), "{name} {attributes:?}");
        assert_eq!(span.arguments.as_deref(), arguments, "{name} {attributes:?}");
    }

    #[test]
    fn calls_of_tools_are_known_by_every_convention() {
        let call = ("gen_ai.operation.name", "execute_tool");
        check_tool(
            "x",
            &[call, ("gen_ai.tool.name", "find"), ("gen_ai.tool.call.arguments", "{\"a\":1}")],
            "travel:find",
            Some("{\"a\":1}"),
        );
        check_tool("execute_tool find", &[call], "travel:find", None);
        check_tool("find", &[("openinference.span.kind", "TOOL"), ("input.value", "Paris")], "travel:find", Some("\"Paris\""));
        check_tool(
            "find",
            &[("openinference.span.kind", "TOOL"), ("tool.name", "get"), ("tool.parameters", "{}")],
            "travel:get",
            Some("{}"),
        );
        check_tool(
            "find.tool",
            &[("traceloop.span.kind", "tool"), ("traceloop.entity.input", "{\"q\":2}")],
            "travel:find",
            Some("{\"q\":2}"),
        );
        check_tool("tools/call get", &[("mcp.method.name", "tools/call")], "travel:get", None);
        let older = [("mcp.method.name", "tools/call"), ("mcp.tool.name", "get"), ("mcp.request.argument.city", "Rome")];
        check_tool("x", &older, "travel:get", Some("{\"city\":\"Rome\"}"));
        check_tool("x", &[call, ("gen_ai.tool.name", "get"), ("mcp.server.name", "maps")], "maps:get", None);
        check_tool(
            "x",
            &[("ai.operationId", "ai.toolCall"), ("ai.toolCall.name", "weather"), ("ai.toolCall.args", "[1]")],
            "travel:weather",
            Some("[1]"),
        );
    }

    #[test]
    fn the_words_of_the_user_are_known_by_every_convention() {
        for attributes in [
            vec![("gen_ai.input.messages", r#"[{"role":"user","parts":[{"type":"text","content":"fly"}]}]"#)],
            vec![("gen_ai.prompt", r#"[{"role":"user","content":"fly"}]"#)],
            vec![("input.value", "fly")],
            vec![("gen_ai.prompt.0.role", "system"), ("gen_ai.prompt.1.role", "user"), ("gen_ai.prompt.1.content", "fly")],
            vec![("llm.input_messages.0.message.role", "user"), ("llm.input_messages.0.message.content", "fly")],
            vec![("gen_ai.user.message", "fly")],
        ] {
            assert_eq!(span("x", &attributes).words.as_deref(), Some("fly"), "{attributes:?}");
        }
    }

    #[test]
    fn other_spans_and_attributes_are_left_alone() {
        let span = span("GET /", &[("http.request.header.authorization", "Bearer x"), ("error.type", "500")]);
        assert_eq!((span.role, span.status, span.error.as_deref()), (Role::Other, Status::Error, Some("500")));
        assert!(!is_telling("http.request.header.authorization"));
    }
}
