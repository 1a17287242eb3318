//! The server of tools that an event names without one.

use std::borrow::Cow;

use super::wire;
use crate::id::ToolId;

/// Longest name of a server that is made from a source, in bytes.
const NAME_LEN_MAX: usize = 64;
/// The name if a source has no letters and digits, or the reserved name of capabilities.
const FALLBACK: &str = "default";

/// The server of tools without one: the configured name, else one made from the source of the event.
pub(in crate::event) struct DefaultServer<'a> {
    pub(in crate::event) configured: Option<&'a str>,
    pub(in crate::event) source: &'a str,
}

impl DefaultServer<'_> {
    fn name(&self) -> String {
        self.configured.map_or_else(|| name_of_source(self.source), str::to_owned)
    }

    pub(in crate::event) fn complete(&self, tool: &mut Cow<'_, str>) {
        if ToolId::is_bare_name(tool) {
            *tool = Cow::Owned(format!("{}:{tool}", self.name()));
        }
    }
}

/// The last part of a URI reference, with `-` for everything but letters, digits, `_` and `-`: `/agents/weather-7` gives `weather-7`.
fn name_of_source(source: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let last = source.split(['/', ':', '#', '?']).rfind(|part| part.contains(|c: char| c.is_ascii_alphanumeric()));
    let name: String = last.unwrap_or_default().chars().map(|c| if is_plain(c) { c } else { '-' }).take(NAME_LEN_MAX).collect();
    // `__` would split the name.
    let name = name.replace("__", "_");
    if name.is_empty() || name == "capability" { FALLBACK.to_owned() } else { name }
}

/// Wire types that may name tools without their server.
pub(super) trait CompleteTools {
    fn complete_tools(&mut self, _server: &DefaultServer<'_>) {}
}

macro_rules! completes {
    ($($kind:ident),* $(,)?) => {
        $(impl CompleteTools for wire::$kind<'_> {
            fn complete_tools(&mut self, server: &DefaultServer<'_>) {
                server.complete(&mut self.tool);
            }
        })*
    };
}

macro_rules! names_no_bare_tools {
    ($($kind:ident),* $(,)?) => {
        $(impl CompleteTools for wire::$kind<'_> {})*
    };
}

completes!(ToolRemoved, StepStarted, StepFinished);

// pml writes these itself, or they name no tools.
names_no_bare_tools!(
    ExecutionStarted,
    ExecutionFinished,
    FeedbackGiven,
    TemplateLoaded,
    TraceCompleted,
    EmbeddingComputed,
    PredictionServed,
    LogForked,
    ModelTrained,
    ModelParameters,
    ModelPromoted,
    ModelRolledBack,
    ToolQuarantined,
    ToolApproved,
    ToolOutputInferred,
    StepSpeculated,
    CapabilityRenamed,
    CapabilityMerged,
    CapabilityApproved,
    CapabilityRetired,
);

impl CompleteTools for wire::ToolRegistered<'_> {
    /// A server that the event names itself comes first.
    fn complete_tools(&mut self, server: &DefaultServer<'_>) {
        match &self.server {
            Some(own) if ToolId::is_bare_name(&self.tool) => self.tool = Cow::Owned(format!("{own}:{}", self.tool)),
            _ => server.complete(&mut self.tool),
        }
    }
}

impl CompleteTools for wire::CapabilityDeclared<'_> {
    fn complete_tools(&mut self, server: &DefaultServer<'_>) {
        for node in &mut self.structure.nodes {
            server.complete(&mut node.tool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gives_a_server_its_name() {
        for (source, name) in [
            ("me", "me"),
            ("/agents/weather-7", "weather-7"),
            ("https://example.com/agents/planner/", "planner"),
            ("urn:example:agent", "agent"),
            ("https://example.com", "example-com"),
            ("a__b", "a_b"),
            ("//", "default"),
            ("capability", "default"),
            ("\u{e9}\u{e9}", "default"),
        ] {
            assert_eq!(name_of_source(source), name, "{source}");
        }
        assert_eq!(name_of_source(&"x".repeat(100)).len(), NAME_LEN_MAX);
    }
}
