//! Encodes batches as Parquet files and reads them back.
//!
//! Columns are compressed with zstd(1), the fastest level: higher ones save little and take a multiple of the time. Positions and
//! times are delta-packed, execution ids are stored as differences from the row before; vectors and the random half of record ids
//! are not compressed, because they would not get smaller.

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

/// Rows in a row group: large, because a start reads whole files; the page index finds pages within it.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Rows in a page. Reading one trace decodes one page per column.
const PAGE_ROWS: usize = 4_096;

/// Columns of random values, which are not compressed.
const RANDOM: [&str; 1] = ["id_low"];

/// Encodes a file with the rows of all `batches`, which have the same columns.
pub(super) fn encode(batches: &[RecordBatch]) -> Vec<u8> {
    let schema = batches.first().expect("a table is at least one batch").schema();
    let properties = properties(&schema);
    // Typed values are written to memory, so only a mistake in this file could make these calls fail.
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).expect("every column type has a Parquet form");
    for batch in batches {
        writer.write(batch).expect("writing to memory cannot fail");
    }
    writer.into_inner().expect("writing to memory cannot fail")
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

/// A Parquet file whose footer has been read.
#[derive(Clone, Debug)]
pub(super) struct EncodedTable {
    source: TableSource,
    metadata: ArrowReaderMetadata,
}

#[derive(Clone, Debug)]
enum TableSource {
    Memory(Bytes),
    File(PathBuf),
}

impl EncodedTable {
    pub(super) fn open(bytes: Bytes) -> Result<Self, ParquetError> {
        let metadata = ArrowReaderMetadata::load(&bytes, with_pages())?;
        Ok(Self { source: TableSource::Memory(bytes), metadata })
    }

    /// Opens a file without loading its content, so that a scan needs little memory.
    pub(super) fn open_file(path: PathBuf) -> Result<Self, ParquetError> {
        let metadata = ArrowReaderMetadata::load(&File::open(&path)?, with_pages())?;
        Ok(Self { source: TableSource::File(path), metadata })
    }

    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Reads all rows as one batch: the named columns or, if none are named, all.
    pub(super) fn read(&self, columns: &[&str]) -> Result<RecordBatch, ParquetError> {
        self.batch(columns, None)
    }

    /// Reads all columns of the rows `from..to`.
    pub(super) fn read_range(&self, from: usize, to: usize) -> Result<RecordBatch, ParquetError> {
        self.batch(&[], Some((from, to)))
    }

    /// Reads all rows in batches of `batch_rows`, which reuse memory: at a start, allocating costs more than reading.
    pub(super) fn scan(&self, batch_rows: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        self.reader(&[], None, batch_rows)
    }

    /// Reads a column of lists, `batch_lists` at a time; `visit` gets the number of lists and their values in one slice. Building
    /// Arrow lists would take three times as long.
    pub(super) fn visit_lists(
        &self,
        column: &str,
        batch_lists: usize,
        visit: impl FnMut(usize, &[f32]),
    ) -> Result<(), ParquetError> {
        match &self.source {
            TableSource::Memory(bytes) => visit_lists_in(bytes.clone(), column, batch_lists, visit),
            TableSource::File(path) => visit_lists_in(File::open(path)?, column, batch_lists, visit),
        }
    }

    fn batch(&self, columns: &[&str], range: Option<(usize, usize)>) -> Result<RecordBatch, ParquetError> {
        // One batch can hold all rows: offsets of texts have 64 bits.
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
            TableSource::Memory(bytes) => self.reader_on(bytes.clone(), columns, range, batch_rows),
            // Each reader has its own handle, because readers of a shared one would move each other's offset.
            TableSource::File(path) => self.reader_on(File::open(path)?, columns, range, batch_rows),
        }
    }

    fn reader_on(
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

fn visit_lists_in(
    source: impl ChunkReader + 'static,
    column: &str,
    batch_lists: usize,
    mut visit: impl FnMut(usize, &[f32]),
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
            let (lists, ..) = leaf.read_records(batch_lists, Some(&mut defined), Some(&mut repeated), &mut numbers)?;
            if lists == 0 {
                break;
            }
            visit(lists, &numbers);
        }
    }
    Ok(())
}

/// Reads the page index too, so that single rows can be read.
fn with_pages() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional)
}
