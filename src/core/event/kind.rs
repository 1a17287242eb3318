//! The kinds of events: their names on the wire, their tags in the log, their versions, and who may publish them.

use std::fmt;
use std::str::FromStr;

/// Prefix of the CloudEvents `type`: `pml.step.finished`.
pub const TYPE_PREFIX: &str = "pml.";
/// Start of the CloudEvents `dataschema`; kind and version follow: `urn:pml:step.finished/v1`.
pub const SCHEMA_PREFIX: &str = "urn:pml:";

/// The kind of an event; its number is the tag in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    ToolRegistered = 1,
    ToolRemoved = 2,
    ExecutionStarted = 3,
    StepStarted = 4,
    StepFinished = 5,
    ExecutionFinished = 6,
    CapabilityDeclared = 7,
    FeedbackGiven = 8,
    TemplateLoaded = 9,
    TraceCompleted = 10,
    EmbeddingComputed = 11,
    PredictionServed = 12,
    LogForked = 13,
    ModelTrained = 14,
    ModelParameters = 15,
    ModelPromoted = 16,
    ModelRolledBack = 17,
    ToolQuarantined = 18,
    ToolApproved = 19,
    ToolOutputInferred = 20,
    StepSpeculated = 21,
    CapabilityRenamed = 22,
    CapabilityMerged = 23,
    CapabilityApproved = 24,
    CapabilityRetired = 25,
}

impl Kind {
    pub const ALL: [Self; 25] = [
        Self::ToolRegistered,
        Self::ToolRemoved,
        Self::ExecutionStarted,
        Self::StepStarted,
        Self::StepFinished,
        Self::ExecutionFinished,
        Self::CapabilityDeclared,
        Self::FeedbackGiven,
        Self::TemplateLoaded,
        Self::TraceCompleted,
        Self::EmbeddingComputed,
        Self::PredictionServed,
        Self::LogForked,
        Self::ModelTrained,
        Self::ModelParameters,
        Self::ModelPromoted,
        Self::ModelRolledBack,
        Self::ToolQuarantined,
        Self::ToolApproved,
        Self::ToolOutputInferred,
        Self::StepSpeculated,
        Self::CapabilityRenamed,
        Self::CapabilityMerged,
        Self::CapabilityApproved,
        Self::CapabilityRetired,
    ];

    /// The name on the wire, without [`TYPE_PREFIX`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolRegistered => "tool.registered",
            Self::ToolRemoved => "tool.removed",
            Self::ExecutionStarted => "execution.started",
            Self::StepStarted => "step.started",
            Self::StepFinished => "step.finished",
            Self::ExecutionFinished => "execution.finished",
            Self::CapabilityDeclared => "capability.declared",
            Self::FeedbackGiven => "feedback.given",
            Self::TemplateLoaded => "template.loaded",
            Self::TraceCompleted => "trace.completed",
            Self::EmbeddingComputed => "embedding.computed",
            Self::PredictionServed => "prediction.served",
            Self::LogForked => "log.forked",
            Self::ModelTrained => "model.trained",
            Self::ModelParameters => "model.parameters",
            Self::ModelPromoted => "model.promoted",
            Self::ModelRolledBack => "model.rolled_back",
            Self::ToolQuarantined => "tool.quarantined",
            Self::ToolApproved => "tool.approved",
            Self::ToolOutputInferred => "tool.output_inferred",
            Self::StepSpeculated => "step.speculated",
            Self::CapabilityRenamed => "capability.renamed",
            Self::CapabilityMerged => "capability.merged",
            Self::CapabilityApproved => "capability.approved",
            Self::CapabilityRetired => "capability.retired",
        }
    }

    /// The version this program writes.
    pub const fn version(self) -> u8 {
        match self {
            Self::ModelTrained => 2,
            _ => 1,
        }
    }

    /// The versions this program reads; old ones are upcast. Version 0 of `tool.registered` is the form of the source documents and of
    /// dataset directories (`tool_id`, `server_id`). Version 1 of `model.trained` has no `curve`.
    pub const fn readable_versions(self) -> &'static [u8] {
        match self {
            Self::ToolRegistered => &[0, 1],
            Self::ModelTrained => &[1, 2],
            _ => &[1],
        }
    }

    /// Whether agents may publish it. The other kinds are written by pml only.
    pub const fn is_publishable(self) -> bool {
        match self {
            Self::ToolRegistered
            | Self::ToolRemoved
            | Self::ExecutionStarted
            | Self::StepStarted
            | Self::StepFinished
            | Self::ExecutionFinished
            | Self::CapabilityDeclared
            | Self::FeedbackGiven => true,
            Self::TemplateLoaded
            | Self::TraceCompleted
            | Self::EmbeddingComputed
            | Self::PredictionServed
            | Self::LogForked
            | Self::ModelTrained
            | Self::ModelParameters
            | Self::ModelPromoted
            | Self::ModelRolledBack
            | Self::ToolQuarantined
            | Self::ToolApproved
            | Self::ToolOutputInferred
            | Self::StepSpeculated
            | Self::CapabilityRenamed
            | Self::CapabilityMerged
            | Self::CapabilityApproved
            | Self::CapabilityRetired => false,
        }
    }

    /// The number of the kind in the log.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    pub fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tag() == tag)
    }

    /// The CloudEvents `dataschema` of a version.
    pub fn schema_uri(self, version: u8) -> String {
        format!("{SCHEMA_PREFIX}{self}/v{version}")
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not the name of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(UnknownKind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_tags_convert_back_to_their_kind() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(Kind::from_tag(kind.tag()), Some(kind));
            assert!(kind.readable_versions().contains(&kind.version()));
        }
        assert_eq!("step.paused".parse::<Kind>(), Err(UnknownKind));
    }
}
