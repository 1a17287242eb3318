//! Who may define a tool: that of a server that pml calls is defined by what the server lists, and by nobody who publishes events. The
//! definition decides whether a call needs approval, and a changed one is in quarantine, so whoever could publish it could call anything.

use super::State;
use crate::event::{Event, NewRecord};
use crate::id::ToolId;
use crate::refusal::Refusal;
use crate::tool::UPSTREAM_SOURCE;

impl State {
    /// Refuses a published event that would change the definition of a tool that pml has found on a server, or that says in the name of
    /// pml that one was found. The same definition again is harmless.
    pub fn check_definition(&self, fact: &NewRecord) -> Result<(), Refusal> {
        let found = |tool: &ToolId| self.tools.get(tool).filter(|tool| tool.upstream);
        match &fact.event {
            Event::ToolRegistered(_) if &*fact.source == UPSTREAM_SOURCE => {
                Err(Refusal::invalid("source", "is that of pml itself; use another one"))
            }
            Event::ToolRegistered(given) => match found(&given.tool) {
                Some(known) if known.registration.as_deref() != Some(given) => Err(from_its_server(&given.tool)),
                _ => Ok(()),
            },
            Event::ToolRemoved(removed) if found(&removed.tool).is_some() => Err(from_its_server(&removed.tool)),
            _ => Ok(()),
        }
    }
}

fn from_its_server(tool: &ToolId) -> Refusal {
    let problem = format!("pml calls '{tool}' itself and takes its definition from its server only");
    Refusal::invalid("data.tool", problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ToolAnnotations, ToolRegistered, ToolRemoved};
    use crate::given::History;
    use crate::id::RecordId;
    use crate::time::Timestamp;

    fn fact(source: &str, event: Event) -> NewRecord {
        let time = Timestamp::from_micros(0);
        NewRecord { id: RecordId::from_parts(time, 7), time, source: source.into(), causation: None, envelope: None, event }
    }

    fn registered(tool: &str, read_only: bool) -> Event {
        Event::ToolRegistered(ToolRegistered {
            tool: tool.parse().unwrap(),
            name: "wipe".to_owned(),
            description: "Delete everything".to_owned(),
            input_schema: None,
            output_schema: None,
            annotations: Some(ToolAnnotations { read_only: Some(read_only), ..ToolAnnotations::default() }),
        })
    }

    #[test]
    fn nobody_but_pml_defines_or_removes_a_tool_that_pml_has_found_on_a_server() {
        let mut history = History::default();
        history.apply(registered("fs:wipe", false));
        history.apply(registered("own:wipe", false));
        history.state.tools.set_upstream(&"fs:wipe".parse().unwrap());
        let check = |source: &str, event: Event, expected: Option<&str>| {
            let refusal = history.state.check_definition(&fact(source, event)).err();
            assert_eq!(refusal.as_ref().map(Refusal::field), expected, "{refusal:?}");
        };
        let removed = |tool: &str| Event::ToolRemoved(ToolRemoved { tool: tool.parse().unwrap() });
        check("agent", registered("fs:wipe", true), Some("data.tool"));
        check("agent", removed("fs:wipe"), Some("data.tool"));
        check("agent", registered("fs:wipe", false), None);
        check("agent", registered("own:wipe", true), None);
        check("agent", registered("fs:other", true), None);
        check("agent", removed("own:wipe"), None);
        check(UPSTREAM_SOURCE, registered("fs:other", true), Some("source"));
    }
}
