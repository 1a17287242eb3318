//! Conversions of the events of running executions: `execution.*` and `step.*`.

use super::{Cow, Refusal, borrowed, domain, json, json_text, owned, parse, parse_all, parse_optional, wire};

impl<'a> From<&'a domain::ExecutionStarted> for wire::ExecutionStarted<'a> {
    fn from(event: &'a domain::ExecutionStarted) -> Self {
        Self {
            execution: text!(event.execution),
            intent: text!(event.intent),
            session: event.session.as_ref().map(|session| text!(session)),
            agent: borrowed(event.agent.as_ref()),
            parent: event.parent.as_ref().map(|parent| text!(parent)),
        }
    }
}

impl TryFrom<wire::ExecutionStarted<'_>> for domain::ExecutionStarted {
    type Error = Refusal;

    fn try_from(wire: wire::ExecutionStarted<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            execution: parse("execution", &wire.execution)?,
            intent: wire.intent.into_owned(),
            session: parse_optional("session", wire.session)?,
            agent: owned(wire.agent),
            parent: parse_optional("parent", wire.parent)?,
        })
    }
}

impl<'a> From<&'a domain::StepStarted> for wire::StepStarted<'a> {
    fn from(event: &'a domain::StepStarted) -> Self {
        Self {
            execution: text!(event.execution),
            step: text!(event.step),
            tool: event.tool.text(),
            arguments: json_text(event.arguments.as_ref()),
        }
    }
}

impl TryFrom<wire::StepStarted<'_>> for domain::StepStarted {
    type Error = Refusal;

    fn try_from(wire: wire::StepStarted<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            execution: parse("execution", &wire.execution)?,
            step: parse("step", &wire.step)?,
            tool: parse("tool", &wire.tool)?,
            arguments: json(wire.arguments),
        })
    }
}

impl<'a> From<&'a domain::StepSpeculated> for wire::StepSpeculated<'a> {
    fn from(event: &'a domain::StepSpeculated) -> Self {
        Self {
            execution: text!(event.execution),
            step: text!(event.step),
            tool: text!(event.tool),
            success: event.success,
            duration_ms: event.duration_ms,
            used: event.used,
        }
    }
}

impl TryFrom<wire::StepSpeculated<'_>> for domain::StepSpeculated {
    type Error = Refusal;

    fn try_from(wire: wire::StepSpeculated<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            execution: parse("execution", &wire.execution)?,
            step: parse("step", &wire.step)?,
            tool: parse("tool", &wire.tool)?,
            success: wire.success,
            duration_ms: wire.duration_ms,
            used: wire.used,
        })
    }
}

impl<'a> From<&'a domain::StepFinished> for wire::StepFinished<'a> {
    fn from(event: &'a domain::StepFinished) -> Self {
        Self {
            execution: text!(event.execution),
            step: text!(event.step),
            tool: event.tool.text(),
            depends_on: event.depends_on.iter().map(|step| text!(step)).collect(),
            success: event.success,
            duration_ms: event.duration_ms,
            error_kind: borrowed(event.error_kind.as_ref()),
            arguments: json_text(event.arguments.as_ref()),
            result_summary: borrowed(event.result_summary.as_ref()),
        }
    }
}

impl TryFrom<wire::StepFinished<'_>> for domain::StepFinished {
    type Error = Refusal;

    fn try_from(wire: wire::StepFinished<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            execution: parse("execution", &wire.execution)?,
            step: parse("step", &wire.step)?,
            tool: parse("tool", &wire.tool)?,
            depends_on: parse_all("depends_on", &wire.depends_on)?,
            success: wire.success,
            duration_ms: wire.duration_ms,
            error_kind: owned(wire.error_kind),
            arguments: json(wire.arguments),
            result_summary: owned(wire.result_summary),
        })
    }
}

impl<'a> From<&'a domain::ExecutionFinished> for wire::ExecutionFinished<'a> {
    fn from(event: &'a domain::ExecutionFinished) -> Self {
        Self {
            execution: text!(event.execution),
            success: event.success,
            error: borrowed(event.error.as_ref()),
            code: borrowed(event.code.as_ref()),
        }
    }
}

impl TryFrom<wire::ExecutionFinished<'_>> for domain::ExecutionFinished {
    type Error = Refusal;

    fn try_from(wire: wire::ExecutionFinished<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            execution: parse("execution", &wire.execution)?,
            success: wire.success,
            error: owned(wire.error),
            code: owned(wire.code),
        })
    }
}
