//! The data of the events about tools.

use crate::event::Json;
use crate::id::ToolId;

/// MCP's hints about a tool's behaviour; each is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    pub title: Option<String>,
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// A tool exists, or its description changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRegistered {
    pub tool: ToolId,
    /// The display name; often the second half of the id.
    pub name: String,
    pub description: String,
    pub input_schema: Option<Json>,
    pub output_schema: Option<Json>,
    pub annotations: Option<ToolAnnotations>,
}

impl ToolRegistered {
    /// The hash of everything that a model reads about the tool: name, description, schemas, hints. 32 hexadecimal digits.
    pub fn definition(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: Option<&str>| {
            let len = text.map_or(u64::MAX, |text| text.len() as u64);
            hasher.update(&len.to_le_bytes()).update(text.unwrap_or_default().as_bytes());
        };
        add(Some(self.tool.as_str()));
        add(Some(&self.name));
        add(Some(&self.description));
        add(self.input_schema.as_ref().map(Json::as_str));
        add(self.output_schema.as_ref().map(Json::as_str));
        let hints = self.annotations.as_ref().map(|hints| {
            let flags = [hints.read_only, hints.destructive, hints.idempotent, hints.open_world];
            format!("{flags:?} {:?}", hints.title)
        });
        add(hints.as_deref());
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

/// A tool no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRemoved {
    pub tool: ToolId,
}

/// A server lists a tool with another definition than the one that is known. The tool is not offered until a definition is approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolQuarantined {
    /// What the server lists.
    pub listed: ToolRegistered,
}

/// A person approved a definition of a tool in quarantine, or its server lists the known definition again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolApproved {
    pub tool: ToolId,
    /// [`ToolRegistered::definition`] of what is approved.
    pub definition: String,
}

/// What a tool answers, as far as its answers so far show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutputInferred {
    pub tool: ToolId,
    /// JSON Schema with types and names of members; no values.
    pub output_schema: Json,
}
