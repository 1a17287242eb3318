//! Identifiers, one newtype each. They are parsed once where input arrives; no other code handles them as strings.
//!
//! | type | looks like | given by |
//! |---|---|---|
//! | [`Seq`] | 42 | the log |
//! | [`RecordId`] | a ULID, a UUIDv7, or the hash of a source and another id | the producer |
//! | [`ToolId`] | `server:name` | the agent's servers |
//! | [`CapabilityId`] | 32 hexadecimal digits | the digest of its structure |
//! | [`ExecutionId`], [`SessionId`], [`StepId`] | short printable text | the agent |
//! | [`ModelId`] | short printable text | the embedder |

mod record;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use smol_str::SmolStr;

use super::hash::fnv1a;
pub use record::RecordId;

/// Longest execution, session or step id, in bytes.
pub const TEXT_ID_LEN_MAX: usize = 128;
/// Longest tool id, in bytes.
pub const TOOL_ID_LEN_MAX: usize = 200;

/// The reason why a text is not a valid id. `Display` explains it; the caller adds the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error("is empty")]
    Empty,
    #[error("is {len} bytes long, the limit is {max}")]
    TooLong { len: usize, max: usize },
    #[error("contains {0:?}; ids are printable ASCII without spaces")]
    Character(char),
    #[error("'{0}' names no server; write server:name")]
    NoServer(String),
    #[error("'{0}' is a capability, not a tool")]
    NotATool(String),
    #[error("'{0}' is not a capability id (32 hexadecimal digits)")]
    NotACapability(String),
    #[error("'{0}' is not the id of a record: a ULID, a UUIDv7, or ~ and 32 hexadecimal digits")]
    NotARecordId(String),
}

/// The position of a record in the log. Positions strictly increase, may have gaps, and are above zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a tool, in the normal form `server:name`.
///
/// Contains a hash of its text for lookups; the order is that of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolId {
    hash: u64,
    text: Arc<str>,
}

impl ToolId {
    fn new(text: Arc<str>) -> Self {
        Self { hash: fnv1a(text.as_bytes()), text }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn server(&self) -> &str {
        self.text.split_once(':').expect("a tool id has a server").0
    }

    pub fn name(&self) -> &str {
        self.text.split_once(':').expect("a tool id has a name").1
    }

    /// Whether a text is the name of a tool without its server: it does not split into two parts as `from_str` splits.
    pub fn is_bare_name(text: &str) -> bool {
        !text.is_empty() && !text.contains(':') && Self::split(text).is_none()
    }

    /// Server and name, at the first separator found in the order `:`, `__`, `.`; `None` unless both are there.
    fn split(text: &str) -> Option<(&str, &str)> {
        let split = text
            .split_once(':')
            .or_else(|| text.strip_prefix("mcp__").unwrap_or(text).split_once("__"))
            .or_else(|| text.split_once('.'));
        split.filter(|(server, name)| !server.is_empty() && !name.is_empty())
    }

    /// FNV-1a of the text.
    pub(crate) const fn text_hash(&self) -> u64 {
        self.hash
    }
}

impl PartialOrd for ToolId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ToolId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl std::hash::Hash for ToolId {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

impl FromStr for ToolId {
    type Err = InvalidId;

    /// Accepts `server:name`, `mcp__server__name`, `server__name` and `server.name`; the first separator found in that order splits.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        check_text(text, TOOL_ID_LEN_MAX)?;
        match Self::split(text) {
            Some((CAPABILITY_SERVER, _)) => Err(InvalidId::NotATool(text.to_owned())),
            Some((server, name)) => {
                if text.len() == server.len() + 1 + name.len() && text.as_bytes()[server.len()] == b':' {
                    return Ok(Self::new(text.into()));
                }
                Ok(Self::new(format!("{server}:{name}").into()))
            }
            None => Err(InvalidId::NoServer(text.to_owned())),
        }
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The reserved server under which steps call capabilities: `capability:<id>`.
const CAPABILITY_SERVER: &str = "capability";

/// The id of a capability: the first 128 bits of the digest of its canonical structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityId(u128);

impl CapabilityId {
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) const fn to_bits(self) -> u128 {
        self.0
    }
}

impl FromStr for CapabilityId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let plain_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(bits) if plain_hex => Ok(Self(bits)),
            _ => Err(InvalidId::NotACapability(text.to_owned())),
        }
    }
}

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The tool or capability that a step calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Callee {
    Tool(ToolId),
    Capability(CapabilityId),
}

impl Callee {
    /// The printed form, borrowed for tools.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Tool(tool) => Cow::Borrowed(tool.as_str()),
            Self::Capability(_) => Cow::Owned(self.to_string()),
        }
    }
}

impl FromStr for Callee {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.split_once(':') {
            Some((CAPABILITY_SERVER, id)) => id.parse().map(Self::Capability),
            _ => text.parse().map(Self::Tool),
        }
    }
}

impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => tool.fmt(f),
            Self::Capability(id) => write!(f, "{CAPABILITY_SERVER}:{id}"),
        }
    }
}

fn check_text(text: &str, max: usize) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    if text.len() > max {
        return Err(InvalidId::TooLong { len: text.len(), max });
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let found = text.chars().find(|character| !character.is_ascii_graphic());
    found.map_or(Ok(()), |found| Err(InvalidId::Character(found)))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(SmolStr);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                check_text(text, TEXT_ID_LEN_MAX)?;
                Ok(Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// The id of an execution: one run of an agent towards one intent.
///
/// Contains a hash of its text, by which it is looked up and ordered first: there are many executions, their texts share long
/// prefixes, and alphabetical order is not needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutionId {
    hash: u64,
    text: SmolStr,
}

impl std::hash::Hash for ExecutionId {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

impl ExecutionId {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// [`fnv1a`] of the text.
    pub(crate) fn text_hash(&self) -> u64 {
        self.hash
    }
}

impl FromStr for ExecutionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        check_text(text, TEXT_ID_LEN_MAX)?;
        Ok(Self { hash: fnv1a(text.as_bytes()), text: text.into() })
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_id! {
    /// The id of a session: a conversation or other span in which an agent runs several executions.
    SessionId
}
text_id! {
    /// The id of a step, unique within its execution.
    StepId
}
text_id! {
    /// The id of an embedding model. Vectors are comparable only if they have the same model.
    ModelId
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_tool(given: &str, normal: &str) {
        assert_eq!(given.parse::<ToolId>().unwrap().as_str(), normal, "{given}");
    }

    #[test]
    fn every_accepted_spelling_of_a_tool_has_one_normal_form() {
        check_tool("fs:read", "fs:read");
        check_tool("mcp__fs__read", "fs:read");
        check_tool("fs__read", "fs:read");
        check_tool("fs.read", "fs:read");
        check_tool("fs__read__all", "fs:read__all");
        check_tool("fs:read.all", "fs:read.all");
        check_tool("tavily:tavily-search", "tavily:tavily-search");
        check_tool("mcp__my.server__do_it", "my.server:do_it");
    }

    #[test]
    fn a_tool_without_server_or_with_odd_characters_is_refused() {
        assert_eq!("read".parse::<ToolId>(), Err(InvalidId::NoServer("read".into())));
        assert_eq!(":read".parse::<ToolId>(), Err(InvalidId::NoServer(":read".into())));
        assert_eq!("mcp__read".parse::<ToolId>(), Err(InvalidId::NoServer("mcp__read".into())));
        assert_eq!("fs:re ad".parse::<ToolId>(), Err(InvalidId::Character(' ')));
        assert_eq!("fs:\u{7}".parse::<ToolId>(), Err(InvalidId::Character('\u{7}')));
        assert_eq!("".parse::<ToolId>(), Err(InvalidId::Empty));
        let long = format!("fs:{}", "x".repeat(TOOL_ID_LEN_MAX));
        assert_eq!(long.parse::<ToolId>(), Err(InvalidId::TooLong { len: 203, max: 200 }));
    }

    #[test]
    fn a_callee_is_a_tool_or_a_capability() {
        let id = "00112233445566778899aabbccddeeff";
        let capability: Callee = format!("capability:{id}").parse().unwrap();
        assert_eq!(capability, Callee::Capability(id.parse().unwrap()));
        assert_eq!(capability.to_string(), format!("capability:{id}"));
        assert_eq!("capability:7".parse::<Callee>(), Err(InvalidId::NotACapability("7".into())));
        assert!(matches!("fs:read".parse(), Ok(Callee::Tool(_))));
    }
}
