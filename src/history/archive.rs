//! An archive is an append-only directory of Parquet files with the events of a log.
//!
//! ```text
//! DIR/day=2026-01-31/events-00000000000000000001-00000000000000262144.parquet     first and last position in the name
//! DIR/day=2026-01-31/events-00000000000000262145-00000000000000262150.parquet
//! ```
//!
//! A file holds consecutive records of one day (UTC, of `recorded_at`). It is written under a hidden name, synced, renamed, and
//! never changed again: a killed run leaves complete files and one hidden part, which the next run removes. Each footer holds the
//! digest of the file's records and that of the file before, so that a damaged, foreign or missing file is noticed.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData};

use super::columns::{properties, schema};
use super::rows::{BatchBuilder, ContentHash, RECORD_COLUMNS, records};
use crate::core::event::Record;
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::private;

/// Rows of one file, at most.
const FILE_ROWS_MAX: u64 = 1 << 18;
const READ_ROWS: usize = 4_096;
/// Name of the file being written; a pattern such as `*/*.parquet` does not match it.
const PART: &str = ".events.part";
const LOCK: &str = ".lock";

const FORMAT_KEY: &str = "pml.events.format";
const FORMAT: &str = "1";
const CONTENT_KEY: &str = "pml.events.content";
const PREVIOUS_KEY: &str = "pml.events.previous";
const LAST_ID_KEY: &str = "pml.events.last_id";

/// Why an archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot use {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use {path}")]
    Parquet {
        path: PathBuf,
        #[source]
        source: ParquetError,
    },
    #[error("{path}: {problem}")]
    Damaged { path: PathBuf, problem: String },
    #[error("another pml is exporting into {0}")]
    Busy(PathBuf),
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> ArchiveError {
    move |source| ArchiveError::Io { path: path.to_owned(), source }
}

fn parquet(path: &Path) -> impl Fn(ParquetError) -> ArchiveError {
    move |source| ArchiveError::Parquet { path: path.to_owned(), source }
}

/// What the name and the footer of one file say.
#[derive(Clone, Debug)]
struct EventFile {
    path: PathBuf,
    first: Seq,
    last: Seq,
    content: String,
    previous: String,
    last_id: RecordId,
}

impl EventFile {
    fn read(path: PathBuf, first: Seq, last: Seq) -> Result<Self, ArchiveError> {
        let file = File::open(&path).map_err(io(&path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet(&path))?;
        let damaged = |problem: String| ArchiveError::Damaged { path: path.clone(), problem };
        let member = |key: &str| {
            let found = metadata(reader.metadata(), key);
            found.ok_or_else(|| damaged(format!("its footer has no {key}; it was not written by `pml log export`")))
        };
        let format = member(FORMAT_KEY)?;
        if format != FORMAT {
            return Err(damaged(format!("is of format {format}, this pml reads {FORMAT}")));
        }
        let last_id = member(LAST_ID_KEY)?.parse().map_err(|error| damaged(format!("{LAST_ID_KEY}: {error}")))?;
        let (content, previous) = (member(CONTENT_KEY)?, member(PREVIOUS_KEY)?);
        Ok(Self { path, first, last, content, previous, last_id })
    }

    fn open(&self) -> Result<ParquetRecordBatchReader, ArchiveError> {
        let file = File::open(&self.path).map_err(io(&self.path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet(&self.path))?;
        // The reader panics on these.
        let is_negative = |column: &ColumnChunkMetaData| {
            let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            begin < 0 || column.compressed_size() < 0
        };
        if reader.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns).any(is_negative) {
            return Err(self.damaged("its footer places a column before the file"));
        }
        let columns = ProjectionMask::columns(reader.parquet_schema(), RECORD_COLUMNS);
        reader.with_projection(columns).with_batch_size(READ_ROWS).build().map_err(parquet(&self.path))
    }

    fn damaged(&self, problem: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { path: self.path.clone(), problem: problem.into() }
    }
}

fn metadata(metadata: &ParquetMetaData, key: &str) -> Option<String> {
    let members = metadata.file_metadata().key_value_metadata()?;
    members.iter().find(|member| member.key == key)?.value.clone()
}

/// The files of an archive, checked against each other.
pub struct Archive {
    files: Vec<EventFile>,
}

impl Archive {
    /// Reads the names and footers of the files in `directory`.
    pub fn open(directory: &Path) -> Result<Self, ArchiveError> {
        let mut files = Vec::new();
        for day in entries(directory)?.into_iter().filter(|path| name(path).starts_with("day=")) {
            for path in entries(&day)? {
                if let Some((first, last)) = range(&name(&path)) {
                    files.push(EventFile::read(path, first, last)?);
                }
            }
        }
        files.sort_by_key(|file| file.first);
        let before = std::iter::once(None).chain(files.iter().map(Some));
        for (before, file) in before.zip(&files) {
            let expected = before.map_or("", |before| before.content.as_str());
            let overlaps = before.is_some_and(|before| before.last >= file.first);
            if overlaps || file.previous != expected {
                let problem = "does not follow the file before it; a file is missing, or one of another log came in".to_owned();
                return Err(ArchiveError::Damaged { path: file.path.clone(), problem });
            }
        }
        Ok(Self { files })
    }

    /// Position and id of the last record.
    pub fn last(&self) -> Option<(Seq, RecordId)> {
        self.files.last().map(|file| (file.last, file.last_id))
    }

    /// Reads the records after `after` in order, some thousands at a time. Blocks.
    ///
    /// Damage may be found only at the end of a file: callers must not use the records before the iterator has ended without an
    /// error.
    pub fn read(&self, after: Seq) -> impl Iterator<Item = Result<Vec<Record>, ArchiveError>> {
        let files = self.files.iter().filter(move |file| file.last > after);
        files.flat_map(move |file| FileRecords::new(file, after))
    }
}

/// Iterator over the records of one file, which checks them. It ends after the first error.
struct FileRecords<'a> {
    file: &'a EventFile,
    /// `None` at the end of the file and after an error.
    reader: Option<Result<ParquetRecordBatchReader, ArchiveError>>,
    content: ContentHash,
    position: Seq,
    after: Seq,
}

impl<'a> FileRecords<'a> {
    fn new(file: &'a EventFile, after: Seq) -> Self {
        let position = Seq(file.first.0 - 1);
        Self { file, reader: Some(file.open()), content: ContentHash::default(), position, after }
    }

    fn next_batch(&mut self, reader: &mut ParquetRecordBatchReader) -> Result<Option<Vec<Record>>, ArchiveError> {
        let damaged = |problem: String| self.file.damaged(problem);
        let Some(batch) = reader.next() else {
            let whole = self.content.hex() == self.file.content && self.position == self.file.last;
            return if whole { Ok(None) } else { Err(damaged("its records are not those that were written".to_owned())) };
        };
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        let mut records = records(&batch, &mut self.content).map_err(damaged)?;
        for record in &records {
            if record.seq <= self.position {
                return Err(self.file.damaged(format!("record {} stands after {}", record.seq, self.position)));
            }
            self.position = record.seq;
        }
        records.retain(|record| record.seq > self.after);
        Ok(Some(records))
    }
}

impl Iterator for FileRecords<'_> {
    type Item = Result<Vec<Record>, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = match self.reader.take()? {
            Ok(reader) => reader,
            Err(error) => return Some(Err(error)),
        };
        let batch = self.next_batch(&mut reader).transpose()?;
        if batch.is_ok() {
            self.reader = Some(Ok(reader));
        }
        Some(batch)
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let wrong = io(directory);
    fs::read_dir(directory).map_err(&wrong)?.map(|entry| entry.map(|entry| entry.path()).map_err(&wrong)).collect()
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn range(name: &str) -> Option<(Seq, Seq)> {
    let (first, last) = name.strip_prefix("events-")?.strip_suffix(".parquet")?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some((Seq(first), Seq(last)))
}

fn day(recorded_at: Timestamp) -> String {
    let text = recorded_at.to_string();
    text.split('T').next().unwrap_or(&text).to_owned()
}

/// How much a run added to an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveCounts {
    pub files: usize,
    pub records: u64,
    pub bytes: u64,
}

/// `ArchiveWriter` appends records to an archive. There can be one per directory at a time; a file that is not finished is not
/// visible.
pub struct ArchiveWriter {
    directory: PathBuf,
    last: Option<(Seq, RecordId)>,
    /// Content digest of the file before.
    previous: String,
    open: Option<OpenFile>,
    written: ArchiveCounts,
    /// Held as long as the writer exists.
    _lock: File,
}

struct OpenFile {
    writer: ArrowWriter<File>,
    rows: BatchBuilder,
    day: String,
    first: Seq,
    last: (Seq, RecordId),
    len: u64,
}

impl ArchiveWriter {
    /// Opens an archive to append to it, or creates it. A second writer of the directory is refused.
    pub fn open(directory: &Path) -> Result<Self, ArchiveError> {
        private::create_directory(directory).map_err(io(directory))?;
        let lock = directory.join(LOCK);
        let lock_file = private::create_file(&lock).map_err(io(&lock))?;
        match lock_file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ArchiveError::Busy(directory.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(&lock)(error)),
        }
        let archive = Archive::open(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            last: archive.last(),
            previous: archive.files.last().map(|file| file.content.clone()).unwrap_or_default(),
            open: None,
            written: ArchiveCounts::default(),
            _lock: lock_file,
        })
    }

    /// The last record of the archive. The next one pushed must have a higher position.
    pub fn last(&self) -> Option<(Seq, RecordId)> {
        self.last
    }

    /// Adds a record to the open file; a new day or a full file starts the next one.
    pub fn push(&mut self, record: &Record) -> Result<(), ArchiveError> {
        let today = day(record.recorded_at);
        if self.open.as_ref().is_some_and(|open| open.len == FILE_ROWS_MAX || open.day != today) {
            self.close()?;
        }
        if self.open.is_none() {
            let path = self.directory.join(PART);
            // Overwrites the part that a killed run left.
            let file = private::create_file(&path).map_err(io(&path))?;
            let writer = ArrowWriter::try_new(file, schema(), Some(properties())).map_err(parquet(&path))?;
            let last = (record.seq, record.fact.id);
            self.open = Some(OpenFile { writer, rows: BatchBuilder::new(), day: today, first: record.seq, last, len: 0 });
        }
        let open = self.open.as_mut().expect("just opened");
        open.rows.push(record);
        open.last = (record.seq, record.fact.id);
        open.len += 1;
        if open.rows.is_full() { open.write().map_err(parquet(&self.directory)) } else { Ok(()) }
    }

    /// Finishes the open file and makes it visible.
    fn close(&mut self) -> Result<(), ArchiveError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let part = self.directory.join(PART);
        open.write().map_err(parquet(&part))?;
        let content = open.rows.content.hex();
        let footer = [
            (FORMAT_KEY, FORMAT.to_owned()),
            (CONTENT_KEY, content.clone()),
            (PREVIOUS_KEY, self.previous.clone()),
            (LAST_ID_KEY, open.last.1.to_string()),
        ];
        for (key, value) in footer {
            open.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let file = open.writer.into_inner().map_err(parquet(&part))?;
        file.sync_all().map_err(io(&part))?;
        let bytes = file.metadata().map_err(io(&part))?.len();
        let folder = self.directory.join(format!("day={}", open.day));
        private::create_directory(&folder).map_err(io(&folder))?;
        let target = folder.join(format!("events-{:020}-{:020}.parquet", open.first.0, open.last.0.0));
        fs::rename(&part, &target).map_err(io(&target))?;
        for directory in [&folder, &self.directory] {
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(io(directory))?;
        }
        self.previous = content;
        self.last = Some(open.last);
        let ArchiveCounts { files, records, bytes: before } = self.written;
        self.written = ArchiveCounts { files: files + 1, records: records + open.len, bytes: before + bytes };
        Ok(())
    }

    /// Finishes the open file and returns what was added.
    pub fn finish(mut self) -> Result<ArchiveCounts, ArchiveError> {
        self.close()?;
        let part = self.directory.join(PART);
        if part.exists() {
            fs::remove_file(&part).map_err(io(&part))?;
        }
        Ok(self.written)
    }
}

impl OpenFile {
    fn write(&mut self) -> Result<(), ParquetError> {
        let batch = self.rows.finish_batch()?;
        self.writer.write(&batch)
    }
}
