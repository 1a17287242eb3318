//! Conversion between records and Arrow batches with the columns of an archive.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder, UInt8Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::types::{TimestampMicrosecondType, UInt8Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field};

use super::columns::{TIME_ZONE, schema};
use crate::core::event::{Envelope, Event, Kind, ModelVersion, NewRecord, Record, codec};
use crate::core::id::{ExecutionId, RecordId, Seq, SessionId, StepId};
use crate::core::time::Timestamp;

/// The columns a record is read back from.
pub(super) const RECORD_COLUMNS: [&str; 12] = [
    "seq",
    "recorded_at",
    "time",
    "id",
    "kind",
    "version",
    "source",
    "causation",
    "subject",
    "traceparent",
    "tracestate",
    "data",
];

/// Limits of a batch, so that no column outgrows its 32-bit offsets.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 64 << 20;

/// Hash of the values that records are read back from, in the form they have in the file, so that a later version of pml computes
/// the same hash from an old file.
#[derive(Clone, Debug, Default)]
pub(super) struct ContentHash(blake3::Hasher);

impl ContentHash {
    fn add(&mut self, seq: u64, times: [i64; 2], version: u8, texts: [Option<&str>; 5]) {
        self.0.update(&seq.to_le_bytes()).update(&times[0].to_le_bytes()).update(&times[1].to_le_bytes()).update(&[version]);
        for text in texts {
            let len = text.map_or(u64::MAX, |text| text.len() as u64);
            self.0.update(&len.to_le_bytes()).update(text.unwrap_or_default().as_bytes());
        }
    }

    /// Adds subject and trace context. A record without them adds nothing, as in files that have no columns for them.
    fn add_envelope(&mut self, texts: [Option<&str>; 3]) {
        for (index, text) in (0_u8..).zip(texts) {
            if let Some(text) = text {
                self.0.update(&[index]).update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
        }
    }

    pub(super) fn hex(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// `BatchBuilder` collects records and turns them into batches.
pub(super) struct BatchBuilder {
    seq: UInt64Builder,
    recorded_at: TimestampMicrosecondBuilder,
    time: TimestampMicrosecondBuilder,
    id: StringBuilder,
    kind: StringBuilder,
    version: UInt8Builder,
    source: StringBuilder,
    causation: StringBuilder,
    subject: StringBuilder,
    traceparent: StringBuilder,
    tracestate: StringBuilder,
    execution: StringBuilder,
    session: StringBuilder,
    agent: StringBuilder,
    parent: StringBuilder,
    intent: StringBuilder,
    step: StringBuilder,
    tool: StringBuilder,
    depends_on: ListBuilder<StringBuilder>,
    success: BooleanBuilder,
    duration_ms: UInt64Builder,
    error_kind: StringBuilder,
    steps: UInt32Builder,
    name: StringBuilder,
    data: StringBuilder,
    /// Hash of all records pushed, those of earlier batches included.
    pub(super) content: ContentHash,
    json: Vec<u8>,
    bytes: usize,
}

impl BatchBuilder {
    pub(super) fn new() -> Self {
        let text = StringBuilder::new;
        let time = || TimestampMicrosecondBuilder::new().with_timezone(TIME_ZONE);
        Self {
            seq: UInt64Builder::new(),
            recorded_at: time(),
            time: time(),
            id: text(),
            kind: text(),
            version: UInt8Builder::new(),
            source: text(),
            causation: text(),
            subject: text(),
            traceparent: text(),
            tracestate: text(),
            execution: text(),
            session: text(),
            agent: text(),
            parent: text(),
            intent: text(),
            step: text(),
            tool: text(),
            depends_on: ListBuilder::new(text()).with_field(Arc::new(Field::new_list_field(DataType::Utf8, false))),
            success: BooleanBuilder::new(),
            duration_ms: UInt64Builder::new(),
            error_kind: text(),
            steps: UInt32Builder::new(),
            name: text(),
            data: text(),
            content: ContentHash::default(),
            json: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, record: &Record) {
        let fact = &*record.fact;
        let (id, kind) = (fact.given_id(), fact.event.kind());
        let causation = fact.causation.map(|id| id.to_string());
        self.json.clear();
        codec::write_json(&fact.event, &mut self.json);
        let data = std::str::from_utf8(&self.json).expect("JSON is text");
        let texts = [Some(&*id), Some(kind.name()), Some(&*fact.source), causation.as_deref(), Some(data)];
        self.content.add(record.seq.0, [record.recorded_at.micros(), fact.time.micros()], kind.version(), texts);
        let envelope = fact.envelope.as_deref();
        let kept = envelope.map_or([None; 3], |envelope| {
            [envelope.subject.as_deref(), envelope.traceparent.as_deref(), envelope.tracestate.as_deref()]
        });
        self.content.add_envelope(kept);
        self.seq.append_value(record.seq.0);
        self.recorded_at.append_value(record.recorded_at.micros());
        self.time.append_value(fact.time.micros());
        self.id.append_value(&id);
        self.kind.append_value(kind.name());
        self.version.append_value(kind.version());
        self.source.append_value(&fact.source);
        self.causation.append_option(causation);
        self.subject.append_option(kept[0]);
        self.traceparent.append_option(kept[1]);
        self.tracestate.append_option(kept[2]);
        self.data.append_value(data);
        self.bytes += data.len();
        self.push_members(Members::from_event(&fact.event));
    }

    fn push_members(&mut self, members: Members<'_>) {
        self.execution.append_option(members.execution);
        self.session.append_option(members.session);
        self.agent.append_option(members.agent);
        self.parent.append_option(members.parent);
        self.intent.append_option(members.intent);
        self.step.append_option(members.step);
        self.tool.append_option(members.tool);
        let depends_on = members.depends_on.map(|steps| steps.iter().map(|step| Some(step.as_str())));
        self.depends_on.append_option(depends_on);
        self.success.append_option(members.success);
        self.duration_ms.append_option(members.duration_ms);
        self.error_kind.append_option(members.error_kind);
        self.steps.append_option(members.steps);
        self.name.append_option(members.name);
    }

    /// Whether the batch is large enough to be written.
    pub(super) fn is_full(&self) -> bool {
        self.seq.values_slice().len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// The records pushed since the last batch, with the columns in the order of [`super::columns::COLUMNS`].
    pub(super) fn finish_batch(&mut self) -> Result<RecordBatch, ArrowError> {
        self.bytes = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.seq.finish()),
            Arc::new(self.recorded_at.finish()),
            Arc::new(self.time.finish()),
            Arc::new(self.id.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.version.finish()),
            Arc::new(self.source.finish()),
            Arc::new(self.causation.finish()),
            Arc::new(self.subject.finish()),
            Arc::new(self.traceparent.finish()),
            Arc::new(self.tracestate.finish()),
            Arc::new(self.execution.finish()),
            Arc::new(self.session.finish()),
            Arc::new(self.agent.finish()),
            Arc::new(self.parent.finish()),
            Arc::new(self.intent.finish()),
            Arc::new(self.step.finish()),
            Arc::new(self.tool.finish()),
            Arc::new(self.depends_on.finish()),
            Arc::new(self.success.finish()),
            Arc::new(self.duration_ms.finish()),
            Arc::new(self.error_kind.finish()),
            Arc::new(self.steps.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.data.finish()),
        ];
        RecordBatch::try_new(schema(), columns)
    }
}

/// The members of an event that have columns of their own.
#[derive(Default)]
struct Members<'a> {
    execution: Option<&'a str>,
    session: Option<&'a str>,
    agent: Option<&'a str>,
    parent: Option<&'a str>,
    intent: Option<&'a str>,
    step: Option<&'a str>,
    tool: Option<Cow<'a, str>>,
    depends_on: Option<&'a [StepId]>,
    success: Option<bool>,
    duration_ms: Option<u64>,
    error_kind: Option<&'a str>,
    steps: Option<u32>,
    name: Option<&'a str>,
}

impl<'a> Members<'a> {
    fn from_event(event: &'a Event) -> Self {
        let mut members = Self { execution: event.execution().map(ExecutionId::as_str), ..Self::default() };
        match event {
            Event::ToolRegistered(event) => {
                members.tool = Some(event.tool.as_str().into());
                members.name = Some(&event.name);
            }
            Event::ToolRemoved(event) => members.tool = Some(event.tool.as_str().into()),
            Event::ToolQuarantined(event) => {
                members.tool = Some(event.listed.tool.as_str().into());
                members.name = Some(&event.listed.name);
            }
            Event::ToolApproved(event) => members.tool = Some(event.tool.as_str().into()),
            Event::ToolOutputInferred(event) => members.tool = Some(event.tool.as_str().into()),
            Event::ExecutionStarted(event) => {
                members.session = event.session.as_ref().map(SessionId::as_str);
                members.agent = event.agent.as_deref();
                members.parent = event.parent.as_ref().map(ExecutionId::as_str);
                members.intent = Some(&event.intent);
            }
            Event::StepStarted(event) => {
                members.step = Some(event.step.as_str());
                members.tool = Some(event.tool.text());
            }
            Event::StepFinished(event) => {
                members.step = Some(event.step.as_str());
                members.tool = Some(event.tool.text());
                members.depends_on = Some(&event.depends_on);
                members.success = Some(event.success);
                members.duration_ms = event.duration_ms;
                members.error_kind = event.error_kind.as_deref();
            }
            Event::StepSpeculated(event) => {
                members.step = Some(event.step.as_str());
                members.tool = Some(event.tool.as_str().into());
                members.success = Some(event.success);
                members.duration_ms = Some(event.duration_ms);
            }
            Event::ExecutionFinished(event) => members.success = Some(event.success),
            Event::CapabilityDeclared(event) => members.name = Some(&event.name),
            Event::CapabilityRenamed(event) => members.name = event.name.as_deref(),
            Event::TemplateLoaded(event) => members.name = Some(&event.name),
            Event::TraceCompleted(event) => {
                members.session = event.session.as_ref().map(SessionId::as_str);
                members.agent = event.agent.as_deref();
                members.intent = Some(&event.intent);
                members.success = Some(event.success);
                members.duration_ms = Some(event.ended.millis_since(event.started));
                members.steps = u32::try_from(event.steps.len()).ok();
            }
            Event::ModelTrained(event) => {
                members.name = Some(event.version.as_str());
                members.success = Some(event.accepted);
            }
            Event::ModelParameters(event) => members.name = Some(event.version.as_str()),
            Event::ModelPromoted(event) => members.name = Some(event.version.as_str()),
            Event::ModelRolledBack(event) => members.name = event.to.as_ref().map(ModelVersion::as_str),
            Event::FeedbackGiven(_)
            | Event::CapabilityMerged(_)
            | Event::CapabilityApproved(_)
            | Event::CapabilityRetired(_)
            | Event::EmbeddingComputed(_)
            | Event::PredictionServed(_)
            | Event::LogForked(_) => {}
        }
        members
    }
}

/// Reads the records of a batch with [`RECORD_COLUMNS`] and adds them to `content`. The error describes the problem.
pub(super) fn records(batch: &RecordBatch, content: &mut ContentHash) -> Result<Vec<Record>, String> {
    let seq = numbers::<UInt64Type>(batch, "seq")?;
    let recorded_at = numbers::<TimestampMicrosecondType>(batch, "recorded_at")?;
    let time = numbers::<TimestampMicrosecondType>(batch, "time")?;
    let version = numbers::<UInt8Type>(batch, "version")?;
    let text = |name: &str| column::<StringArray>(batch, name);
    // Files of earlier versions have no columns for these.
    let kept = ["subject", "traceparent", "tracestate"].map(|name| column::<StringArray>(batch, name).ok());
    let (id, kind, source, causation, data) = (text("id")?, text("kind")?, text("source")?, text("causation")?, text("data")?);
    let mut records = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let caused_by = causation.is_valid(row).then(|| causation.value(row));
        let texts = [Some(id.value(row)), Some(kind.value(row)), Some(source.value(row)), caused_by, Some(data.value(row))];
        content.add(seq.value(row), [recorded_at.value(row), time.value(row)], version.value(row), texts);
        let at = |problem: String| format!("record {}: {problem}", seq.value(row));
        let parse_id = |text: &str| text.parse::<RecordId>().map_err(|error| at(format!("causation: {error}")));
        let [subject, traceparent, tracestate] =
            kept.map(|column| column.filter(|column| column.is_valid(row)).map(|column| column.value(row)));
        content.add_envelope([subject, traceparent, tracestate]);
        let named: Kind = kind.value(row).parse().map_err(|_| at(format!("unknown kind '{}'", kind.value(row))))?;
        if !named.readable_versions().contains(&version.value(row)) {
            return Err(at(format!("{named} version {} is not known to this pml", version.value(row))));
        }
        let event = codec::from_json(named, version.value(row), data.value(row)).map_err(|refusal| at(refusal.to_string()))?;
        let own = |text: Option<&str>| text.map(str::to_owned);
        let identity = RecordId::of_event(source.value(row), id.value(row));
        let envelope = Envelope {
            id: identity.is_hashed().then(|| id.value(row).to_owned()),
            subject: own(subject),
            traceparent: own(traceparent),
            tracestate: own(tracestate),
        };
        let fact = NewRecord {
            id: identity,
            time: Timestamp::from_micros(time.value(row)),
            source: source.value(row).into(),
            causation: caused_by.map(parse_id).transpose()?,
            envelope: (envelope != Envelope::default()).then(|| Box::new(envelope)),
            event,
        };
        let recorded_at = Timestamp::from_micros(recorded_at.value(row));
        records.push(Record { seq: Seq(seq.value(row)), recorded_at, fact: Arc::new(fact) });
    }
    Ok(records)
}

fn numbers<'a, T: arrow_array::ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>, String> {
    column(batch, name)
}

fn column<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Result<&'a A, String> {
    let column = batch.column_by_name(name).ok_or_else(|| format!("has no column '{name}'"))?;
    column.as_any().downcast_ref().ok_or_else(|| format!("column '{name}' is of type {}", column.data_type()))
}
