//! Which calls need approval before they are made.

use super::Runner;
use super::request::FollowedPlan;
use crate::config::Approval;
use crate::core::event::{ToolAnnotations, ToolRegistered};
use crate::core::id::{StepId, ToolId};
use crate::core::workflow::Workflow;

impl Runner {
    /// The tasks of a workflow whose calls need approval; all of a plan that is not sure.
    pub(super) fn need_approval(&self, workflow: &Workflow, plan: Option<&FollowedPlan>) -> Vec<StepId> {
        let is_guess = plan.is_some_and(|plan| !plan.is_sure());
        let needs = |tool: &ToolId| match self.0.parts.upstreams.tool(tool) {
            Ok(tool) => self.needs_approval(&tool),
            Err(_) => false,
        };
        workflow.tasks().iter().filter(|task| is_guess || needs(&task.tool)).map(|task| task.id.clone()).collect()
    }

    /// Whether a call of the tool needs approval, by the configuration.
    pub fn needs_approval(&self, tool: &ToolRegistered) -> bool {
        needs_approval(tool.annotations.as_ref(), self.0.parts.settings.approval)
    }
}

/// Whether a call of a tool with these hints needs approval. Without hints of its server, a tool counts as one that writes.
pub fn needs_approval(hints: Option<&ToolAnnotations>, approval: Approval) -> bool {
    let (read_only, destructive) = hints.map_or((None, None), |hints| (hints.read_only, hints.destructive));
    let only_reads = read_only == Some(true);
    match approval {
        Approval::Never => false,
        Approval::Writes => !only_reads,
        // A tool that says that it writes, and not that it destroys nothing, may destroy something (MCP's default).
        Approval::Destructive => !only_reads && destructive.unwrap_or(read_only == Some(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approval_is_needed_for_what_may_destroy_or_for_all_that_writes() {
        let check = |read_only, destructive, expected: [bool; 3]| {
            let hints = ToolAnnotations { read_only, destructive, ..ToolAnnotations::default() };
            let needs = |approval| needs_approval(Some(&hints), approval);
            let found = [Approval::Destructive, Approval::Writes, Approval::Never].map(needs);
            assert_eq!(found, expected, "{read_only:?} {destructive:?}");
        };
        check(None, None, [false, true, false]);
        check(Some(true), None, [false, false, false]);
        check(Some(true), Some(true), [false, false, false]);
        check(Some(false), None, [true, true, false]);
        check(Some(false), Some(false), [false, true, false]);
        check(None, Some(true), [true, true, false]);
    }
}
