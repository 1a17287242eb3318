//! The events pml records, as a closed enum. Their names are past participles: an event has happened and cannot be refused any more.
//!
//! Domain types are in `data`, wire types in `wire`, conversions between them in `codec`, the CloudEvents envelope in `cloud`, the
//! form in the log in `stored`, JSON Schemas in `schema`, whole runs in `document`. A released wire version is frozen: a change needs a new version, an upcast
//! and a new sample in `schemas/event/`.

pub mod cloud;
pub mod codec;
mod data;
pub mod document;
pub mod input_schema;
pub mod kind;
mod postcard_end;
pub mod schema;
pub mod stored;
mod text;
pub mod whole;
pub(crate) mod wire;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use super::id::{ExecutionId, RecordId, Seq};
use super::time::Timestamp;
pub use data::{
    CapabilityApproved, CapabilityDeclared, CapabilityMerged, CapabilityRenamed, CapabilityRetired, CurvePoint, CurveStage,
    DeclaredStructure, EmbeddingComputed, ExecutionFinished, ExecutionStarted, FeedbackGiven, FeedbackTarget, FeedbackVerdict,
    LogForked, ModelMetric, ModelParameters, ModelPart, ModelPromoted, ModelRolledBack, ModelTrained, ModelVersion, Outcome,
    PredictionServed, RankedOutcome, StepFinished, StepSpeculated, StepStarted, StructureEdge, StructureNode, TemplateLoaded,
    ToolAnnotations, ToolApproved, ToolOutputInferred, ToolQuarantined, ToolRegistered, ToolRemoved, TraceCompleted, TraceStep,
};
pub use kind::Kind;

/// A fact: an event with id, time and source that has no position in the log yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    pub id: RecordId,
    /// When it happened, by the producer's clock.
    pub time: Timestamp,
    /// The producer, as a CloudEvents `source` (a URI reference).
    pub source: SmolStr,
    /// The record that caused this one.
    pub causation: Option<RecordId>,
    /// Attributes that are kept for readers and not interpreted. Most events have none.
    pub envelope: Option<Box<Envelope>>,
    pub event: Event,
}

impl NewRecord {
    /// The id as its producer wrote it.
    pub fn given_id(&self) -> Cow<'_, str> {
        match self.envelope.as_ref().and_then(|envelope| envelope.id.as_deref()) {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(self.id.to_string()),
        }
    }
}

/// The `CloudEvents` attributes of a fact that pml keeps and does not interpret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The producer's id, if it is not its own identity ([`RecordId::of_event`]).
    pub id: Option<String>,
    pub subject: Option<String>,
    /// W3C trace context: `00-<trace>-<span>-<flags>`.
    pub traceparent: Option<String>,
    pub tracestate: Option<String>,
}

/// A fact with its position in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub seq: Seq,
    /// When it was appended, by the log's clock. The fold does not use it.
    pub recorded_at: Timestamp,
    /// Shared by the log, the folds and the readers.
    pub fact: Arc<NewRecord>,
}

impl Record {
    pub fn event(&self) -> &Event {
        &self.fact.event
    }
}

/// Something that happened, with the data of its kind.
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
    ModelTrained(ModelTrained),
    ModelParameters(ModelParameters),
    ModelPromoted(ModelPromoted),
    ModelRolledBack(ModelRolledBack),
    ToolQuarantined(ToolQuarantined),
    ToolApproved(ToolApproved),
    ToolOutputInferred(ToolOutputInferred),
    StepSpeculated(StepSpeculated),
    CapabilityRenamed(CapabilityRenamed),
    CapabilityMerged(CapabilityMerged),
    CapabilityApproved(CapabilityApproved),
    CapabilityRetired(CapabilityRetired),
}

/// A pattern of the events that only pml writes and that belong to no execution. A new kind is in no pattern, so that every match asks for it.
macro_rules! written_by_pml {
    () => {
        Event::TemplateLoaded(_)
            | Event::EmbeddingComputed(_)
            | Event::LogForked(_)
            | Event::ModelTrained(_)
            | Event::ModelParameters(_)
            | Event::ModelPromoted(_)
            | Event::ModelRolledBack(_)
            | Event::ToolQuarantined(_)
            | Event::ToolApproved(_)
            | Event::ToolOutputInferred(_)
            | Event::CapabilityRenamed(_)
            | Event::CapabilityMerged(_)
            | Event::CapabilityApproved(_)
            | Event::CapabilityRetired(_)
    };
}

/// A pattern of the events that belong to no execution.
macro_rules! beside_executions {
    () => {
        Event::ToolRegistered(_)
            | Event::ToolRemoved(_)
            | Event::CapabilityDeclared(_)
            | Event::FeedbackGiven(_)
            | $crate::event::written_by_pml!()
    };
}
pub(crate) use {beside_executions, written_by_pml};

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
            Self::ModelTrained(_) => Kind::ModelTrained,
            Self::ModelParameters(_) => Kind::ModelParameters,
            Self::ModelPromoted(_) => Kind::ModelPromoted,
            Self::ModelRolledBack(_) => Kind::ModelRolledBack,
            Self::ToolQuarantined(_) => Kind::ToolQuarantined,
            Self::ToolApproved(_) => Kind::ToolApproved,
            Self::ToolOutputInferred(_) => Kind::ToolOutputInferred,
            Self::StepSpeculated(_) => Kind::StepSpeculated,
            Self::CapabilityRenamed(_) => Kind::CapabilityRenamed,
            Self::CapabilityMerged(_) => Kind::CapabilityMerged,
            Self::CapabilityApproved(_) => Kind::CapabilityApproved,
            Self::CapabilityRetired(_) => Kind::CapabilityRetired,
        }
    }

    /// Replaces the event's execution id by `other`, which must be equal, so that both share one allocation.
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
            Self::StepSpeculated(event) => Some(&event.execution),
            beside_executions!() => None,
        }
    }
}

/// Valid JSON text in compact form. The core does not interpret it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// The caller guarantees that `text` is valid and compact.
    pub fn from_valid(text: impl Into<Arc<str>>) -> Self {
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
