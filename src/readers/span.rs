//! Spans: what every tracing format is read into, before the spans of a trace become a run (`traces`).

use std::collections::BTreeMap;
use std::sync::Arc;

use pml_core::id::ToolId;
use pml_core::time::Timestamp;

use crate::conversation::Output;
use crate::format::Format;
use crate::reader::{PieceReader, Reading};
use crate::run::Options;
use crate::traces::{TraceLimits, Traces};
use crate::{convention, jaeger, langfuse, langsmith, otlp, rows};

/// Longest value of an attribute that is kept, in bytes.
pub(crate) const VALUE_LEN_MAX: usize = 64 << 10;
/// Most attributes of a span that are kept.
const ATTRIBUTES_MAX: usize = 256;

/// What a span is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The call of a tool.
    Tool(ToolId),
    /// A run of an agent.
    Agent,
    /// A call of a model.
    Model,
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    Unset,
    Ok,
    Error,
}

/// A span that has been understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub status: Status,
    pub error: Option<String>,
    /// The class of the failure, where the span names one.
    pub error_type: Option<String>,
    pub role: Role,
    /// What a user said, in the input of the span.
    pub words: Option<String>,
    /// The arguments of a tool as valid JSON.
    pub arguments: Option<String>,
    pub result: Option<String>,
    pub session: Option<String>,
    pub agent: Option<String>,
}

impl Span {
    /// The bytes that its texts take.
    pub fn held_bytes(&self) -> usize {
        let Self { words, arguments, result, error, error_type, session, agent, parent, .. } = self;
        let optional = [words, arguments, result, error, error_type, session, agent, parent];
        300 + self.name.len() + optional.iter().map(|text| text.as_ref().map_or(0, String::len)).sum::<usize>()
    }
}

/// The attributes of a span or a resource, as texts: strings as they are, other values as JSON. Only those that tell something about
/// agents, models and tools are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes(BTreeMap<String, String>);

impl Attributes {
    pub(crate) fn insert(&mut self, name: &str, mut value: String) {
        if convention::is_telling(name) && self.0.len() < ATTRIBUTES_MAX {
            value.truncate(value.floor_char_boundary(VALUE_LEN_MAX));
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Adds an event of the span: its attributes, and the words of a user that stand in an event of their own.
    pub(crate) fn add_event(&mut self, event: &str, attributes: Vec<(String, String)>) {
        for (name, value) in attributes {
            match (event, name.as_str()) {
                ("gen_ai.user.message", "content") => self.insert(event, value),
                _ => self.insert(&name, value),
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The first of several names that is there.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A span with its attributes, not yet understood.
#[derive(Debug, Default)]
pub(crate) struct RawSpan {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) status: Status,
    pub(crate) message: Option<String>,
    pub(crate) attributes: Attributes,
    pub(crate) resource: Arc<Attributes>,
}

/// Reads files of spans. Time is counted in pieces: the spans of a trace stand near each other.
pub(crate) struct SpanReader {
    format: Format,
    options: Arc<Options>,
    traces: Traces,
    pieces: u64,
}

/// A trace whose root has been read is closed after this many further pieces, one without a root only when room is needed.
const LINGER_PIECES: u64 = 20_000;

impl SpanReader {
    pub(crate) fn new(format: Format, options: Arc<Options>) -> Self {
        let limits = TraceLimits { linger: LINGER_PIECES, timeout: u64::MAX, ..TraceLimits::default() };
        Self { format, traces: Traces::new(Arc::clone(&options), limits), options, pieces: 0 }
    }
}

impl PieceReader for SpanReader {
    fn read(&mut self, piece: &[u8], out: &mut Output) -> Reading {
        self.pieces += 1;
        let (traces, now) = (&mut self.traces, self.pieces);
        let mut each = |span: Span| traces.add(span, now);
        let redactor = &self.options.redactor;
        let reading = match self.format {
            Format::Otlp => match otlp::decode_json(piece, redactor, &mut each) {
                Ok(decoded) if decoded.accepted > 0 => Reading::Used,
                Ok(decoded) if decoded.rejected == 0 => Reading::Ignored,
                _ => Reading::Damaged,
            },
            Format::Jaeger => jaeger::read(piece, redactor, &mut each),
            Format::Langfuse => langfuse::read(piece, redactor, &mut each),
            Format::Langsmith => langsmith::read(piece, redactor, &mut each),
            _ => rows::read(piece, redactor, &mut each),
        };
        self.traces.close_due(now, out);
        reading
    }

    fn finish(&mut self, out: &mut Output) {
        self.traces.close_all(out);
    }
}
