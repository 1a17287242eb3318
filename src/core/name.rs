//! Names by which people refer to tools and capabilities in questions, resolved against a state.
//!
//! | written | means |
//! |---|---|
//! | `fs:read`, `mcp__fs__read`, `fs.read` | that tool |
//! | `read` | the tool of that name, if one server has it; else the capability with that handle |
//! | `capability:ID`, `capability:HANDLE` | that capability, or the one that it was merged into |

use super::capability::Capability;
use super::graph::{Node, NodeKind};
use super::id::{Callee, CapabilityId, InvalidId, ToolId};
use super::state::State;

/// Tools that an error about an ambiguous name lists.
const LISTED_MAX: usize = 4;

/// Why a name means nothing. `Display` explains it; the caller adds the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    #[error(transparent)]
    Invalid(#[from] InvalidId),
    #[error("'{0}' names no server, and no known tool or capability is called so; write server:name")]
    Bare(String),
    #[error("'{name}' is a tool of several servers: {servers}")]
    Ambiguous { name: String, servers: String },
    #[error("no capability is called '{0}'; `pml discover` lists them")]
    Capability(String),
}

/// The tool or capability that `text` means. A tool with its server need not be known.
pub fn resolve(state: &State, text: &str) -> Result<Callee, UnknownName> {
    if let Some(name) = text.strip_prefix("capability:") {
        let id = match name.parse::<CapabilityId>() {
            Ok(id) => id,
            Err(_) => capability(state, name).ok_or_else(|| UnknownName::Capability(name.to_owned()))?.id,
        };
        return Ok(Callee::Capability(state.capabilities.standing_for(id)));
    }
    if !ToolId::is_bare_name(text) {
        return Ok(text.parse()?);
    }
    let tools: Vec<&ToolId> = state.tools.iter().map(|tool| &tool.id).filter(|id| id.name() == text).collect();
    match tools.as_slice() {
        [tool] => Ok(Callee::Tool((*tool).clone())),
        [] => match capability(state, text) {
            Some(capability) => Ok(Callee::Capability(state.capabilities.standing_for(capability.id))),
            None => Err(UnknownName::Bare(text.to_owned())),
        },
        several => {
            let servers: Vec<&str> = several.iter().take(LISTED_MAX).map(|tool| tool.as_str()).collect();
            Err(UnknownName::Ambiguous { name: text.to_owned(), servers: servers.join(", ") })
        }
    }
}

/// The name of a node for people, which [`resolve`] takes: the tool, or `capability:HANDLE`.
pub fn readable(state: &State, node: Node) -> String {
    handle(state, node).map_or_else(|| state.callee(node).to_string(), |handle| format!("capability:{handle}"))
}

/// The handle of a capability; `None` for a tool, and for a capability that others mention and nobody has used or declared.
pub fn handle(state: &State, node: Node) -> Option<&str> {
    match node.kind() {
        NodeKind::Tool(_) => None,
        NodeKind::Capability(position) => Some(&*state.capabilities.at(position).handle).filter(|handle| !handle.is_empty()),
    }
}

/// The capability with this id, handle or, if only one has it, name.
pub fn capability<'a>(state: &'a State, text: &str) -> Option<&'a Capability> {
    if let Ok(id) = text.parse() {
        return state.capabilities.get(id);
    }
    state.capabilities.by_handle(text).or_else(|| {
        let mut named = state.capabilities.iter().filter(|capability| capability.name == text);
        named.next().filter(|_| named.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::History;

    fn check(given: &History, text: &str, expected: Result<&str, &str>) {
        let found = resolve(&given.state, text).map(|callee| callee.to_string()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn a_name_means_what_people_mean_by_it() {
        let given = History::new("run ok zip the reports: fs:list, zip:pack < fs:list\nrun ok look: web:list");
        let learned = given.state.capabilities.by_handle("list-and-pack").unwrap();
        let id = format!("capability:{}", learned.id);
        check(&given, "fs:list", Ok("fs:list"));
        check(&given, "never.seen", Ok("never:seen"));
        check(&given, "pack", Ok("zip:pack"));
        check(&given, "list", Err("'list' is a tool of several servers: fs:list, web:list"));
        check(&given, "list-and-pack", Ok(&id));
        check(&given, "capability:list-and-pack", Ok(&id));
        check(&given, &id, Ok(&id));
        let node = given.state.find(&id.parse().unwrap()).unwrap();
        assert_eq!(readable(&given.state, node), "capability:list-and-pack");
        check(&given, "capability:nothing", Err("no capability is called 'nothing'; `pml discover` lists them"));
        let unknown = "'nothing' names no server, and no known tool or capability is called so; write server:name";
        check(&given, "nothing", Err(unknown));
        check(&given, "", Err("is empty"));
    }
}
