//! Which calls need approval before they are made.

use crate::config::Approval;
use crate::core::event::ToolRegistered;

/// Whether a call of the tool needs approval. Without hints of its server, a tool counts as one that writes.
pub(super) fn needs_approval(tool: &ToolRegistered, approval: Approval) -> bool {
    let hints = tool.annotations.clone().unwrap_or_default();
    let only_reads = hints.read_only == Some(true);
    match approval {
        Approval::Never => false,
        Approval::Writes => !only_reads,
        // A tool that says that it writes, and not that it destroys nothing, may destroy something (MCP's default).
        Approval::Destructive => !only_reads && hints.destructive.unwrap_or(hints.read_only == Some(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::ToolAnnotations;

    #[test]
    fn approval_is_needed_for_what_may_destroy_or_for_all_that_writes() {
        let tool = |read_only, destructive| ToolRegistered {
            tool: "s:t".parse().unwrap(),
            name: String::new(),
            description: String::new(),
            input_schema: None,
            output_schema: None,
            annotations: Some(ToolAnnotations { read_only, destructive, ..ToolAnnotations::default() }),
        };
        let check = |read_only, destructive, expected: [bool; 3]| {
            let tool = tool(read_only, destructive);
            let found =
                [Approval::Destructive, Approval::Writes, Approval::Never].map(|approval| needs_approval(&tool, approval));
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
