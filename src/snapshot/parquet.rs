//! Batches to Parquet bytes and back.
//!
//! Everything is compressed with zstd(1), the fastest level: higher ones save little and take a multiple of the time. Positions and
//! times are delta-packed, execution ids share prefixes with the row before; vectors and the random half of record ids are left as
//! they are, since nothing makes them smaller.

use std::fs::File;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::ColumnPath;

/// Rows in a row group: large, because starts read whole files; pages within it are found by the page index.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Rows in a page: who looks for one trace decodes one page per column.
const PAGE_ROWS: usize = 4_096;

/// Columns that compress to nothing useful.
const RANDOM: [&str; 1] = ["id_low"];

/// One file with the rows of all `batches`, which have the same columns.
pub(super) fn encode(batches: &[RecordBatch]) -> Vec<u8> {
    let schema = batches.first().expect("a table is at least one batch").schema();
    let properties = properties(&schema);
    // Writing to memory what was just built from typed values: there is nothing that could fail but a mistake in this file.
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).expect("every column type has a Parquet form");
    for batch in batches {
        writer.write(batch).expect("memory takes what is written");
    }
    writer.into_inner().expect("memory takes what is written")
}

fn properties(schema: &Schema) -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).expect("zstd has a level 1"));
    let mut properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for field in schema.fields() {
        properties = packed(properties, field.name(), field.data_type());
    }
    properties.build()
}

fn packed(properties: WriterPropertiesBuilder, name: &str, kind: &DataType) -> WriterPropertiesBuilder {
    let path = ColumnPath::new(vec![name.to_owned()]);
    let plain = |properties: WriterPropertiesBuilder, path: ColumnPath| properties.set_column_dictionary_enabled(path, false);
    match kind {
        _ if RANDOM.contains(&name) => plain(properties, path.clone()).set_column_compression(path, Compression::UNCOMPRESSED),
        DataType::UInt64 | DataType::Timestamp(..) => {
            plain(properties, path.clone()).set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
        }
        DataType::LargeUtf8 if name == "execution" => {
            plain(properties, path.clone()).set_column_encoding(path, Encoding::DELTA_BYTE_ARRAY)
        }
        // Values of vectors and hashes hardly ever repeat.
        DataType::FixedSizeList(item, _) => {
            let values = ColumnPath::new(vec![name.to_owned(), "list".to_owned(), item.name().clone()]);
            plain(properties, values.clone()).set_column_compression(values, Compression::UNCOMPRESSED)
        }
        DataType::FixedSizeBinary(_) | DataType::LargeBinary => plain(properties, path),
        _ => properties,
    }
}

/// A file whose footer has been read.
#[derive(Clone, Debug)]
pub(super) struct Encoded {
    source: Source,
    metadata: ArrowReaderMetadata,
}

#[derive(Clone, Debug)]
enum Source {
    Memory(Bytes),
    File(PathBuf),
}

impl Encoded {
    pub(super) fn open(bytes: Bytes) -> Result<Self, ParquetError> {
        let metadata = ArrowReaderMetadata::load(&bytes, with_pages())?;
        Ok(Self { source: Source::Memory(bytes), metadata })
    }

    /// Leaves the content where it is: whoever scans it needs little memory.
    pub(super) fn open_file(path: PathBuf) -> Result<Self, ParquetError> {
        let metadata = ArrowReaderMetadata::load(&File::open(&path)?, with_pages())?;
        Ok(Self { source: Source::File(path), metadata })
    }

    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// All rows as one batch, some of the columns or, if none are named, all.
    pub(super) fn read(&self, columns: &[&str]) -> Result<RecordBatch, ParquetError> {
        self.batch(columns, None)
    }

    /// The rows `from..to`, all columns.
    pub(super) fn read_range(&self, from: usize, to: usize) -> Result<RecordBatch, ParquetError> {
        self.batch(&[], Some((from, to)))
    }

    /// All rows, some at a time: what was read before makes room for what comes next, and fresh memory costs a start more than
    /// reading does.
    pub(super) fn scan(&self, at_once: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        self.reader(&[], None, at_once)
    }

    /// The numbers of a column of lists, some lists at a time: `take` gets how many, and their numbers. Arrays of lists would take three
    /// times as long to build.
    pub(super) fn lists(&self, column: &str, at_once: usize, take: impl FnMut(usize, &[f32])) -> Result<(), ParquetError> {
        match &self.source {
            Source::Memory(bytes) => lists_of(bytes.clone(), column, at_once, take),
            Source::File(path) => lists_of(File::open(path)?, column, at_once, take),
        }
    }

    fn batch(&self, columns: &[&str], range: Option<(usize, usize)>) -> Result<RecordBatch, ParquetError> {
        // One batch holds all: offsets of long texts have 64 bits.
        let mut reader = self.reader(columns, range, self.rows().max(1))?;
        match reader.next() {
            Some(batch) => Ok(batch?),
            None => Ok(RecordBatch::new_empty(arrow_array::RecordBatchReader::schema(&reader))),
        }
    }

    fn reader(
        &self,
        columns: &[&str],
        range: Option<(usize, usize)>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        match &self.source {
            Source::Memory(bytes) => self.reader_of(bytes.clone(), columns, range, batch_rows),
            // A handle of its own: readers of the same one would move each other's place.
            Source::File(path) => self.reader_of(File::open(path)?, columns, range, batch_rows),
        }
    }

    fn reader_of(
        &self,
        source: impl ChunkReader + 'static,
        columns: &[&str],
        range: Option<(usize, usize)>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, self.metadata.clone());
        if !columns.is_empty() {
            let roots = columns.iter().filter_map(|name| builder.schema().index_of(name).ok()).collect::<Vec<_>>();
            let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
            builder = builder.with_projection(mask);
        }
        if let Some((from, to)) = range {
            builder = builder.with_row_selection(RowSelection::from_consecutive_ranges(std::iter::once(from..to), self.rows()));
        }
        builder.with_batch_size(batch_rows).build()
    }
}

fn lists_of(
    source: impl ChunkReader + 'static,
    column: &str,
    at_once: usize,
    mut take: impl FnMut(usize, &[f32]),
) -> Result<(), ParquetError> {
    let wrong = |problem: &str| ParquetError::General(format!("the column {column} {problem}"));
    let reader = SerializedFileReader::new(source)?;
    let (mut numbers, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let begins = |path: &ColumnPath| path.parts().first().is_some_and(|part| part == column);
        let leaf = group.metadata().columns().iter().position(|leaf| begins(leaf.column_path()));
        let leaf = group.get_column_reader(leaf.ok_or_else(|| wrong("is missing"))?)?;
        let ColumnReader::FloatColumnReader(mut leaf) = leaf else { return Err(wrong("does not hold numbers")) };
        loop {
            numbers.clear();
            defined.clear();
            repeated.clear();
            let (lists, ..) = leaf.read_records(at_once, Some(&mut defined), Some(&mut repeated), &mut numbers)?;
            if lists == 0 {
                break;
            }
            take(lists, &numbers);
        }
    }
    Ok(())
}

/// Where the pages are, so that few rows of many can be read.
fn with_pages() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional)
}
