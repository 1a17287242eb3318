//! The columns of the events files: one list, from which the schema, the encodings and `docs/events-parquet.md` come.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// Fast and small enough; higher levels cost more than they save.
const ZSTD_LEVEL: i32 = 1;

pub(super) const TIME_ZONE: &str = "UTC";

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    U8,
    U32,
    U64,
    Moment,
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
            Self::Moment => DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into())),
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
            Self::Moment => "timestamp[us, UTC]",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Texts => "list<string>",
        }
    }
}

/// How a column is laid out in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// Few different values: numbers of a dictionary.
    Dictionary,
    /// Numbers that grow: differences.
    Delta,
    /// Texts that begin alike: what differs from the one before.
    DeltaText,
    /// All different.
    Plain,
}

pub struct Column {
    pub name: &'static str,
    of: Type,
    packing: Packing,
    /// Empty where the event has no such member.
    optional: bool,
    meaning: &'static str,
    example: &'static str,
}

const fn always(name: &'static str, of: Type, packing: Packing, meaning: &'static str, example: &'static str) -> Column {
    Column { name, of, packing, optional: false, meaning, example }
}

const fn maybe(name: &'static str, of: Type, packing: Packing, meaning: &'static str, example: &'static str) -> Column {
    Column { name, of, packing, optional: true, meaning, example }
}

/// In the order of the file. The first eight and `data` are the record itself; the others repeat members of `data`.
pub const COLUMNS: [Column; 22] = [
    always("seq", Type::U64, Packing::Delta, "Position in the log; strictly increasing, holes are legal", "118"),
    always("recorded_at", Type::Moment, Packing::Delta, "When the log took it, by the log's clock", "2026-01-31 12:01:40+00"),
    always("time", Type::Moment, Packing::Delta, "When it happened, by the producer's clock", "2026-01-31 12:01:39.25+00"),
    always("id", Type::Text, Packing::DeltaText, "ULID or UUIDv7 given by the producer", "01KG9VXJ0000000000000000AB"),
    always("kind", Type::Text, Packing::Dictionary, "What happened", "step.finished"),
    always("version", Type::U8, Packing::Dictionary, "Version of the kind's schema (`schemas/`)", "1"),
    always("source", Type::Text, Packing::Dictionary, "Who says so, a URI reference", "urn:agent:7"),
    maybe("causation", Type::Text, Packing::Plain, "Id of the record that caused this one", "01KG9VXH0000000000000000AA"),
    maybe("execution", Type::Text, Packing::Dictionary, "Execution it belongs to", "e-42"),
    maybe("session", Type::Text, Packing::Dictionary, "Session, on `execution.started` and `trace.completed`", "s-7"),
    maybe("agent", Type::Text, Packing::Dictionary, "Agent, on the same kinds", "planner"),
    maybe("parent", Type::Text, Packing::Dictionary, "Execution that started this one", "e-41"),
    maybe("intent", Type::Text, Packing::Dictionary, "What is wanted, in plain words", "copy a file"),
    maybe("step", Type::Text, Packing::Dictionary, "Step of the execution", "s1"),
    maybe("tool", Type::Text, Packing::Dictionary, "Tool (`server:name`) or `capability:<id>`", "fs:read"),
    maybe("depends_on", Type::Texts, Packing::Dictionary, "Steps whose output a `step.finished` used", "[s1]"),
    maybe("success", Type::Bool, Packing::Plain, "Whether the step, execution or trace succeeded", "true"),
    maybe("duration_ms", Type::U64, Packing::Delta, "How long the step took; for a trace, from start to end", "350"),
    maybe("error_kind", Type::Text, Packing::Dictionary, "A short word for a step's failure", "timeout"),
    maybe("steps", Type::U32, Packing::Dictionary, "How many steps a trace has", "3"),
    maybe("name", Type::Text, Packing::Dictionary, "What people call the tool, capability or template", "Read a file"),
    always(
        "data",
        Type::Text,
        Packing::Plain,
        "All of the event's data as JSON; absent members are null",
        "{\"execution\":\"e-42\",...}",
    ),
];

pub fn schema() -> SchemaRef {
    let fields = COLUMNS.iter().map(|column| Field::new(column.name, column.of.arrow(), column.optional));
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

/// The table of `docs/events-parquet.md`.
pub fn table() -> String {
    let mut text = String::from("| column | type | null | meaning | example |\n|---|---|---|---|---|\n");
    for column in &COLUMNS {
        let null = if column.optional { "yes" } else { "no" };
        let line = format!("| `{}` | {} | {null} | {} | `{}` |", column.name, column.of.name(), column.meaning, column.example);
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
