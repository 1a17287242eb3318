//! Identifiers, one newtype each. They are parsed once where input arrives; no other code handles them as strings.
//!
//! | type | looks like | given by |
//! |---|---|---|
//! | [`Seq`] | 42 | the log |
//! | [`RecordId`] | a ULID or a UUIDv7 | the producer |
//! | [`ToolId`] | `server:name` | the agent's servers |
//! | [`CapabilityId`] | 32 hexadecimal digits | the digest of its structure |
//! | [`ExecutionId`], [`SessionId`], [`StepId`] | short printable text | the agent |
//! | [`ModelId`] | short printable text | the embedder |

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::hash::fnv1a;
use super::time::Timestamp;

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
    #[error("'{0}' is neither a ULID nor a UUIDv7")]
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

/// Set if the id is printed as a UUID. It is the top bit of the millisecond clock in both forms, which is 0 until the year
/// 6429.
const UUID_FORM: u128 = 1 << 127;

/// The id of a record, chosen by its producer; two records with the same id are one. 128 bits that print in the form they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u128);

impl RecordId {
    /// A ULID from a time and 80 bits of entropy (the rest of `entropy` is ignored).
    pub fn from_parts(time: Timestamp, entropy: u128) -> Self {
        Self(ulid::Ulid::from_parts(time.millis_unsigned(), entropy).0 & !UUID_FORM)
    }

    /// The id of a record derived from others. The same parts give the same id, so writing the record twice is harmless.
    pub fn derived(time: Timestamp, parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let mut entropy = [0; 16];
        entropy.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self::from_parts(time, u128::from_le_bytes(entropy))
    }

    pub const fn to_bits(self) -> u128 {
        self.0
    }

    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl FromStr for RecordId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let refused = || InvalidId::NotARecordId(text.to_owned());
        let (bits, form) = if text.len() == 26 {
            (ulid::Ulid::from_string(text).map_err(|_| refused())?.0, 0)
        } else {
            let uuid = uuid::Uuid::try_parse(text).map_err(|_| refused())?;
            if uuid.get_version_num() != 7 {
                return Err(refused());
            }
            (uuid.as_u128(), UUID_FORM)
        };
        if bits & UUID_FORM == 0 { Ok(Self(bits | form)) } else { Err(refused()) }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & UUID_FORM == 0 {
            ulid::Ulid(self.0).fmt(f)
        } else {
            uuid::Uuid::from_u128(self.0 & !UUID_FORM).hyphenated().fmt(f)
        }
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
        let split = text
            .split_once(':')
            .or_else(|| text.strip_prefix("mcp__").unwrap_or(text).split_once("__"))
            .or_else(|| text.split_once('.'));
        match split {
            Some((CAPABILITY_SERVER, _)) => Err(InvalidId::NotATool(text.to_owned())),
            Some((server, name)) if !server.is_empty() && !name.is_empty() => {
                if text.len() == server.len() + 1 + name.len() && text.as_bytes()[server.len()] == b':' {
                    return Ok(Self::new(text.into()));
                }
                Ok(Self::new(format!("{server}:{name}").into()))
            }
            _ => Err(InvalidId::NoServer(text.to_owned())),
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
    match text.chars().find(|c| !c.is_ascii_graphic()) {
        Some(found) => Err(InvalidId::Character(found)),
        None => Ok(()),
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

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
    text: Arc<str>,
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

    #[test]
    fn record_ids_print_as_they_were_given() {
        for text in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01890a5d-ac96-774b-bcce-b302099a8057"] {
            assert_eq!(text.parse::<RecordId>().unwrap().to_string(), text);
        }
        for text in ["", "7", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
            assert_eq!(text.parse::<RecordId>(), Err(InvalidId::NotARecordId(text.into())), "{text}");
        }
    }

    #[test]
    fn a_derived_id_depends_on_every_part_and_on_where_parts_end() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let id = RecordId::derived(at, &["trace", "e1"]);
        assert_eq!(id, RecordId::derived(at, &["trace", "e1"]));
        assert_ne!(id, RecordId::derived(at, &["tracee", "1"]));
        assert_ne!(id, RecordId::derived(at.plus_millis(1), &["trace", "e1"]));
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}
