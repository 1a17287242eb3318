//! The columns of an archive: one list that defines the schema, the encodings and the table in `docs/events-parquet.md`.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// Higher levels cost more time than they save space.
const ZSTD_LEVEL: i32 = 1;

pub(super) const TIME_ZONE: &str = "UTC";

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    U8,
    U32,
    U64,
    Time,
    Bool,
    Text,
    Texts,
}

impl Type {
    fn arrow(self) -> DataType {
        match self {
            Self::U8 => DataType::UInt8,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into())),
            Self::Bool => DataType::Boolean,
            Self::Text => DataType::Utf8,
            Self::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, false))),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::Time => "timestamp[us, UTC]",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Texts => "list<string>",
        }
    }
}

/// The Parquet encoding of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// Few different values.
    Dictionary,
    /// Increasing numbers, stored as differences.
    Delta,
    /// Texts with a common prefix, stored as differences from the text before.
    DeltaText,
    /// Values that rarely repeat.
    Plain,
}

/// One column of an archive.
pub struct Column {
    pub name: &'static str,
    data_type: Type,
    packing: Packing,
    /// Null where the event has no such member.
    optional: bool,
    meaning: &'static str,
    example: &'static str,
}

const fn required(
    name: &'static str,
    data_type: Type,
    packing: Packing,
    meaning: &'static str,
    example: &'static str,
) -> Column {
    Column { name, data_type, packing, optional: false, meaning, example }
}

const fn nullable(
    name: &'static str,
    data_type: Type,
    packing: Packing,
    meaning: &'static str,
    example: &'static str,
) -> Column {
    Column { optional: true, ..required(name, data_type, packing, meaning, example) }
}

/// The columns in the order of the file. The first eleven and `data` are the record itself; the others repeat members of `data`.
pub const COLUMNS: [Column; 25] = [
    required("seq", Type::U64, Packing::Delta, "Position in the log; strictly increasing, holes are legal", "118"),
    required("recorded_at", Type::Time, Packing::Delta, "When the log took it, by the log's clock", "2026-01-31 12:01:40+00"),
    required("time", Type::Time, Packing::Delta, "When it happened, by the producer's clock", "2026-01-31 12:01:39.25+00"),
    required(
        "id",
        Type::Text,
        Packing::DeltaText,
        "Id given by the producer; unique by itself if a ULID or UUIDv7, else with `source`",
        "01KG9VXJ0000000000000000AB",
    ),
    required("kind", Type::Text, Packing::Dictionary, "What happened", "step.finished"),
    required("version", Type::U8, Packing::Dictionary, "Version of the kind's schema (`schemas/`)", "1"),
    required("source", Type::Text, Packing::Dictionary, "Who says so, a URI reference", "urn:agent:7"),
    nullable("causation", Type::Text, Packing::Plain, "Id of the record that caused this one", "01KG9VXH0000000000000000AA"),
    nullable("subject", Type::Text, Packing::Dictionary, "CloudEvents `subject`", "order 12"),
    nullable("traceparent", Type::Text, Packing::Plain, "W3C trace context", "00-4bf92f35...-00f067aa...-01"),
    nullable("tracestate", Type::Text, Packing::Dictionary, "The rest of the trace context", "vendor=1"),
    nullable("execution", Type::Text, Packing::Dictionary, "Execution it belongs to", "e-42"),
    nullable("session", Type::Text, Packing::Dictionary, "Session, on `execution.started` and `trace.completed`", "s-7"),
    nullable("agent", Type::Text, Packing::Dictionary, "Agent, on the same kinds", "planner"),
    nullable("parent", Type::Text, Packing::Dictionary, "Execution that started this one", "e-41"),
    nullable("intent", Type::Text, Packing::Dictionary, "What is wanted, in plain words", "copy a file"),
    nullable("step", Type::Text, Packing::Dictionary, "Step of the execution", "s1"),
    nullable("tool", Type::Text, Packing::Dictionary, "Tool (`server:name`) or `capability:<id>`", "fs:read"),
    nullable("depends_on", Type::Texts, Packing::Dictionary, "Steps whose output a `step.finished` used", "[s1]"),
    nullable("success", Type::Bool, Packing::Plain, "Whether the step, execution or trace succeeded", "true"),
    nullable("duration_ms", Type::U64, Packing::Delta, "How long the step took; for a trace, from start to end", "350"),
    nullable("error_kind", Type::Text, Packing::Dictionary, "A short word for a step's failure", "timeout"),
    nullable("steps", Type::U32, Packing::Dictionary, "How many steps a trace has", "3"),
    nullable("name", Type::Text, Packing::Dictionary, "What people call the tool, capability or template", "Read a file"),
    required(
        "data",
        Type::Text,
        Packing::Plain,
        "All of the event's data as JSON; absent members are null",
        "{\"execution\":\"e-42\",...}",
    ),
];

/// The Arrow schema of the files.
pub fn schema() -> SchemaRef {
    let fields = COLUMNS.iter().map(|column| Field::new(column.name, column.data_type.arrow(), column.optional));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub(super) fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a level that zstd has");
    let start = WriterProperties::builder()
        .set_created_by(format!("pml {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(level));
    COLUMNS.iter().fold(start, pack).build()
}

fn pack(properties: WriterPropertiesBuilder, column: &Column) -> WriterPropertiesBuilder {
    let path = ColumnPath::from(column.name);
    let encoding = match column.packing {
        Packing::Dictionary => return properties,
        Packing::Plain => Encoding::PLAIN,
        Packing::Delta => Encoding::DELTA_BINARY_PACKED,
        Packing::DeltaText => Encoding::DELTA_BYTE_ARRAY,
    };
    properties.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding)
}

/// The table of columns in `docs/events-parquet.md`, as Markdown.
pub fn table() -> String {
    let mut text = String::from("| column | type | null | meaning | example |\n|---|---|---|---|---|\n");
    for column in &COLUMNS {
        let null = if column.optional { "yes" } else { "no" };
        let Column { name, data_type, meaning, example, .. } = column;
        let line = format!("| `{name}` | {} | {null} | {meaning} | `{example}` |", data_type.name());
        writeln!(text, "{line}").expect("writing to memory cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_schema() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/events-parquet.md");
        let document = std::fs::read_to_string(path).unwrap();
        assert!(document.contains(&table()), "docs/events-parquet.md must hold this table:\n{}", table());
    }
}
