//! A run as readers give it: one request of a user, or one trace, with the calls that followed.

use std::sync::Arc;

use pml_core::event::Json;
use pml_core::id::{ExecutionId, SessionId, StepId, ToolId};
use pml_core::redact::Redactor;
use pml_core::time::Timestamp;

/// Longest intent, in bytes. Longer requests hold pasted material; discover compares the first sentences.
pub const INTENT_LEN_MAX: usize = 1_000;
/// Longest string in arguments that is kept, in bytes.
pub const ARGUMENT_STRING_LEN_MAX: usize = 500;
/// Longest arguments that are kept, in bytes; longer ones are left out.
pub const ARGUMENTS_LEN_MAX: usize = 8 << 10;
/// Longest summary of an error and longest description of a trace, in bytes.
pub const LINE_LEN_MAX: usize = 200;

/// What the caller wants to be read, and how secrets are found.
#[derive(Clone, Debug)]
pub struct Options {
    /// Removes secrets from every text of a run.
    pub redactor: Redactor,
    /// Runs that ended before this time are left out.
    pub since: Option<Timestamp>,
    /// Only runs whose project (a directory or a service) contains this text.
    pub project: Option<String>,
    /// Calls of these tools are left out: a tool id, or a prefix of one that ends in `*`.
    pub excluded_tools: Vec<String>,
    /// Most calls of one run; further ones belong to a run that continues it.
    pub steps_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { redactor: Redactor::builtin(), since: None, project: None, excluded_tools: Vec::new(), steps_max: 1_000 }
    }
}

impl Options {
    pub(crate) fn excludes(&self, tool: &ToolId) -> bool {
        self.excluded_tools.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => tool.as_str().starts_with(prefix),
            None => tool.as_str() == pattern,
        })
    }

    /// Whether a run is within what was asked for.
    pub(crate) fn wants(&self, run: &Run) -> bool {
        let late_enough = self.since.is_none_or(|since| run.last_time().is_none_or(|time| time >= since));
        let of_project = |wanted: &String| run.project.as_ref().is_some_and(|project| project.contains(wanted.as_str()));
        late_enough && self.project.as_ref().is_none_or(of_project)
    }
}

/// One run. Its texts hold no secrets and are within the limits above.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Follows from the content: the same request read again, also from a copy of the file, has the same id.
    pub execution: ExecutionId,
    /// The run that this one continues.
    pub parent: Option<ExecutionId>,
    pub agent: Arc<str>,
    pub session: Option<SessionId>,
    /// The directory or service that the agent worked in.
    pub project: Option<Arc<str>>,
    pub intent: String,
    /// Whether the intent is a description of the calls, because nobody stated one.
    pub intent_inferred: bool,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    pub steps: Vec<Step>,
    pub ending: Ending,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub id: StepId,
    pub tool: ToolId,
    pub arguments: Option<Json>,
    pub success: bool,
    /// Whether the success was concluded from the text of the result, or from there being none.
    pub success_inferred: bool,
    /// A short class of the failure: `exit 1`, `rejected`, `timeout`, `unanswered`.
    pub error_kind: Option<String>,
    /// The beginning of what the call said when it failed.
    pub error: Option<String>,
    /// When the call was made.
    pub time: Option<Timestamp>,
    pub duration_ms: Option<u64>,
    /// The earlier steps whose results its arguments use.
    pub depends_on: Vec<StepId>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub success: bool,
    pub basis: Basis,
}

/// What the success of a run was concluded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The log states it.
    Recorded,
    /// The user interrupted the run.
    Interrupted,
    /// The user's next words approve or object.
    Said,
    /// A call was never answered.
    Unanswered,
    /// The last call succeeded or failed.
    LastCall,
    /// Nothing follows the run in the input, so it may still go on; success as for [`Basis::LastCall`].
    Open,
}

impl Basis {
    /// Whether the success is a conclusion and not a record.
    pub fn is_inferred(self) -> bool {
        !matches!(self, Self::Recorded | Self::Interrupted)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Interrupted => "interrupted",
            Self::Said => "said by the user",
            Self::Unanswered => "a call was never answered",
            Self::LastCall => "last call",
            Self::Open => "open",
        }
    }
}

impl Run {
    /// The last time that the run is known to have been active.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.ended.or_else(|| self.steps.iter().filter_map(|step| step.time).max()).or(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_excluded_by_name_or_by_beginning() {
        let options = Options { excluded_tools: vec!["a:x".into(), "claude-code:bash*".into()], ..Options::default() };
        let excluded = |tool: &str| options.excludes(&tool.parse().unwrap());
        assert!(excluded("a:x") && excluded("claude-code:bash:git") && excluded("claude-code:bash"));
        assert!(!excluded("a:xy") && !excluded("claude-code:Read"));
    }
}
