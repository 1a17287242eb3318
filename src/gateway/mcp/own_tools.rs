//! The table of pml's own tools: name, scope, description, schemas, hints.

mod schemas;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::listing::CatalogueSummary;
use crate::config::Scope;

/// What an own tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnTool {
    Discover,
    SearchTools,
    SearchCapabilities,
    Predict,
    Suggest,
    Execute,
    Continue,
    Feedback,
}

impl OwnTool {
    pub(super) const ALL: [Self; 8] = [
        Self::Discover,
        Self::Predict,
        Self::Suggest,
        Self::Execute,
        Self::Continue,
        Self::Feedback,
        Self::SearchTools,
        Self::SearchCapabilities,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Discover => "pml_discover",
            Self::SearchTools => "pml_search_tools",
            Self::SearchCapabilities => "pml_search_capabilities",
            Self::Predict => "pml_predict",
            Self::Suggest => "pml_suggest",
            Self::Execute => "pml_execute",
            Self::Continue => "pml_continue",
            Self::Feedback => "pml_feedback",
        }
    }

    /// The scope that its caller needs.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Discover | Self::SearchTools | Self::SearchCapabilities | Self::Predict | Self::Suggest => Scope::Query,
            Self::Execute | Self::Continue => Scope::Execute,
            Self::Feedback => Scope::Publish,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Discover => "Find tools and procedures",
            Self::SearchTools => "Find tools (deprecated)",
            Self::SearchCapabilities => "Find procedures (deprecated)",
            Self::Predict => "Predict the next call",
            Self::Suggest => "Suggest a plan",
            Self::Execute => "Run a workflow or code",
            Self::Continue => "Continue a run or an answer",
            Self::Feedback => "Give feedback",
        }
    }

    /// The description, which names the servers behind it: models do not call a search that does not say what it finds.
    fn description(self, catalogue: &CatalogueSummary) -> String {
        let behind = catalogue.sentence();
        match self {
            Self::Discover => format!(
                "Find the tool or the learnt procedure for a task. {behind} They are not all listed here: call this first whenever a \
                 task may need one of them. Give `intent`, what is to be done in plain words, or `name`: a name, a pattern such as \
                 server:*, or an id. Run what it finds with pml_execute."
            ),
            Self::Predict => {
                "Predict the next call of a task from its intent and the calls made so far, with probabilities; `done` is one of the \
                 outcomes. Learnt from past runs."
                    .to_owned()
            }
            Self::Suggest => {
                "Suggest a plan for a task: which tools, in which order, what can run in parallel, which arguments must be supplied and \
                 what is missing, with a confidence. Learnt from past runs; not sure below its threshold. Run it with pml_execute."
                    .to_owned()
            }
            Self::Execute => format!(
                "Run calls of tools. {behind} Give `tasks` (each with id, tool, arguments; independent ones run in parallel; a \
                 string argument $OUTPUT[id].path takes a value from the result of another task), `code` in TypeScript that calls \
                 await tools.server.name({{...}}) and returns its result, a learnt `capability` with `arguments`, or an `intent` \
                 alone: a plan from past runs is run if it is sure and has its arguments, else shown with what is missing. \
                 Destructive calls need approval: the answer then has the status approval_required and \
                 a token for pml_continue."
            ),
            Self::Continue => {
                "Continue: approve what a run waits for (`token`), go on with an interrupted run (`run`), end one (`run` and \
                 `abort`), or read on in an answer that was cut (`cursor`)."
                    .to_owned()
            }
            Self::Feedback => {
                "Say whether a prediction or suggestion was accepted, ignored or rejected; pml adjusts its threshold.".to_owned()
            }
            Self::SearchTools => "[DEPRECATED] Use pml_discover instead. Finds tools only, near those in use.".to_owned(),
            Self::SearchCapabilities => {
                "[DEPRECATED] Use pml_discover instead, with filter.type = capability. Finds learnt procedures only.".to_owned()
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::with_title(self.title());
        match self {
            Self::Discover | Self::SearchTools | Self::SearchCapabilities | Self::Predict | Self::Suggest => {
                hints.read_only(true).idempotent(true).open_world(false)
            }
            Self::Feedback => hints.read_only(false).destructive(false).idempotent(false).open_world(false),
            // They call whatever is asked of them.
            Self::Execute | Self::Continue => hints.read_only(false).destructive(true).idempotent(false).open_world(true),
        }
    }

    /// The tool as it is listed.
    pub(super) fn listed(self, catalogue: &CatalogueSummary) -> Tool {
        Tool::new(self.name(), self.description(catalogue), object(schemas::input(self)))
            .with_title(self.title())
            .with_raw_output_schema(object(schemas::output(self)).into())
            .with_annotations(self.annotations())
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        other => unreachable!("a schema is an object, not {other}"),
    }
}

/// Returns the own tool with this name; `pml:discover` is an alias of `pml_discover`.
pub(super) fn find(name: &str) -> Option<OwnTool> {
    let is_named = |tool: &OwnTool| match name.strip_prefix("pml:") {
        Some(rest) => tool.name().strip_prefix("pml_") == Some(rest),
        None => tool.name() == name,
    };
    OwnTool::ALL.into_iter().find(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_and_its_alias() {
        for tool in OwnTool::ALL {
            assert_eq!(find(tool.name()), Some(tool));
            assert_eq!(find(&tool.name().replacen('_', ":", 1)), Some(tool));
        }
        for unknown in ["discover", "pml:pml_discover", "pml_discover2", "pml:", ""] {
            assert_eq!(find(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn names_are_valid_for_the_strictest_client_and_schemas_are_objects() {
        for tool in OwnTool::ALL {
            assert!(super::super::listing::is_valid_name(tool.name()), "{}", tool.name());
            let listed = tool.listed(&CatalogueSummary::default());
            for schema in [&listed.input_schema, listed.output_schema.as_ref().unwrap()] {
                assert_eq!(schema["type"], "object", "{}", tool.name());
                let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
                let properties = schema["properties"].as_object().unwrap();
                assert!(required.iter().all(|name| properties.contains_key(name.as_str().unwrap())), "{}", tool.name());
            }
        }
    }

    #[test]
    fn deprecated_tools_say_so_and_what_to_use() {
        for tool in [OwnTool::SearchTools, OwnTool::SearchCapabilities] {
            let description = tool.description(&CatalogueSummary::default());
            assert!(description.starts_with("[DEPRECATED] Use pml_discover"), "{description}");
        }
    }
}
