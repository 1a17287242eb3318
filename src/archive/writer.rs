//! `ArchiveWriter` writes the files of an archive.

use std::fs::{self, File};

use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::columns::{properties, schema};
use super::rows::BatchBuilder;
use super::{Archive, ArchiveError, ArchiveStore, CONTENT_KEY, FORMAT, FORMAT_KEY, LAST_ID_KEY, PREVIOUS_KEY, io, parquet};
use crate::core::event::Record;
use crate::core::id::{RecordId, Seq};
use crate::core::time::Timestamp;
use crate::private::{self, Lock};

/// Rows of one file, at most.
const FILE_ROWS_MAX: u64 = 1 << 18;
/// Name of the file being written; a pattern such as `*/*.parquet` does not match it.
const PART: &str = ".events.part";
const LOCK: &str = ".lock";

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
    store: ArchiveStore,
    last: Option<(Seq, RecordId)>,
    /// Content digest of the file before.
    previous: String,
    open: Option<OpenFile>,
    written: ArchiveCounts,
    /// Held as long as the writer exists.
    _lock: Lock,
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
    /// Opens an archive to append to it, or creates it. A second writer of the same directory is refused.
    pub fn open(store: impl Into<ArchiveStore>) -> Result<Self, ArchiveError> {
        let store = store.into();
        let directory = store.directory();
        private::create_directory(directory).map_err(io(directory))?;
        let lock = directory.join(LOCK);
        let Some(lock) = Lock::take(&lock).map_err(io(&lock))? else { return Err(ArchiveError::Busy(directory.to_owned())) };
        let archive = Archive::open(&store)?;
        Ok(Self {
            store,
            last: archive.last(),
            previous: archive.files.last().map(|file| file.content.clone()).unwrap_or_default(),
            open: None,
            written: ArchiveCounts::default(),
            _lock: lock,
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
            let path = self.store.directory().join(PART);
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
        if open.rows.is_full() { open.write().map_err(parquet(self.store.directory())) } else { Ok(()) }
    }

    /// Finishes the open file and makes it visible.
    fn close(&mut self) -> Result<(), ArchiveError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let part = self.store.directory().join(PART);
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
        let name = format!("day={}/events-{:020}-{:020}.parquet", open.day, open.first.0, open.last.0.0);
        self.store.add(&part, &name)?;
        self.previous = content;
        self.last = Some(open.last);
        let ArchiveCounts { files, records, bytes: before } = self.written;
        self.written = ArchiveCounts { files: files + 1, records: records + open.len, bytes: before + bytes };
        Ok(())
    }

    /// Finishes the open file and returns what was added.
    pub fn finish(mut self) -> Result<ArchiveCounts, ArchiveError> {
        self.close()?;
        let part = self.store.directory().join(PART);
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

fn day(recorded_at: Timestamp) -> String {
    let text = recorded_at.to_string();
    text.split('T').next().unwrap_or(&text).to_owned()
}
