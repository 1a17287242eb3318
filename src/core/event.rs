//! The facts pml keeps, as a closed enum. Names are past participles: an event happened and cannot be refused any more.
//!
//! Domain types here, wire types in `wire`, the way between them in `codec`, the CloudEvents envelope in `cloud`, JSON Schemas in
//! `schema`. A released wire version is frozen: change means a new version, an upcast and a new sample in `schemas/event/`.

pub mod cloud;
pub mod codec;
mod data;
pub mod kind;
pub mod schema;
pub mod stored;
mod text;
pub(crate) mod wire;

use std::fmt;
use std::sync::Arc;

use super::id::{ExecutionId, RecordId, Seq};
use super::time::Timestamp;
pub use data::{
    CapabilityDeclared, EmbeddingComputed, ExecutionFinished, ExecutionStarted, FeedbackGiven, FeedbackTarget, LogForked,
    Outcome, PredictionServed, RankedOutcome, StepFinished, StepStarted, Structure, StructureEdge, StructureNode,
    TemplateLoaded, ToolAnnotations, ToolRegistered, ToolRemoved, TraceCompleted, TraceStep, Verdict,
};
pub use kind::Kind;

/// A fact on its way into the log.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub id: RecordId,
    /// When it happened, by the producer's clock.
    pub time: Timestamp,
    /// Who says so: a URI reference, as CloudEvents has it.
    pub source: Arc<str>,
    /// The record that caused this one.
    pub causation: Option<RecordId>,
    pub event: Event,
}

/// A fact in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub seq: Seq,
    /// When the log took it, by the log's clock. The fold never looks at it.
    pub recorded_at: Timestamp,
    /// Shared: the log, the folds and the readers all hold the same copy.
    pub fact: Arc<NewRecord>,
}

impl Record {
    pub fn event(&self) -> &Event {
        &self.fact.event
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    ToolRegistered(ToolRegistered),
    ToolRemoved(ToolRemoved),
    ExecutionStarted(ExecutionStarted),
    StepStarted(StepStarted),
    StepFinished(StepFinished),
    ExecutionFinished(ExecutionFinished),
    CapabilityDeclared(CapabilityDeclared),
    FeedbackGiven(FeedbackGiven),
    TemplateLoaded(TemplateLoaded),
    TraceCompleted(TraceCompleted),
    EmbeddingComputed(EmbeddingComputed),
    PredictionServed(PredictionServed),
    LogForked(LogForked),
}

impl Event {
    pub fn kind(&self) -> Kind {
        match self {
            Self::ToolRegistered(_) => Kind::ToolRegistered,
            Self::ToolRemoved(_) => Kind::ToolRemoved,
            Self::ExecutionStarted(_) => Kind::ExecutionStarted,
            Self::StepStarted(_) => Kind::StepStarted,
            Self::StepFinished(_) => Kind::StepFinished,
            Self::ExecutionFinished(_) => Kind::ExecutionFinished,
            Self::CapabilityDeclared(_) => Kind::CapabilityDeclared,
            Self::FeedbackGiven(_) => Kind::FeedbackGiven,
            Self::TemplateLoaded(_) => Kind::TemplateLoaded,
            Self::TraceCompleted(_) => Kind::TraceCompleted,
            Self::EmbeddingComputed(_) => Kind::EmbeddingComputed,
            Self::PredictionServed(_) => Kind::PredictionServed,
            Self::LogForked(_) => Kind::LogForked,
        }
    }

    /// Takes the text of its execution's id from another event, which has the same.
    fn share_execution(&mut self, other: &ExecutionId) {
        match self {
            Self::ExecutionStarted(ExecutionStarted { execution, .. })
            | Self::StepStarted(StepStarted { execution, .. })
            | Self::StepFinished(StepFinished { execution, .. })
            | Self::ExecutionFinished(ExecutionFinished { execution, .. }) => execution.clone_from(other),
            _ => {}
        }
    }

    /// The execution this event belongs to, if it belongs to one.
    pub fn execution(&self) -> Option<&ExecutionId> {
        match self {
            Self::ExecutionStarted(event) => Some(&event.execution),
            Self::StepStarted(event) => Some(&event.execution),
            Self::StepFinished(event) => Some(&event.execution),
            Self::ExecutionFinished(event) => Some(&event.execution),
            Self::TraceCompleted(event) => Some(&event.execution),
            Self::PredictionServed(event) => event.execution.as_ref(),
            Self::ToolRegistered(_)
            | Self::ToolRemoved(_)
            | Self::CapabilityDeclared(_)
            | Self::FeedbackGiven(_)
            | Self::TemplateLoaded(_)
            | Self::EmbeddingComputed(_)
            | Self::LogForked(_) => None,
        }
    }
}

/// Valid JSON in compact form. The core carries it and never looks inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// The caller has parsed and printed it.
    pub(crate) fn from_valid(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
