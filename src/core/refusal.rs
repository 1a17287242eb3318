//! Refusals: the reasons why an event is not accepted. A refusal is reported to the sender, counted, and stored with the redacted
//! event as a dead letter. Its text names the field and, where there is one, the limit.

use super::id::{ExecutionId, Seq, StepId};
use super::redact::{self, Redactor};

/// Longest text that is quoted from what was sent.
const QUOTED_BYTES_MAX: usize = 1_024;

/// Why an event was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{field}: cannot be read: {problem}")]
    Malformed { field: String, problem: String },
    #[error("type: unknown kind '{kind}'; known kinds are {known}")]
    UnknownKind { kind: String, known: String },
    #[error("dataschema: '{kind}' has no version '{version}'; known versions are {known}")]
    UnknownVersion { kind: String, version: String, known: String },
    #[error("type: '{kind}' is written by pml itself and cannot be published")]
    NotPublishable { kind: &'static str },
    #[error("{field}: is missing")]
    Missing { field: String },
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
    #[error("{field}: is no member of this kind of event; did you mean '{meant}'?")]
    Misspelt { field: String, meant: String },
    #[error("{field}: is no member of this kind of event; its members are {known}")]
    UnknownMember { field: String, known: String },
    #[error("id: record {seq} has this id and other content; give every event an id of its own, or none")]
    Conflict { seq: Seq },
    #[error("{field}: is {len} bytes long, the limit is {max} ({key})")]
    TooLong { field: String, len: usize, max: usize, key: &'static str },
    #[error("{field}: has {count} entries, the limit is {max} ({key})")]
    TooMany { field: String, count: usize, max: usize, key: &'static str },
    #[error("execution: '{execution}' is unknown; publish execution.started first")]
    UnknownExecution { execution: ExecutionId },
    #[error("execution: '{execution}' has already started")]
    AlreadyStarted { execution: ExecutionId },
    #[error("execution: '{execution}' has already finished")]
    AlreadyFinished { execution: ExecutionId },
    #[error("execution: '{execution}' is closed; its trace is complete and takes no more events")]
    Closed { execution: ExecutionId },
    #[error("step: '{step}' has already started")]
    StepAlreadyStarted { step: StepId },
    #[error("step: '{step}' has already finished")]
    StepAlreadyFinished { step: StepId },
    #[error("tool: step '{step}' was started with another tool, '{started_with}'")]
    StepChangedTool { step: StepId, started_with: String },
    #[error("depends_on: '{on}' is not a step of this execution")]
    UnknownDependency { on: StepId },
    #[error("depends_on: would close the cycle {path}")]
    DependencyCycle { path: String },
    #[error("step: this execution already has {max} steps, the limit (limits.steps_max)")]
    TooManySteps { max: usize },
    #[error("execution: {max} executions are open, the limit (limits.open_executions_max); finish some or raise it")]
    TooManyOpen { max: usize },
    #[error("{field}: '{callee}' is new, and this workspace has {max} {what}, the most it can have; use another workspace")]
    NoRoom { field: &'static str, callee: String, what: &'static str, max: usize },
}

impl Refusal {
    /// An [`Self::Invalid`] field.
    pub fn invalid(field: impl Into<String>, problem: impl ToString) -> Self {
        Self::Invalid { field: field.into(), problem: problem.to_string() }
    }

    /// The refusal with secrets in what it quotes redacted, and quotations cut to a bounded length.
    #[must_use]
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        let clean = |text: &mut String| {
            redactor.clean(text);
            redact::cut(text, QUOTED_BYTES_MAX);
        };
        match &mut self {
            Self::Malformed { field, problem } | Self::Invalid { field, problem } => {
                clean(field);
                clean(problem);
            }
            Self::UnknownKind { kind, .. } => clean(kind),
            Self::UnknownVersion { version, .. } => clean(version),
            Self::Missing { field }
            | Self::Misspelt { field, .. }
            | Self::UnknownMember { field, .. }
            | Self::TooLong { field, .. }
            | Self::TooMany { field, .. } => clean(field),
            Self::DependencyCycle { path } => clean(path),
            // They quote ids that were checked, or nothing.
            Self::NotPublishable { .. }
            | Self::Conflict { .. }
            | Self::UnknownExecution { .. }
            | Self::AlreadyStarted { .. }
            | Self::AlreadyFinished { .. }
            | Self::Closed { .. }
            | Self::StepAlreadyStarted { .. }
            | Self::StepAlreadyFinished { .. }
            | Self::StepChangedTool { .. }
            | Self::UnknownDependency { .. }
            | Self::TooManySteps { .. }
            | Self::TooManyOpen { .. }
            | Self::NoRoom { .. } => {}
        }
        self
    }

    /// The refusal with another name for its field, if it carries one.
    #[must_use]
    pub fn with_field(mut self, rename: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            Self::Malformed { field, .. }
            | Self::Missing { field }
            | Self::Invalid { field, .. }
            | Self::TooLong { field, .. }
            | Self::TooMany { field, .. } => *field = rename(field),
            _ => {}
        }
        self
    }

    /// The offending field, as a path into the event.
    pub fn field(&self) -> &str {
        match self {
            Self::Malformed { field, .. }
            | Self::Missing { field }
            | Self::Invalid { field, .. }
            | Self::Misspelt { field, .. }
            | Self::UnknownMember { field, .. }
            | Self::TooLong { field, .. }
            | Self::TooMany { field, .. } => field,
            Self::UnknownKind { .. } | Self::NotPublishable { .. } => "type",
            Self::UnknownVersion { .. } => "dataschema",
            Self::Conflict { .. } => "id",
            Self::UnknownExecution { .. }
            | Self::AlreadyStarted { .. }
            | Self::AlreadyFinished { .. }
            | Self::Closed { .. }
            | Self::TooManyOpen { .. } => "data.execution",
            Self::StepAlreadyStarted { .. } | Self::StepAlreadyFinished { .. } | Self::TooManySteps { .. } => "data.step",
            Self::StepChangedTool { .. } => "data.tool",
            Self::UnknownDependency { .. } | Self::DependencyCycle { .. } => "data.depends_on",
            Self::NoRoom { field, .. } => field,
        }
    }

    /// A stable word for the reason, for programs, metrics and the subject of the dead letter.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "malformed",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::UnknownVersion { .. } => "unknown_version",
            Self::NotPublishable { .. } => "not_publishable",
            Self::Missing { .. } => "missing_field",
            Self::Invalid { .. } | Self::StepChangedTool { .. } => "invalid_field",
            Self::Misspelt { .. } | Self::UnknownMember { .. } => "unknown_field",
            Self::Conflict { .. } => "conflict",
            Self::TooLong { .. } => "too_long",
            Self::TooMany { .. } | Self::TooManySteps { .. } => "too_many",
            Self::UnknownExecution { .. } => "unknown_execution",
            Self::AlreadyStarted { .. } | Self::StepAlreadyStarted { .. } => "already_started",
            Self::AlreadyFinished { .. } | Self::StepAlreadyFinished { .. } => "already_finished",
            Self::Closed { .. } => "execution_closed",
            Self::UnknownDependency { .. } => "unknown_step",
            Self::DependencyCycle { .. } => "dependency_cycle",
            Self::TooManyOpen { .. } => "too_many_open",
            Self::NoRoom { .. } => "no_room",
        }
    }

    /// Whether the log holds the id with other content.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Whether the event may have arrived before the one it refers to, so that waiting for that one may make it acceptable.
    pub fn may_be_out_of_order(&self) -> bool {
        matches!(self, Self::UnknownExecution { .. } | Self::UnknownDependency { .. })
    }

    /// Whether the event is valid and would be accepted later, so that it is worth sending again.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::TooManyOpen { .. })
    }
}
