//! Room for the callees that an event names: a workspace has at most so many tools and capabilities.

use super::State;
use crate::capability::{CAPABILITIES_MAX, Structure};
use crate::event::Event;
use crate::id::Callee;
use crate::refusal::Refusal;
use crate::tool::TOOLS_MAX;

impl State {
    /// Refuses an event that names a new tool or capability when there is no room for it. Costs nothing while there is room.
    pub fn check_room(&self, event: &Event) -> Result<(), Refusal> {
        let full = (self.tools.len() >= TOOLS_MAX, self.capabilities.len() >= CAPABILITIES_MAX);
        if full == (false, false) {
            return Ok(());
        }
        match event {
            Event::ToolRegistered(registered) => self.check_callee("data.tool", &Callee::Tool(registered.tool.clone()), full),
            Event::StepStarted(step) => self.check_callee("data.tool", &step.tool, full),
            Event::StepFinished(step) => self.check_callee("data.tool", &step.tool, full),
            Event::CapabilityDeclared(declared) => {
                let own = Callee::Capability(Structure::declared(&declared.structure).0);
                let called = declared.structure.nodes.iter().map(|node| &node.callee);
                called.chain([&own]).try_for_each(|callee| self.check_callee("data.structure", callee, full))
            }
            // They name no callee, only known ones, or are made by pml itself from events that were admitted and from its own settings.
            Event::ToolRemoved(_)
            | Event::ToolQuarantined(_)
            | Event::ToolApproved(_)
            | Event::ToolOutputInferred(_)
            | Event::ExecutionStarted(_)
            | Event::StepSpeculated(_)
            | Event::ExecutionFinished(_)
            | Event::TemplateLoaded(_)
            | Event::TraceCompleted(_)
            | Event::EmbeddingComputed(_)
            | Event::PredictionServed(_)
            | Event::FeedbackGiven(_)
            | Event::CapabilityRenamed(_)
            | Event::CapabilityMerged(_)
            | Event::CapabilityApproved(_)
            | Event::CapabilityRetired(_)
            | Event::ModelTrained(_)
            | Event::ModelParameters(_)
            | Event::ModelPromoted(_)
            | Event::ModelRolledBack(_)
            | Event::LogForked(_) => Ok(()),
        }
    }

    fn check_callee(
        &self,
        field: &'static str,
        callee: &Callee,
        (tools_full, capabilities_full): (bool, bool),
    ) -> Result<(), Refusal> {
        let (is_full, what, max) = match callee {
            Callee::Tool(_) => (tools_full, "tools", TOOLS_MAX),
            Callee::Capability(_) => (capabilities_full, "capabilities", CAPABILITIES_MAX),
        };
        if is_full && self.find(callee).is_none() {
            return Err(Refusal::NoRoom { field, callee: callee.to_string(), what, max });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{StepStarted, ToolRemoved};
    use crate::given::History;
    use crate::id::{CapabilityId, Seq, ToolId};

    fn step(tool: &str) -> Event {
        let (execution, step) = ("e".parse().unwrap(), "s".parse().unwrap());
        Event::StepStarted(StepStarted { execution, step, tool: tool.parse().unwrap(), arguments: None })
    }

    #[test]
    fn a_full_workspace_refuses_new_tools_by_name_and_takes_known_ones() {
        let mut state = State::default();
        for number in 0..TOOLS_MAX {
            assert_eq!(state.check_room(&step("fs:new")), Ok(()), "{number}");
            let tool: ToolId = format!("fs:t{number}").parse().unwrap();
            state.tools.intern(&tool);
        }
        assert_eq!(state.check_room(&step("fs:t7")), Ok(()));
        assert_eq!(state.check_room(&Event::ToolRemoved(ToolRemoved { tool: "fs:new".parse().unwrap() })), Ok(()));
        let refusal = state.check_room(&step("fs:new")).unwrap_err();
        assert_eq!((refusal.reason(), refusal.field()), ("no_room", "data.tool"));
        assert!(refusal.to_string().contains("'fs:new' is new, and this workspace has 262144 tools"), "{refusal}");
        let capability = Callee::Capability(CapabilityId::from_bits(7)).to_string();
        assert_eq!(state.check_room(&step(&capability)), Ok(()), "capabilities have room of their own");
    }

    #[test]
    fn a_full_workspace_learns_no_further_procedure() {
        let mut history = History::default();
        for number in 0..CAPABILITIES_MAX as u128 {
            history.state.capabilities.intern(CapabilityId::from_bits(number), Seq(1));
        }
        history.line("run ok read it: fs:read");
        assert_eq!(history.state.capabilities.len(), CAPABILITIES_MAX);
        assert_eq!(history.state.transitions.calls(), 1, "all else is learned");
    }
}
