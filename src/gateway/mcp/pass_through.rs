//! Calls of other servers' tools by their own names, and the executions that they are recorded as.

use rmcp::model::CallToolResult;
use serde_json::Value;

use super::leaves::leaves;
use super::{Caller, Mcp, ToolCall};
use crate::clock::Uptime;
use crate::config::Scope;
use crate::core::event::{Event, Json, ToolRegistered};
use crate::core::id::ToolId;
use crate::core::observed::{BegunCall, CallTicket, EndedCall};
use crate::core::redact;
use crate::upstream::{CallError, CallOutcome, outcome_value};

/// How much of a result is recorded, in bytes.
const SUMMARY_LEN_MAX: usize = 500;

/// A call that is under way. Dropped before it has ended, it is recorded as cancelled.
struct ObservedCall {
    mcp: Mcp,
    /// `None` if the call is not recorded, or has been.
    ticket: Option<CallTicket>,
    begun: Uptime,
}

impl Mcp {
    /// Calls a tool of another server.
    pub(super) async fn pass_through(&self, caller: &Caller, tool: &ToolId, call: ToolCall) -> CallToolResult {
        if let Err(problem) = caller.needs(Scope::Execute) {
            return self.0.outgoing.problem(problem);
        }
        let definition = match self.parts().upstreams.tool(tool) {
            Ok(definition) => definition,
            Err(error) => return self.0.outgoing.problem(error.to_string()),
        };
        if self.parts().runner.needs_approval(&definition) && !caller.has(Scope::Approve) {
            let text = format!(
                "'{tool}' may destroy something, and the API key lacks the scope 'approve'; call it with pml_execute, so that somebody who \
                 has it can approve the call"
            );
            return self.0.outgoing.problem(text);
        }
        let (observed, events) = self.observe(caller, &definition, &call);
        self.record(events).await;
        let outcome = self.parts().upstreams.call(tool, call.arguments, None).await;
        self.record(observed.end(&outcome)).await;
        match outcome {
            Ok(outcome) => self.0.outgoing.result(tool, outcome.result),
            Err(error) => self.0.outgoing.problem(error.to_string()),
        }
    }

    fn observe(&self, caller: &Caller, definition: &ToolRegistered, call: &ToolCall) -> (ObservedCall, Vec<Event>) {
        let arguments = Value::Object(call.arguments.clone());
        let text = arguments.to_string();
        let begun = BegunCall {
            tool: &definition.tool,
            arguments: (text.len() <= self.parts().limits.json_bytes_max).then(|| Json::from_valid(text)),
            values: &leaves(&arguments),
            intent: call.intent.as_deref().map(str::trim).filter(|intent| !intent.is_empty()),
            described: &described(definition),
            agent: caller.agent.as_deref(),
        };
        let execution = format!("mcp-{}", self.parts().clock.fresh_id()).parse().expect("it is short and printable");
        let (events, ticket) = self.observer().begin_call(&caller.session, begun, execution, self.now_ms());
        (ObservedCall { mcp: self.clone(), ticket, begun: self.parts().clock.uptime() }, events)
    }
}

/// The intent of a call that nobody has said the intent of.
fn described(definition: &ToolRegistered) -> String {
    let words = definition.tool.name().replace(['_', '-', '.', '/'], " ");
    format!("{} with {}", words.trim(), definition.tool.server())
}

impl ObservedCall {
    /// Returns the event about what the call came to; none if it is not recorded.
    fn end(mut self, called: &Result<CallOutcome, CallError>) -> Vec<Event> {
        let outcome = match called {
            Ok(outcome) => outcome,
            Err(error) => return self.ended(false, Some(error.kind()), None, &[]),
        };
        let value = outcome_value(&outcome.result);
        let success = outcome.result.is_error != Some(true);
        let mut summary = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // A secret that the cut would halve must be recognised before.
        self.mcp.parts().limits.redactor.clean(&mut summary);
        redact::cut(&mut summary, SUMMARY_LEN_MAX);
        self.ended(success, (!success).then_some("tool"), Some(summary), &leaves(&value))
    }

    fn ended(&mut self, success: bool, error_kind: Option<&str>, summary: Option<String>, values: &[String]) -> Vec<Event> {
        let Some(ticket) = self.ticket.take() else { return Vec::new() };
        let duration_ms = self.mcp.parts().clock.uptime().millis_since(self.begun);
        let ended = EndedCall { success, duration_ms, error_kind, result_summary: summary, values };
        vec![self.mcp.observer().end_call(ticket, ended, self.mcp.now_ms())]
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        let events = self.ended(false, Some("cancelled"), None, &[]);
        if !events.is_empty() {
            let mcp = self.mcp.clone();
            self.mcp.parts().upstreams.hub().handle().spawn(async move { mcp.record(events).await });
        }
    }
}
