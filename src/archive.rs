//! An archive is an append-only set of Parquet files with the events of a log, in a directory or an object store (`store`).
//!
//! ```text
//! DIR/day=2026-01-31/events-00000000000000000001-00000000000000262144.parquet     first and last position in the name
//! DIR/day=2026-01-31/events-00000000000000262145-00000000000000262150.parquet
//! ```
//!
//! A file holds consecutive records of one day (UTC, of `recorded_at`). It is written under a hidden name, synced, renamed or sent to the
//! object store, and never changed again: a killed run leaves complete files and one hidden part, which the next run removes. Each footer
//! holds the digest of the file's records and that of the file before, so that a damaged, foreign or missing file is noticed.
//!
//! `pml log export` writes one; tiering (`tiering`) moves the oldest records of a log to one, which is then read as a part of the log
//! (`older`).

pub mod columns;
mod older;
mod rows;
mod store;
mod tiering;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::core::event::Record;
use crate::core::id::{RecordId, Seq};
use crate::core::invariant::positions_increase;
use crate::files::guarded;
pub use older::ArchivedRecords;
use rows::{ContentHash, RECORD_COLUMNS, records};
pub use store::ArchiveStore;
pub use tiering::{HotLimits, TieredRecords, TieringError, tier, tier_in_pages};
pub use writer::{ArchiveCounts, ArchiveWriter};

const READ_ROWS: usize = 4_096;

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
    #[error("cannot use {place}")]
    Objects {
        place: String,
        #[source]
        source: object_store::Error,
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
    store: ArchiveStore,
    /// The folder of its day and its own name.
    name: String,
    first: Seq,
    last: Seq,
    content: String,
    previous: String,
    last_id: RecordId,
}

impl EventFile {
    fn read(store: &ArchiveStore, name: String, (first, last): (Seq, Seq)) -> Result<Self, ArchiveError> {
        let footer = store.footer(&name)?;
        let damaged = |problem: String| ArchiveError::Damaged { path: store.path(&name), problem };
        let member = |key: &str| {
            let found = metadata(&footer, key);
            found.ok_or_else(|| damaged(format!("its footer has no {key}; it was not written by `pml log export`")))
        };
        let format = member(FORMAT_KEY)?;
        if format != FORMAT {
            return Err(damaged(format!("is of format {format}, this pml reads {FORMAT}")));
        }
        let last_id = member(LAST_ID_KEY)?.parse().map_err(|error| damaged(format!("{LAST_ID_KEY}: {error}")))?;
        let (content, previous) = (member(CONTENT_KEY)?, member(PREVIOUS_KEY)?);
        Ok(Self { store: store.clone(), name, first, last, content, previous, last_id })
    }

    fn open(&self) -> Result<File, ArchiveError> {
        self.store.open(&self.name)
    }

    /// Reads `opened`, which is this file.
    fn reader(&self, opened: File) -> Result<ParquetRecordBatchReader, ArchiveError> {
        let path = self.path();
        let wrong = parquet(&path);
        let reader = ParquetRecordBatchReaderBuilder::try_new(opened).map_err(&wrong)?;
        // The reader panics on these.
        let is_negative = |column: &ColumnChunkMetaData| {
            let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            begin < 0 || column.compressed_size() < 0
        };
        if reader.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns).any(is_negative) {
            return Err(self.damaged("its footer places a column before the file"));
        }
        let columns = ProjectionMask::columns(reader.parquet_schema(), RECORD_COLUMNS);
        reader.with_projection(columns).with_batch_size(READ_ROWS).build().map_err(&wrong)
    }

    fn path(&self) -> PathBuf {
        self.store.path(&self.name)
    }

    fn damaged(&self, problem: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { path: self.path(), problem: problem.into() }
    }
}

fn metadata(metadata: &ParquetMetaData, key: &str) -> Option<String> {
    let members = metadata.file_metadata().key_value_metadata()?;
    members.iter().find(|member| member.key == key)?.value.clone()
}

/// The files of an archive, checked against each other.
#[derive(Debug, Default)]
pub struct Archive {
    files: Vec<EventFile>,
}

impl Archive {
    /// Reads the names and footers of the files in `store`. Blocks.
    pub fn open(store: impl Into<ArchiveStore>) -> Result<Self, ArchiveError> {
        let store = store.into();
        let mut files = Vec::new();
        for name in store.names()? {
            if let Some(range) = range(&name) {
                files.push(EventFile::read(&store, name, range)?);
            }
        }
        files.sort_by_key(|file| file.first);
        let before = std::iter::once(None).chain(files.iter().map(Some));
        for (before, file) in before.zip(&files) {
            let expected = before.map_or("", |before| before.content.as_str());
            let overlaps = before.is_some_and(|before| before.last >= file.first);
            if overlaps || file.previous != expected {
                return Err(
                    file.damaged("does not follow the file before it; a file is missing, or one of another log came in")
                );
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
        files.flat_map(move |file| FileRecords::new(file.clone(), file.open(), after))
    }
}

/// Iterator over the records of one file, which checks them. It ends after the first error.
#[derive(Debug)]
struct FileRecords {
    file: EventFile,
    /// `None` at the end of the file and after an error.
    reader: Option<Result<ParquetRecordBatchReader, ArchiveError>>,
    content: ContentHash,
    position: Seq,
    after: Seq,
}

impl FileRecords {
    /// Reads the records of `opened`, which is `file`, after `after`.
    fn new(file: EventFile, opened: Result<File, ArchiveError>, after: Seq) -> Self {
        let position = Seq(file.first.0 - 1);
        let reader = opened.and_then(|opened| file.reader(opened));
        Self { reader: Some(reader), file, content: ContentHash::default(), position, after }
    }

    fn next_batch(&mut self, reader: &mut ParquetRecordBatchReader) -> Result<Option<Vec<Record>>, ArchiveError> {
        let damaged = |problem: String| self.file.damaged(problem);
        let Some(batch) = guarded(|| reader.next()).map_err(|error| damaged(error.to_string()))? else {
            let whole = self.content.hex() == self.file.content && self.position == self.file.last;
            return if whole { Ok(None) } else { Err(damaged("its records are not those that were written".to_owned())) };
        };
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        let mut records = records(&batch, &mut self.content).map_err(damaged)?;
        positions_increase(self.position, records.iter().map(|record| record.seq)).map_err(damaged)?;
        self.position = records.last().map_or(self.position, |record| record.seq);
        records.retain(|record| record.seq > self.after);
        Ok(Some(records))
    }
}

impl Iterator for FileRecords {
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

/// The first and the last position of a file, by its name; `None` if it is no file of an archive.
fn range(name: &str) -> Option<(Seq, Seq)> {
    let (_, name) = name.strip_prefix("day=")?.split_once('/')?;
    let (first, last) = name.strip_prefix("events-")?.strip_suffix(".parquet")?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some((Seq(first), Seq(last)))
}
